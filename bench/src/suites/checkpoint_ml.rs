//! A model's checkpoint in one `.safetensors` file: ranks write the file together. For comparison, each rank
//! writes a shard, and one process then joins the shards with the plain library on the same mount and store.
//! Hosts as in `checkpoint`; needs root and FUSE.
//!
//! `BENCH_CHECKPOINT_ML_MB`: megabytes of the whole file, 1,000 by default (4,000 takes 24 GB of memory).
//! `BENCH_CHECKPOINT_HOSTS`: 4 by default. `BENCH_CHECKPOINT_ROUNDS`: 3 by default, after one that isn't
//! counted.

use super::checkpoint::{Ranks, Site};
use crate::Result;
use crate::host::setting;
use crate::kadoop::Kind;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use std::process::Command;

const RANKS: usize = 8;

pub fn run() -> Result<Vec<Row>> {
    let hosts = setting("BENCH_CHECKPOINT_HOSTS", 4)?.max(3);
    let mb = setting("BENCH_CHECKPOINT_ML_MB", 1_000)?;
    let rounds = setting("BENCH_CHECKPOINT_ROUNDS", 3)?.max(1);
    let mut rows = Vec::new();
    for kind in [Kind::Kadoop, Kind::Hdfs] {
        let site = Site::start(kind, hosts)?;
        let library = std::env::current_exe()?.with_file_name("libstrait.so");
        let commands = (0..RANKS).map(|rank| {
            let mut command = Command::new(".venv/bin/python");
            command.arg("bench/clients/checkpoint_ml.py").args([rank.to_string(), RANKS.to_string()]);
            command.arg((mb / RANKS).to_string()).arg(site.uri()).arg(site.mount(rank));
            command.env("PYTHONPATH", "clients/python/src").env("STRAIT_LIBRARY", &library);
            site.enter(rank, &mut command);
            command
        });
        let mut ranks = Ranks::start(commands)?;
        rows.extend(measure(&site, &mut ranks, kind.name(), mb, rounds)?);
    }
    Ok(rows)
}

fn measure(site: &Site, ranks: &mut Ranks, store: &str, mb: usize, rounds: usize) -> Result<Vec<Row>> {
    let (mut one, mut shards, mut joined, mut moved) = (Vec::new(), Vec::new(), Vec::new(), 0.0_f64);
    for round in 0..=rounds {
        eprintln!("{store}: round {round} of {rounds}");
        // Alternate the order, so that neither always finds the other's work unfinished.
        let early = if round % 2 == 0 { Some(together(site, ranks, &mut moved)?) } else { None };
        let wrote = ranks.all("write shard")?;
        let whole = match early {
            Some(seconds) => seconds,
            None => together(site, ranks, &mut moved)?,
        };
        let joining = ranks.first("consolidate")?;
        ranks.first("check")?;
        ranks.first("remove")?;
        if round > 0 {
            one.push(whole);
            shards.push(wrote);
            joined.push(wrote + joining);
        }
    }
    let ratios: Vec<f64> = one.iter().zip(&shards).map(|(one, shards)| one / shards).collect();
    let case = format!("{store}: {RANKS} ranks, one file of {mb} MB; limit: shards");
    let mut row = Row::new(case, "s", Better::Lower, rounds, &Sample::new(one));
    row.limit = Some(Sample::new(shards).median());
    row.ratio_to_limit = Some(Sample::new(ratios).median());
    let row = row.with_peer("shards, joined by safetensors", Sample::new(joined).median());
    let moved = Sample::new(vec![moved / 1e6]);
    let case = format!("{store}: sent by the data hosts while the file was finalized, at most");
    Ok(vec![row, Row::new(case, "MB", Better::Lower, rounds, &moved)])
}

/// Has the ranks write the one file. Returns the seconds until it is complete. Raises `moved` to the number
/// of bytes that the data hosts sent while it was finalized, if that is more.
fn together(site: &Site, ranks: &mut Ranks, moved: &mut f64) -> Result<f64> {
    let wrote = ranks.all("write one")?;
    let before = site.sent()?;
    let finalized = ranks.first("finalize")?;
    *moved = moved.max(site.sent()? - before);
    Ok(wrote + finalized)
}
