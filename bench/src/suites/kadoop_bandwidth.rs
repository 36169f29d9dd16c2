//! Fig. 9 of the FlexRPC paper: the share of a 1 Gbit/s link that one client's threads use for writing and
//! reading, compared with HDFS and a bare stream. One namenode and six datanodes run on separate hosts. Needs
//! root. One to five threads write files of 64 MiB with three replicas each. Then they read randomly chosen
//! files, from randomly chosen replicas.
//!
//! `BENCH_KADOOP_LINK_FILES`: 8 by default, 100 in the paper. With each system, they take three times their
//! size in memory. `BENCH_KADOOP_LINK_READS`: 16 by default, 1,600 in the paper.
//! `BENCH_KADOOP_LINK_MIB`: a file's size, 64 by default. `BENCH_KADOOP_DIR`, `BENCH_KADOOP_ROUNDS`,
//! `BENCH_KADOOP_CASES`, `BENCH_KADOOP_ALONE`: as in `kadoop-hdfs`.

use crate::Result;
use crate::host::{bare_rate, setting};
use crate::kadoop::rack::{CLIENT, FIRST_DATANODE, network};
use crate::kadoop::{Cluster, Hdfs, Work, contest};
use crate::report::Row;

const DATANODES: usize = 6;
const THREADS: std::ops::RangeInclusive<usize> = 1..=5;
const REPLICATION: u16 = 3;
const FILE: &str = "/file";

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_KADOOP_LINK_MIB", 64)?;
    let files = setting("BENCH_KADOOP_LINK_FILES", 8)?;
    let reads = setting("BENCH_KADOOP_LINK_READS", 16)?;
    let network = network(DATANODES)?;
    let hosts = network.hosts();
    let works = |threads| {
        let write = Work::WriteMany { path: FILE, files, mib, replication: REPLICATION, threads };
        [write, Work::ReadAtRandom { path: FILE, files, reads, threads }]
    };
    let works: Vec<Work> = THREADS.flat_map(works).collect();
    let mut limit = || bare_rate(&hosts[CLIENT], &hosts[FIRST_DATANODE]);
    contest(&mut Cluster::start(hosts)?, || Hdfs::start(hosts), &works, Some(&mut limit))
}
