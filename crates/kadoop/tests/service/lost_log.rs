//! A namenode whose directory has lost answered records doesn't start.

use crate::{
    processes::{NamenodeProcess, Site},
    support::{client_at, namenode_options, superuser},
};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};
use strait_kadoop::service::NamenodeServer;

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
            assert!(text.contains("put") || text.contains("Put"), "what to do after losing {what}: {text}");
        }
    }
    let whole = NamenodeServer::start(namenode_options(namenode.data())).unwrap();
    let client = client_at(&whole.address().to_string());
    client.stat(&superuser(), "/last").unwrap();
}
