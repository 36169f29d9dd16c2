//! Fig. 9 of the FlexRPC paper: the share of a 1 Gbit/s link that several threads use for reading
//! and writing, beside HDFS and a bare stream. A client, a namenode and three datanodes, each on a
//! host of its own; needs root.
//!
//! `BENCH_KADOOP_LINK_MIB`: a file's size, 256 by default. `BENCH_KADOOP_DIR`,
//! `BENCH_KADOOP_ROUNDS`, `BENCH_KADOOP_CASES`, `BENCH_KADOOP_ALONE`: as in `kadoop-hdfs`.

use crate::Result;
use crate::host::{bare_rate, setting};
use crate::kadoop::{Cluster, DATANODES, Hdfs, Work, contest};
use crate::report::Row;
use strait_testkit::{LinkRate, Network};

/// The paper's network.
const LINK: LinkRate = LinkRate::mbit(1_000);
/// Jumbo frames: the links should be the limit, not the cores that simulate them.
const PACKET_BYTES: u32 = 9_000;
const FILE: &str = "/file";

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_KADOOP_LINK_MIB", 256)?;
    let network = Network::start(2 + DATANODES, Some(LINK))?;
    network.set_packet_bytes(PACKET_BYTES)?;
    let hosts = network.hosts();
    let write = |threads| Work::Write { path: FILE, mib, replication: 3, threads };
    let read = |threads| Work::Read { path: FILE, threads, times: 1 };
    let works = [write(1), read(1), write(2), read(2)];
    let mut limit = || bare_rate(&hosts[0], &hosts[2]);
    contest(&mut Cluster::start(hosts)?, || Hdfs::start(hosts), &works, Some(&mut limit))
}
