//! A Python program reads a large file from a real HDFS through the gateway. The limit is Hadoop's own shell,
//! the usual way today. Measures whole processes.

use crate::Result;
use crate::host::{Gateway, make_file, seconds, setting};
use crate::pairs::interleave;
use crate::report::{Better, Row};
use std::process::Command;
use strait_testkit::{MiniHdfs, Options};

const RUNS: usize = 5;

pub fn run() -> Result<Vec<Row>> {
    let mib = setting("STRAIT_BENCH_MIB", 1_024)?;
    let hdfs = MiniHdfs::start_own(&Options::measured())?;
    let dir = tempfile::tempdir()?;
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    make_file(&source, mib)?;
    let remote = format!("{}/large", hdfs.scratch("bench"));
    hdfs.shell(&["-mkdir", "-p", remote.trim_end_matches("/large")])?;
    hdfs.shell(&["-put", "-f", &source.display().to_string(), &remote])?;

    let gateway = Gateway::start(hdfs.uri())?;
    let uri = format!("strait://{}{remote}", gateway.address);
    let mut ours = || {
        let _ = std::fs::remove_file(&target);
        seconds(Command::new(".venv/bin/python").args(["-m", "strait", "get", &uri]).arg(&target))
    };
    let theirs = || {
        let _ = std::fs::remove_file(&target);
        let mut java = Command::new("java");
        java.args(["-cp", hdfs.classpath(), "org.apache.hadoop.fs.FsShell"]);
        java.args(["-fs", hdfs.uri(), "-get", &remote]).arg(&target);
        seconds(&mut java)
    };
    let pair = interleave(RUNS, &mut ours, theirs)?;
    ours()?;
    if std::fs::read(&source)? != std::fs::read(&target)? {
        return Err("the copied file differs from the original".into());
    }
    let case = format!("{mib} MiB from HDFS, whole process; limit: FsShell -get");
    Ok(vec![Row::of_pair(case, "s", Better::Lower, RUNS, &pair)])
}
