//! Kadoop compared with a real HDFS and its Java client, on loopback, each with three datanodes: bytes, small
//! files, names. Both sync their log before an answer, and a file when it is closed. The data is in memory,
//! so syncs cost a system call, but no time of a disk.
//!
//! `BENCH_KADOOP_DIR`: a directory for the data, instead of memory. `BENCH_KADOOP_MIB`: a file's size,
//! 256 by default. `BENCH_KADOOP_MS`: milliseconds for which each call about names is repeated, 500
//! by default. `BENCH_KADOOP_ROUNDS`: 5 by default. `BENCH_KADOOP_CASES`: parts of the names of the
//! measured cases, separated by semicolons. `BENCH_KADOOP_ALONE`: if set, only Kadoop is measured.

use crate::Result;
use crate::host::setting;
use crate::kadoop::{Cluster, Hdfs, Operation, Work, contest};
use crate::report::Row;

/// Number of reads in each round. One read takes a tenth of a second, in which either system may still be
/// removing older files. The JVM is still getting faster at its fifth read.
const READS: usize = 5;
const PREADS: usize = 2_000;
const SMALL_FILES: usize = 100;
const THREADS: [usize; 2] = [1, 16];

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("BENCH_KADOOP_MIB", 256)?;
    let milliseconds = setting("BENCH_KADOOP_MS", 500)?;
    let (single, threefold) = ("/write-1", "/write-3");
    let mut works = vec![
        Work::Write { path: single, mib, replication: 1, threads: 1 },
        Work::Write { path: threefold, mib, replication: 3, threads: 1 },
        Work::Read { path: single, threads: 1, times: READS },
        Work::Preads { path: single, count: PREADS },
        Work::SmallFiles { directory: "/small", count: SMALL_FILES },
    ];
    for threads in THREADS {
        works.extend(Operation::ALL.map(|operation| Work::Calls { operation, threads, milliseconds }));
    }
    contest(&mut Cluster::start(&[])?, || Hdfs::start(&[]), &works, None)
}
