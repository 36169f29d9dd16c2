//! Kadoop and HDFS beside each other: the same work, in turn.

mod cluster;
mod hdfs;
pub mod losses;

pub use cluster::Cluster;
pub use hdfs::Hdfs;

use crate::Result;
use crate::host::setting;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use std::path::{Path, PathBuf};

/// Datanodes of each: as many as the replicas of a file.
pub const DATANODES: usize = 3;
/// The peer's name in rows.
const HDFS: &str = "HDFS";
const OVER_TCP: &str = "over TCP";
/// Rounds that aren't counted: a JVM compiles meanwhile what it does often.
const WARM_ROUNDS: usize = 2;

/// What is timed.
#[derive(Debug, Clone)]
pub enum Work {
    /// Files `PATH-THREAD` of so many MiB, a thread each, in place of what is there; MB/s.
    Write { path: &'static str, mib: usize, replication: u16, threads: usize },
    /// The same files, from beginning to end; MB/s.
    Read { path: &'static str, threads: usize },
    /// 4 KiB here and there in `PATH-0`, one after the other; microseconds (p50).
    Preads { path: &'static str, count: usize },
    /// Create, 5 bytes, close; milliseconds (p50).
    SmallFiles { directory: &'static str, count: usize },
    /// The files of [`Work::SmallFiles`], each opened and read once; microseconds (p50).
    OpenAndRead { directory: &'static str, count: usize },
    /// Calls about names for a while, or until what was made before is used up; calls a second.
    Calls { operation: Operation, threads: usize, milliseconds: usize },
}

/// A call about names. In this order each finds what those before it have made.
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
            Self::Read { threads, .. } => format!("read, threads: {threads}"),
            Self::Preads { .. } => "random read of 4 KiB (p50)".into(),
            Self::SmallFiles { .. } => "create, 5 bytes, close (p50)".into(),
            Self::OpenAndRead { .. } => "open, read 5 bytes (p50)".into(),
            Self::Calls { operation, threads, .. } => format!("{}, threads: {threads}", operation.name()),
        }
    }

    fn unit(&self) -> (&'static str, Better) {
        match self {
            Self::Write { .. } | Self::Read { .. } => ("MB/s", Better::Higher),
            Self::Preads { .. } | Self::OpenAndRead { .. } => ("µs", Better::Lower),
            Self::SmallFiles { .. } => ("ms", Better::Lower),
            Self::Calls { .. } => ("calls/s", Better::Higher),
        }
    }
}

/// What does work, and says what came of it.
pub trait System {
    /// The figure, in the work's unit.
    fn measure(&mut self, work: &Work, round: usize) -> Result<f64>;
}

/// Rounds in which each does each work, in turn. `limit`, where there is one, is measured in
/// each round, too.
pub fn contest(
    ours: &mut dyn System,
    hdfs: &mut dyn System,
    works: &[Work],
    mut limit: Option<&mut dyn FnMut() -> Result<f64>>,
) -> Result<Vec<Row>> {
    let rounds = setting("BENCH_KADOOP_ROUNDS", 5)?;
    let mut figures: Vec<[Vec<f64>; 2]> = works.iter().map(|_| Default::default()).collect();
    let mut limits = Vec::new();
    for round in 0..WARM_ROUNDS + rounds {
        let bare = limit.as_mut().map(|limit| limit()).transpose()?;
        let counts = round >= WARM_ROUNDS;
        limits.extend(bare.filter(|_| counts));
        for (work, [kadoop, peer]) in works.iter().zip(&mut figures) {
            let pair = [ours.measure(work, round)?, hdfs.measure(work, round)?];
            if counts {
                kadoop.push(pair[0]);
                peer.push(pair[1]);
            }
        }
    }
    let limited = |(work, [kadoop, peer]): (&Work, [Vec<f64>; 2])| row(work, kadoop, (HDFS, peer), &limits);
    Ok(works.iter().zip(figures).map(limited).collect())
}

/// Rounds in which each work is done past the datanodes and over TCP; before each comes what
/// isn't timed.
pub fn short_circuit(cluster: &mut Cluster, before: &Work, works: &[Work]) -> Result<Vec<Row>> {
    let rounds = setting("BENCH_KADOOP_ROUNDS", 5)?;
    let mut figures: Vec<[Vec<f64>; 2]> = works.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        cluster.measure(before, round)?;
        for (work, both) in works.iter().zip(&mut figures) {
            // The order changes, so that neither always finds what the other has left in caches.
            for side in [round % 2, 1 - round % 2] {
                cluster.read_past_datanodes(side == 0);
                both[side].push(cluster.measure(work, round)?);
            }
        }
    }
    let rows = works.iter().zip(figures);
    Ok(rows.map(|(work, [past, tcp])| row(work, past, (OVER_TCP, tcp), &[])).collect())
}

/// Prints how many times as fast as its peer it was, round by round: the JSON has medians alone.
fn row(work: &Work, ours: Vec<f64>, (name, peer): (&'static str, Vec<f64>), limits: &[f64]) -> Row {
    let (unit, better) = work.unit();
    let times = ours.iter().zip(&peer).map(|(ours, peer)| match better {
        Better::Higher => ours / peer,
        Better::Lower => peer / ours,
    });
    println!("{:<44} {:>6.2} times as fast as {name}", work.case(), Sample::new(times.collect()).median());
    let to_limit: Vec<f64> = ours.iter().zip(limits).map(|(ours, limit)| ours / limit).collect();
    let mut row = Row::new(work.case(), unit, better, ours.len(), &Sample::new(ours.clone()))
        .with_peer(name, Sample::new(peer).median());
    if !limits.is_empty() {
        row.limit = Some(Sample::new(limits.to_vec()).median());
        row.ratio_to_limit = Some(Sample::new(to_limit).median());
    }
    row
}

/// Where both keep their data: in memory, where nobody waits for a disk and syncs cost
/// nothing; or in `BENCH_KADOOP_DIR`.
pub fn data_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match std::env::var_os("BENCH_KADOOP_DIR") {
        Some(directory) => directory.into(),
        None if memory.is_dir() => memory.to_owned(),
        None => std::env::temp_dir(),
    }
}
