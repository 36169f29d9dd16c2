//! Threads, and forked children, on each kind of store.

#[path = "../../store-kadoop/tests/kadoop_cluster/mod.rs"]
mod kadoop_cluster;

use crate::common::{compiled, host_and_port, library_in, run, sources};
use kadoop_cluster::{Cluster, SUPERUSER};
use std::path::Path;
use std::process::Command;
use strait_testkit::{Forked, MiniHdfs, skip};

/// The program, ready to run with our library.
fn processes(directory: &Path) -> Command {
    let lib = library_in(directory);
    let program = compiled(directory, "processes", &sources().join("include"), &lib);
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", lib).env_remove("STRAIT_STORE");
    command
}

#[test]
fn threads_and_children_of_one_process_use_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    run(processes(directory.path()).args(["NULL", "0"]).arg(base));
}

#[test]
fn a_child_with_its_parents_process_id_uses_a_directory() {
    if !Forked::can_be_first() {
        return skip(
            "libhdfs in children with their parents' ids",
            "PID namespaces: root, or user namespaces",
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("base");
    run(processes(directory.path()).args(["NULL", "0"]).arg(base).arg("first"));
}

#[test]
fn threads_and_children_of_one_process_use_hdfs() {
    let (directory, hdfs) = (tempfile::tempdir().unwrap(), MiniHdfs::start().unwrap());
    let (host, port) = host_and_port(hdfs.uri());
    run(processes(directory.path()).args([host, port, &hdfs.scratch("processes")]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_and_children_of_one_process_use_kadoop() {
    let (directory, cluster) = (tempfile::tempdir().unwrap(), Cluster::start(1));
    cluster.store(1).await;
    run(processes(directory.path())
        .args(["default", "0", "/processes"])
        .env("STRAIT_STORE", format!("kadoop://{}", cluster.address()))
        .env("STRAIT_KADOOP_KEY", cluster.key_file())
        .env("STRAIT_USER", SUPERUSER));
}
