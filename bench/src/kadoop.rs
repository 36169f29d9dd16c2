//! Compares Kadoop and HDFS: the same work, in turn.

mod cluster;
pub mod hdfs;
pub mod losses;
pub mod rack;
mod servers;

pub use cluster::Cluster;
pub use hdfs::Hdfs;
pub use servers::{Kind, Servers};

use crate::Result;
use crate::host::setting;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use crate::stages::cpu_seconds;
use std::path::{Path, PathBuf};

/// Datanodes on loopback: as many as the replicas of a file.
const DATANODES: usize = 3;
/// The peer's name in rows.
const HDFS: &str = "HDFS";
const OVER_TCP: &str = "over TCP";
/// Rounds that aren't counted: in them the JVM compiles its hot code.
const WARM_ROUNDS: usize = 2;

/// A measured work.
#[derive(Debug, Clone)]
pub enum Work {
    /// Files `PATH-THREAD` of so many MiB, a thread each, replacing existing ones; MB/s.
    Write { path: &'static str, mib: usize, replication: u16, threads: usize },
    /// Files `PATH-0`, `PATH-1`, … of so many MiB, replacing existing ones: each thread writes the
    /// next one as soon as it has closed one; MB/s.
    WriteMany { path: &'static str, files: usize, mib: usize, replication: u16, threads: usize },
    /// So many times one of these files at random, from beginning to end, by threads that take the
    /// next as soon as they have read one. The file system chooses a replica at random; MB/s.
    ReadAtRandom { path: &'static str, files: usize, reads: usize, threads: usize },
    /// The files of [`Work::Write`], from beginning to end, so many times in each round; MB/s.
    Read { path: &'static str, threads: usize, times: usize },
    /// 4 KiB at random offsets in `PATH-0`, one after the other; microseconds (p50).
    Preads { path: &'static str, count: usize },
    /// Create, 5 bytes, close; milliseconds (p50).
    SmallFiles { directory: &'static str, count: usize },
    /// The files of [`Work::SmallFiles`], each opened and read once; microseconds (p50).
    OpenAndRead { directory: &'static str, count: usize },
    /// Calls about names for a while, or until the earlier calls' names are used up; calls a
    /// second.
    Calls { operation: Operation, threads: usize, milliseconds: usize },
}

/// A call about names. In this order, each uses the names that the earlier ones have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Mkdirs,
    Stat,
    /// An empty file, closed.
    Create,
    Rename,
    Delete,
}

impl Operation {
    pub const ALL: [Self; 5] = [Self::Mkdirs, Self::Stat, Self::Create, Self::Rename, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Mkdirs => "mkdirs",
            Self::Stat => "stat",
            Self::Create => "create",
            Self::Rename => "rename",
            Self::Delete => "delete",
        }
    }
}

impl Work {
    fn case(&self) -> String {
        match self {
            Self::Write { mib, replication, threads, .. } => {
                format!("write ×{replication}, {mib} MiB, threads: {threads}")
            }
            Self::WriteMany { files, mib, replication, threads, .. } => {
                format!("write ×{replication}, {files} files of {mib} MiB, threads: {threads}")
            }
            Self::ReadAtRandom { reads, files, threads, .. } => {
                format!("read, {reads} times one of {files} files, threads: {threads}")
            }
            Self::Read { threads, .. } => format!("read, threads: {threads}"),
            Self::Preads { .. } => "random read of 4 KiB (p50)".into(),
            Self::SmallFiles { .. } => "create, 5 bytes, close (p50)".into(),
            Self::OpenAndRead { .. } => "open, read 5 bytes (p50)".into(),
            Self::Calls { operation, threads, .. } => format!("{}, threads: {threads}", operation.name()),
        }
    }

    /// Number of measurements in each round.
    fn times(&self) -> usize {
        match self {
            Self::Read { times, .. } => *times,
            _ => 1,
        }
    }

    fn unit(&self) -> (&'static str, Better) {
        match self {
            Self::Write { .. } | Self::WriteMany { .. } | Self::Read { .. } | Self::ReadAtRandom { .. } => {
                ("MB/s", Better::Higher)
            }
            Self::Preads { .. } | Self::OpenAndRead { .. } => ("µs", Better::Lower),
            Self::SmallFiles { .. } => ("ms", Better::Lower),
            Self::Calls { .. } => ("calls/s", Better::Higher),
        }
    }
}

/// A system that does work and returns the figure.
pub trait System {
    /// The figure, in the work's unit.
    fn measure(&mut self, work: &Work, round: usize) -> Result<f64>;
}

/// Figures of one work, and seconds of processor time of each of ours.
#[derive(Default)]
struct Figures {
    kadoop: Vec<f64>,
    peer: Vec<f64>,
    processor: Vec<f64>,
}

/// Runs rounds in which each system does each work, in turn. Starts `hdfs` unless
/// `BENCH_KADOOP_ALONE` is set. Each round also measures `limit`, if there is one.
pub fn contest(
    ours: &mut Cluster,
    hdfs: impl FnOnce() -> Result<Hdfs>,
    works: &[Work],
    mut limit: Option<&mut dyn FnMut() -> Result<f64>>,
) -> Result<Vec<Row>> {
    let rounds = setting("BENCH_KADOOP_ROUNDS", 5)?;
    let mut hdfs = if std::env::var_os("BENCH_KADOOP_ALONE").is_some() { None } else { Some(hdfs()?) };
    let works: Vec<&Work> = works.iter().filter(|work| is_chosen(work)).collect();
    let mut all: Vec<Figures> = works.iter().map(|_| Figures::default()).collect();
    let mut limits = Vec::new();
    for round in 0..WARM_ROUNDS + rounds {
        let bare = limit.as_mut().map(|limit| limit()).transpose()?;
        let counts = round >= WARM_ROUNDS;
        limits.extend(bare.filter(|_| counts));
        for (work, figures) in works.iter().zip(&mut all) {
            for turn in round..round + work.times() {
                let mut peer = || hdfs.as_mut().map(|hdfs| hdfs.measure(work, round)).transpose();
                // Work that one system leaves for later falls into the other's time.
                let before_us = if turn % 2 == 1 { peer()? } else { None };
                let before = cpu_seconds(std::process::id())?;
                let kadoop = ours.measure(work, round)?;
                let processor = cpu_seconds(std::process::id())? - before;
                let after_us = if turn % 2 == 0 { peer()? } else { None };
                if counts {
                    figures.kadoop.push(kadoop);
                    figures.processor.push(processor);
                    figures.peer.extend(before_us.or(after_us));
                }
            }
        }
    }
    Ok(works.iter().zip(all).map(|(work, figures)| row(work, HDFS, &figures, &limits)).collect())
}

/// Whether the work is among `BENCH_KADOOP_CASES`, parts of cases' names divided by semicolons.
fn is_chosen(work: &Work) -> bool {
    let case = work.case();
    std::env::var("BENCH_KADOOP_CASES")
        .map_or(true, |chosen| chosen.split(';').any(|part| case.contains(part)))
}

/// Runs rounds of each work by short-circuit reads and over TCP. Before each round it runs
/// `before`, untimed.
pub fn short_circuit(cluster: &mut Cluster, before: &Work, works: &[Work]) -> Result<Vec<Row>> {
    let rounds = setting("BENCH_KADOOP_ROUNDS", 5)?;
    let mut all: Vec<Figures> = works.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        cluster.measure(before, round)?;
        for (work, figures) in works.iter().zip(&mut all) {
            // The order alternates, so that neither side always finds the other's data in caches.
            for side in [round % 2, 1 - round % 2] {
                cluster.read_past_datanodes(side == 0);
                let figure = cluster.measure(work, round)?;
                if side == 0 { figures.kadoop.push(figure) } else { figures.peer.push(figure) }
            }
        }
    }
    Ok(works.iter().zip(all).map(|(work, figures)| row(work, OVER_TCP, &figures, &[])).collect())
}

/// Prints the ratio to the peer, round by round, since the JSON has only medians. Also prints the
/// processor time of all of Kadoop, which is more reliable on a busy machine.
fn row(work: &Work, name: &'static str, figures: &Figures, limits: &[f64]) -> Row {
    let Figures { kadoop: ours, peer, processor } = figures;
    let (unit, better) = work.unit();
    let times = ours.iter().zip(peer).map(|(ours, peer)| match better {
        Better::Higher => ours / peer,
        Better::Lower => peer / ours,
    });
    let times: Vec<f64> = times.collect();
    let mut said = Vec::new();
    if !processor.is_empty() {
        said.push(format!("{:>6.2} s of processor time", Sample::new(processor.clone()).median()));
    }
    if !times.is_empty() {
        said.push(format!("{:>6.2} times as fast as {name}", Sample::new(times).median()));
    }
    println!("{:<44} {}", work.case(), said.join(", "));
    let to_limit: Vec<f64> = ours.iter().zip(limits).map(|(ours, limit)| ours / limit).collect();
    let mut row = Row::new(work.case(), unit, better, ours.len(), &Sample::new(ours.clone()));
    if !peer.is_empty() {
        row = row.with_peer(name, Sample::new(peer.clone()).median());
    }
    if !limits.is_empty() {
        row.limit = Some(Sample::new(limits.to_vec()).median());
        row.ratio_to_limit = Some(Sample::new(to_limit).median());
    }
    row
}

/// The data directory of both: in memory, where disks cause no waits and syncs cost nothing, or
/// `BENCH_KADOOP_DIR`.
pub fn data_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("BENCH_KADOOP_DIR") {
        Some(directory) => directory.into(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    }
}
