//! One C program runs against Hadoop's own library and against ours, on a real HDFS.

use crate::common::{compiled, host_and_port, library_in, run};
use std::path::Path;
use std::process::Command;
use strait_testkit::{HadoopLibhdfs, MiniHdfs};

/// Java's library says no more with these two: EIO, and EINTERNAL.
const VAGUE: [&str; 2] = ["errno 5", "errno 255"];

/// Calls whose answers differ, each with the reason (docs/libhdfs.md has them, too).
const DIFFERENT: &[(&str, &str)] =
    &[("hdfsOpenFile(fs, base, 00,", "a directory is EISDIR, and no missing file")];

#[test]
fn both_libraries_give_the_same_answers() {
    let directory = tempfile::tempdir().unwrap();
    let (hdfs, reference) = (MiniHdfs::start().unwrap(), HadoopLibhdfs::find().unwrap());
    let theirs = reference.build_in(directory.path()).unwrap();
    let ours = library_in(directory.path());
    // Built once, against Hadoop's header: ours replaces theirs under it.
    let program = compiled(directory.path(), "answers", &reference.include(), &ours);
    let local = directory.path().join("local");
    std::fs::write(&local, [7; 1234]).unwrap();
    let (host, port) = host_and_port(hdfs.uri());
    let scratch = hdfs.scratch("libhdfs");
    let answers = |lib: &Path| {
        let environment = hdfs.environment();
        let classpath = environment.iter().find(|(name, _)| name.ends_with("CLASSPATH")).unwrap().1;
        run(Command::new(&program)
            .args([host, port, &scratch])
            .arg(&local)
            .env("LD_LIBRARY_PATH", lib)
            .env("LIBHDFS_OPTS", "-Xmx256m")
            .env("CLASSPATH", classpath))
    };
    let (wanted, got) = (answers(&theirs), answers(&ours));
    if let Some(kept) = std::env::var_os("LIBHDFS_ANSWERS") {
        let kept = Path::new(&kept);
        std::fs::write(kept.join("theirs"), &wanted).unwrap();
        std::fs::write(kept.join("ours"), &got).unwrap();
    }
    assert_eq!(wanted.lines().count(), got.lines().count(), "{wanted}\n---\n{got}");
    let same = |wanted: &str, got: &str| {
        let vague =
            VAGUE.iter().any(|errno| wanted.strip_suffix(errno).is_some_and(|call| got.starts_with(call)));
        wanted == got
            || vague
            || DIFFERENT.iter().any(|(call, _)| wanted.contains(call) && got.contains(call))
    };
    let pairs = wanted.lines().zip(got.lines());
    let differences: Vec<_> = pairs.clone().filter(|(wanted, got)| !same(wanted, got)).collect();
    assert!(differences.is_empty(), "{differences:#?}");
    let unused = DIFFERENT
        .iter()
        .filter(|(call, _)| !pairs.clone().any(|(wanted, got)| wanted != got && wanted.contains(call)));
    assert_eq!(unused.count(), 0, "a difference is gone");
}
