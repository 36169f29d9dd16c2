//! One caller's request doesn't block all others: small chunks, large trees, disks that fail while
//! two threads sync the same file.

use crate::{disk::SimDisk, namespace::someone, told::Cluster};
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use std::{cell::Cell, io, rc::Rc, time::Duration};
use strait_kadoop_core::{
    ChunkId, ClientId, Config, Error, Identity, Incarnation, Member, NodeId, Stamp,
    datanode::Datanode,
    disk::{Disk, DiskFile},
    messages::{Answer, HeartbeatAnswer, Mutation, Order, Point, ReplicaState, RequestId, Space, Write},
    namenode::{Counting, Namenode, State},
};

struct Names {
    namenode: Namenode,
    client: ClientId,
    number: u64,
}

impl Names {
    fn new(config: &Config) -> Self {
        let mut namenode = Namenode::new(config.clone(), State::new(config), 0, 1);
        let client = namenode.join_client(0);
        Self { namenode, client, number: 0 }
    }

    fn ask(&mut self, mutation: &Mutation) -> Result<Answer, Error> {
        self.number += 1;
        let request = RequestId { client: self.client, number: self.number, done_below: self.number };
        self.namenode.mutate(&someone("kadoop"), request, mutation, &[], 0, 0)
    }

    fn mkdirs(&mut self, path: &str) {
        self.ask(&Mutation::Mkdirs { path: path.to_owned(), mode: 0o755 }).unwrap();
    }

    fn create(&mut self, path: &str, chunk_bytes: u32) -> Result<Answer, Error> {
        let path = path.to_owned();
        self.ask(&Mutation::Create {
            path,
            overwrite: false,
            mode: 0o644,
            replication: 1,
            chunk_bytes,
            min_replicas: 0,
        })
    }
}

#[test]
fn files_of_chunks_below_the_clusters_least_arent_made() {
    let mut names = Names::new(&Config::default());
    for (chunk_bytes, made) in [(0, false), (1, false), ((1 << 20) - 1, false), (1 << 20, true)] {
        assert_eq!(names.create("/f", chunk_bytes).is_ok(), made, "{chunk_bytes}");
    }
    let mut small = Names::new(&Config { min_chunk_bytes: 1, ..Config::default() });
    assert!(small.create("/f", 1).is_ok());
}

/// Makes directories of 100 files each below `/top`.
fn tree(directories: usize) -> Names {
    let mut names = Names::new(&Config::default());
    for directory in 0..directories {
        names.mkdirs(&format!("/top/{directory:03}"));
        for file in 0..100 {
            names.create(&format!("/top/{directory:03}/{file}"), 1 << 20).unwrap();
        }
    }
    names
}

#[test]
fn a_large_tree_is_counted_in_steps_and_as_a_whole() {
    let names = tree(250);
    let mut counting = Counting::new("/top");
    let mut steps = 1;
    let sum = loop {
        if let Some(sum) = counting.step(&names.namenode.view(&someone("kadoop"))).unwrap() {
            break sum;
        }
        steps += 1;
    };
    assert!(steps > 2, "{steps} steps");
    assert_eq!((sum.directories, sum.files), (251, 25_000));
}

#[test]
fn what_is_removed_between_two_steps_isnt_counted_on() {
    let mut names = tree(250);
    let mut counting = Counting::new("/top");
    assert_eq!(counting.step(&names.namenode.view(&someone("kadoop"))), Ok(None));
    for directory in 90..250 {
        names.ask(&Mutation::Delete { path: format!("/top/{directory:03}"), recursive: true }).unwrap();
    }
    // Another directory now has the place of the one being counted.
    names.mkdirs("/other");
    let mut step = || counting.step(&names.namenode.view(&someone("kadoop")));
    let sum = std::iter::from_fn(|| step().transpose()).next();
    let sum = sum.or_else(|| step().transpose()).unwrap().unwrap();
    assert!(sum.directories <= 101 && sum.files >= 9_000 && sum.files < 10_100, "{sum:?}");
    names.ask(&Mutation::Delete { path: "/top".to_owned(), recursive: true }).unwrap();
    assert_eq!(Counting::new("/top").step(&names.namenode.view(&someone("kadoop"))), Err(Error::NotFound));
}

/// A disk that can silently lose written data. Each opening of a file learns of it once, as on
/// Linux (errseq_t).
#[derive(Clone, Default)]
struct Losing(SimDisk, Rc<Cell<u64>>);

#[derive(Clone)]
struct LosingFile {
    file: <SimDisk as Disk>::File,
    lost: Rc<Cell<u64>>,
    told: Rc<Cell<u64>>,
}

impl Losing {
    fn opened(&self, file: <SimDisk as Disk>::File) -> LosingFile {
        LosingFile { file, lost: Rc::clone(&self.1), told: Rc::new(Cell::new(self.1.get())) }
    }
}

impl Disk for Losing {
    type File = LosingFile;

    fn create(&self, name: &str) -> io::Result<LosingFile> {
        Ok(self.opened(self.0.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<LosingFile> {
        Ok(self.opened(self.0.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
}

impl DiskFile for LosingFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.file.set_length(length)
    }

    fn preallocate(&self, length: u64) -> io::Result<()> {
        self.file.preallocate(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.told.replace(self.lost.get()) < self.lost.get() {
            return Err(io::Error::other("what was written is lost"));
        }
        self.file.sync_data()
    }
}

#[test]
fn a_sync_that_fails_ahead_of_another_leaves_it_the_error() {
    let disk = Losing::default();
    let config = Config::default();
    let incarnation = Incarnation(1);
    let mut datanode = Datanode::start(config, vec![disk.clone()], Identity(1), 11, incarnation).unwrap();
    let (beat, node) = (datanode.heartbeat(Space::default()), NodeId(1));
    datanode.on_answer(
        &beat,
        Ok(HeartbeatAnswer { session: 1, node, orders: Vec::new(), report: false, log: Point::default() }),
    );
    let (chunk, stamp) = (ChunkId(5), Stamp(7));
    let pipeline = vec![Member { node, incarnation }];
    datanode.write(1, &Write { chunk, stamp, pipeline, offset: 0, bytes: Bytes::from_static(b"kept?") });
    let ahead = datanode.unsynced(chunk);
    assert_eq!(ahead.len(), 1, "bytes");
    disk.1.set(1);
    assert!(ahead[0].sync_data().is_err());
    // The thread that synced ahead hasn't reported the failure yet.
    assert_eq!(datanode.sync(chunk, stamp, 5), Err(Error::Disk));
    assert_eq!(datanode.replica(chunk).map(|replica| replica.state), Some(ReplicaState::Returned));
}

/// Processor time of this thread so far, which doesn't count other threads.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Processor time to remove a file of this many chunks, and to have its datanode delete them.
fn removal(chunks: usize) -> Duration {
    let mut cluster = Cluster::new(1, None);
    cluster.write(1, &vec![1; chunks]);
    let begun = computed();
    cluster.ask(Mutation::Delete { path: "/f".to_owned(), recursive: false }).unwrap();
    while cluster.sealed() > 0 {
        cluster.beat(0);
    }
    computed() - begun
}

/// Once, each order was searched among all others, and 160,000 files took 14 s: 256 times as long
/// for 16 times as many. Caches that are too small may cost a factor of a few.
#[test]
fn removing_much_more_takes_longer_by_that_much_and_not_by_its_square() {
    let least = |chunks| (0..3).map(|_| removal(chunks)).min().unwrap();
    let (some, more) = (least(2_000), least(32_000));
    assert!(more < some * 64, "{some:?}, {more:?} for 16 times as much");
}

/// A writer that has one chunk for long sends no requests meanwhile. Once, it was forgotten, and
/// lost its file.
#[test]
fn who_has_a_file_open_isnt_forgotten_however_many_come_after() {
    const MORE_THAN_ARE_KEPT: usize = 70_000;
    let mut cluster = Cluster::new(1, None);
    let file = cluster.create(1);
    let idle = cluster.namenode.join_client(cluster.now);
    for _ in 0..MORE_THAN_ARE_KEPT {
        cluster.namenode.join_client(cluster.now);
    }
    cluster.pass(1_000, &[]);
    cluster.add(file, Vec::new());
    let kept: Vec<ClientId> = cluster.namenode.state().clients.iter().map(|(client, _)| *client).collect();
    assert!(kept.len() < MORE_THAN_ARE_KEPT && !kept.contains(&idle) && kept.contains(&cluster.client));
}

/// Once, a newcomer without an open file was the client to be evicted.
#[test]
fn beside_more_writers_than_are_kept_a_newcomer_is_served() {
    /// As many clients as the namenode remembers.
    const WRITERS: usize = 65_536;
    let mut names = Names::new(&Config::default());
    (0..256).for_each(|directory| names.mkdirs(&format!("/{directory}")));
    for number in 0..=WRITERS {
        (names.client, names.number) = (names.namenode.join_client(0), 0);
        names.create(&format!("/{}/{number}", number % 256), 1 << 20).unwrap();
    }
    (names.client, names.number) = (names.namenode.join_client(0), 0);
    names.mkdirs("/new");
    assert!(names.namenode.state().clients.count() <= WRITERS + 1);
}

#[test]
fn suspicions_without_end_bind_no_datanode_and_delay_no_recovery() {
    const CHUNKS: usize = 1_200;
    let mut cluster = Cluster::new(1, None);
    let written = cluster.write(1, &[10; CHUNKS]);
    let node = cluster.nodes[0].id;
    for new in &written {
        // The reporter repeats itself, and makes up stamps.
        for stamp in 0..10 {
            cluster.namenode.suspect(node, new.chunk, Stamp(new.stamp.0 + stamp));
            cluster.namenode.suspect(node, new.chunk, new.stamp);
        }
    }
    let Ok(Answer::Opened { file, .. }) = cluster.ask(Mutation::Append { path: "/f".to_owned() }) else {
        panic!("not opened")
    };
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 20, ReplicaState::Open);
    cluster.ask(Mutation::RecoverLease { path: "/f".to_owned() }).unwrap_err();
    cluster.beat(0);
    assert!(!cluster.length().1, "the recovery waits behind suspicions");
    let mut verified = 3 * 100;
    loop {
        let orders = cluster.send(0, None, Vec::new()).unwrap().orders;
        let more = orders.iter().filter(|order| matches!(order, Order::Verify { .. })).count();
        if more == 0 {
            break;
        }
        verified += more;
    }
    assert!(verified <= 1_300, "{verified}");
}

#[test]
fn no_recovery_fills_what_is_left_of_a_full_disk_and_each_ends_once_there_is_room() {
    let mut cluster = Cluster::new(1, None);
    let file = cluster.create(1);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.namenode.set_short_of_room(true);
    cluster.ask(Mutation::RecoverLease { path: "/f".to_owned() }).unwrap_err();
    let before = cluster.namenode.sequence();
    cluster.pass(600_000, &[0]);
    assert_eq!(cluster.namenode.sequence(), before, "the log grows");
    cluster.namenode.set_short_of_room(false);
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.length(), (10, false));
}
