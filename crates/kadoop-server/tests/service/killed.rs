//! Processes are killed at random moments, as by `kill -9`, under writers and readers.

use crate::{
    load::Load,
    rack::{DATANODES, Rack, Shape},
    support::DEADLINE,
};
use std::{ops::Range, time::Duration};
use strait_testkit::wait::pause;

/// Rounds of killing.
const KILLS: Range<u64> = 0..4;
/// `200`: the rounds from 0 to 199; `50..100`: only these.
const VARIABLE: &str = "KADOOP_KILLS";

fn rounds() -> Range<u64> {
    let Ok(text) = std::env::var(VARIABLE) else { return KILLS };
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("{VARIABLE}: {text:?} is no number"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&text),
    }
}

/// Random enough, and the same for a round on every machine (Knuth's multiplier).
fn random(round: u64) -> u64 {
    (round + 1).wrapping_mul(6_364_136_223_846_793_005) >> 33
}

#[test]
fn no_synced_byte_is_lost_however_processes_are_killed() {
    let mut rack = Rack::start(&Shape::default()).unwrap();
    let load = rack.at_client(|| Load::start(&rack.client));
    let rounds = rounds();
    for round in rounds.clone() {
        pause("the load goes on", Duration::from_millis(400 + random(round) % 600));
        match (random(round) / 1_000) as usize % (DATANODES + 1) {
            0 => rack.namenode.kill_and_start(),
            number => rack.datanodes[number - 1].kill_and_start(),
        }
    }
    load.goes_on_for(1, DEADLINE);
    let done = load.end();
    rack.at_client(|| done.demand_every_byte(&rack.client));
    rack.wait_until_whole(&done.files);
    let (files, bytes, reads, failed) = (done.files.len(), done.bytes(), done.reads, done.failures.len());
    println!("kills {rounds:?}: {files} files, {bytes} bytes, {reads} read, {failed} failed");
    for failure in &done.failures {
        println!("  {failure}");
    }
}
