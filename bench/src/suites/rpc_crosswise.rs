//! Chains of calls in opposite directions, A→B→C and C→B→A, with more callers than the servers have
//! workers. They mustn't deadlock: a call that times out fails the suite.

use crate::Result;
use crate::host::setting;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use crate::rpc::{Client, OURS, Place, Programs, Server, Slice};
use std::net::SocketAddr;
use std::thread;

/// Number of callers in each direction.
const CALLERS: usize = 64;
const BYTES: usize = 32 << 10;
const MODE: &str = "serial@3";

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let seconds = setting("BENCH_RPC_SECONDS", 60)?;
    let start = || Server::start(&programs, OURS, Place::Anywhere, None);
    let servers = [start()?, start()?, start()?];
    let there: Vec<SocketAddr> = servers.iter().map(|server| server.address).collect();
    let back: Vec<SocketAddr> = there.iter().rev().copied().collect();
    let run = |callees: &[SocketAddr]| -> std::result::Result<Slice, String> {
        Client::start(&programs, OURS, Place::Anywhere, None, callees)
            .and_then(|mut client| client.slice(MODE, BYTES, CALLERS, seconds * 1000, 0))
            .map_err(|error| error.to_string())
    };
    let (there, back) = thread::scope(|scope| {
        let there = scope.spawn(|| run(&there));
        let back = run(&back);
        (there.join().unwrap_or_else(|_| Err("panicked".into())), back)
    });
    let mut rows = Vec::new();
    for (direction, slice) in [("A→B→C", there?), ("C→B→A", back?)] {
        let mut row = |what: &str, unit, better, value| {
            let name = format!("{direction}, callers: {CALLERS}, {seconds} s: {what}");
            rows.push(Row::new(name, unit, better, 1, &Sample::new(vec![value])));
        };
        let mean = slice.calls as f64 / CALLERS as f64;
        row("calls", "1000/s", Better::Higher, slice.calls as f64 / slice.seconds / 1e3);
        row("half take less", "ms", Better::Lower, slice.p50_us / 1e3);
        row("slowest call", "ms", Better::Lower, slice.worst_us / 1e3);
        row("poorest caller's share ÷ mean", "×", Better::Higher, slice.fewest_calls as f64 / mean);
    }
    Ok(rows)
}
