//! Reads on a datanode's host, directly from the files that the datanode lends, compared with the same reads
//! over TCP. The data is in memory.
//!
//! `BENCH_KADOOP_MIB`: a file's size, 256 by default. `BENCH_KADOOP_DIR`,
//! `BENCH_KADOOP_ROUNDS`: as in `kadoop-hdfs`.

use crate::Result;
use crate::host::setting;
use crate::kadoop::{Cluster, System as _, Work, short_circuit};
use crate::report::Row;

const PREADS: usize = 20_000;
const SMALL_FILES: usize = 100;
const THREADS: usize = 4;

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_KADOOP_MIB", 256)?;
    let (path, directory) = ("/file", "/small");
    let mut cluster = Cluster::start(&[])?;
    cluster.measure(&Work::Write { path, mib, replication: 1, threads: THREADS }, 0)?;
    let works = [
        Work::Read { path, threads: 1, times: 1 },
        Work::Read { path, threads: THREADS, times: 1 },
        Work::Preads { path, count: PREADS },
        Work::OpenAndRead { directory, count: SMALL_FILES },
    ];
    short_circuit(&mut cluster, &Work::SmallFiles { directory, count: SMALL_FILES }, &works)
}
