//! Fig. 7 and 8 of the FlexRPC paper: the effective bandwidth of multicasts over links of 1 Gbit/s. An
//! argument counts once, although it goes to several callees. The limit for parallel multicasts is a single
//! call with bare sockets. For chains, it is a chain of relays that only forward bytes.

use crate::Result;
use crate::host::setting;
use crate::pairs::Sample;
use crate::report::{Better, Row};
use crate::rpc::{BARE, Case, Contest, Entry, LIBTIRPC, OURS, Programs, Slice, Slices, size};
use strait_testkit::{LinkRate, Network};

/// Number of hosts, including the caller's, as in the paper.
const HOSTS: usize = 8;
const LINK: LinkRate = LinkRate::mbit(1_000);
/// Jumbo frames, so that the links are the limit, and not the cores that simulate them.
const PACKET_BYTES: u32 = 9_000;
const MILLISECONDS: usize = 80;
/// Sizes of the argument in fig. 7, which goes to three callees.
const SIZES: [usize; 6] = [1 << 10, 4 << 10, 16 << 10, 60 << 10, 256 << 10, 1 << 20];
const UDP_MOST: usize = 60 << 10;
/// Size of the argument in fig. 8.
const BYTES: usize = 32 << 10;
const MOST_CALLERS: usize = 10;
const MOST_CALLEES: usize = 7;
/// Number of callers at which the paper compares chain and parallel.
const COMPARED_CALLERS: usize = 4;
const PAPER_RATIO: f64 = 2.6;
/// Size of the argument for the longest chain, whose bandwidth is compared with a single call's.
const LONG_CHAIN_BYTES: usize = 1 << 20;

const PARALLEL: &str = "parallel";

pub fn run() -> Result<Vec<Row>> {
    let programs = Programs::build()?;
    let rounds = setting("BENCH_RPC_ROUNDS", 7)?;
    let network = Network::start(HOSTS, Some(LINK))?;
    network.set_packet_bytes(PACKET_BYTES)?;
    let mut contest = Contest::on_hosts(&programs, network.hosts(), &[BARE, OURS, LIBTIRPC])?;
    let case = Case { bytes: BYTES, callers: 1, gap_us: 0, milliseconds: MILLISECONDS, rounds };
    let mut rows = Vec::new();

    eprintln!("three callees");
    for bytes in SIZES {
        let case = Case { bytes, ..case };
        if bytes <= UDP_MOST {
            let entries = [
                Entry { name: BARE, system: BARE, mode: "udp" },
                Entry { name: OURS, system: OURS, mode: "parallel-udp@3" },
                Entry { name: LIBTIRPC, system: LIBTIRPC, mode: "udp@3" },
            ];
            let slices = contest.run(case, &entries)?;
            rows.push(row(&slices, format!("parallel, udp {} to 3", size(bytes)), bytes)?);
        }
        let entries = [
            Entry { name: BARE, system: BARE, mode: "tcp" },
            Entry { name: OURS, system: OURS, mode: "parallel-tcp@3" },
            Entry { name: LIBTIRPC, system: LIBTIRPC, mode: "tcp@3" },
        ];
        let slices = contest.run(case, &entries)?;
        rows.push(row(&slices, format!("parallel, tcp {} to 3", size(bytes)), bytes)?);
        let slices = contest.run(case, &chain_and_parallel("serial@3", "parallel-tcp@3"))?;
        rows.push(row(&slices, format!("chain, tcp {} to 3", size(bytes)), bytes)?);
    }

    eprintln!("one to {MOST_CALLERS} callers");
    for callers in 1..=MOST_CALLERS {
        let case = Case { callers, ..case };
        let slices = contest.run(case, &chain_and_parallel("serial@3", "parallel-tcp@3"))?;
        rows.push(row(&slices, format!("chain, tcp {} to 3, callers: {callers}", size(BYTES)), BYTES)?);
        if callers == COMPARED_CALLERS {
            rows.push(chain_to_parallel(&slices)?);
        }
    }

    eprintln!("one to {MOST_CALLEES} callees");
    for degree in 1..=MOST_CALLEES {
        let (serial, parallel) = (format!("serial@{degree}"), format!("parallel-tcp@{degree}"));
        let slices = contest.run(case, &chain_and_parallel(&serial, &parallel))?;
        rows.push(row(&slices, format!("chain, tcp {} to {degree}", size(BYTES)), BYTES)?);
    }
    let case = Case { bytes: LONG_CHAIN_BYTES, ..case };
    let chain = format!("serial@{MOST_CALLEES}");
    let entries =
        [Entry { name: BARE, system: OURS, mode: "tcp" }, Entry { name: OURS, system: OURS, mode: &chain }];
    let slices = contest.run(case, &entries)?;
    let name = format!("chain, tcp {} to {MOST_CALLEES}; limit: our single call", size(LONG_CHAIN_BYTES));
    rows.push(row(&slices, name, LONG_CHAIN_BYTES)?);
    Ok(rows)
}

/// Bare sockets by a chain, and FlexRPC by a chain and in parallel.
fn chain_and_parallel<'a>(chain: &'a str, parallel: &'a str) -> [Entry<'a>; 3] {
    [
        Entry { name: BARE, system: BARE, mode: chain },
        Entry { name: OURS, system: OURS, mode: chain },
        Entry { name: PARALLEL, system: OURS, mode: parallel },
    ]
}

/// The effective bandwidth in MB/s.
fn effective(bytes: usize) -> impl Fn(&Slice) -> f64 {
    move |slice| slice.calls as f64 * bytes as f64 / slice.seconds / 1e6
}

fn row(slices: &Slices, case: String, bytes: usize) -> Result<Row> {
    slices.row(case, "MB/s", Better::Higher, effective(bytes))
}

/// A row with the median of the rounds' ratios; the limit is the paper's ratio.
fn chain_to_parallel(slices: &Slices) -> Result<Row> {
    let figures = |name| slices.figures(name, effective(BYTES)).ok_or("FlexRPC didn't take part");
    let ratios: Vec<f64> =
        figures(OURS)?.iter().zip(figures(PARALLEL)?).map(|(chain, parallel)| chain / parallel).collect();
    let name = format!("chain ÷ parallel, tcp {} to 3, callers: {COMPARED_CALLERS}", size(BYTES));
    Ok(Row::new(name, "×", Better::Higher, ratios.len(), &Sample::new(ratios)).with_limit(PAPER_RATIO))
}
