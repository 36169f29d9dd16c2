//! The experiment of the poster on PLFS and HDFS: ranks write one file together (N-1), or a file each
//! (N-N), and each reads back the part of another rank. Each host has a datanode and a link of 1 Gbit/s.
//! Needs root and FUSE. A row compares N-1 with N-N, by the same access: the library or `strait mount`.
//!
//! The suite also prints the poster's second figure: how many bytes of each writer each datanode has.
//!
//! `BENCH_CHECKPOINT_HOSTS`: 4 by default. `BENCH_CHECKPOINT_MB`: megabytes that each rank writes, 24 by
//! default. `BENCH_CHECKPOINT_ROUNDS`: 5 by default, after one that isn't counted. `BENCH_CHECKPOINT_CASES`:
//! parts of the names of cases, separated by semicolons; `B` for all. By default, segmented writes are
//! measured only with 48 KiB, since their size makes no difference: a rank's writes follow each other.
//! `BENCH_CHECKPOINT_LOCAL`: a directory of a local disk; by default, the directory for temporary files.

mod rank;
mod site;

use crate::Result;
use crate::host::setting;
use crate::kadoop::Kind;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use rank::{Job, Pattern};
pub use rank::{RANK, Ranks, follow};
pub use site::Site;
use std::path::PathBuf;

/// The sizes of one write, in bytes, as on the poster.
const OBJECTS: [usize; 3] = [47_001, 48 << 10, 1 << 20];
const MOST_RANKS: usize = 8;

/// How ranks reach the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    Library {
        replication: u16,
    },
    /// By `strait mount`, with the store's default of three replicas.
    Mount,
}

/// One bar of the picture.
struct Case {
    face: Face,
    pattern: Pattern,
    ranks: usize,
    object: usize,
}

impl Case {
    fn is_default(&self) -> bool {
        self.pattern == Pattern::Strided || self.object == OBJECTS[1]
    }

    fn name(&self, store: &str) -> String {
        let face = match self.face {
            Face::Library { replication } => format!("library ×{replication}"),
            Face::Mount => "mount ×3".to_owned(),
        };
        let Self { pattern, ranks, object, .. } = self;
        format!("{store}, {face}, {pattern}, {ranks} ranks, {object} B")
    }
}

/// All cases of one store: all sizes and patterns with [`MOST_RANKS`], and fewer ranks with one size.
fn cases() -> Vec<Case> {
    let faces = [Face::Library { replication: 1 }, Face::Library { replication: 3 }, Face::Mount];
    let mut cases = Vec::new();
    for face in faces {
        for pattern in [Pattern::Strided, Pattern::Segmented] {
            cases.extend(OBJECTS.map(|object| Case { face, pattern, ranks: MOST_RANKS, object }));
        }
        let fewer =
            [1, 2, 4].map(|ranks| Case { face, pattern: Pattern::Strided, ranks, object: OBJECTS[1] });
        cases.extend(fewer);
    }
    cases
}

pub fn run() -> Result<Vec<Row>> {
    let hosts = setting("BENCH_CHECKPOINT_HOSTS", 4)?.max(3);
    let mb = setting("BENCH_CHECKPOINT_MB", 24)?.max(1);
    let rounds = setting("BENCH_CHECKPOINT_ROUNDS", 5)?.max(1);
    let chosen = std::env::var("BENCH_CHECKPOINT_CASES").ok();
    let is_chosen = |name: &str, by_default: bool| match &chosen {
        Some(parts) => parts.split(';').any(|part| name.contains(part)),
        None => by_default,
    };
    let mut rows = Vec::new();
    for kind in [Kind::Kadoop, Kind::Hdfs] {
        let mut cases = cases();
        cases.retain(|case| is_chosen(&case.name(kind.name()), case.is_default()));
        if cases.is_empty() {
            continue;
        }
        let site = Site::start(kind, hosts)?;
        for case in cases {
            rows.extend(measure(&site, &case, mb, rounds)?);
        }
    }
    let local = std::env::var_os("BENCH_CHECKPOINT_LOCAL").map_or_else(std::env::temp_dir, PathBuf::from);
    for object in OBJECTS {
        let name = format!("local disk, N-1, strided, {MOST_RANKS} ranks, {object} B");
        if is_chosen(&name, true) {
            rows.push(local_disk(local.clone(), name, object, mb, rounds)?);
        }
    }
    Ok(rows)
}

/// Measures rounds of N-1 and N-N writes, each followed by reads of the written bytes.
fn measure(site: &Site, case: &Case, mb: usize, rounds: usize) -> Result<Vec<Row>> {
    let name = case.name(site.kind.name());
    let objects = (mb * 1_000_000).div_ceil(case.object);
    let job = Job { rank: 0, ranks: case.ranks, object: case.object, objects, pattern: case.pattern };
    let mut ranks = site.ranks(case.face, &job)?;
    let rate = |seconds: f64| job.bytes() as f64 / 1e6 / seconds;
    let mut figures: [Vec<f64>; 4] = Default::default();
    for round in 0..=rounds {
        eprintln!("{name}: round {round} of {rounds}");
        ranks.first("make")?;
        // Alternate the order, so that neither always finds the other's work unfinished.
        let order = if round % 2 == 0 { ["one", "each"] } else { ["each", "one"] };
        for target in order {
            let (write, read) =
                (rate(ranks.all(&format!("write {target}"))?), rate(ranks.all(&format!("read {target}"))?));
            if round > 0 {
                let at = if target == "one" { 0 } else { 2 };
                figures[at].push(write);
                figures[at + 1].push(read);
            }
        }
        if round == rounds && case.object == OBJECTS[2] && matches!(case.face, Face::Library { .. }) {
            print!("{name}: MiB of each writer on each datanode\n{}", site.matrix(case.ranks)?);
        }
        ranks.first("remove")?;
    }
    let [write_one, read_one, write_each, read_each] = &figures;
    Ok(vec![
        row(format!("{name}: write, N-1; limit: N-N"), write_one, Some(write_each)),
        row(format!("{name}: read, N-1; limit: N-N"), read_one, Some(read_each)),
    ])
}

/// Measures N-1 on one plain file of a local disk, written and synced.
fn local_disk(directory: PathBuf, name: String, object: usize, mb: usize, rounds: usize) -> Result<Row> {
    let objects = (mb * 1_000_000).div_ceil(object);
    let job = Job { rank: 0, ranks: MOST_RANKS, object, objects, pattern: Pattern::Strided };
    let directory = tempfile::tempdir_in(directory)?;
    let commands = (0..MOST_RANKS).map(|rank| job.command(rank, &directory.path().display().to_string()));
    let mut ranks = Ranks::start(commands.collect::<Result<Vec<_>>>()?)?;
    let mut rates = Vec::new();
    for round in 0..=rounds {
        ranks.first("make")?;
        let took = ranks.all("write one")?;
        ranks.first("remove")?;
        if round > 0 {
            rates.push(job.bytes() as f64 / 1e6 / took);
        }
    }
    Ok(row(format!("{name}: write"), &rates, None))
}

/// Prints the mean and the standard deviation, as the poster does.
fn row(case: String, ours: &[f64], limit: Option<&[f64]>) -> Row {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let deviation = |values: &[f64]| {
        let (mean, count) = (mean(values), values.len() as f64);
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0)).sqrt()
    };
    println!("{case}: {:.0} ± {:.0} MB/s", mean(ours), deviation(ours));
    let mut row = Row::new(case, "MB/s", Better::Higher, ours.len(), &Sample::new(ours.to_vec()));
    if let Some(limit) = limit {
        let ratios = ours.iter().zip(limit).map(|(ours, limit)| ours / limit).collect();
        row.limit = Some(Sample::new(limit.to_vec()).median());
        row.ratio_to_limit = Some(Sample::new(ratios).median());
    }
    row
}
