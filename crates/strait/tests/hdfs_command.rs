//! The command on a real HDFS.

use crate::support::below;
use crate::support::{Run, command};
use std::ffi::OsStr;
use strait_testkit::MiniHdfs;

const INVALID_ARGUMENT: i32 = 17;

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
fn a_refused_put_names_its_target_and_not_its_temporary_file() {
    let hdfs = MiniHdfs::start().unwrap();
    let (directory, uri) = directory(&hdfs);
    let put = strait(&["put", "--replication", "600", "-", &uri("/f")], b"x");
    put.fails(INVALID_ARGUMENT, &format!("exceeds maximum of 512 for {directory}/f"));
    let reserved = strait(&["put", "-", &format!("{}/.reserved/f", hdfs.uri())], b"x");
    reserved.fails(INVALID_ARGUMENT, "/.reserved/f");
    for run in [put, reserved] {
        assert!(!run.stderr.contains(".strait-put-"), "{}", run.stderr);
    }
}

#[test]
fn targets_below_a_file_are_refused() {
    let hdfs = MiniHdfs::start().unwrap();
    below::are_refused(|args, input| strait(args, input), directory(&hdfs).1);
}

#[test]
fn blocks_are_as_large_as_their_number_with_a_unit_says() {
    let hdfs = MiniHdfs::start().unwrap();
    let (_, uri) = directory(&hdfs);
    for (name, size, bytes) in [("/a", "2m", "2097152"), ("/b", "64KiB", "65536"), ("/c", "1024", "1024")] {
        strait(&["put", "--block-size", size, "-", &uri(name)], b"x").ok();
        assert_eq!(strait(&["stat", "--format", "%o", &uri(name)], b"").text().trim_end(), bytes, "{size}");
    }
}

#[test]
fn a_uri_without_a_namenode_is_in_hadoops_default_store() {
    let hdfs = MiniHdfs::start().unwrap();
    let (directory, uri) = directory(&hdfs);
    let short = |path: &str| format!("hdfs://{directory}{path}");
    let configured = |args: &[&str], input: &[u8]| {
        with(&[("HADOOP_CONF_DIR", hdfs.configuration().as_os_str())], args, input)
    };
    configured(&["put", "-", &short("/f")], b"content").ok();
    assert_eq!(configured(&["cat", &short("/[f]")], b"").text(), "content");
    assert_eq!(strait(&["cat", &uri("/f")], b"").text(), "content");
    // Both name one store.
    configured(&["mv", &short("/f"), &uri("/g")], b"").ok();
    assert_eq!(configured(&["ls", "-C", &short("")], b"").text(), format!("{directory}/g\n"));
    // A host of `run` needs no configuration of its own.
    let plan = configured(&["run", "--launcher", "local", "--dry-run", &short("/g"), "--", "cat"], b"");
    assert!(plan.text().contains(&uri("/g")), "{}", plan.text());
    strait(&["ls", &short("")], b"").fails(INVALID_ARGUMENT, "fs.defaultFS");
    // As Hadoop's own tools.
    let cat = hdfs.shell(&["-cat", &short("/g")]).unwrap();
    assert_eq!(cat.stdout, b"content");
}
