//! The command on a real HDFS.

#[path = "support/below.rs"]
mod below;
mod support;

use std::ffi::OsStr;
use strait_testkit::MiniHdfs;
use support::{Run, command};

/// Runs a command line without Hadoop's configuration.
fn strait<A: AsRef<OsStr>>(args: &[A], input: &[u8]) -> Run {
    with(&[], args, input)
}

fn with<A: AsRef<OsStr>>(environment: &[(&str, &OsStr)], args: &[A], input: &[u8]) -> Run {
    let home = tempfile::tempdir().unwrap();
    let mut strait = command(home.path());
    strait.env_remove("HADOOP_CONF_DIR").env_remove("HADOOP_HOME").envs(environment.iter().copied());
    strait.args(args);
    Run::of(strait, input)
}

/// An empty directory, and the function that makes its paths URIs.
fn directory(hdfs: &MiniHdfs) -> (String, impl Fn(&str) -> String) {
    let directory = hdfs.scratch("command");
    let root = format!("{}{directory}", hdfs.uri());
    strait(&["mkdir", &root], b"").ok();
    (directory, move |path: &str| format!("{root}{path}"))
}

#[test]
fn targets_below_a_file_are_refused() {
    let hdfs = MiniHdfs::start().unwrap();
    below::are_refused(|args, input| strait(args, input), directory(&hdfs).1);
}
