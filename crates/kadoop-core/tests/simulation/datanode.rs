//! A datanode's replicas on a disk whose power fails.

use crate::{disk::SimDisk, random::Random};
use bytes::Bytes;
use strait_kadoop_core::{
    ChunkId, Config, Error, Identity, Incarnation, Member, NodeId, Stamp,
    datanode::Datanode,
    disk::Disk,
    faults::{Fault, Faults},
    messages::{Change, HeartbeatAnswer, Order, Piece, Point, Read, ReplicaState, Space, Write},
};

const CLUSTER: u64 = 11;
pub const CHUNK: ChunkId = ChunkId(5);
pub const STAMP: Stamp = Stamp(7);
const NODE: NodeId = NodeId(1);

/// The writer's byte at `offset`.
fn byte(offset: u32) -> u8 {
    (offset.wrapping_mul(37) ^ (offset >> 3)) as u8
}

pub fn bytes(from: u32, to: u32) -> Bytes {
    (from..to).map(byte).collect()
}

pub fn start(disk: &SimDisk, incarnation: u64, fault: Option<Fault>) -> Datanode<SimDisk> {
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let config = Config { unit_bytes: 16, write_bytes: 4096, hold_bytes: 64, faults, ..Config::default() };
    let incarnation = Incarnation(incarnation);
    let mut datanode =
        Datanode::start(config, vec![disk.clone()], Identity(1), CLUSTER, incarnation).unwrap();
    order(&mut datanode, Vec::new());
    datanode
}

pub fn order(datanode: &mut Datanode<SimDisk>, orders: Vec<Order>) {
    let beat = datanode.heartbeat(Space::default());
    datanode.on_answer(
        &beat,
        Ok(HeartbeatAnswer { session: 1, node: NODE, orders, report: false, log: Point::default() }),
    );
}

/// Writes for the incarnation `joined`; None if the write waits for its turn.
pub fn write(datanode: &mut Datanode<SimDisk>, joined: u64, from: u32, to: u32) -> Option<Result<(), Error>> {
    let caller = u64::from(from) << 32 | u64::from(to);
    datanode.write(caller, &whole_write(joined, from, to));
    datanode.settled().into_iter().find(|(settled, _)| *settled == caller).map(|(_, result)| result)
}

fn whole_write(joined: u64, from: u32, to: u32) -> Write {
    let pipeline = vec![Member { node: NODE, incarnation: Incarnation(joined) }];
    Write { chunk: CHUNK, stamp: STAMP, pipeline, offset: from, bytes: bytes(from, to) }
}

pub fn read(datanode: &Datanode<SimDisk>, stamp: Stamp, offset: u32, length: u32) -> Result<Bytes, Error> {
    let piece = datanode.read(&Read { chunk: CHUNK, stamp, offset, length, acknowledged: 0 })?;
    let mut at = offset;
    let mut rest = &piece.bytes[..];
    for sum in &piece.sums {
        let part = rest.len().min((16 - at % 16) as usize);
        if crc32c::crc32c(&rest[..part]) != *sum {
            return Err(Error::Corrupt);
        }
        (rest, at) = (&rest[part..], at + part as u32);
    }
    assert!(rest.is_empty());
    Ok(piece.bytes)
}

/// Writes, syncs and seals until the power fails. Then synced bytes must be there, sealed replicas
/// must be sealed, and every byte must be the writer's.
fn run(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut random = Random(seed);
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, fault);
    disk.fail_after(random.below(60));
    let (mut end, mut synced, mut sealed) = (0, 0, None);
    while sealed.is_none() {
        let more = 1 + random.below(40) as u32;
        let placed = whole_write(1, end, end + more);
        let written = match datanode.place(&placed) {
            Ok(Some(place)) => {
                let put = place.put(&placed);
                datanode.finish(1, &placed, put);
                datanode.settled().pop().map(|(_, result)| result)
            }
            Ok(None) => write(&mut datanode, 1, end, end + more),
            Err(error) => Some(Err(error)),
        };
        if written != Some(Ok(())) {
            break;
        }
        end += more;
        if random.one_in(3) {
            if datanode.sync(CHUNK, STAMP, end).is_err() {
                break;
            }
            synced = end;
        }
        if random.one_in(12) {
            let length = synced + random.below(u64::from(end - synced) + 1) as u32;
            if datanode.seal(CHUNK, STAMP, length).is_err() {
                break;
            }
            sealed = Some(length);
            synced = length;
        }
    }
    disk.crash(&mut random);
    let datanode = start(&disk, 2, fault);
    let Some(replica) = datanode.replica(CHUNK) else {
        return if synced == 0 && sealed.is_none() { Ok(()) } else { Err("the replica is gone".to_owned()) };
    };
    if replica.length < synced || replica.length > end {
        return Err(format!("{} bytes are there, {synced} were synced of {end}", replica.length));
    }
    if sealed.is_some_and(|length| replica.state != ReplicaState::Sealed || replica.length != length) {
        return Err(format!("{replica:?} was sealed at {sealed:?}"));
    }
    if replica.state == ReplicaState::Open {
        return Err("a returned replica is open".to_owned());
    }
    let mut datanode = datanode;
    let (stamp, length) = (Stamp(9), replica.length);
    datanode.seal(CHUNK, stamp, length).map_err(|error| format!("sealing: {error}"))?;
    match read(&datanode, stamp, 0, length) {
        Ok(there) if there == bytes(0, length) => Ok(()),
        other => Err(format!("{other:?} isn't what was written")),
    }
}

#[test]
fn bytes_that_are_in_their_place_count_in_their_turn() {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, None);
    let writes = [(0, 16), (16, 40), (40, 50)].map(|(from, to)| whole_write(1, from, to));
    let [first, second] = [0, 1].map(|at| datanode.place(&writes[at]).unwrap().unwrap().put(&writes[at]));
    // The last one doesn't begin at a unit's start.
    assert!(datanode.place(&writes[2]).unwrap().is_none());
    datanode.write(3, &writes[2]);
    datanode.finish(2, &writes[1], second);
    assert_eq!(datanode.settled(), []);
    assert_eq!(datanode.replica(CHUNK).unwrap().length, 0);
    datanode.finish(1, &writes[0], first);
    assert_eq!(datanode.settled(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
    datanode.sync(CHUNK, STAMP, 50).unwrap();
    datanode.seal(CHUNK, STAMP, 50).unwrap();
    assert_eq!(read(&datanode, STAMP, 0, 50), Ok(bytes(0, 50)));
}

#[test]
fn a_place_is_nobody_elses() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    let (write, beside) = (whole_write(1, 16, 48), whole_write(1, 32, 64));
    let place = datanode.place(&write).unwrap().unwrap();
    assert!(matches!(datanode.place(&beside), Err(Error::BeyondEnd)));
    datanode.write(1, &beside);
    datanode.write(2, &write);
    assert_eq!(datanode.settled(), [(1, Err(Error::BeyondEnd)), (2, Err(Error::BeyondEnd))]);
    let placed = place.put(&write);
    datanode.finish(3, &write, placed);
    // The first write is held now, and still reserves its range.
    assert!(matches!(datanode.place(&beside), Err(Error::BeyondEnd)));
    // A write beyond the window of held writes gets no place.
    assert!(datanode.place(&whole_write(1, 64, 96)).unwrap().is_none());
}

/// Changes that the namenode's recovery or the writer may make meanwhile.
#[test]
fn what_happens_while_bytes_are_put_in_their_place_is_seen_before_they_count() {
    type Meanwhile = fn(&mut Datanode<SimDisk>);
    let fence: Meanwhile = |datanode| order(datanode, vec![Order::Fence { chunk: CHUNK, stamp: Stamp(8) }]);
    let seal: Meanwhile = |datanode| datanode.seal(CHUNK, STAMP, 20).unwrap();
    let delete: Meanwhile = |datanode| order(datanode, vec![Order::Delete { chunk: CHUNK, stamp: STAMP }]);
    let replace: Meanwhile = |datanode| {
        order(datanode, vec![Order::Delete { chunk: CHUNK, stamp: STAMP }]);
        assert_eq!(write(datanode, 1, 0, 32), Some(Ok(())));
        assert!(datanode.place(&whole_write(1, 32, 64)).unwrap().is_some());
    };
    for (meanwhile, fault, outcome, length) in [
        (fence, None, Err(Error::StaleStamp), Some(32)),
        (fence, Some(Fault::PlaceTrusted), Ok(()), Some(64)),
        (seal, None, Err(Error::NotOpen), Some(20)),
        (delete, None, Err(Error::NoReplica), None),
        (replace, None, Err(Error::NoReplica), Some(32)),
    ] {
        for filled_before in [true, false] {
            let disk = SimDisk::default();
            let mut datanode = start(&disk, 1, fault);
            assert_eq!(write(&mut datanode, 1, 0, 32), Some(Ok(())));
            let late = whole_write(1, 32, 64);
            let place = datanode.place(&late).unwrap().unwrap();
            let placed = if filled_before {
                let placed = place.put(&late);
                meanwhile(&mut datanode);
                placed
            } else {
                meanwhile(&mut datanode);
                place.put(&late)
            };
            datanode.finish(9, &late, placed);
            assert_eq!(datanode.settled(), [(9, outcome)]);
            assert_eq!(datanode.replica(CHUNK).map(|replica| replica.length), length);
            if outcome == Err(Error::NotOpen) {
                assert_eq!(read(&datanode, STAMP, 0, 64), Ok(bytes(0, 20)));
                // The late bytes didn't reach its table.
                assert_eq!(read(&start(&disk, 2, None), STAMP, 0, 64), Ok(bytes(0, 20)));
            }
        }
    }
}

#[test]
fn what_was_synced_or_sealed_is_there_after_any_crash() {
    let seeds = std::env::var("KADOOP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let one = std::env::var("KADOOP_SEED").ok().and_then(|seed| seed.parse().ok());
    for seed in one.map_or(0..seeds, |seed: u64| seed..seed + 1) {
        run(seed, None).unwrap_or_else(|error| panic!("KADOOP_SEED={seed}: {error}"));
    }
}

#[test]
fn each_fault_planted_in_the_datanodes_disk_work_is_noticed() {
    for fault in [
        Fault::DataNotSynced,
        Fault::SumsNotSynced,
        Fault::NameNotSynced,
        Fault::SealNotSynced,
        Fault::SealNameNotSynced,
        Fault::TableTrusted,
        Fault::SumsInPlace,
        Fault::ReturnedReopened,
    ] {
        let noticed = (0..100_000).find(|seed| run(*seed, Some(fault)).is_err());
        assert!(noticed.is_some(), "{fault:?} goes unnoticed");
    }
}

#[test]
fn writes_are_applied_in_order_and_answered_when_they_are() {
    for (fault, early) in [(None, None), (Some(Fault::EarlyWriteAnswered), Some(Ok(())))] {
        let mut datanode = start(&SimDisk::default(), 1, fault);
        assert_eq!(write(&mut datanode, 1, 10, 30), early);
        assert_eq!(datanode.replica(CHUNK).map(|replica| replica.length), Some(0));
        assert_eq!(write(&mut datanode, 1, 0, 10), Some(Ok(())));
        assert_eq!(datanode.replica(CHUNK).map(|replica| replica.length), Some(30));
    }
}

#[test]
fn more_than_the_window_is_refused() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    assert_eq!(write(&mut datanode, 1, 10, 70), None);
    assert_eq!(write(&mut datanode, 1, 70, 80), Some(Err(Error::BeyondEnd)));
}

#[test]
fn a_repeated_write_is_compared_and_answered() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    write(&mut datanode, 1, 0, 30);
    assert_eq!(write(&mut datanode, 1, 5, 20), Some(Ok(())));
    let pipeline = vec![Member { node: NODE, incarnation: Incarnation(1) }];
    let other =
        Write { chunk: CHUNK, stamp: STAMP, pipeline, offset: 0, bytes: Bytes::from_static(b"other") };
    datanode.write(99, &other);
    assert_eq!(datanode.settled(), [(99, Err(Error::Corrupt))]);
}

#[test]
fn a_write_for_another_incarnation_is_refused() {
    let mut datanode = start(&SimDisk::default(), 2, None);
    assert_eq!(write(&mut datanode, 1, 0, 10), Some(Err(Error::WrongIncarnation)));
    let mut careless = start(&SimDisk::default(), 2, Some(Fault::IncarnationIgnored));
    assert_eq!(write(&mut careless, 1, 0, 10), Some(Ok(())));
}

#[test]
fn after_a_fence_nothing_is_written_under_the_stamp_before() {
    let fence = || vec![Order::Fence { chunk: CHUNK, stamp: Stamp(8) }];
    let after = |written: bool, fault| {
        let mut datanode = start(&SimDisk::default(), 1, fault);
        if written {
            write(&mut datanode, 1, 0, 10);
        }
        order(&mut datanode, fence());
        let from = if written { 10 } else { 0 };
        write(&mut datanode, 1, from, from + 10)
    };
    assert_eq!(after(true, None), Some(Err(Error::StaleStamp)));
    assert_eq!(after(true, Some(Fault::StaleStampAccepted)), Some(Ok(())));
    assert_eq!(after(false, None), Some(Err(Error::StaleStamp)));
    assert_eq!(after(false, Some(Fault::FenceForgotten)), Some(Ok(())));
}

#[test]
fn a_sealed_replica_takes_a_stamp_but_never_another_length() {
    for (fault, cut) in [(None, Err(Error::NotOpen)), (Some(Fault::SealedCut), Ok(()))] {
        let mut datanode = start(&SimDisk::default(), 1, fault);
        write(&mut datanode, 1, 0, 30);
        datanode.seal(CHUNK, STAMP, 25).unwrap();
        datanode.seal(CHUNK, Stamp(9), 25).unwrap();
        assert_eq!(read(&datanode, Stamp(9), 3, 100).unwrap(), bytes(3, 25));
        assert_eq!(read(&datanode, STAMP, 3, 100), Err(Error::StaleStamp));
        assert_eq!(write(&mut datanode, 1, 25, 30), Some(Err(Error::StaleStamp)));
        assert_eq!(datanode.seal(CHUNK, Stamp(9), 20), cut);
    }
}

#[test]
fn of_an_open_replica_readers_see_what_is_published() {
    for (fault, seen) in [(None, 20), (Some(Fault::UnpublishedShown), 30)] {
        let mut datanode = start(&SimDisk::default(), 1, fault);
        write(&mut datanode, 1, 0, 30);
        datanode.publish(CHUNK, STAMP, 20).unwrap();
        assert_eq!(read(&datanode, STAMP, 2, 100).unwrap(), bytes(2, seen));
    }
}

#[test]
fn a_returned_replica_is_neither_read_nor_written() {
    let disk = SimDisk::default();
    let mut before = start(&disk, 1, None);
    write(&mut before, 1, 0, 30);
    before.sync(CHUNK, STAMP, 30).unwrap();
    let mut datanode = start(&disk, 2, None);
    assert_eq!(read(&datanode, STAMP, 0, 10), Err(Error::NotOpen));
    assert_eq!(write(&mut datanode, 2, 30, 40), Some(Err(Error::NotOpen)));
}

/// Some of the crashes above once caused a panic here.
#[test]
fn a_replica_whose_bytes_are_all_lost_is_returned_with_none() {
    let disk = SimDisk::default();
    for kind in ["open", "sums"] {
        disk.create(&format!("0000000000000005_0000000000000007.{kind}")).unwrap();
    }
    let replica = start(&disk, 2, None).replica(CHUNK).unwrap();
    assert_eq!((replica.state, replica.length), (ReplicaState::Returned, 0));
}

#[test]
fn damage_on_disk_is_found_and_reported() {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, None);
    write(&mut datanode, 1, 0, 30);
    datanode.seal(CHUNK, STAMP, 30).unwrap();
    order(&mut datanode, Vec::new());
    disk.damage("0000000000000005_0000000000000007_0000001e.data", 20);
    assert_eq!(read(&datanode, STAMP, 18, 4), Err(Error::Corrupt));
    order(&mut datanode, vec![Order::Verify { chunk: CHUNK, stamp: STAMP }]);
    (0..2).for_each(|second| datanode.tick(second * 1_000));
    let changes = datanode.heartbeat(Space::default()).changes;
    assert_eq!(changes, [Change::Corrupt { chunk: CHUNK, stamp: STAMP }]);
}

#[test]
fn a_lost_directory_ends_the_incarnation_and_its_replicas() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    write(&mut datanode, 1, 0, 30);
    datanode.lose_directory(0);
    assert_ne!(datanode.incarnation(), Incarnation(1));
    assert_eq!(datanode.replica(CHUNK), None);
    assert_eq!(datanode.heartbeat(Space::default()).session, 0);
}

/// Once, the namenode kept believing the run before, and so that the new run had never seen a
/// chunk.
#[test]
fn an_answer_to_a_heartbeat_of_the_run_before_begins_no_session() {
    for (fault, session) in [(None, 0), (Some(Fault::FormerRunBelieved), 1)] {
        let mut datanode = start(&SimDisk::default(), 1, fault);
        write(&mut datanode, 1, 0, 30);
        let under_way = datanode.heartbeat(Space::default());
        datanode.lose_directory(0);
        let answer = HeartbeatAnswer {
            session: 1,
            node: NODE,
            orders: Vec::new(),
            report: false,
            log: Point::default(),
        };
        datanode.on_answer(&under_way, Ok(answer));
        assert_eq!(datanode.heartbeat(Space::default()).session, session);
    }
}

#[test]
fn who_waits_for_a_directory_that_is_lost_is_told() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    assert_eq!(write(&mut datanode, 1, 16, 32), None);
    datanode.lose_directory(0);
    let caller = 16 << 32 | 32;
    assert_eq!(datanode.settled(), [(caller, Err(Error::Disk))]);
}

#[test]
fn a_write_of_no_bytes_is_refused_and_displaces_nothing() {
    let mut datanode = start(&SimDisk::default(), 1, None);
    assert_eq!(write(&mut datanode, 1, 16, 32), None);
    assert!(matches!(write(&mut datanode, 1, 16, 16), Some(Err(Error::Invalid(_)))));
    assert!(matches!(datanode.place(&whole_write(1, 16, 16)), Ok(None)));
    assert_eq!(write(&mut datanode, 1, 0, 16), Some(Ok(())));
    assert_eq!(datanode.replica(CHUNK).map(|replica| replica.length), Some(32));
}

/// The directories take turns, so a retry of a failed write goes to another one.
#[test]
fn what_a_failed_write_left_in_one_directory_doesnt_hide_what_is_sealed_in_another() {
    let disks = [SimDisk::default(), SimDisk::default()];
    let begin = |incarnation| {
        let config = Config { unit_bytes: 16, ..Config::default() };
        let incarnation = Incarnation(incarnation);
        let mut datanode =
            Datanode::start(config, disks.to_vec(), Identity(1), CLUSTER, incarnation).unwrap();
        order(&mut datanode, Vec::new());
        datanode
    };
    let mut datanode = begin(1);
    // The second directory's turn is first.
    datanode.write(0, &Write { chunk: ChunkId(4), ..whole_write(1, 0, 30) });
    disks[0].fail_after(0);
    assert_eq!(write(&mut datanode, 1, 0, 30), Some(Err(Error::Disk)));
    disks[0].fail_after(u64::MAX);
    disks[0].create("0000000000000005_0000000000000007.open").unwrap();
    assert_eq!(write(&mut datanode, 1, 0, 30), Some(Ok(())));
    datanode.seal(CHUNK, STAMP, 30).unwrap();
    assert!(disks[0].has("0000000000000005_0000000000000007.open"));
    assert!(disks[1].has("0000000000000005_0000000000000007_0000001e.data"));
    assert_eq!(begin(2).replica(CHUNK).map(|replica| replica.state), Some(ReplicaState::Sealed));
}

/// Once, a repeated order to seal it began with a new table, while the disk was full.
#[test]
fn a_replica_that_lacks_but_its_sealed_name_is_never_put_at_risk_for_it() {
    for seed in 0..100 {
        let (disk, mut random) = (SimDisk::default(), Random(seed));
        let mut before = start(&disk, 1, None);
        write(&mut before, 1, 0, 30);
        before.seal(CHUNK, STAMP, 30).unwrap();
        disk.crash(&mut random);
        if !disk.has("0000000000000005_0000000000000007.open") {
            continue;
        }
        disk.fail_after(1 + random.below(4));
        let mut returned = start(&disk, 2, None);
        disk.fail_after(u64::MAX);
        disk.set_full(true);
        for operations in 0..4 {
            disk.fail_after(operations);
            let _ = returned.seal(CHUNK, STAMP, 30);
        }
        disk.crash(&mut random);
        // Its bytes go to a new file, for which there was no room before.
        disk.set_full(false);
        let replica = start(&disk, 3, None).replica(CHUNK).unwrap();
        assert_eq!((replica.state, replica.length), (ReplicaState::Sealed, 30), "{seed}");
    }
}

/// Once, the datanode looked for it under its old name for ever.
#[test]
fn a_replica_whose_seal_failed_after_its_renaming_can_be_sealed_again() {
    for operations in 0..12 {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        write(&mut datanode, 1, 0, 30);
        disk.fail_after(operations);
        let failed = datanode.seal(CHUNK, STAMP, 30).is_err();
        disk.fail_after(u64::MAX);
        let again = datanode.seal(CHUNK, Stamp(9), 30);
        assert_eq!(again, Ok(()), "after {operations} operations, failed: {failed}");
        assert_eq!(read(&datanode, Stamp(9), 0, 30).unwrap(), bytes(0, 30));
    }
}

/// The replica's names on the disk, by kind.
fn names(disk: &SimDisk) -> Vec<String> {
    let names = disk.list().unwrap().into_iter();
    names.map(|name| name.rsplit_once('.').unwrap().1.to_owned()).collect()
}

#[test]
fn a_seal_is_none_the_worse_if_a_crash_takes_its_new_name_back() {
    let mut found = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        write(&mut datanode, 1, 0, 50);
        datanode.seal(CHUNK, STAMP, 30).unwrap();
        disk.crash(&mut Random(seed));
        found.insert(names(&disk).join(" "));
        let datanode = start(&disk, 2, None);
        let replica = datanode.replica(CHUNK).unwrap();
        assert_eq!((replica.state, replica.length), (ReplicaState::Sealed, 30), "seed {seed}");
        assert_eq!(read(&datanode, STAMP, 0, 50), Ok(bytes(0, 30)), "seed {seed}");
        assert!(!names(&disk).contains(&"open".to_owned()));
    }
    assert!(found.contains("open") && found.contains("data"), "{found:?}");
}

#[test]
fn a_table_whose_bytes_the_crash_took_seals_nothing() {
    for (fault, state, length) in
        [(None, ReplicaState::Returned, 16), (Some(Fault::TableTrusted), ReplicaState::Sealed, 30)]
    {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        write(&mut datanode, 1, 0, 30);
        datanode.sync(CHUNK, STAMP, 30).unwrap();
        // Stop after the table was written.
        disk.fail_after(1);
        assert_eq!(datanode.seal(CHUNK, STAMP, 30), Err(Error::Disk));
        disk.fail_after(u64::MAX);
        disk.damage("0000000000000005_0000000000000007.open", 20);
        let replica = start(&disk, 2, fault).replica(CHUNK).unwrap();
        assert_eq!((replica.state, replica.length), (state, length));
    }
}

#[test]
fn a_copy_is_checked_and_seen_only_when_it_is_whole() {
    let mut from = start(&SimDisk::default(), 1, None);
    write(&mut from, 1, 0, 30);
    from.seal(CHUNK, STAMP, 30).unwrap();
    let source = |nodes: &[u32]| {
        let nodes = nodes.iter().copied().map(NodeId).collect();
        strait_kadoop_core::messages::Source { chunk: CHUNK, stamp: STAMP, length: 30, nodes }
    };
    for (nodes, copied) in [(&[7][..], false), (&[7, 8][..], true)] {
        let mut to = start(&SimDisk::default(), 2, None);
        order(&mut to, vec![Order::Copy(source(nodes))]);
        while let Some(fetch) = to.next_fetch() {
            assert_eq!(to.replica(CHUNK), None);
            let mut piece = from.read(&fetch.read).unwrap();
            // Damage datanode 7's bytes.
            if fetch.from == NodeId(7) {
                piece.bytes = vec![0; piece.bytes.len()].into();
            }
            to.on_fetched(fetch.id, Ok(piece));
        }
        assert_eq!(to.replica(CHUNK).map(|replica| replica.length), copied.then_some(30));
    }
}

/// An earlier version didn't answer such an order. The namenode then waited for as long as a copy may take.
#[test]
fn a_copy_of_what_is_there_already_or_is_fenced_is_answered_at_once() {
    let source = || strait_kadoop_core::messages::Source {
        chunk: CHUNK,
        stamp: STAMP,
        length: 20,
        nodes: vec![NodeId(7)],
    };
    let mut open = start(&SimDisk::default(), 1, None);
    write(&mut open, 1, 0, 30);
    order(&mut open, vec![Order::Copy(source())]);
    let replica = open.replica(CHUNK).unwrap();
    assert_eq!(open.heartbeat(Space::default()).changes, [Change::Has(replica)]);
    let mut fenced = start(&SimDisk::default(), 1, None);
    order(&mut fenced, vec![Order::Fence { chunk: CHUNK, stamp: Stamp(8) }]);
    order(&mut fenced, vec![Order::Copy(source())]);
    assert_eq!(fenced.heartbeat(Space::default()).changes, [Change::Gone { chunk: CHUNK, stamp: STAMP }]);
    let mut broken = start(&SimDisk::default(), 1, None);
    broken.lose_directory(0);
    order(&mut broken, Vec::new());
    order(&mut broken, vec![Order::Copy(source())]);
    assert_eq!(broken.heartbeat(Space::default()).changes, [Change::Gone { chunk: CHUNK, stamp: STAMP }]);
}

/// In an earlier version, the chunk's own files had the same names as those of the copy. When the copy ended,
/// the datanode removed both.
#[test]
fn what_became_of_a_chunk_while_it_was_copied_stays_when_the_copy_ends() {
    for sealed in [true, false] {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        let (chunk, stamp, nodes) = (CHUNK, STAMP, vec![NodeId(7)]);
        let source = strait_kadoop_core::messages::Source { chunk, stamp, length: 30, nodes };
        order(&mut datanode, vec![Order::Copy(source)]);
        let fetch = datanode.next_fetch().unwrap();
        // A call of the chunk's pipeline arrives late.
        assert_eq!(write(&mut datanode, 1, 0, 30), Some(Ok(())));
        datanode.sync(CHUNK, STAMP, 30).unwrap();
        if sealed {
            datanode.seal(CHUNK, STAMP, 30).unwrap();
        }
        order(&mut datanode, Vec::new());
        let piece = Piece { bytes: bytes(0, 30), sums: vec![0; 2], visible: 30 };
        let sums = [bytes(0, 16), bytes(16, 30)].map(|unit| crc32c::crc32c(&unit));
        datanode.on_fetched(fetch.id, Ok(Piece { sums: sums.to_vec(), ..piece }));
        let replica = datanode.replica(CHUNK).unwrap();
        assert_eq!(datanode.heartbeat(Space::default()).changes, [Change::Has(replica)]);
        disk.crash(&mut Random(1));
        let after = start(&disk, 2, None).replica(CHUNK).unwrap();
        let state = if sealed { ReplicaState::Sealed } else { ReplicaState::Returned };
        assert_eq!((after.state, after.length), (state, 30));
    }
}

#[test]
fn a_copy_that_cant_be_put_on_disk_is_told_to_be_given_up() {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, None);
    let (chunk, stamp, nodes) = (CHUNK, STAMP, vec![NodeId(7)]);
    let source = strait_kadoop_core::messages::Source { chunk, stamp, length: 16, nodes };
    order(&mut datanode, vec![Order::Copy(source)]);
    let fetch = datanode.next_fetch().unwrap();
    disk.fail_sync_after(Some(0));
    let sums = vec![crc32c::crc32c(&bytes(0, 16))];
    datanode.on_fetched(fetch.id, Ok(Piece { bytes: bytes(0, 16), sums, visible: 16 }));
    assert_eq!(datanode.heartbeat(Space::default()).changes, [Change::Gone { chunk, stamp }]);
    assert_eq!(disk.list().unwrap(), Vec::<String>::new());
}

#[test]
fn a_datanode_makes_four_copies_at_a_time() {
    let mut to = start(&SimDisk::default(), 2, None);
    let orders = (1..=5).map(|chunk| {
        let (chunk, stamp, nodes) = (ChunkId(chunk), Stamp(chunk), vec![NodeId(7)]);
        Order::Copy(strait_kadoop_core::messages::Source { chunk, stamp, length: 30, nodes })
    });
    order(&mut to, orders.collect());
    let fetches: Vec<_> = std::iter::from_fn(|| to.next_fetch()).collect();
    assert_eq!(fetches.len(), 4);
    to.on_fetched(fetches[0].id, Err(Error::Unavailable));
    assert_eq!(to.next_fetch().map(|fetch| fetch.read.chunk), Some(ChunkId(5)));
}

#[test]
fn a_continued_chunk_begins_with_the_old_bytes_whether_they_are_here_or_not() {
    let mut from = start(&SimDisk::default(), 1, None);
    write(&mut from, 1, 0, 30);
    from.seal(CHUNK, STAMP, 30).unwrap();
    let begin = strait_kadoop_core::messages::Continue {
        chunk: ChunkId(6),
        stamp: Stamp(8),
        pipeline: vec![Member { node: NODE, incarnation: Incarnation(1) }],
        source: strait_kadoop_core::messages::Source {
            chunk: CHUNK,
            stamp: STAMP,
            length: 30,
            nodes: vec![NodeId(7)],
        },
    };
    let mut other = start(&SimDisk::default(), 1, None);
    other.begin(4, &begin);
    while let Some(fetch) = other.next_fetch() {
        let piece = from.read(&fetch.read);
        other.on_fetched(fetch.id, piece);
    }
    from.begin(4, &begin);
    for datanode in [&mut from, &mut other] {
        assert_eq!(datanode.settled(), [(4, Ok(()))]);
        assert_eq!(datanode.replica(ChunkId(6)).map(|replica| replica.length), Some(30));
    }
}

#[test]
fn the_scrub_finds_damage_in_its_time_and_tells_it_with_every_report() {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, None);
    write(&mut datanode, 1, 0, 30);
    datanode.seal(CHUNK, STAMP, 30).unwrap();
    order(&mut datanode, Vec::new());
    disk.damage("0000000000000005_0000000000000007_0000001e.data", 20);
    let corrupt = [Change::Corrupt { chunk: CHUNK, stamp: STAMP }];
    let (mut now, scrub_ms) = (0, Config::default().scrub_ms);
    while !datanode.has_news() {
        now += 1_000;
        datanode.tick(now);
        assert!(now <= 2 * scrub_ms, "not within its time");
    }
    assert_eq!(datanode.heartbeat(Space::default()).changes, corrupt);
    order(&mut datanode, Vec::new());
    datanode.tick(now + Config::default().report_ms);
    let beat = datanode.heartbeat(Space::default());
    assert!(beat.full.is_some());
    assert_eq!(beat.changes, corrupt);
}

/// Once, it was sealed at its old length, with checksums of bytes that had been cut off.
#[test]
fn a_replica_whose_seal_failed_after_it_was_cut_has_no_more_than_that() {
    for operations in 0..12 {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        write(&mut datanode, 1, 0, 30);
        disk.fail_after(operations);
        let failed = datanode.seal(CHUNK, STAMP, 20).is_err();
        disk.fail_after(u64::MAX);
        let length = datanode.replica(CHUNK).unwrap().length;
        assert!(!failed || length == 20);
        datanode.seal(CHUNK, Stamp(9), length).unwrap();
        assert_eq!(read(&datanode, Stamp(9), 0, 30).unwrap(), bytes(0, length));
    }
}

/// Once, the second try emptied the table written by the first, and failed as well.
#[test]
fn a_seal_that_fails_twice_leaves_what_was_synced() {
    for seed in 0..20 {
        for (first, second) in (0..12).flat_map(|first| (0..6).map(move |second| (first, second))) {
            let disk = SimDisk::default();
            let mut datanode = start(&disk, 1, None);
            write(&mut datanode, 1, 0, 30);
            datanode.sync(CHUNK, STAMP, 30).unwrap();
            disk.fail_after(first);
            let _ = datanode.seal(CHUNK, STAMP, 30);
            disk.fail_after(second);
            let _ = datanode.seal(CHUNK, STAMP, 30);
            disk.crash(&mut Random(seed));
            let length = start(&disk, 2, None).replica(CHUNK).map(|replica| replica.length);
            assert_eq!(length, Some(30), "seed {seed}, {first} and {second} operations");
        }
    }
}

/// Recovery seals a returned replica under one stamp after the other, while its disk fails now and then.
/// Once, the second seal put a file without a table behind the name of the first (seed 26,229 of the
/// cluster).
#[test]
fn a_returned_replica_whose_seals_failed_twice_can_be_sealed_after_a_crash() {
    for seed in 0..20 {
        for (first, second) in (0..16).flat_map(|first| (0..12).map(move |second| (first, second))) {
            let disk = SimDisk::default();
            let mut datanode = start(&disk, 1, None);
            write(&mut datanode, 1, 0, 30);
            datanode.sync(CHUNK, STAMP, 30).unwrap();
            disk.crash(&mut Random(seed));
            let mut returned = start(&disk, 2, None);
            for (stamp, operations) in [(9, first), (10, second)] {
                disk.fail_after(operations);
                let _ = returned.seal(CHUNK, Stamp(stamp), 30);
            }
            disk.crash(&mut Random(seed));
            let mut datanode = start(&disk, 3, None);
            let what = format!("seed {seed}, {first} and {second} operations");
            let replica = datanode.replica(CHUNK).unwrap();
            assert_eq!(datanode.seal(CHUNK, Stamp(20), replica.length), Ok(()), "{what}: {replica:?}");
            assert_eq!(read(&datanode, Stamp(20), 0, 30), Ok(bytes(0, 30)), "{what}");
        }
    }
}

/// Once, the datanode then looked for it under its old name until it restarted (seed 35,809 of the
/// cluster).
#[test]
fn a_sealed_replica_whose_new_stamp_failed_can_get_another() {
    for operations in 0..10 {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, None);
        write(&mut datanode, 1, 0, 30);
        datanode.seal(CHUNK, STAMP, 30).unwrap();
        disk.fail_after(operations);
        let failed = datanode.seal(CHUNK, Stamp(9), 30).is_err();
        disk.fail_after(u64::MAX);
        let what = format!("after {operations} operations, failed: {failed}");
        assert_eq!(datanode.seal(CHUNK, Stamp(10), 30), Ok(()), "{what}");
        assert_eq!(read(&datanode, Stamp(10), 0, 30).unwrap(), bytes(0, 30));
        datanode.obey(Order::Delete { chunk: CHUNK, stamp: Stamp(10) });
        assert_eq!(names(&disk), Vec::<String>::new(), "{what}");
    }
}
