//! The kernel reports a failed sync once, and its data don't reach the disk even if a later sync
//! succeeds. So no replica and no log relies on it.

use crate::{disk::SimDisk, random::Random};
use bytes::Bytes;
use strait_kadoop_core::{
    ChunkId, Config, Error, Identity, Incarnation, Member, NodeId, Stamp,
    datanode::Datanode,
    faults::{Fault, Faults},
    log::{Journal, Tail, read_log},
    messages::{Change, HeartbeatAnswer, Order, Point, Read, ReplicaState, Space, Write},
};

const CLUSTER: u64 = 11;
const CHUNK: ChunkId = ChunkId(5);
const STAMP: Stamp = Stamp(7);
const LATER: Stamp = Stamp(9);
const NODE: NodeId = NodeId(1);
const LENGTH: u32 = 100;

/// The writer's byte at `offset`.
fn byte(offset: u32) -> u8 {
    (offset.wrapping_mul(37) ^ (offset >> 3)) as u8 | 1
}

fn bytes(from: u32, to: u32) -> Bytes {
    (from..to).map(byte).collect()
}

fn start(disk: &SimDisk, incarnation: u64, fault: Option<Fault>) -> Datanode<SimDisk> {
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let config = Config { unit_bytes: 16, write_bytes: 32, hold_bytes: 64, faults, ..Config::default() };
    let incarnation = Incarnation(incarnation);
    let mut datanode =
        Datanode::start(config, vec![disk.clone()], Identity(1), CLUSTER, incarnation).unwrap();
    order(&mut datanode, Vec::new());
    datanode
}

fn order(datanode: &mut Datanode<SimDisk>, orders: Vec<Order>) -> Vec<Change> {
    let beat = datanode.heartbeat(Space::default());
    datanode.on_answer(
        &beat,
        Ok(HeartbeatAnswer { session: 1, node: NODE, orders, report: false, log: Point::default() }),
    );
    beat.changes
}

fn write_of(datanode: &mut Datanode<SimDisk>, chunk: ChunkId, from: u32, to: u32) {
    let pipeline = vec![Member { node: NODE, incarnation: Incarnation(1) }];
    let write = Write { chunk, stamp: STAMP, pipeline, offset: from, bytes: bytes(from, to) };
    datanode.write(1, &write);
    assert_eq!(datanode.settled(), [(1, Ok(()))]);
}

fn read(datanode: &Datanode<SimDisk>, stamp: Stamp) -> Result<Vec<u8>, Error> {
    let mut there = Vec::new();
    loop {
        let offset = there.len() as u32;
        let piece = datanode.read(&Read { chunk: CHUNK, stamp, offset, length: LENGTH, acknowledged: 0 })?;
        if piece.bytes.is_empty() {
            return Ok(there);
        }
        there.extend_from_slice(&piece.bytes);
    }
}

/// A replica of [`LENGTH`] bytes, of which `synced` are on disk.
fn written(disk: &SimDisk, synced: u32, fault: Option<Fault>) -> Datanode<SimDisk> {
    let mut datanode = start(disk, 1, fault);
    if synced > 0 {
        write_of(&mut datanode, CHUNK, 0, synced);
        datanode.sync(CHUNK, STAMP, synced).unwrap();
    }
    write_of(&mut datanode, CHUNK, synced, LENGTH);
    datanode.publish(CHUNK, STAMP, LENGTH).unwrap();
    datanode
}

/// Retries a seal in spite of a sync that failed before or meanwhile, until it succeeds. Returns
/// whether the replica survives a crash, as it must.
fn survives(syncs: u64, by_seal: bool, stamp: Stamp, restarted: bool, fault: Option<Fault>) -> bool {
    let disk = SimDisk::default();
    let mut datanode = written(&disk, 0, fault);
    disk.fail_sync_after(Some(syncs));
    let mut done = match by_seal {
        true => datanode.seal(CHUNK, stamp, LENGTH).is_ok(),
        false => datanode.sync(CHUNK, STAMP, LENGTH).is_ok(),
    };
    disk.fail_sync_after(None);
    if !by_seal || !done {
        if restarted {
            datanode = start(&disk, 2, fault);
        }
        done = datanode.seal(CHUNK, stamp, LENGTH).is_ok();
    }
    assert!(done, "{syncs} {by_seal} {stamp:?} {restarted}");
    (0..20).all(|seed| {
        let copy = disk.copy();
        copy.crash(&mut Random(seed));
        let after = start(&copy, 3, None);
        let replica = after.replica(CHUNK);
        replica.is_some_and(|replica| (replica.state, replica.length) == (ReplicaState::Sealed, LENGTH))
            && read(&after, stamp) == Ok(bytes(0, LENGTH).to_vec())
    })
}

/// All combinations: the sync that fails, whether it is the seal's, the stamp, and whether the
/// process ends before the next seal.
fn all_ways() -> impl Iterator<Item = (u64, bool, Stamp, bool)> {
    let bits = |way: u64| (way & 1 == 0, if way & 2 == 0 { STAMP } else { LATER }, way & 4 == 0);
    (0..4)
        .flat_map(move |syncs| (0..8).map(move |way| (syncs, bits(way))))
        .map(|(syncs, (by_seal, stamp, restarted))| (syncs, by_seal, stamp, restarted))
}

/// The length after a power failure of synced bytes whose checksums found no room at first.
fn left_of_synced(fault: Option<Fault>) -> Option<u32> {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, fault);
    write_of(&mut datanode, CHUNK, 0, LENGTH);
    disk.set_full(true);
    assert_eq!(datanode.sync(CHUNK, STAMP, LENGTH), Err(Error::NoSpace));
    let again = datanode.sync(CHUNK, STAMP, LENGTH);
    assert_eq!(again, if fault.is_none() { Err(Error::NoSpace) } else { Ok(()) });
    disk.set_full(false);
    datanode.sync(CHUNK, STAMP, LENGTH).unwrap();
    disk.crash(&mut Random(1));
    start(&disk, 2, fault).replica(CHUNK).map(|replica| replica.length)
}

/// Once, bytes that were synced were gone after that (seed 6719 of the cluster).
#[test]
fn no_sync_succeeds_without_room_for_the_checksums() {
    assert_eq!(left_of_synced(None), Some(LENGTH));
    assert_eq!(left_of_synced(Some(Fault::RecordsForgotten)), Some(0));
}

#[test]
fn a_seal_that_succeeds_after_a_sync_that_failed_is_on_disk() {
    for (syncs, by_seal, stamp, restarted) in all_ways() {
        let way = format!("sync {syncs} of the seal: {by_seal}, {stamp:?}, restarted: {restarted}");
        assert!(survives(syncs, by_seal, stamp, restarted, None), "{way}");
    }
    let lost = |(syncs, by_seal, stamp, restarted)| {
        !survives(syncs, by_seal, stamp, restarted, Some(Fault::FailedSyncRepeated))
    };
    assert!(all_ways().filter(|way| lost(*way)).count() > 4, "a repeated sync would be believed");
}

#[test]
fn a_replica_whose_sync_failed_is_none_of_its_pipeline_any_more() {
    let disk = SimDisk::default();
    let mut datanode = written(&disk, 0, None);
    disk.fail_sync_after(Some(0));
    assert_eq!(datanode.sync(CHUNK, STAMP, LENGTH), Err(Error::Disk));
    assert_eq!(datanode.sync(CHUNK, STAMP, LENGTH), Err(Error::NotOpen));
    assert_eq!(datanode.replica(CHUNK).map(|replica| replica.state), Some(ReplicaState::Returned));
}

#[test]
fn what_is_gone_from_memory_too_is_told_and_what_was_synced_before_is_sealed() {
    let disk = SimDisk::default();
    let mut datanode = written(&disk, 40, None);
    disk.fail_sync_after(Some(0));
    assert_eq!(datanode.sync(CHUNK, STAMP, LENGTH), Err(Error::Disk));
    disk.forget_lost();
    order(&mut datanode, Vec::new());
    assert_eq!(datanode.seal(CHUNK, LATER, LENGTH), Err(Error::Corrupt));
    let left = datanode.replica(CHUNK).unwrap();
    assert!((40..LENGTH).contains(&left.length), "{left:?}");
    assert!(order(&mut datanode, Vec::new()).contains(&Change::Has(left)));
    datanode.seal(CHUNK, LATER, left.length).unwrap();
    disk.crash(&mut Random(1));
    let after = start(&disk, 2, None);
    assert_eq!(read(&after, LATER), Ok(bytes(0, left.length).to_vec()));
}

#[test]
fn a_directorys_sync_that_failed_condemns_all_whose_names_waited_for_it() {
    let disk = SimDisk::default();
    let mut datanode = written(&disk, 0, None);
    write_of(&mut datanode, ChunkId(6), 0, LENGTH);
    // The order of syncs is data, checksums, names.
    disk.fail_sync_after(Some(2));
    assert_eq!(datanode.sync(ChunkId(6), STAMP, LENGTH), Err(Error::Disk));
    assert_eq!(datanode.sync(CHUNK, STAMP, LENGTH), Err(Error::NotOpen), "its name may be lost");
    datanode.seal(CHUNK, LATER, LENGTH).unwrap();
    disk.crash(&mut Random(1));
    assert_eq!(read(&start(&disk, 2, None), LATER), Ok(bytes(0, LENGTH).to_vec()));
}

#[test]
fn a_new_stamp_that_a_failed_sync_kept_from_a_sealed_replica_is_given_again() {
    for syncs in 0..3 {
        let disk = SimDisk::default();
        let mut datanode = written(&disk, 0, None);
        datanode.seal(CHUNK, STAMP, LENGTH).unwrap();
        disk.fail_sync_after(Some(syncs));
        assert_eq!(datanode.seal(CHUNK, LATER, LENGTH), Err(Error::Disk));
        assert_eq!(read(&datanode, STAMP), Ok(bytes(0, LENGTH).to_vec()), "it is what it was");
        datanode.seal(CHUNK, LATER, LENGTH).unwrap();
        disk.crash(&mut Random(syncs));
        assert_eq!(read(&start(&disk, 2, None), LATER), Ok(bytes(0, LENGTH).to_vec()), "{syncs}");
    }
}

#[test]
fn a_start_of_the_namenode_whose_sync_fails_leaves_no_gap_behind() {
    for syncs in 0..4 {
        let disk = SimDisk::default();
        let journal = |next| Journal::start(disk.clone(), 1, next, 1 << 12, Faults::NONE);
        let next = || read_log(&disk, 1, 0, Faults::NONE, |_, _| Ok(())).unwrap().0 + 1;
        let mut log = journal(1).unwrap();
        log.push(b"one".to_vec());
        disk.fail_sync_after(Some(0));
        assert!(log.commit().is_err());
        disk.fail_sync_after(Some(syncs));
        let failed = journal(next()).err();
        disk.fail_sync_after(None);
        let mut log = journal(next()).unwrap();
        log.push(b"two".to_vec());
        log.commit().unwrap();
        disk.crash(&mut Random(3));
        let read = read_log(&disk, 1, 0, Faults::NONE, |_, _| Ok(()));
        assert_eq!(read.unwrap(), (2, Tail::Clean), "{syncs}: {failed:?}");
    }
}

#[test]
fn a_start_of_the_namenode_doesnt_go_on_behind_a_record_that_is_gone() {
    let disk = SimDisk::default();
    let mut log = Journal::start(disk.clone(), 1, 1, 1 << 12, Faults::NONE).unwrap();
    log.push(b"one".to_vec());
    disk.fail_sync_after(Some(0));
    assert!(log.commit().is_err());
    let (last, _) = read_log(&disk, 1, 0, Faults::NONE, |_, _| Ok(())).unwrap();
    disk.forget_lost();
    assert!(Journal::start(disk.clone(), 1, last + 1, 1 << 12, Faults::NONE).is_err());
}

#[test]
fn a_new_run_of_the_namenode_doesnt_rely_on_a_record_whose_sync_failed() {
    let starts = |fault: Option<Fault>| {
        let disk = SimDisk::default();
        let faults = fault.map_or(Faults::NONE, Faults::planted);
        let journal = |next| Journal::start(disk.clone(), 1, next, 1 << 12, faults).unwrap();
        let mut log = journal(1);
        log.push(b"one".to_vec());
        disk.fail_sync_after(Some(0));
        assert!(log.commit().is_err());
        // The process ends but the machine runs on: the record is readable, and later ones rely on
        // it.
        let mut log = journal(read_log(&disk, 1, 0, Faults::NONE, |_, _| Ok(())).unwrap().0 + 1);
        log.push(b"two".to_vec());
        log.commit().unwrap();
        disk.crash(&mut Random(3));
        read_log(&disk, 1, 0, Faults::NONE, |_, _| Ok(()))
    };
    assert_eq!(starts(None).unwrap(), (2, Tail::Clean));
    assert!(starts(Some(Fault::LogEndTrusted)).is_err());
}
