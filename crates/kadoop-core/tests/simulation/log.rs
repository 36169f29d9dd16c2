//! The log distinguishes a torn end, a gap and damage.

use crate::{disk::SimDisk, random::Random, told::Cluster};
use std::io::ErrorKind;
use strait_kadoop_core::{
    ChunkId, ClientId, Config, FileId, Identity, InodeNo, NodeId, Stamp,
    disk::{Disk, DiskFile},
    faults::Faults,
    log::{Journal, LogError, Tail, read_log, read_mark, segments},
    messages::Mutation,
    namenode::{Record, Transaction, load, save},
};

const CLUSTER: u64 = 7;
const SEGMENT: u64 = 256;

fn journal(disk: &SimDisk, next: u64) -> Journal<SimDisk> {
    Journal::start(disk.clone(), CLUSTER, next, SEGMENT, Faults::NONE).unwrap()
}

/// A log with records 1 to `count`, one per commit.
fn filled(count: u64) -> SimDisk {
    let disk = SimDisk::default();
    let mut journal = journal(&disk, 1);
    for number in 1..=count {
        journal.push(format!("record {number}").into_bytes());
        journal.commit().unwrap();
    }
    disk
}

fn read(disk: &SimDisk, after: u64) -> Result<(Vec<u64>, Tail), LogError> {
    let mut numbers = Vec::new();
    let (_, tail) = read_log(disk, CLUSTER, after, Faults::NONE, |number, record| {
        assert_eq!(record, format!("record {number}").as_bytes());
        numbers.push(number);
        Ok(())
    })?;
    Ok((numbers, tail))
}

#[test]
fn records_come_back_in_order_over_segments_and_from_anywhere() {
    let disk = filled(40);
    assert!(segments(&disk.list().unwrap()).len() > 3);
    assert_eq!(read(&disk, 0).unwrap(), ((1..=40).collect(), Tail::Clean));
    assert_eq!(read(&disk, 33).unwrap(), ((34..=40).collect(), Tail::Clean));
    assert_eq!(read(&disk, 40).unwrap(), (Vec::new(), Tail::Clean));
}

#[test]
fn whatever_a_crash_tears_each_synced_record_comes_back_and_no_torn_one() {
    for seed in 0..2_000 {
        let mut random = Random(seed);
        let disk = SimDisk::default();
        let (mut durable, mut pushed) = (0, 0);
        for _ in 0..3 {
            let (numbers, _) = read(&disk, 0).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let last = numbers.len() as u64;
            assert_eq!(numbers, (1..=last).collect::<Vec<_>>(), "seed {seed}");
            assert!(durable <= last && last <= pushed, "seed {seed}: {durable} {last} {pushed}");
            let marked = read_mark(&disk, CLUSTER).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(marked.is_none_or(|marked| marked <= last), "seed {seed}: {marked:?} {last}");
            (durable, pushed) = (last, last);
            disk.fail_after(random.below(40));
            let journal = Journal::start(disk.clone(), CLUSTER, last + 1, SEGMENT, Faults::NONE);
            let marked = journal.and_then(|mut journal| journal.keep_mark().map(|()| journal));
            if let Ok(mut journal) = marked {
                loop {
                    for _ in 0..=random.below(4) {
                        pushed += 1;
                        journal.push(format!("record {pushed}").into_bytes());
                    }
                    if journal.commit().is_err() {
                        break;
                    }
                    durable = pushed;
                }
            }
            disk.crash(&mut random);
        }
    }
}

#[test]
fn a_damaged_frame_that_others_follow_refuses_the_start() {
    let disk = filled(4);
    disk.damage("log-00000000000000000001", 70);
    let error = read(&disk, 0).unwrap_err();
    assert!(matches!(error, LogError::Damaged { offset: 32, .. }), "{error}");
}

#[test]
fn a_damaged_last_frame_is_a_torn_write() {
    let disk = filled(2);
    disk.damage("log-00000000000000000001", 32 + 48 + 40);
    let (numbers, tail) = read(&disk, 0).unwrap();
    assert_eq!(numbers, [1]);
    assert!(matches!(tail, Tail::Torn { offset: 80, .. }), "{tail:?}");
}

/// A log of four clients' joining, one per commit.
fn joined() -> (SimDisk, Journal<SimDisk>) {
    let disk = SimDisk::default();
    let mut journal = Journal::start(disk.clone(), CLUSTER, 1, 4 * SEGMENT, Faults::NONE).unwrap();
    journal.keep_mark().unwrap();
    for client in 1..=4 {
        let joined = vec![Record::ClientJoined { client: ClientId(client) }];
        journal.push(Transaction { request: None, records: joined }.encode());
        journal.commit().unwrap();
    }
    (disk, journal)
}

fn lose_last_frame(disk: &SimDisk) {
    let file = disk.open("log-00000000000000000001").unwrap();
    let bytes = file.read_vec(0, 4 * SEGMENT as usize).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    file.write_at(used as u64 - 1, &[0, 0]).unwrap();
}

/// Once, no start could read a checkpoint in which thousands of inodes were missing in a row.
#[test]
fn a_checkpoint_behind_the_removal_of_a_large_tree_can_be_read() {
    let mut cluster = Cluster::new(0, None);
    let mut mkdirs = |path: String| {
        cluster.ask(Mutation::Mkdirs { path, mode: 0o755 }).unwrap();
    };
    (0..9_000).for_each(|number| mkdirs(format!("/old/{number}")));
    mkdirs("/kept".to_owned());
    cluster.ask(Mutation::Delete { path: "/old".into(), recursive: true }).unwrap();
    while cluster.namenode.sweep() {}
    let (disk, config) = (SimDisk::default(), Config::default());
    save(&disk, CLUSTER, &config, cluster.namenode.state()).unwrap();
    let loaded = load(&disk, CLUSTER, &config).unwrap();
    assert!(loaded.unreadable.is_empty(), "{:?}", loaded.unreadable);
    assert!(loaded.state == *cluster.namenode.state());
}

#[test]
fn a_log_that_ends_before_its_mark_refuses_the_start() {
    let (disk, _) = joined();
    assert_eq!(load(&disk, CLUSTER, &Config::default()).unwrap().state.next.sequence, 4);
    lose_last_frame(&disk);
    let short = load(&disk, CLUSTER, &Config::default()).unwrap_err();
    assert!(matches!(short, LogError::Short { found: 3, marked: 4 }), "{short}");
    disk.remove("log-00000000000000000001").unwrap();
    let empty = load(&disk, CLUSTER, &Config::default()).unwrap_err();
    assert!(matches!(empty, LogError::Short { found: 0, marked: 4 }), "{empty}");
}

/// Once, no start succeeded then, though nothing was lost (seed 19 of the cluster with lost ends of
/// logs).
#[test]
fn a_lost_end_of_the_log_that_a_checkpoint_covers_is_no_loss() {
    let (disk, journal) = joined();
    let config = Config::default();
    let before = load(&disk, CLUSTER, &config).unwrap().state;
    save(&disk, CLUSTER, &config, &before).unwrap();
    drop(journal);
    lose_last_frame(&disk);
    for start in 0..3 {
        let after = load(&disk, CLUSTER, &config).unwrap().state;
        assert_eq!(after.next.sequence, before.next.sequence + start);
        let next = after.next.sequence + 1;
        let mut journal = Journal::start(disk.clone(), CLUSTER, next, SEGMENT, Faults::NONE).unwrap();
        journal.keep_mark().unwrap();
        let joined = vec![Record::ClientJoined { client: after.next.client }];
        journal.push(Transaction { request: None, records: joined }.encode());
        journal.commit().unwrap();
    }
}

/// Once, the segments before it were removed, though its name never got on disk (seed 243671 of the
/// cluster).
#[test]
fn a_checkpoint_whose_name_was_not_synced_replaces_nothing() {
    let config = Config::default();
    let disk = SimDisk::default();
    let mut journal = journal(&disk, 1);
    let mut join = |count| {
        for _ in 0..count {
            let client = load(&disk, CLUSTER, &config).unwrap().state.next.client;
            let records = vec![Record::ClientJoined { client }];
            journal.push(Transaction { request: None, records }.encode());
            journal.commit().unwrap();
        }
        load(&disk, CLUSTER, &config).unwrap().state
    };
    let first = join(20);
    // A checkpoint syncs its bytes, and then its name.
    disk.fail_sync_after(Some(1));
    save(&disk, CLUSTER, &config, &first).unwrap_err();
    let second = join(20);
    save(&disk, CLUSTER, &config, &second).unwrap();
    disk.damage("checkpoint-00000000000000000040", 100);
    disk.crash(&mut Random(0));
    let loaded = load(&disk, CLUSTER, &config).unwrap();
    assert_eq!(loaded.unreadable.len(), 1);
    assert!(loaded.state == second);
}

#[test]
fn a_synced_mark_outlasts_the_power_and_an_older_one_refuses_nothing() {
    for seed in 0..100 {
        let (disk, _) = joined();
        disk.crash(&mut Random(seed));
        assert_eq!(load(&disk, CLUSTER, &Config::default()).unwrap().state.next.sequence, 4, "seed {seed}");

        let (disk, mut journal) = joined();
        journal.mark_to_sync().unwrap().sync_data().unwrap();
        lose_last_frame(&disk);
        disk.open("log-00000000000000000001").unwrap().sync_data().unwrap();
        disk.crash(&mut Random(seed));
        let short = load(&disk, CLUSTER, &Config::default());
        assert!(matches!(short, Err(LogError::Short { found: 3, marked: 4 })), "seed {seed}");
    }
}

#[test]
fn a_mark_that_is_damaged_or_anothers_refuses_the_start_and_one_slot_is_enough() {
    let (disk, _) = joined();
    let mark = disk.open("mark").unwrap();
    let slots = [mark.read_vec(0, 32).unwrap(), mark.read_vec(4096, 32).unwrap()];
    let (newest, other) = if slots[0] > slots[1] { (0, 4096) } else { (4096, 0) };
    mark.write_at(newest, &[0; 32]).unwrap();
    assert_eq!(read_mark(&disk, CLUSTER).unwrap(), Some(3));
    assert!(matches!(read_mark(&disk, CLUSTER + 1), Err(LogError::Foreign { .. })));
    mark.write_at(other, &[0; 32]).unwrap();
    assert!(matches!(load(&disk, CLUSTER, &Config::default()), Err(LogError::Foreign { .. })));
    disk.remove("mark").unwrap();
    assert_eq!(read_mark(&disk, CLUSTER).unwrap(), None, "a log of an older version");
    assert!(load(&disk, CLUSTER, &Config::default()).is_ok());
}

#[test]
fn a_missing_segment_is_a_gap() {
    let disk = filled(40);
    let second = segments(&disk.list().unwrap())[1];
    disk.remove(&format!("log-{second:020}")).unwrap();
    let error = read(&disk, 0).unwrap_err();
    assert!(matches!(error, LogError::Gap { expected, .. } if expected == second), "{error}");
}

#[test]
fn a_segment_of_another_cluster_or_a_newer_version_is_refused() {
    let disk = filled(1);
    let other = read_log(&disk, CLUSTER + 1, 0, Faults::NONE, |_, _| Ok(())).unwrap_err();
    assert!(matches!(other, LogError::Foreign { .. }), "{other}");
    let file = disk.open("log-00000000000000000001").unwrap();
    let mut header = [0; 32];
    file.read_at(0, &mut header).unwrap();
    header[4] = 9;
    let crc = crc32c::crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    file.write_at(0, &header).unwrap();
    let newer = read(&disk, 0).unwrap_err();
    assert!(newer.to_string().contains("newer version"), "{newer}");
}

#[test]
fn a_record_that_uses_the_last_number_there_is_is_refused() {
    let (file, chunk, stamp) = (FileId(1), ChunkId(1), Stamp(u64::MAX));
    let forged = [
        Record::ClientJoined { client: ClientId(u64::MAX) },
        Record::NodeJoined { node: NodeId(u32::MAX), identity: Identity(7), rack: "/r".into() },
        Record::Opened { file: FileId(u64::MAX), inode: InodeNo(0), client: ClientId(1) },
        Record::ChunkAdded {
            file,
            chunk: ChunkId(u64::MAX),
            stamp: Stamp(1),
            pipeline: Vec::new(),
            continues: false,
        },
        Record::ChunkAdded { file, chunk, stamp, pipeline: Vec::new(), continues: false },
        Record::StampTaken { file, chunk, stamp },
    ];
    for record in forged {
        let disk = SimDisk::default();
        let mut journal = journal(&disk, 1);
        journal.push(Transaction { request: None, records: vec![record.clone()] }.encode());
        journal.commit().unwrap();
        let refused = load(&disk, CLUSTER, &Config::default());
        assert!(
            matches!(refused, Err(LogError::Record { sequence: 1, why: "one of its numbers is too high" })),
            "{record:?}",
        );
    }
}

#[test]
fn a_log_without_room_for_another_segment_goes_on_until_this_one_ends_and_once_there_is_room() {
    let disk = SimDisk::default();
    let mut journal = journal(&disk, 1);
    let push = |journal: &mut Journal<SimDisk>, number: u64| {
        journal.push(format!("record {number}").into_bytes());
        journal.commit()
    };
    push(&mut journal, 1).unwrap();
    disk.set_full(true);
    assert_eq!(journal.take_room().unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(journal.roll().unwrap_err().kind(), ErrorKind::StorageFull);
    push(&mut journal, 2).unwrap();
    assert_eq!(read(&disk, 0).unwrap(), (vec![1, 2], Tail::Clean), "nothing is half begun");
    disk.set_full(false);
    for number in 3..=40 {
        push(&mut journal, number).unwrap();
    }
    assert_eq!(read(&disk, 0).unwrap(), ((1..=40).collect(), Tail::Clean));
}

#[test]
fn room_for_the_next_segment_is_taken_before_this_one_is_full() {
    let disk = SimDisk::default();
    let mut journal = Journal::start(disk.clone(), CLUSTER, 1, 16 * SEGMENT, Faults::NONE).unwrap();
    let mut number = 0;
    let mut push = |journal: &mut Journal<SimDisk>| {
        number += 1;
        journal.push(format!("record {number}").into_bytes());
        journal.commit().unwrap();
    };
    disk.set_full(true);
    while journal.look_ahead().is_ok() {
        push(&mut journal);
    }
    disk.set_full(false);
    journal.look_ahead().unwrap();
    disk.set_full(true);
    while segments(&disk.list().unwrap()).len() == 1 {
        push(&mut journal);
    }
    assert_eq!(read(&disk, 0).unwrap(), ((1..=number).collect(), Tail::Clean));
}

#[test]
fn the_real_disk_holds_a_log_too() {
    let directory = tempfile::tempdir().unwrap();
    let disk = strait_kadoop_core::disk::RealDisk::open(directory.path()).unwrap();
    let mut journal = Journal::start(disk.clone(), CLUSTER, 1, SEGMENT, Faults::NONE).unwrap();
    for number in 0..20 {
        journal.push(vec![number; 30]);
        journal.commit().unwrap();
    }
    let mut count = 0;
    let each = |_, record: &[u8]| {
        assert_eq!(record, [count; 30]);
        count += 1;
        Ok(())
    };
    assert_eq!(read_log(&disk, CLUSTER, 0, Faults::NONE, each).unwrap(), (20, Tail::Clean));
}
