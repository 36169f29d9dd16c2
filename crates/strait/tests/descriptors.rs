//! Servers whose hard limit of open files is low, and many small files.

use crate::support::fresh;
use crate::support::up::{Up, role_within, run};
use std::path::Path;
use strait_testkit::wait::eventually;
use strait_testkit::{Process, free_port};

/// Local files of a few bytes each: half as many again as a role may have open files.
struct Files {
    number: u64,
    dir: String,
}

/// Makes them for roles with this limit.
fn small_files(limit: u64, dir: &Path) -> Files {
    let small = fresh(dir, "small");
    let number = limit + limit / 2;
    for number in 0..number {
        std::fs::write(small.join(format!("{number:04}")), format!("content {number}")).unwrap();
    }
    Files { number, dir: small.display().to_string() }
}

fn open_files(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

/// Puts them, 16 at a time, and gets them again.
fn put_and_get(dir: &Path, uri: &str, of: &Files) {
    let back = fresh(dir, "back");
    run(dir, ["put", "-t", "16", &of.dir, uri], b"").ok();
    get(dir, uri, of, &back);
    std::fs::remove_dir_all(back).unwrap();
}

fn get(dir: &Path, uri: &str, of: &Files, to: &Path) {
    run(dir, ["get", "-t", "16", &format!("{uri}/small"), &to.display().to_string()], b"").ok();
    for number in 0..of.number {
        let there = std::fs::read_to_string(to.join("small").join(format!("{number:04}"))).unwrap();
        assert_eq!(there, format!("content {number}"));
    }
}

#[test]
fn up_takes_more_files_than_it_may_open() {
    const LIMIT: u64 = 1_024;
    let mut up = Up::within(LIMIT);
    let small = small_files(LIMIT, up.dir.path());
    put_and_get(up.dir.path(), &up.uri(""), &small);
    assert!(open_files(&up.process) < LIMIT as usize / 2, "{}", open_files(&up.process));
    // Nor does it open all of them to start.
    up.process.kill();
    up.again();
    let back = fresh(up.dir.path(), "back");
    get(up.dir.path(), &up.uri(""), &small, &back);
    up.run(["rm", "-r", &up.uri("/small")], b"").ok();
    assert!(open_files(&up.process) < LIMIT as usize / 2, "{}", open_files(&up.process));
    assert_eq!(up.interrupt(), 0);
}

#[test]
fn up_works_with_256_descriptors() {
    const LIMIT: u64 = 256;
    let up = Up::within(LIMIT);
    let small = small_files(LIMIT, up.dir.path());
    put_and_get(up.dir.path(), &up.uri(""), &small);
}

#[test]
fn each_role_works_with_256_descriptors() {
    const LIMIT: u64 = 256;
    let dir = tempfile::tempdir().unwrap();
    let [namenode, datanode, gateway] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let key = ["--key", "cluster.key"];
    let args = ["namenode", "--data", "nn", "--listen", &namenode, "--listen-datanodes", "127.0.0.1:0"];
    let mut roles = vec![role_within(LIMIT, dir.path(), "namenode", &[&args[..], &key].concat(), &namenode)];
    let args = ["datanode", "--data", "dn", "--namenode", &namenode, "--listen", &datanode];
    roles.push(role_within(LIMIT, dir.path(), "datanode", &[&args[..], &key].concat(), &datanode));
    let store = format!("kadoop://{namenode}/");
    let args = ["serve", "--store", &store, "--kadoop-key", "cluster.key", "--listen", &gateway];
    roles.push(role_within(LIMIT, dir.path(), "gateway", &args, &gateway));
    let uri = format!("strait://{gateway}");
    eventually("the datanode is there", || {
        run(dir.path(), ["put", "-f", "-", &format!("{uri}/probe")], b"x").code == 0
    });
    let small = small_files(LIMIT, dir.path());
    put_and_get(dir.path(), &uri, &small);
    for role in &roles {
        assert!(open_files(role) < LIMIT as usize / 2, "{}", open_files(role));
    }
}
