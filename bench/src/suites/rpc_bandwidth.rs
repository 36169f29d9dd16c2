//! Fig. 5 and 6 of the FlexRPC paper: the bandwidth of single calls over a link of 1 Gbit/s, with one caller
//! and with several. Also with four callers on loopback, where no link limits the system.

use crate::Result;
use crate::host::setting;
use crate::report::{Better, Row};
use crate::rpc::{BARE, Case, Contest, LIBTIRPC, OURS, Place, Programs, Slice, TCP_PEERS, size};
use strait_testkit::{LinkRate, Network};

/// The rate of the links in the paper's network.
const LINK: LinkRate = LinkRate::mbit(1_000);
/// Jumbo frames, so that the links are the limit, and not the cores that simulate them.
const PACKET_BYTES: u32 = 9_000;
const UDP_SIZES: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 60 << 10];
const TCP_SIZES: [usize; 6] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Fig. 6.
const CALLERS_BYTES: usize = 16 << 10;
const MOST_CALLERS: usize = 6;
/// A call of 1 MB takes 9 ms at 1 Gbit/s.
const LINK_MILLISECONDS: usize = 100;
const LOOPBACK_CALLERS: usize = 4;
const LOOPBACK_UDP: [usize; 3] = [0, 16 << 10, 60 << 10];
const LOOPBACK_TCP: [usize; 4] = [0, 16 << 10, 64 << 10, 1 << 20];

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let rounds = setting("BENCH_RPC_ROUNDS", 9)?;
    let everyone = [&[BARE, OURS][..], &TCP_PEERS].concat();
    let with_udp = [BARE, OURS, LIBTIRPC];
    let mut rows = Vec::new();

    let network = Network::start(2, Some(LINK))?;
    network.set_packet_bytes(PACKET_BYTES)?;
    let mut contest = Contest::on_hosts(&programs, network.hosts(), &everyone)?;
    for (mode, sizes, systems) in [("udp", &UDP_SIZES[..], &with_udp[..]), ("tcp", &TCP_SIZES, &everyone)] {
        eprintln!("{mode} at 1 Gbit/s");
        let cases =
            sizes.iter().map(|bytes| (*bytes, 1)).chain((2..=MOST_CALLERS).map(|n| (CALLERS_BYTES, n)));
        for (bytes, callers) in cases {
            let case = Case { bytes, callers, gap_us: 0, milliseconds: LINK_MILLISECONDS, rounds };
            let slices = contest.run_alike(case, mode, systems)?;
            let megabytes = |slice: &Slice| slice.calls as f64 * bytes as f64 / slice.seconds / 1e6;
            let name = format!("{mode} {}, 1 Gbit/s, callers: {callers}", size(bytes));
            rows.push(slices.row(name, "MB/s", Better::Higher, megabytes)?);
        }
    }
    drop(contest);

    let milliseconds = setting("BENCH_RPC_SLICE_MS", 50)?;
    let mut contest = Contest::on_loopback(&programs, Place::Anywhere, &everyone)?;
    for (mode, sizes, systems) in
        [("udp", &LOOPBACK_UDP[..], &with_udp[..]), ("tcp", &LOOPBACK_TCP, &everyone)]
    {
        eprintln!("{mode} on loopback");
        for &bytes in sizes {
            let case = Case { bytes, callers: LOOPBACK_CALLERS, gap_us: 0, milliseconds, rounds };
            let slices = contest.run_alike(case, mode, systems)?;
            let name = format!("{mode} {}, loopback, callers: {LOOPBACK_CALLERS}", size(bytes));
            let rate = |slice: &Slice| slice.calls as f64 / slice.seconds / 1e3;
            rows.push(slices.row(name, "1000/s", Better::Higher, rate)?);
        }
    }
    Ok(rows)
}
