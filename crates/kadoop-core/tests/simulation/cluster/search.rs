//! Runs of many seeds, and the search for seeds that notice the planted faults.
//!
//! `KADOOP_SIM_SEEDS` sets the number of seeds, `KADOOP_SIM_FIRST` the first one, `KADOOP_SIM_SEED` a
//! single one. `KADOOP_SIM_TRACE` logs all events.

use super::{noticed::NOTICED, run};
use std::{
    fmt::Write as _,
    fs,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};
use strait_kadoop_core::faults::Fault;

/// Number of seeds within which every fault is noticed.
pub const ENOUGH_SEEDS: u64 = 100_000;
/// Most failing seeds that a run collects.
pub const MOST_FAILURES: usize = 10;

/// Faults that need a moment which no schedule has produced yet. Separate tests notice them.
pub const ALONE: &[Fault] = &[
    // The numbers' random part prevents harm, too, in all schedules so far.
    Fault::AdmittedBelow,
    // The writer counts its replicas, too.
    Fault::DurableOnce,
    // It takes a lost machine, and another that has restarted without the chunk.
    Fault::GoneAwaited,
    // All users here have all rights.
    Fault::SurveyedOnce,
    // A heartbeat brings the same orders, only later.
    Fault::NobodyRoused,
    Fault::OldFlushBelieved,
    Fault::PlaceTrusted,
    Fault::SealTrusted,
    Fault::FormerRunBelieved,
    // A datanode that begins another session reports almost the same again.
    Fault::FormerReportContinued,
    Fault::ReportUnchecked,
    Fault::DamageToldLate,
    Fault::WrittenForgotten,
    Fault::FormerRunOverrules,
    // Its only seed failed without it, too.
    Fault::RecordsForgotten,
];

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The seeds that fail, each with its reason: the first few that `threads` find.
pub fn failing(
    first: u64,
    seeds: u64,
    threads: usize,
    most: usize,
    fault: Option<Fault>,
) -> Vec<(u64, String)> {
    let (next, enough) = (AtomicU64::new(first), AtomicBool::new(false));
    let search = || {
        let mut failed = Vec::new();
        while !enough.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                break;
            }
            if let Err(error) = run(seed, fault) {
                failed.push((seed, error));
                enough.fetch_or(failed.len() >= most, Ordering::Relaxed);
            }
        }
        failed
    };
    let mut failed: Vec<(u64, String)> = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|_| scope.spawn(search)).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a run panicked")).collect()
    });
    failed.sort();
    failed
}

/// Writes `noticed.rs` anew, on all cores: keeps each seed that still notices its fault, and searches
/// the first one for all others. Run it after changes to the cores or to the simulation:
/// `cargo test --release --locked --workspace --test simulation -- --ignored --nocapture
/// every_fault`. `KADOOP_SIM_FAULT` names the faults to search for; then the table stays as it is.
pub fn search() {
    let seeds = number("KADOOP_SIM_SEEDS").unwrap_or(ENOUGH_SEEDS);
    let named = std::env::var("KADOOP_SIM_FAULT").ok();
    let mut rows = String::new();
    let mut unnoticed = Vec::new();
    for fault in Fault::ALL {
        let name = format!("{fault:?}");
        if named.as_ref().map_or(ALONE.contains(fault), |named| !name.contains(named)) {
            continue;
        }
        let known = NOTICED.iter().find(|(known, _)| known == fault).map_or(0, |(_, seed)| *seed);
        let mut found = failing(known, 1, 1, 1, Some(*fault));
        if found.is_empty() || named.is_some() {
            found = failing(0, seeds, cores(), 1, Some(*fault));
        }
        match found.first() {
            Some((seed, why)) => {
                eprintln!("{name}: seed {seed}: {why:.150}");
                let _ = writeln!(rows, "    (Fault::{name}, {seed}),");
            }
            None => unnoticed.push(name),
        }
    }
    if named.is_none() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/simulation/cluster/noticed.rs");
        let text = fs::read_to_string(path).expect("the table");
        let head = text.split_inclusive("= &[\n").next().expect("its head");
        fs::write(path, format!("{head}{rows}];\n")).expect("the table");
    }
    assert!(unnoticed.is_empty(), "not noticed within {seeds} seeds: {unnoticed:?}");
}
