//! Files of replicas under other replicas' names. They don't count, and nobody removes them.

use crate::{disk::SimDisk, random::Random};
use bytes::Bytes;
use strait_kadoop::{
    ChunkId, Config, Error, Identity, Incarnation, Member, NodeId, Stamp,
    datanode::{Claim, Datanode},
    disk::{Disk, DiskFile, read_whole},
    faults::{Fault, Faults},
    messages::{
        Change, HeartbeatAnswer, Order, Piece, Point, Read, ReplicaReport, ReplicaState, Source, Space, Write,
    },
};

const CLUSTER: u64 = 11;
const NODE: NodeId = NodeId(1);
const UNIT: u32 = 16;
const LENGTH: u32 = 40;
/// Two chunks of one length.
const ONE: (ChunkId, Stamp) = (ChunkId(5), Stamp(7));
const OTHER: (ChunkId, Stamp) = (ChunkId(6), Stamp(8));
const LATER: Stamp = Stamp(9);

fn bytes(chunk: ChunkId) -> Bytes {
    (0..LENGTH).map(|at| (at * 37) as u8 ^ chunk.0 as u8).collect()
}

fn claim((chunk, stamp): (ChunkId, Stamp)) -> Claim {
    Claim { cluster: CLUSTER, chunk, stamp }
}

fn name((chunk, stamp): (ChunkId, Stamp), kind: &str) -> String {
    format!("{:016x}_{:016x}.{kind}", chunk.0, stamp.0)
}

fn start_in(cluster: u64, disk: &SimDisk, incarnation: u64, fault: Option<Fault>) -> Datanode<SimDisk> {
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let config = Config { unit_bytes: UNIT, write_bytes: 4096, hold_bytes: 64, faults, ..Config::default() };
    let (disks, incarnation) = (vec![disk.clone()], Incarnation(incarnation));
    let mut datanode = Datanode::start(config, disks, Identity(1), cluster, incarnation).unwrap();
    datanode.join(CLUSTER);
    order(&mut datanode, Vec::new());
    datanode
}

fn start(disk: &SimDisk, fault: Option<Fault>) -> Datanode<SimDisk> {
    start_in(CLUSTER, disk, 2, fault)
}

fn order(datanode: &mut Datanode<SimDisk>, orders: Vec<Order>) -> Vec<Change> {
    let beat = datanode.heartbeat(Space::default());
    datanode.on_answer(
        &beat,
        Ok(HeartbeatAnswer { session: 1, node: NODE, orders, report: false, log: Point::default() }),
    );
    beat.changes
}

fn write(datanode: &mut Datanode<SimDisk>, (chunk, stamp): (ChunkId, Stamp)) {
    let pipeline = vec![Member { node: NODE, incarnation: datanode.incarnation() }];
    datanode.write(1, &Write { chunk, stamp, pipeline, offset: 0, bytes: bytes(chunk) });
    assert_eq!(datanode.settled(), [(1, Ok(()))]);
}

/// A disk with two synced replicas, sealed or open. A new datanode has written them.
fn written(sealed: bool) -> SimDisk {
    let disk = SimDisk::default();
    let mut datanode = start_in(0, &disk, 1, None);
    for of in [ONE, OTHER] {
        write(&mut datanode, of);
        match sealed {
            true => datanode.seal(of.0, of.1, LENGTH).unwrap(),
            false => datanode.sync(of.0, of.1, LENGTH).unwrap(),
        }
    }
    disk
}

fn swap(disk: &SimDisk, kinds: &[&str]) {
    for kind in kinds {
        disk.rename(&name(ONE, kind), "aside").unwrap();
        disk.rename(&name(OTHER, kind), &name(ONE, kind)).unwrap();
        disk.rename("aside", &name(OTHER, kind)).unwrap();
    }
    disk.sync_names().unwrap();
}

fn read(datanode: &Datanode<SimDisk>, (chunk, stamp): (ChunkId, Stamp)) -> Result<Bytes, Error> {
    let read = Read { chunk, stamp, offset: 0, length: LENGTH, acknowledged: 0 };
    let piece = datanode.read(&read)?;
    let sums: Vec<u32> = piece.bytes.chunks(UNIT as usize).map(crc32c::crc32c).collect();
    if sums == piece.sums { Ok(piece.bytes) } else { Err(Error::Corrupt) }
}

fn content(disk: &SimDisk, file: &str) -> Vec<u8> {
    read_whole(&disk.open(file).unwrap()).unwrap()
}

#[test]
fn files_that_were_swapped_dont_count_and_are_told_of() {
    for (sealed, kinds) in [(true, ["data", "table"]), (false, ["open", "sums"])] {
        let disk = written(sealed);
        assert_eq!(start(&disk.copy(), None).strangers(), []);
        swap(&disk, &kinds);
        let datanode = start(&disk, None);
        assert_eq!(datanode.replicas().count(), 0);
        let told: Vec<_> =
            datanode.strangers().iter().map(|stranger| (stranger.file.clone(), stranger.belongs)).collect();
        assert_eq!(told, [(name(ONE, kinds[0]), claim(OTHER)), (name(OTHER, kinds[0]), claim(ONE))]);
        assert_eq!(read(&datanode, ONE), Err(Error::NoReplica));
        // Put back, they are what they were.
        swap(&disk, &kinds);
        let state = if sealed { ReplicaState::Sealed } else { ReplicaState::Returned };
        let (chunk, stamp) = ONE;
        let report = ReplicaReport { chunk, stamp, length: LENGTH, state };
        assert_eq!(start(&disk, None).replica(chunk), Some(report));
    }
}

#[test]
fn swapped_files_are_anothers_bytes_to_who_believes_their_names() {
    let disk = written(true);
    swap(&disk, &["data", "table"]);
    let careless = start(&disk, Some(Fault::ReplicaUnproven));
    assert_eq!(read(&careless, ONE), Ok(bytes(OTHER.0)));
    let disk = written(false);
    swap(&disk, &["open", "sums"]);
    let mut careless = start(&disk, Some(Fault::ReplicaUnproven));
    careless.seal(ONE.0, ONE.1, LENGTH).unwrap();
    assert_eq!(read(&careless, ONE), Ok(bytes(OTHER.0)));
}

#[test]
fn bytes_or_checksums_that_were_swapped_alone_dont_agree() {
    let disk = written(true);
    swap(&disk, &["data"]);
    assert_eq!(read(&start(&disk, None), ONE), Err(Error::Corrupt));
    let disk = written(false);
    swap(&disk, &["open"]);
    assert_eq!(start(&disk, None).replica(ONE.0).map(|replica| replica.length), Some(0));
}

#[test]
fn replicas_of_another_cluster_dont_count() {
    for sealed in [true, false] {
        let disk = written(sealed);
        let datanode = start_in(CLUSTER + 1, &disk, 2, None);
        assert_eq!((datanode.replicas().count(), datanode.strangers().len()), (0, 2));
    }
}

#[test]
fn a_sealed_replica_with_another_stamp_names_that() {
    for operations in 0..20 {
        let disk = written(true);
        let mut datanode = start(&disk, None);
        disk.fail_after(operations);
        let done = datanode.seal(ONE.0, LATER, LENGTH).is_ok();
        disk.crash(&mut Random(operations));
        let datanode = start(&disk, None);
        assert_eq!(datanode.strangers(), [], "{operations}");
        let stamp = datanode.replica(ONE.0).unwrap().stamp;
        assert!(stamp == LATER || stamp == ONE.1 && !done, "{operations}");
        assert_eq!(read(&datanode, (ONE.0, stamp)), Ok(bytes(ONE.0)));
        // Under its former name it is another.
        if stamp == LATER {
            for kind in ["data", "table"] {
                disk.rename(&name((ONE.0, LATER), kind), &name(ONE, kind)).unwrap();
            }
            assert_eq!(start(&disk, None).strangers()[0].belongs, claim((ONE.0, LATER)));
        }
    }
}

/// An order to delete one chunk, or to copy it, is none to delete another's bytes.
#[test]
fn nobody_removes_a_strangers_bytes() {
    let (chunk, stamp) = ONE;
    let disk = written(true);
    swap(&disk, &["data", "table"]);
    let mut datanode = start(&disk, None);
    order(&mut datanode, vec![Order::Delete { chunk, stamp }]);
    assert_eq!(content(&disk, &name(ONE, "data")), bytes(OTHER.0));
    assert_eq!(order(&mut datanode, Vec::new()), [Change::Gone { chunk, stamp }]);
    let source = Source { chunk, stamp, length: LENGTH, nodes: vec![NodeId(7)] };
    order(&mut datanode, vec![Order::Copy(source)]);
    while let Some(fetch) = datanode.next_fetch() {
        let bytes = bytes(chunk);
        let sums = bytes.chunks(UNIT as usize).map(crc32c::crc32c).collect();
        datanode.on_fetched(fetch.id, Ok(Piece { bytes, sums, visible: LENGTH }));
    }
    assert_eq!(read(&datanode, ONE), Ok(bytes(chunk)));
    let aside = ["data", "table"].map(|kind| format!("{}.strange-1", name(ONE, kind)));
    assert_eq!(content(&disk, &aside[0]), bytes(OTHER.0));
    // The copy's own table names its chunk and this cluster, and the other stranger is as it was.
    let mut again = start(&disk, None);
    assert_eq!(read(&again, ONE), Ok(bytes(chunk)));
    assert_eq!(again.strangers().len(), 1);
    order(&mut again, vec![Order::Delete { chunk, stamp }]);
    let mut left = disk.list().unwrap();
    left.sort();
    let [data, table] = ["data", "table"].map(|kind| name(OTHER, kind));
    let [aside_data, aside_table] = aside;
    assert_eq!(left, [aside_data, aside_table, data, table]);
}

#[test]
fn a_pipelines_replica_and_a_new_stamp_get_their_names_from_strangers() {
    let disk = written(true);
    swap(&disk, &["data", "table"]);
    let mut datanode = start(&disk, None);
    write(&mut datanode, ONE);
    datanode.seal(ONE.0, ONE.1, LENGTH).unwrap();
    assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)));
    assert_eq!(content(&disk, &format!("{}.strange-1", name(ONE, "data"))), bytes(OTHER.0));
    // The other stranger has the name that the sealed replica is going to get.
    let at = (ONE.0, LATER);
    for kind in ["data", "table"] {
        disk.rename(&name(OTHER, kind), &name(at, kind)).unwrap();
    }
    let mut datanode = start(&disk, None);
    assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)));
    datanode.seal(ONE.0, LATER, LENGTH).unwrap();
    assert_eq!(read(&start(&disk, None), at), Ok(bytes(ONE.0)));
    assert_eq!(content(&disk, &format!("{}.strange-1", name(at, "data"))), bytes(ONE.0));
}

#[test]
fn a_second_stranger_under_a_name_leaves_the_first_one_be() {
    let disk = written(true);
    for (number, of) in [(1, OTHER), (2, ONE)] {
        let at = (ChunkId(4), Stamp(4));
        for kind in ["data", "table"] {
            disk.rename(&name(of, kind), &name(at, kind)).unwrap();
        }
        let mut datanode = start(&disk, None);
        write(&mut datanode, at);
        order(&mut datanode, vec![Order::Delete { chunk: at.0, stamp: at.1 }]);
        assert_eq!(content(&disk, &format!("{}.strange-{number}", name(at, "data"))), bytes(of.0));
    }
}

/// The table's, and the records', of version 1.
#[test]
fn replicas_without_an_identity_count_by_their_names() {
    let (chunk, stamp) = ONE;
    let bytes_ = bytes(chunk);
    let units = || bytes_.chunks(UNIT as usize).map(crc32c::crc32c);
    let put = |disk: &SimDisk, kind: &str, bytes: &[u8]| {
        disk.create(&name(ONE, kind)).unwrap().write_at(0, bytes).unwrap();
    };
    let sealed = SimDisk::default();
    let mut table = b"KSUM".to_vec();
    [1, UNIT, LENGTH].into_iter().chain(units()).for_each(|word| table.extend(word.to_le_bytes()));
    table.extend(crc32c::crc32c(&table).to_le_bytes());
    put(&sealed, "data", &bytes_);
    put(&sealed, "table", &table);
    let mut datanode = start(&sealed, None);
    assert_eq!(read(&datanode, ONE), Ok(bytes(chunk)));
    // With another stamp it gets an identity.
    datanode.seal(chunk, LATER, LENGTH).unwrap();
    for kind in ["data", "table"] {
        sealed.rename(&name((chunk, LATER), kind), &name(ONE, kind)).unwrap();
    }
    assert_eq!(start(&sealed, None).strangers().len(), 1);
    let open = SimDisk::default();
    let ends = (1..).map(|unit: u32| (unit * UNIT).min(LENGTH));
    let records: Vec<u8> =
        ends.zip(units()).flat_map(|(end, sum)| [end.to_le_bytes(), sum.to_le_bytes()].concat()).collect();
    put(&open, "open", &bytes_);
    put(&open, "sums", &records);
    let mut datanode = start(&open, None);
    let report = ReplicaReport { chunk, stamp, length: LENGTH, state: ReplicaState::Returned };
    assert_eq!(datanode.replica(chunk), Some(report));
    datanode.seal(chunk, stamp, LENGTH).unwrap();
    assert_eq!(read(&datanode, ONE), Ok(bytes(chunk)));
}

/// Once its records are synced, their head is, too.
#[test]
fn an_open_replicas_synced_bytes_are_proven_after_any_crash() {
    for seed in 0..2_000 {
        let disk = SimDisk::default();
        let mut datanode = start(&disk, None);
        let mut random = Random(seed);
        write(&mut datanode, ONE);
        let synced = random.one_in(2);
        if synced {
            datanode.sync(ONE.0, ONE.1, LENGTH).unwrap();
        }
        disk.crash(&mut random);
        let after = start(&disk, None);
        assert_eq!(after.strangers(), [], "{seed}");
        let length = after.replica(ONE.0).map_or(0, |replica| replica.length);
        assert!(length == LENGTH || !synced, "{seed}: {length}");
    }
}
