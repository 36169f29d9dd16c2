//! Replicas whose files are closed although they are being written, since too many are open.

use crate::{disk::SimDisk, random::Random};
use bytes::Bytes;
use strait_kadoop_core::{
    ChunkId, Config, Error, Identity, Incarnation, Member, NodeId, Stamp,
    datanode::Datanode,
    messages::{HeartbeatAnswer, Point, Read, ReplicaState, Space, Write},
};

const NODE: NodeId = NodeId(1);
const STAMP: Stamp = Stamp(7);
const UNIT: u32 = 16;

fn start(disk: &SimDisk, incarnation: u64, open_replicas: usize) -> Datanode<SimDisk> {
    let config =
        Config { unit_bytes: UNIT, write_bytes: 4096, hold_bytes: 64, open_replicas, ..Config::default() };
    let (disks, incarnation) = (vec![disk.clone()], Incarnation(incarnation));
    let mut datanode = Datanode::start(config, disks, Identity(1), 11, incarnation).unwrap();
    let beat = datanode.heartbeat(Space::default());
    let (orders, log) = (Vec::new(), Point::default());
    datanode.on_answer(&beat, Ok(HeartbeatAnswer { session: 1, node: NODE, orders, report: false, log }));
    datanode
}

fn bytes(chunk: u64, from: u32, to: u32) -> Bytes {
    (from..to).map(|at| (at.wrapping_mul(37) ^ at >> 3) as u8 ^ chunk as u8).collect()
}

fn whole_write(chunk: u64, from: u32, to: u32) -> Write {
    let pipeline = vec![Member { node: NODE, incarnation: Incarnation(1) }];
    Write { chunk: ChunkId(chunk), stamp: STAMP, pipeline, offset: from, bytes: bytes(chunk, from, to) }
}

fn write(datanode: &mut Datanode<SimDisk>, chunk: u64, from: u32, to: u32) -> Result<(), Error> {
    datanode.write(1, &whole_write(chunk, from, to));
    datanode.settled().pop().unwrap().1
}

fn read(datanode: &Datanode<SimDisk>, chunk: u64, length: u32) -> Result<Bytes, Error> {
    let read = Read { chunk: ChunkId(chunk), stamp: STAMP, offset: 0, length, acknowledged: length };
    datanode.read(&read).map(|piece| piece.bytes)
}

/// Writes to six chunks by turns, with files of two, until the disk fails. Then all bytes that were
/// synced have to be there.
#[test]
fn synced_bytes_of_many_writers_survive_although_few_have_files_open() {
    const CHUNKS: u64 = 6;
    for seed in 0..3_000 {
        let mut random = Random(seed);
        let disk = SimDisk::default();
        let mut datanode = start(&disk, 1, 2);
        disk.fail_after(random.below(120));
        let mut ends = [(0, 0, false); CHUNKS as usize];
        loop {
            let chunk = random.below(CHUNKS);
            let (end, synced, sealed) = &mut ends[chunk as usize];
            if *sealed {
                assert_eq!(read(&datanode, chunk, *end), Ok(bytes(chunk, 0, *end)), "seed {seed}");
                if ends.iter().all(|(_, _, sealed)| *sealed) {
                    break;
                }
                continue;
            }
            let more = 1 + random.below(40) as u32;
            let done = match random.below(6) {
                0 if *end > 0 => datanode.sync(ChunkId(chunk), STAMP, *end).map(|()| *synced = *end),
                1 if *end > 0 => datanode.seal(ChunkId(chunk), STAMP, *end).map(|()| {
                    (*synced, *sealed) = (*end, true);
                }),
                _ => write(&mut datanode, chunk, *end, *end + more).map(|()| *end += more),
            };
            if done.is_err() {
                break;
            }
            if *end > 0 {
                assert_eq!(read(&datanode, chunk, *end), Ok(bytes(chunk, 0, *end)), "seed {seed}");
            }
        }
        disk.crash(&mut random);
        let mut datanode = start(&disk, 2, 2);
        for (chunk, (end, synced, sealed)) in ends.into_iter().enumerate().filter(|(_, of)| of.1 > 0) {
            let replica = datanode.replica(ChunkId(chunk as u64)).unwrap();
            assert!((synced..=end).contains(&replica.length), "seed {seed}: {replica:?}");
            assert!(!sealed || replica.state == ReplicaState::Sealed, "seed {seed}: {replica:?}");
            datanode.seal(replica.chunk, STAMP, replica.length).unwrap();
            let there = bytes(chunk as u64, 0, replica.length);
            assert_eq!(read(&datanode, chunk as u64, replica.length), Ok(there), "seed {seed}");
        }
    }
}

#[test]
fn a_failed_sync_before_closing_breaks_the_replicas_own_pipeline_alone() {
    let disk = SimDisk::default();
    let mut datanode = start(&disk, 1, 1);
    write(&mut datanode, 1, 0, 50).unwrap();
    disk.fail_sync_after(Some(0));
    write(&mut datanode, 2, 0, 50).unwrap();
    assert_eq!(write(&mut datanode, 1, 50, 60), Err(Error::NotOpen));
    assert_eq!(datanode.replica(ChunkId(1)).unwrap().state, ReplicaState::Returned);
    write(&mut datanode, 2, 50, 60).unwrap();
}

#[test]
fn another_replica_is_refused_while_all_open_ones_are_amid_a_write() {
    let mut datanode = start(&SimDisk::default(), 1, 1);
    let under_way = whole_write(1, 0, 2 * UNIT);
    let place = datanode.place(&under_way).unwrap().unwrap();
    assert_eq!(write(&mut datanode, 2, 0, 5), Err(Error::DatanodeBusy));
    let placed = place.put(&under_way);
    datanode.finish(1, &under_way, placed);
    assert_eq!(datanode.settled(), [(1, Ok(()))]);
    write(&mut datanode, 2, 0, 5).unwrap();
    assert_eq!(read(&datanode, 1, 2 * UNIT), Ok(bytes(1, 0, 2 * UNIT)));
}
