//! A namenode whose directory has lost answered records doesn't start, or changes nothing.

use crate::{
    processes::{DatanodeProcess, NamenodeProcess, Site},
    support::{client_at, namenode_options, pattern, superuser, user},
};
use bytes::Bytes;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    time::Instant,
};
use strait_kadoop_client::{Client, CreateOptions, RefusedNode};
use strait_kadoop_core::Error;
use strait_kadoop_server::NamenodeServer;
use strait_testkit::wait::{eventually, obtained};

const HEADER_BYTES: u64 = 32;

fn segment(directory: &Path) -> PathBuf {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("log-");
    names.filter(is_segment).max().unwrap()
}

/// Bytes of the segment up to the last that isn't zero.
fn used(segment: &Path) -> u64 {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1
}

fn open(segment: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(segment).unwrap()
}

/// Damages a directory.
type Lose = fn(&Path);

const LOSSES: &[(&str, Lose)] = &[
    ("its last bytes", |directory| {
        let segment = segment(directory);
        open(&segment).set_len(used(&segment) - 9).unwrap();
    }),
    ("one bit of the last frame", |directory| {
        let segment = segment(directory);
        let (file, at) = (open(&segment), used(&segment) - 5);
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }),
    ("all frames", |directory| open(&segment(directory)).set_len(HEADER_BYTES).unwrap()),
    ("all bytes", |directory| {
        let file = open(&segment(directory));
        let length = file.metadata().unwrap().len();
        file.set_len(0).unwrap();
        file.set_len(length).unwrap();
    }),
    ("its file", |directory| fs::remove_file(segment(directory)).unwrap()),
    ("its file and the mark", |directory| {
        fs::remove_file(segment(directory)).unwrap();
        fs::remove_file(directory.join("mark")).unwrap();
    }),
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_namenode_that_was_killed_and_lost_the_end_of_its_log_refuses_to_start() {
    let scratch = tempfile::tempdir().unwrap();
    let mut namenode = NamenodeProcess::start(Site::new(scratch.path()));
    let client = client_at(&namenode.address);
    for path in ["/first", "/second", "/last"] {
        client.mkdirs(&superuser(), path, 0o755).unwrap();
    }
    namenode.kill();
    for (number, (what, lose)) in LOSSES.iter().enumerate() {
        let damaged = scratch.path().join(format!("damaged-{number}"));
        copy(namenode.data(), &damaged);
        lose(&damaged);
        // Each start must leave the directory as it is, and refuse again.
        for _ in 0..2 {
            let Err(refused) = NamenodeServer::start(namenode_options(&damaged)) else {
                panic!("it starts although the log lost {what}")
            };
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "{what}: {refused}");
            let text = refused.to_string();
            assert!(text.to_lowercase().contains("restore"), "what to do after losing {what}: {text}");
        }
    }
    let whole = NamenodeServer::start(namenode_options(namenode.data())).unwrap();
    let client = client_at(&whole.address().to_string());
    client.stat(&superuser(), "/last").unwrap();
}

/// A cluster of one datanode whose namenode's directory is replaced by an older copy.
struct Restored {
    scratch: tempfile::TempDir,
    namenode: NamenodeProcess,
    datanode: DatanodeProcess,
}

const KEPT: &str = "/kept";
const LOST: [&str; 2] = ["/lost1", "/lost2"];
const CHUNK_BYTES: u32 = 1 << 16;

fn content(path: &str) -> Bytes {
    pattern(2 * CHUNK_BYTES as usize + path.len()).slice(path.len()..)
}

fn write(client: &Client, path: &str) {
    let options = CreateOptions { replication: 1, chunk_bytes: CHUNK_BYTES, ..CreateOptions::default() };
    let mut writer = client.create(&superuser(), path, &options).unwrap();
    writer.write(content(path)).unwrap();
    writer.close().unwrap();
}

fn assert_reads(client: &Client, path: &str) {
    let reader = client.open(&superuser(), path).unwrap();
    assert!(reader.read_at(0, usize::MAX >> 1).unwrap() == content(path), "{path}");
}

/// Waits for a heartbeat after this moment.
fn await_heartbeat(client: &Client) {
    let begun = Instant::now();
    eventually("a heartbeat", || {
        let passed_ms = begun.elapsed().as_millis() as u64;
        client.status().unwrap().nodes.iter().all(|node| node.silent_ms < passed_ms)
    });
}

impl Restored {
    fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let mut namenode = NamenodeProcess::start(Site::new(&scratch.path().join("namenode")));
        let site = Site::new(&scratch.path().join("datanode"));
        let datanode = DatanodeProcess::start(site, &namenode.address);
        write(&client_at(&namenode.address), KEPT);
        namenode.kill();
        copy(namenode.data(), &scratch.path().join("old"));
        namenode.kill_and_start();
        let client = client_at(&namenode.address);
        LOST.iter().for_each(|path| write(&client, path));
        // The answer to the first tells the datanode of the last record. It has that answer when it
        // sends the second.
        await_heartbeat(&client);
        await_heartbeat(&client);
        namenode.kill();
        fs::rename(namenode.data(), scratch.path().join("newest")).unwrap();
        fs::rename(scratch.path().join("old"), namenode.data()).unwrap();
        namenode.kill_and_start();
        Self { scratch, namenode, datanode }
    }

    fn client(&self) -> Client {
        client_at(&self.namenode.address)
    }

    fn await_refusal(&self) -> RefusedNode {
        let client = self.client();
        obtained("the refused datanode", || client.refused().unwrap().into_iter().next())
    }
}

#[test]
fn an_older_copy_of_the_namenodes_directory_changes_nothing_and_says_why() {
    let mut restored = Restored::start();
    let client = restored.client();
    let refused = client.mkdirs(&superuser(), "/new", 0o755).unwrap_err();
    assert_eq!(refused.error, Error::LogBehind, "{refused}");
    let node = restored.await_refusal();
    assert!(node.admissible && node.address.to_string() == restored.datanode.address);
    for why in [refused.to_string(), node.why] {
        assert!(why.contains("an older copy") && why.contains("strait admit"), "{why}");
    }
    let status = client.status().unwrap();
    assert!(status.safe_mode && status.nodes.is_empty(), "{status:?}");
    // A restarted datanode remembers it.
    restored.datanode.kill_and_start();
    restored.await_refusal();
    assert_eq!(client.mkdirs(&superuser(), "/new", 0o755).unwrap_err().error, Error::LogBehind);
    // The newest copy is put back.
    restored.namenode.kill();
    fs::rename(restored.namenode.data(), restored.scratch.path().join("old")).unwrap();
    fs::rename(restored.scratch.path().join("newest"), restored.namenode.data()).unwrap();
    restored.namenode.kill_and_start();
    let client = restored.client();
    [KEPT, LOST[0], LOST[1]].iter().for_each(|path| assert_reads(&client, path));
    write(&client, "/new");
    assert_reads(&client, "/new");
}

#[test]
fn a_datanode_that_is_admitted_serves_what_the_older_copy_knows_and_nothing_else() {
    let restored = Restored::start();
    let client = restored.client();
    let node = restored.await_refusal();
    let denied = client.admit(&user("ann"), node.identity).unwrap_err();
    assert_eq!(denied.error, Error::PermissionDenied);
    client.admit(&superuser(), node.identity).unwrap();
    eventually("the datanode is alive", || client.status().unwrap().nodes.iter().any(|node| node.alive));
    assert!(client.refused().unwrap().is_empty());
    assert_reads(&client, KEPT);
    // Once, new files got the numbers of lost chunks, and read as their bytes.
    for path in LOST {
        assert_eq!(client.stat(&superuser(), path).unwrap_err().error, Error::NotFound);
        write(&client, &format!("{path}-again"));
    }
    for path in LOST {
        assert_reads(&client, &format!("{path}-again"));
    }
}
