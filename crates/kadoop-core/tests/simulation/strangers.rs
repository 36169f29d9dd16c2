//! Files of replicas under other replicas' names. They don't count, and nobody removes them.

use crate::{disk::SimDisk, random::Random};
use bytes::Bytes;
use strait_kadoop_core::{
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

/// The name of a sealed replica's file.
fn sealed((chunk, stamp): (ChunkId, Stamp)) -> String {
    format!("{:016x}_{:016x}_{LENGTH:08x}.data", chunk.0, stamp.0)
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
    kinds.iter().for_each(|kind| disk.swap(&name(ONE, kind), &name(OTHER, kind)));
}

fn swap_sealed(disk: &SimDisk) {
    disk.sync_names().unwrap();
    disk.swap(&sealed(ONE), &sealed(OTHER));
}

fn content_of_sealed(disk: &SimDisk, file: &str) -> Bytes {
    content(disk, file)[..LENGTH as usize].to_vec().into()
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
fn swapped_open_files_dont_count_and_are_reported() {
    let disk = written(false);
    assert_eq!(start(&disk.copy(), None).strangers(), []);
    swap(&disk, &["open", "sums"]);
    let datanode = start(&disk, None);
    assert_eq!(datanode.replicas().count(), 0);
    let told: Vec<_> =
        datanode.strangers().iter().map(|stranger| (stranger.file.clone(), stranger.belongs)).collect();
    assert_eq!(told, [(name(ONE, "open"), claim(OTHER)), (name(OTHER, "open"), claim(ONE))]);
    assert_eq!(read(&datanode, ONE), Err(Error::NoReplica));
    // Put back, they are what they were.
    swap(&disk, &["open", "sums"]);
    let (chunk, stamp) = ONE;
    let report = ReplicaReport { chunk, stamp, length: LENGTH, state: ReplicaState::Returned };
    assert_eq!(start(&disk, None).replica(chunk), Some(report));
}

/// A start believes the names of sealed replicas' files, of which there may be millions.
#[test]
fn swapped_sealed_files_give_no_bytes_and_are_reported_once_they_are_checked() {
    let disk = written(true);
    swap_sealed(&disk);
    let mut datanode = start(&disk, None);
    assert_eq!(read(&datanode, ONE), Err(Error::Corrupt));
    let (chunk, stamp) = ONE;
    order(&mut datanode, vec![Order::Verify { chunk, stamp }]);
    (0..2).for_each(|second| datanode.tick(second * 1_000));
    assert_eq!(order(&mut datanode, Vec::new()), [Change::Corrupt { chunk, stamp }]);
    // Put back, they are what they were.
    swap_sealed(&disk);
    assert_eq!(read(&start(&disk, None), ONE), Ok(bytes(ONE.0)));
}

#[test]
fn swapped_files_are_anothers_bytes_to_who_believes_their_names() {
    let disk = written(true);
    swap_sealed(&disk);
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
    let disk = written(false);
    swap(&disk, &["open"]);
    assert_eq!(start(&disk, None).replica(ONE.0).map(|replica| replica.length), Some(0));
}

#[test]
fn replicas_of_another_cluster_give_no_bytes() {
    let datanode = start_in(CLUSTER + 1, &written(false), 2, None);
    assert_eq!((datanode.replicas().count(), datanode.strangers().len()), (0, 2));
    let config = Config { unit_bytes: UNIT, ..Config::default() };
    let (disks, incarnation) = (vec![written(true)], Incarnation(2));
    let datanode = Datanode::start(config, disks, Identity(1), CLUSTER + 1, incarnation).unwrap();
    assert_eq!(read(&datanode, ONE), Err(Error::Corrupt));
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
    }
}

/// An order to delete one chunk, or to copy it, is none to delete another's bytes.
#[test]
fn nobody_removes_a_strangers_bytes() {
    let (chunk, stamp) = ONE;
    let disk = written(true);
    swap_sealed(&disk);
    let mut datanode = start(&disk, None);
    order(&mut datanode, vec![Order::Delete { chunk, stamp }]);
    let aside = format!("{}.strange-1", sealed(ONE));
    assert_eq!(content_of_sealed(&disk, &aside), bytes(OTHER.0));
    assert_eq!(datanode.strangers(), []);
    assert_eq!(order(&mut datanode, Vec::new()), [Change::Gone { chunk, stamp }]);
    let source = Source { chunk, stamp, length: LENGTH, nodes: vec![NodeId(7)] };
    order(&mut datanode, vec![Order::Copy(source)]);
    while let Some(fetch) = datanode.next_fetch() {
        let bytes = bytes(chunk);
        let sums = bytes.chunks(UNIT as usize).map(crc32c::crc32c).collect();
        datanode.on_fetched(fetch.id, Ok(Piece { bytes, sums, visible: LENGTH }));
    }
    assert_eq!(read(&datanode, ONE), Ok(bytes(chunk)));
    // The copy's own table names its chunk and this cluster, and the other stranger is as it was.
    let mut again = start(&disk, None);
    assert_eq!(read(&again, ONE), Ok(bytes(chunk)));
    assert_eq!(read(&again, OTHER), Err(Error::Corrupt));
    order(&mut again, vec![Order::Delete { chunk, stamp }]);
    let mut left = disk.list().unwrap();
    left.sort();
    assert_eq!(left, [aside, sealed(OTHER)]);
}

#[test]
fn of_two_replicas_of_a_chunk_the_one_that_its_table_proves_counts() {
    let disk = written(true);
    // The other replica's file looks like the same chunk's under a later stamp.
    let at = (ONE.0, LATER);
    disk.rename(&sealed(OTHER), &sealed(at)).unwrap();
    let mut datanode = start(&disk, None);
    assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)));
    let told: Vec<_> = datanode.strangers().iter().map(|stranger| stranger.belongs).collect();
    assert_eq!(told, [claim(OTHER)]);
    datanode.seal(ONE.0, LATER, LENGTH).unwrap();
    assert_eq!(read(&start(&disk, None), at), Ok(bytes(ONE.0)));
    assert_eq!(content_of_sealed(&disk, &format!("{}.strange-1", sealed(at))), bytes(OTHER.0));
}

#[test]
fn a_pipelines_replica_gets_its_names_from_strangers() {
    let disk = written(false);
    swap(&disk, &["open", "sums"]);
    let mut datanode = start(&disk, None);
    write(&mut datanode, ONE);
    datanode.seal(ONE.0, ONE.1, LENGTH).unwrap();
    assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)));
    assert_eq!(content(&disk, &format!("{}.strange-1", name(ONE, "open"))), bytes(OTHER.0));
}

#[test]
fn a_second_stranger_under_a_name_leaves_the_first_one_be() {
    let disk = written(true);
    for (number, of) in [(1, OTHER), (2, ONE)] {
        let at = (ChunkId(4), Stamp(4));
        disk.rename(&sealed(of), &sealed(at)).unwrap();
        let mut datanode = start(&disk, None);
        order(&mut datanode, vec![Order::Delete { chunk: at.0, stamp: at.1 }]);
        assert_eq!(content_of_sealed(&disk, &format!("{}.strange-{number}", sealed(at))), bytes(of.0));
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
    let (from, to) = (self::sealed((chunk, LATER)), self::sealed(OTHER));
    sealed.rename(&from, &to).unwrap();
    assert_eq!(read(&start(&sealed, None), OTHER), Err(Error::Corrupt));
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

/// A version before this one put a sealed replica's table in a file of its own.
fn splitted() -> SimDisk {
    let disk = SimDisk::default();
    let bytes = bytes(ONE.0);
    let mut table = b"KSUM".to_vec();
    [2, UNIT, LENGTH].into_iter().for_each(|word| table.extend(word.to_le_bytes()));
    [CLUSTER, ONE.0.0, ONE.1.0].into_iter().for_each(|number| table.extend(number.to_le_bytes()));
    bytes.chunks(UNIT as usize).for_each(|unit| table.extend(crc32c::crc32c(unit).to_le_bytes()));
    table.extend(crc32c::crc32c(&table).to_le_bytes());
    for (kind, content) in [("data", &bytes[..]), ("table", &table)] {
        let file = disk.create(&name(ONE, kind)).unwrap();
        file.write_at(0, content).unwrap();
        file.sync_data().unwrap();
    }
    disk.sync_names().unwrap();
    disk
}

#[test]
fn a_replica_of_two_files_is_whole_wherever_its_joining_or_a_new_stamp_stops() {
    for (operations, stamp) in (0..12).flat_map(|at| [ONE.1, LATER].map(|stamp| (at, stamp))) {
        for seed in 0..20 {
            let disk = splitted();
            let mut datanode = start(&disk, None);
            assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)));
            disk.fail_after(operations);
            if stamp == LATER {
                let _ = datanode.seal(ONE.0, LATER, LENGTH);
            } else {
                // The scrub joins them in its turn.
                let mut now = 0;
                while now < 2 * Config::default().scrub_ms && disk.has(&name(ONE, "table")) && !disk.is_off()
                {
                    datanode.tick(now);
                    now += 3_600_000;
                }
            }
            disk.crash(&mut Random(seed));
            let again = start(&disk, None);
            let there = again.replica(ONE.0).unwrap();
            assert_eq!((there.state, there.length), (ReplicaState::Sealed, LENGTH));
            assert_eq!(read(&again, (ONE.0, there.stamp)), Ok(bytes(ONE.0)), "{operations} {stamp:?} {seed}");
            assert_eq!(again.strangers(), []);
        }
    }
}

#[test]
fn a_seal_that_an_earlier_version_left_without_its_name_is_finished() {
    for (operations, seed) in (0..12).flat_map(|operations| (0..20).map(move |seed| (operations, seed))) {
        let disk = splitted();
        disk.rename(&name(ONE, "data"), &name(ONE, "open")).unwrap();
        disk.sync_names().unwrap();
        disk.fail_after(operations);
        let config = Config { unit_bytes: UNIT, ..Config::default() };
        let (disks, incarnation) = (vec![disk.clone()], Incarnation(2));
        let _ = Datanode::start(config, disks, Identity(1), CLUSTER, incarnation);
        disk.crash(&mut Random(seed));
        let datanode = start(&disk, None);
        assert_eq!(read(&datanode, ONE), Ok(bytes(ONE.0)), "{operations} {seed}");
        assert_eq!(disk.list().unwrap(), [sealed(ONE)]);
    }
}
