//! Compares Kadoop and HDFS, which do the same work in turn.

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

/// Number of datanodes on loopback: as many as a file has replicas.
const DATANODES: usize = 3;
/// The peer's name in rows.
const HDFS: &str = "HDFS";
const OVER_TCP: &str = "over TCP";
/// Number of first rounds that aren't counted: in these, the JVM compiles its hot code.
const WARM_ROUNDS: usize = 2;

/// A piece of work to measure.
#[derive(Debug, Clone)]
pub enum Work {
    /// Each thread writes a file `PATH-THREAD` of `mib` MiB, and replaces an existing one; MB/s.
    Write { path: &'static str, mib: usize, replication: u16, threads: usize },
    /// The threads write the files `PATH-0`, `PATH-1`, … of `mib` MiB, and replace existing ones. As soon
    /// as a thread has closed a file, it takes the next; MB/s.
    WriteMany { path: &'static str, files: usize, mib: usize, replication: u16, threads: usize },
    /// `reads` times, a thread reads one of these files, chosen at random, from beginning to end. As soon
    /// as a thread has read a file, it takes the next. The file system chooses a replica at random; MB/s.
    ReadAtRandom { path: &'static str, files: usize, reads: usize, threads: usize },
    /// Each thread reads its file of [`Work::Write`] from beginning to end. Each round measures that `times`
    /// times; MB/s.
    Read { path: &'static str, threads: usize, times: usize },
    /// `count` reads of 4 KiB at random offsets in `PATH-0`, one after the other; microseconds (p50).
    Preads { path: &'static str, count: usize },
    /// Creates `count` files, and writes 5 bytes to each; milliseconds (p50).
    SmallFiles { directory: &'static str, count: usize },
    /// Opens and reads each file of [`Work::SmallFiles`] once; microseconds (p50).
    OpenAndRead { directory: &'static str, count: usize },
    /// Repeats an operation on names for `milliseconds`, or until the names that the previous operation made
    /// are used up; calls a second.
    Calls { operation: Operation, threads: usize, milliseconds: usize },
}

/// An operation on names. Run them in this order: each uses names that earlier ones have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Mkdirs,
    Stat,
    /// Creates and closes an empty file.
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

/// A system that can do a piece of work.
pub trait System {
    /// Does the work, and returns the figure in the work's unit.
    fn measure(&mut self, work: &Work, round: usize) -> Result<f64>;
}

/// Figures of one piece of work. `processor`: this process's CPU seconds during each of Kadoop's.
#[derive(Default)]
struct Figures {
    kadoop: Vec<f64>,
    peer: Vec<f64>,
    processor: Vec<f64>,
}

/// Runs rounds in which both systems do each piece of work, in turn. Each round also measures `limit`, if
/// there is one. If `BENCH_KADOOP_ALONE` is set, `hdfs` isn't called, and Kadoop runs alone.
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
                // Alternate the order: work that one system postpones falls into the other's time.
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

/// Whether a part of the case's name is in `BENCH_KADOOP_CASES`, a list of parts separated by semicolons.
/// True if that isn't set.
fn is_chosen(work: &Work) -> bool {
    let case = work.case();
    std::env::var("BENCH_KADOOP_CASES")
        .map_or(true, |chosen| chosen.split(';').any(|part| case.contains(part)))
}

/// Runs rounds of each work, with short-circuit reads and over TCP in turn. Each round first does `before`,
/// which isn't measured.
pub fn short_circuit(cluster: &mut Cluster, before: &Work, works: &[Work]) -> Result<Vec<Row>> {
    let rounds = setting("BENCH_KADOOP_ROUNDS", 5)?;
    let mut all: Vec<Figures> = works.iter().map(|_| Figures::default()).collect();
    for round in 0..rounds {
        cluster.measure(before, round)?;
        for (work, figures) in works.iter().zip(&mut all) {
            // Alternate the order, so that neither side always finds the other's data in caches.
            for side in [round % 2, 1 - round % 2] {
                cluster.read_past_datanodes(side == 0);
                let figure = cluster.measure(work, round)?;
                if side == 0 { figures.kadoop.push(figure) } else { figures.peer.push(figure) }
            }
        }
    }
    Ok(works.iter().zip(all).map(|(work, figures)| row(work, OVER_TCP, &figures, &[])).collect())
}

/// Makes a row. Also prints the median of the rounds' ratios to the peer, since the JSON has only the
/// systems' medians, and the processor time of all of Kadoop, which is more reliable on a busy machine.
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

/// The directory for both systems' data: `BENCH_KADOOP_DIR`, or a directory in memory, where syncs cost
/// nothing, if there is one.
pub fn data_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("BENCH_KADOOP_DIR") {
        Some(directory) => directory.into(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    }
}
