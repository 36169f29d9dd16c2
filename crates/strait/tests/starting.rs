//! Servers that can't work as asked refuse to start, or warn, and name the remedy.

use crate::support::up::{Up, role, run};
use crate::support::{Gateway, Run, binary, fresh};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use strait_kadoop_wire::Key;
use strait_testkit::wait::eventually;
use strait_testkit::{free_port, skip};

const USAGE: i32 = 2;
const OTHER: i32 = 1;
const INVALID_ARGUMENT: i32 = 17;
/// Far less than the servers wait for each other.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn the_clusters_minimum_of_replicas_holds_for_new_files() {
    let up = Up::with(&["--min-replicas", "2"]);
    up.run(["put", "-", &up.uri("/f")], b"bytes").ok();
    let told = up.run(["--json", "stat", &up.uri("/f")], b"");
    assert!(told.text().contains("\"replication\":2"), "{told:?}");
    up.run(["put", "--replication", "1", "-", &up.uri("/one")], b"bytes")
        .fails(INVALID_ARGUMENT, "below the cluster's minimum of replicas (the namenode's --min-replicas)");
    up.run(["put", "--replication", "3", "-", &up.uri("/three")], b"bytes").ok();
}

#[test]
fn a_minimum_above_the_number_of_datanodes_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    run(dir.path(), ["up", "--data", "data", "--listen", "127.0.0.1:0", "--min-replicas", "7"], b"")
        .fails(USAGE, "3 datanodes, so 3 is the maximum");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// The directories `nn` and `dn` of a namenode and a datanode that have ended, and their `key`.
fn used(dir: &Path) {
    Key::generate().unwrap().save(&dir.join("key")).unwrap();
    let [namenode, datanode] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let args = ["namenode", "--data", "nn", "--key", "key", "--listen", &namenode];
    let _namenode =
        role(dir, "namenode", &[&args[..], &["--listen-datanodes", "127.0.0.1:0"]].concat(), &namenode);
    let args = ["datanode", "--data", "dn", "--key", "key", "--namenode", &namenode, "--listen", &datanode];
    let _datanode = role(dir, "datanode", &args, &datanode);
    eventually("the datanode has joined", || dir.join("dn/identity").exists());
}

#[test]
fn a_directory_of_another_role_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let listen = ["--listen", "127.0.0.1:0"];
    let refused = |args: &[&str], words: &str| {
        run(dir.path(), [args, &listen[..]].concat(), b"").fails(INVALID_ARGUMENT, words);
    };
    let namenode = ["namenode", "--data", "dn", "--key", "key", "--listen-datanodes", "127.0.0.1:0"];
    refused(
        &namenode,
        "dn is a datanode's directory (see its file `identity`); give a namenode's directory or an empty one",
    );
    let datanode = ["datanode", "--data", "nn", "--key", "key", "--namenode", "127.0.0.1:1"];
    refused(
        &datanode,
        "nn is a namenode's directory (see its file `identity`); give a datanode's directory or an empty one",
    );
    refused(&["up", "--data", "nn"], "`strait namenode --data ");
    refused(&["up", "--data", "dn"], "`strait datanode --data ");
}

#[test]
fn up_with_too_few_descriptors_names_the_minimum() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let began = Instant::now();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(binary());
    shell.args(["up", "--data", "data", "--listen", &address]).current_dir(dir.path());
    Run::of(shell, b"").fails(OTHER, "can open only 64 files, and needs 256");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_gateway_is_no_store_of_itself() {
    let dir = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    run(dir.path(), ["serve", "--listen", &address, "--store", &format!("self=strait://{address}")], b"")
        .fails(USAGE, "the gateway's own address");
}

#[test]
fn a_gateway_that_nobody_can_log_in_at_warns() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), ["passwd", "--file", "passwords", "alice"], b"secret\n").ok();
    let address = format!("0.0.0.0:{}", free_port());
    let data = format!("file://{}", fresh(dir.path(), "data").display());
    let args = ["serve", "--listen", &address, "--store", &data, "--passwords", "passwords"];
    let gateway = role(dir.path(), "gateway", &args, &address);
    let warning = "no client beyond this host can log in here";
    eventually(warning, || gateway.log_tail().contains(warning));
}

#[test]
fn a_store_in_memory_is_for_tests_of_gateways() {
    let gateway = Gateway::start(|_| vec!["--store".to_owned(), "memory:/".to_owned()]);
    let warning = "all of its files are lost when this gateway ends";
    eventually(warning, || gateway.process.log_tail().contains(warning));
    gateway.run(["ls", "memory:/"]).fails(USAGE, "its data would be lost with this command");
}

/// A FIFO in the place of a secret would otherwise keep a server from its start for ever.
#[test]
fn a_key_that_is_no_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (fifo, began) = (dir.path().join("fifo"), Instant::now());
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    for (command, flag) in
        [("serve", "--token-key"), ("serve", "--tls-key"), ("serve", "--tls-cert"), ("up", "--key")]
    {
        let store = format!("file://{}", dir.path().display());
        let mut args = vec![command, listen[0], listen[1], flag, "fifo"];
        match command {
            "serve" => args.extend(["--store", &store]),
            _ => args.extend(["--data", "data"]),
        }
        if flag.starts_with("--tls") {
            args.extend([if flag == "--tls-key" { "--tls-cert" } else { "--tls-key" }, "fifo"]);
        }
        run(dir.path(), args, b"").fails(OTHER, "fifo: not a regular file");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_key_of_another_user_is_refused() {
    const OTHER_USER: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return skip("a key of another user", "root's rights, to give a file away");
    }
    let dir = tempfile::tempdir().unwrap();
    let data = fresh(dir.path(), "data");
    std::os::unix::fs::chown(&data, Some(OTHER_USER), None).unwrap();
    let args = ["up", "--data", "data", "--listen", "127.0.0.1:0", "--log", "error"]; // without the warning
    for key in [dir.path().join("data/kadoop.key"), dir.path().join("token")] {
        Key::generate().unwrap().save(&key).unwrap();
        std::os::unix::fs::chown(&key, Some(OTHER_USER), None).unwrap();
    }
    let refusal = "it belongs to another user, who knows it (user id 65534; this process has 0)";
    run(dir.path(), args, b"").fails(OTHER, refusal);
    let store = format!("file://{}", data.display());
    let args = ["serve", "--store", &store, "--listen", "127.0.0.1:0", "--token-key", "token"];
    run(dir.path(), args, b"").fails(OTHER, refusal);
}
