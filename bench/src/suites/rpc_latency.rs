//! Fig. 4 of the FlexRPC paper: the latency of single calls with an empty result, over both transports,
//! compared with bare sockets and peers. In three placements: on which CPUs client and server run matters
//! more than their work. Also the CPU time of a call, and of an idle server.

use crate::Result;
use crate::host::setting;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use crate::rpc::{
    BARE, Case, Client, Contest, LIBTIRPC, OURS, OtherWork, Place, Programs, Server, Slice, Slices,
    TCP_PEERS, size,
};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The paper's sizes, and the largest that a datagram can carry.
const UDP_SIZES: [usize; 7] = [0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 60 << 10];
const TCP_SIZES: [usize; 8] = [0, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Sizes for which the suite reports CPU time.
const CPU_SIZES: [usize; 4] = [0, 16 << 10, 64 << 10, 1 << 20];
/// Pause between calls of a caller that also has other work.
const GAP_US: usize = 300;
const GAP_MILLISECONDS: usize = 60;
const GAP_SIZES: [usize; 2] = [0, 16 << 10];
/// Duration of a slice on the busy CPU, where each time slice of the other program takes some milliseconds.
const BUSY_MILLISECONDS: usize = 100;
/// Number of connections of the idle server.
const IDLE_CONNECTIONS: usize = 100;
const SETTLE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(2);
/// Bound of the idle server's CPU use, in percent of a core.
const IDLE_BOUND: f64 = 1.0;

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let rounds = setting("BENCH_RPC_ROUNDS", 11)?;
    let milliseconds = setting("BENCH_RPC_SLICE_MS", 25)?;
    let mut rows = Vec::new();
    for place in Place::ALL {
        eprintln!("calls, {}", place.name());
        let everyone = [&[BARE, OURS][..], &TCP_PEERS].concat();
        let mut contest = Contest::on_loopback(&programs, place, &everyone)?;
        for (mode, sizes, systems) in
            [("udp", &UDP_SIZES[..], &[BARE, OURS, LIBTIRPC][..]), ("tcp", &TCP_SIZES, &everyone)]
        {
            for &bytes in sizes {
                let case = Case { bytes, callers: 1, gap_us: 0, milliseconds, rounds };
                let slices = contest.run_alike(case, mode, systems)?;
                let name = format!("{mode} {}, {}", size(bytes), place.name());
                rows.push(slices.row(name.clone(), "µs", Better::Lower, |slice| slice.p50_us)?);
                if CPU_SIZES.contains(&bytes) {
                    rows.push(cpu_row(&slices, format!("{name}: CPU"))?);
                }
            }
            for bytes in GAP_SIZES {
                let case = Case { bytes, callers: 1, gap_us: GAP_US, milliseconds: GAP_MILLISECONDS, rounds };
                let name = format!("{mode} {}, {}, every {GAP_US} µs", size(bytes), place.name());
                let slices = contest.run_alike(case, mode, &[BARE, OURS])?;
                rows.push(slices.row(name, "µs", Better::Lower, |slice| slice.p50_us)?);
            }
        }
    }
    rows.extend(busy(&programs, rounds)?);
    rows.push(idle(&programs)?);
    Ok(rows)
}

/// Measures calls on a CPU that another program also uses, so that a caller that spins uses up its time
/// slice. Reports the mean, which includes the calls that wait for the other program.
fn busy(programs: &Programs, rounds: usize) -> Result<Vec<Row>> {
    let _others = OtherWork::start(Place::Same)?;
    let mut contest = Contest::on_loopback(programs, Place::Same, &[BARE, OURS])?;
    let mut rows = Vec::new();
    for mode in ["udp", "tcp"] {
        let case = Case { bytes: 0, callers: 1, gap_us: 0, milliseconds: BUSY_MILLISECONDS, rounds };
        let slices = contest.run_alike(case, mode, &[BARE, OURS])?;
        let mean = |slice: &Slice| slice.seconds * 1e6 / slice.calls as f64;
        rows.push(slices.row(format!("{mode} 0 B, one busy CPU, mean"), "µs", Better::Lower, mean)?);
    }
    Ok(rows)
}

/// CPU time of a call, of client and server together. Not for peers: the time of threads that have ended with
/// their connection isn't readable.
fn cpu_row(slices: &Slices, name: String) -> Result<Row> {
    let micros = |slice: &Slice| slice.cpu_seconds * 1e6 / slice.calls as f64;
    Ok(Row { peers: BTreeMap::new(), ..slices.row(name, "µs", Better::Lower, micros)? })
}

/// Measures the CPU use of a server with connections but without calls.
fn idle(programs: &Programs) -> Result<Row> {
    let server = Server::start(programs, OURS, Place::Anywhere, None)?;
    let mut client = Client::start(programs, OURS, Place::Anywhere, None, &[server.address])?;
    client.slice("tcp", 0, IDLE_CONNECTIONS, 1, 0)?;
    std::thread::sleep(SETTLE);
    let mut shares = Vec::new();
    for _ in 0..3 {
        let (cpu, start) = (server.cpu()?, Instant::now());
        std::thread::sleep(IDLE);
        let used = server.cpu()?.saturating_sub(cpu);
        shares.push(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64());
    }
    let name = format!("idle server, {IDLE_CONNECTIONS} connections");
    Ok(Row::new(name, "% core", Better::Lower, shares.len(), &Sample::new(shares)).with_limit(IDLE_BOUND))
}
