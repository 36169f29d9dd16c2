//! The cost of ten thousand idle clients for a server, and for a hundred busy clients.

use crate::Result;
use crate::host::{setting, status};
use crate::pairs::{Sample, interleave};
use crate::report::{Better, Row};
use crate::rpc::{Client, OURS, Place, Programs, Server};

/// Thousands of idle clients: each caller of the mode `other-clients` represents a thousand.
const IDLE_THOUSANDS: usize = 10;
const BUSY: usize = 100;
const MILLISECONDS: usize = 300;

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let rounds = setting("BENCH_RPC_ROUNDS", 15)?;
    let idle = setting("BENCH_RPC_IDLE_THOUSANDS", IDLE_THOUSANDS)?;
    let start = || -> Result<(Server, Client)> {
        let server = Server::start(&programs, OURS, Place::Anywhere, None)?;
        let client = Client::start(&programs, OURS, Place::Anywhere, None, &[server.address])?;
        Ok((server, client))
    };
    let (crowded, mut beside) = start()?;
    let (_empty, mut alone) = start()?;
    let before = status(crowded.id(), "VmRSS:")?;
    let mut others = Client::start(&programs, OURS, Place::Anywhere, None, &[crowded.address])?;
    others.slice("other-clients", 0, idle, 0, 0)?;
    let after = status(crowded.id(), "VmRSS:")?;

    let p50 = |client: &mut Client| Ok(client.slice("tcp", 0, BUSY, MILLISECONDS, 0)?.p50_us);
    let pair = interleave(rounds, || p50(&mut beside), || p50(&mut alone))?;
    let one = |case: String, unit, value| Row::new(case, unit, Better::Lower, 1, &Sample::new(vec![value]));
    let connected = idle * 1000;
    Ok(vec![
        Row::of_pair(
            format!("{BUSY} busy beside {connected} idle; limit: alone"),
            "µs",
            Better::Lower,
            rounds,
            &pair,
        ),
        one(format!("memory of {connected} idle"), "KiB each", (after - before) / connected as f64),
        one("memory, busy".into(), "MiB", status(crowded.id(), "VmHWM:")? / 1024.0),
        one("threads, busy".into(), "", status(crowded.id(), "Threads:")?),
    ])
}
