//! Calls of C programs, by the installed library and frpcgen's stubs at both ends, beside the same calls
//! in Rust, which sends and takes plain bytes, and in C by libtirpc with rpcgen's stubs. In the placements
//! of `rpc-latency`, over both transports.

use crate::Result;
use crate::host::setting;
use crate::report::{Better, Row};
use crate::rpc::{BARE, Case, Contest, Entry, LIBTIRPC, OURS, OURS_IN_C, Place, Programs, size};

const UDP_SIZES: [usize; 3] = [0, 1 << 10, 16 << 10];
const TCP_SIZES: [usize; 5] = [0, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let rounds = setting("BENCH_RPC_ROUNDS", 21)?;
    let milliseconds = setting("BENCH_RPC_SLICE_MS", 25)?;
    let mut rows = Vec::new();
    for place in Place::ALL {
        eprintln!("calls, {}", place.name());
        let mut contest = Contest::on_loopback(&programs, place, &[OURS, OURS_IN_C, LIBTIRPC])?;
        for (mode, sizes) in [("udp", &UDP_SIZES[..]), ("tcp", &TCP_SIZES)] {
            for &bytes in sizes {
                let case = Case { bytes, callers: 1, gap_us: 0, milliseconds, rounds };
                let of = |name, system| Entry { name, system, mode };
                let entries = [of(BARE, OURS), of(OURS, OURS_IN_C), of(LIBTIRPC, LIBTIRPC)];
                let name = format!("{mode} {}, {}; limit: in Rust", size(bytes), place.name());
                let slices = contest.run(case, &entries)?;
                rows.push(slices.row(name, "µs", Better::Lower, |slice| slice.p50_us)?);
            }
        }
    }
    Ok(rows)
}
