//! Writers in separate processes are killed at random moments. Their synced bytes must survive.
//!
//! Each rank writes its own blocks. A block contains its rank and the number of the write, so that the test
//! can tell which write made it. `PLFS_KILLS=1000` runs more seeds.

use bytes::Bytes;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use strait_plfs::{Container, Options};
use strait_store::{FileStore, FileSystem, Principal, StorePath};

const RANKS: u64 = 3;
/// Of a rank.
const BLOCKS: u64 = 100;
const BLOCK: usize = 24;
/// A process whose environment has this is a writer: directory, rank, seed, whether limits are tiny.
const WRITER: &str = "PLFS_KILLS_WRITER";
const SYNCED: &str = "synced ";
/// A rank's second process uses numbers from here on.
const SECOND: u64 = 1 << 32;

/// A generator of random numbers. The writer and the test get the same ones.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The blocks that a writer writes, one after the other: strided runs and jumps.
fn blocks(seed: u64) -> impl Iterator<Item = u64> {
    let (mut random, mut at) = (Random(seed), 0);
    std::iter::repeat_with(move || {
        at = if random.below(4) == 0 { random.below(BLOCKS) } else { (at + 1) % BLOCKS };
        at
    })
}

fn block(rank: u64, number: u64) -> [u8; BLOCK] {
    let mut bytes = [0xa5; BLOCK];
    bytes[..8].copy_from_slice(&(rank + 1).to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn place(rank: u64, block: u64) -> u64 {
    (block * RANKS + rank) * BLOCK as u64
}

fn limited(container: Container, tiny: bool) -> Container {
    if tiny { container.with_tiny_limits() } else { container }
}

async fn open(directory: &Path, tiny: bool) -> Container {
    let fs: Arc<dyn FileSystem> = Arc::new(FileStore::open(directory, false).unwrap());
    let path = StorePath::parse("/ckpt").unwrap();
    limited(Container::open(fs, &Principal::new("tester"), &path).await.unwrap(), tiny)
}

/// A process of this program that writes until it is killed.
fn writer(directory: &Path, rank: u64, seed: u64, first: u64, tiny: bool) -> Child {
    let told = format!("{rank} {seed} {first} {tiny} {}", directory.display());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kills::a_writer", "--nocapture"]).env(WRITER, told);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The writer's side.
#[tokio::test]
async fn a_writer() {
    let Ok(told) = std::env::var(WRITER) else { return };
    let [rank, seed, first, tiny, directory] = told.splitn(5, ' ').collect::<Vec<_>>().try_into().unwrap();
    let [rank, seed, first] = [rank, seed, first].map(|number| number.parse::<u64>().unwrap());
    let container = open(directory.as_ref(), tiny == "true").await;
    let (mut writer, mut syncs) = (container.writer(rank as u32), Random(seed ^ 1));
    for (written, at) in blocks(seed).enumerate() {
        let number = first + written as u64;
        let data = Bytes::copy_from_slice(&block(rank, number));
        writer.write_at(place(rank, at), data).await.unwrap();
        if syncs.below(12) == 0 {
            writer.sync().await.unwrap();
            report(written + 1);
        }
        if syncs.below(300) == 0 {
            writer.close().await.unwrap();
            report(written + 1);
            writer = container.writer(rank as u32);
        }
    }
}

/// Reports the number of synced writes in one piece: `eprintln` would write it in several, and a kill between
/// them would cut it.
fn report(synced: usize) {
    std::io::stderr().write_all(format!("{SYNCED}{synced}\n").as_bytes()).unwrap();
}

/// Reads a writer's reports, and kills it after some syncs. Returns the number of its writes before the last
/// sync.
fn killed(mut writer: Child, random: &mut Random) -> u64 {
    let mut lines = BufReader::new(writer.stderr.take().unwrap()).lines();
    let (mut synced, mut told) = (0, Vec::new());
    let mut hear = |line: String| match line.strip_prefix(SYNCED) {
        Some(count) => synced = count.parse().unwrap(),
        None => told.push(line),
    };
    for _ in 0..random.below(15) {
        match lines.next() {
            Some(line) => hear(line.unwrap()),
            None => break,
        }
    }
    (0..random.below(20_000)).for_each(|_| std::hint::spin_loop());
    writer.kill().unwrap();
    lines.for_each(|line| hear(line.unwrap()));
    let status = writer.wait().unwrap();
    assert!(status.code().is_none(), "the writer ended by itself: {told:?}");
    synced
}

/// The last synced write of each block, and each write's block.
#[derive(Default)]
struct Model {
    synced: HashMap<(u64, u64), u64>,
    runs: HashMap<(u64, u64), u64>,
}

impl Model {
    fn add(&mut self, rank: u64, seed: u64, first: u64, synced: u64) {
        self.runs.insert((rank, first), seed);
        for (number, at) in blocks(seed).take(synced as usize).enumerate() {
            self.synced.insert((rank, at), first + number as u64);
        }
    }

    /// Each block has its last synced write, or a later one.
    async fn check(&self, container: &Container, what: &str) {
        let reader = container.reader().await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let length = place(RANKS - 1, BLOCKS - 1) as usize + BLOCK;
        let found = reader.read_at(0, length).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        for rank in 0..RANKS {
            for at in 0..BLOCKS {
                let place = place(rank, at) as usize;
                let found = found.get(place..place + BLOCK).unwrap_or(&[0; BLOCK]);
                let wanted = self.synced.get(&(rank, at));
                if found == [0; BLOCK] {
                    assert_eq!(wanted, None, "{what}: block {at} of rank {rank} is lost");
                    continue;
                }
                let number = u64::from_le_bytes(found[8..16].try_into().unwrap());
                assert_eq!(found, block(rank, number), "{what}: block {at} of rank {rank} is torn");
                assert!(
                    Some(&number) >= wanted,
                    "{what}: block {at} of rank {rank} is {number}, not {wanted:?}"
                );
                let first = if number >= SECOND { SECOND } else { 0 };
                let seed = self.runs[&(rank, first)];
                let its = blocks(seed).nth((number - first) as usize);
                assert_eq!(its, Some(at), "{what}: write {number} of rank {rank} is at another place");
            }
        }
    }
}

async fn kills(seed: u64) {
    let (directory, tiny) = (tempfile::tempdir().unwrap(), seed.is_multiple_of(2));
    let fs: Arc<dyn FileSystem> = Arc::new(FileStore::open(directory.path(), false).unwrap());
    let path = StorePath::parse("/ckpt").unwrap();
    Container::create(fs, &Principal::new("tester"), &path, &Options::default()).await.unwrap();
    let (mut random, mut model) = (Random(seed), Model::default());
    for first in [0, SECOND] {
        let ranks = 1 + random.below(RANKS);
        let writers: Vec<_> = (0..ranks)
            .map(|rank| {
                let own = seed * 1_000 + rank + first;
                (rank, own, writer(directory.path(), rank, own, first, tiny))
            })
            .collect();
        for (rank, own, writer) in writers {
            let synced = killed(writer, &mut random);
            model.add(rank, own, first, synced);
        }
        let container = open(directory.path(), tiny).await;
        model.check(&container, &format!("seed {seed}")).await;
        if random.below(2) == 0 {
            container.recover().await.unwrap();
            model.check(&container, &format!("seed {seed}, recovered")).await;
            let problems = container.check().await.unwrap();
            assert!(problems.is_empty(), "seed {seed}: {problems:?}");
        }
    }
    // The last close merges all indexes.
    let container = open(directory.path(), tiny).await;
    container.recover().await.unwrap();
    let mut last = container.writer(99);
    let end = place(RANKS - 1, BLOCKS - 1) + BLOCK as u64;
    last.write_at(end, Bytes::from_static(b"end")).await.unwrap();
    last.close().await.unwrap();
    model.check(&open(directory.path(), tiny).await, &format!("seed {seed}, merged")).await;
}

#[tokio::test]
async fn no_kill_of_a_writer_loses_a_synced_byte() {
    let seeds = std::env::var("PLFS_KILLS").map_or(8, |seeds| seeds.parse().unwrap());
    for seed in 1..=seeds {
        kills(seed).await;
    }
}
