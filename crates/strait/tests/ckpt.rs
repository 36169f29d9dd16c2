//! `strait ckpt` on a logical file of two ranks, directly and through a gateway.

use crate::support::Gateway;
use crate::support::up::Up;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strait_client::StraitStore;
use strait_plfs::{Container, Options};
use strait_store::{FileStore, FileSystem, FileSystemExt, Principal, StorePath};
use strait_testkit::wait::eventually;
use strait_testkit::{MiniHdfs, current_user};

const EXISTS: i32 = 11;
const CORRUPT: i32 = 23;
const PIECE: usize = 1_000;
const ROUNDS: usize = 6;

/// Two ranks write pieces in turn; the second ends early, and leaves its last ones out.
#[tokio::main(flavor = "current_thread")]
async fn write(directory: &Path) -> Vec<u8> {
    let store = Arc::new(FileStore::open(directory, false).unwrap());
    let (who, path) = (Principal::new("me"), StorePath::parse("/checkpoint").unwrap());
    let container = Container::create(store, &who, &path, &Options::default()).await.unwrap();
    let mut content = vec![0; 2 * PIECE * ROUNDS];
    for rank in 0..2 {
        let mut writer = container.writer(rank);
        for round in 0..ROUNDS {
            if rank == 1 && (2..4).contains(&round) {
                continue;
            }
            let at = (2 * round + rank as usize) * PIECE;
            let piece = vec![b'a' + rank as u8; PIECE];
            content[at..at + PIECE].copy_from_slice(&piece);
            writer.write_at(at as u64, Bytes::from(piece)).await.unwrap();
        }
        writer.close().await.unwrap();
    }
    content
}

#[test]
fn a_logical_file_is_listed_mapped_checked_and_flattened() {
    let gateway = Gateway::over_files();
    let content = write(&gateway.data());
    let uri = gateway.uri("/checkpoint");

    let listed = gateway.run(["ckpt", "ls", &uri]);
    let rows: Vec<Vec<&str>> = listed.text().lines().map(|line| line.split('\t').collect()).collect();
    let summary: Vec<_> = rows.iter().map(|row| (row[0], row[1], row[3], row[6])).collect();
    assert_eq!(summary, [("/checkpoint", "0", "6000", "closed"), ("/checkpoint", "1", "4000", "closed")]);

    let mapped = gateway.run(["ckpt", "map", &uri]);
    let ranks: Vec<_> = mapped.text().lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!(ranks, ["0", "1", "0", "1", "0", "hole", "0", "hole", "0", "1", "0", "1"]);
    let json = gateway.run(["--json", "ckpt", "map", &uri]);
    let first: serde_json::Value = serde_json::from_str(json.text().lines().next().unwrap()).unwrap();
    assert_eq!((&first["offset"], &first["length"], &first["rank"]), (&0.into(), &1_000.into(), &0.into()));

    let svg = gateway.dir.path().join("map.svg");
    gateway.run(["ckpt", "map", "--svg", svg.to_str().unwrap(), &uri]).ok();
    let drawn = std::fs::read_to_string(svg).unwrap();
    assert!(drawn.starts_with("<svg ") && drawn.contains("rank 1"), "{drawn}");

    gateway.run(["ckpt", "check", &uri]).ok();
    gateway.run(["ckpt", "flatten", "--keep", &uri, "/plain"]).ok();
    assert!(std::fs::read(gateway.data().join("plain")).unwrap() == content);
    gateway.run(["ckpt", "flatten", "--keep", &uri, "/plain"]).fails(EXISTS, "/plain");
    // Without --keep the logical file ends; what must be rewritten is announced.
    let flattened = gateway.run(["ckpt", "flatten", &uri, "/other"]);
    let announced = "strait: flatten /checkpoint: rewriting 12000 bytes, since the log of rank 0 isn't \
                     one contiguous part of the file, as byte 2000 of the file shows\n";
    assert_eq!((flattened.code, flattened.stderr.as_str()), (0, announced));
    assert!(std::fs::read(gateway.data().join("other")).unwrap() == content);
    assert!(!gateway.data().join("checkpoint").exists());
}

#[test]
fn damage_is_found_and_named() {
    let gateway = Gateway::over_files();
    write(&gateway.data());
    let uri = gateway.uri("/checkpoint");
    let logs = gateway.data().join("checkpoint/logs");
    let data = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with(".data");
    let damaged = std::fs::read_dir(logs).unwrap().map(Result::unwrap).find(data).unwrap();
    let mut bytes = std::fs::read(damaged.path()).unwrap();
    bytes[1_234] ^= 1;
    std::fs::write(damaged.path(), bytes).unwrap();
    let checked = gateway.run(["ckpt", "check", &uri]);
    let name = damaged.file_name().into_string().unwrap();
    assert!(String::from_utf8_lossy(&checked.stdout).contains(&name), "{checked:?}");
    checked.fails(CORRUPT, "1 fault in its logs");
}

#[test]
fn a_crashed_writer_is_ended_and_its_synced_bytes_are_read() {
    let gateway = Gateway::over_files();
    #[tokio::main(flavor = "current_thread")]
    async fn crash(directory: &Path) {
        let store = Arc::new(FileStore::open(directory, false).unwrap());
        let (who, path) = (Principal::new("me"), StorePath::parse("/crashed").unwrap());
        let container = Container::create(store, &who, &path, &Options::default()).await.unwrap();
        let mut writer = container.writer(7);
        writer.write_at(0, Bytes::from_static(b"synced")).await.unwrap();
        writer.sync().await.unwrap();
        writer.write_at(6, Bytes::from_static(b"lost")).await.unwrap();
        drop(writer);
    }
    crash(&gateway.data());
    let uri = gateway.uri("/crashed");
    let recovered = gateway.run(["ckpt", "recover", &uri]);
    assert!(recovered.text().ends_with("\tended\n"), "{recovered:?}");
    assert_eq!(gateway.run(["ckpt", "recover", &uri]).text(), "");
    gateway.run(["ckpt", "flatten", &uri, "/plain"]).ok();
    assert_eq!(std::fs::read(gateway.data().join("plain")).unwrap(), b"synced");
}

#[test]
fn a_container_of_plfs_2_5_is_written_and_read_back() {
    let gateway = Gateway::over_files();
    let content = write(&gateway.data());
    let old = format!("file://{}/old", gateway.dir.path().display());
    gateway.run(["ckpt", "export", &gateway.uri("/checkpoint"), &old]).ok();
    assert!(gateway.dir.path().join("old/hostdir.0/dropping.index.1.0.strait.1").exists());
    let imported = gateway.run(["--json", "ckpt", "import", &old, &gateway.uri("/again")]);
    let told: serde_json::Value = serde_json::from_str(imported.text()).unwrap();
    assert_eq!((&told["bytes"], &told["writers"]), (&content.len().into(), &2.into()));
    let mapped = gateway.run(["ckpt", "map", &gateway.uri("/again")]);
    let ranks: Vec<_> = mapped.text().lines().map(|line| line.split('\t').nth(2).unwrap()).collect();
    assert_eq!(ranks, ["0", "1", "0", "1", "0", "hole", "0", "hole", "0", "1", "0", "1"]);
    gateway.run(["ckpt", "flatten", "--keep", &gateway.uri("/again"), "/plain"]).ok();
    assert!(std::fs::read(gateway.data().join("plain")).unwrap() == content);
    gateway.run(["ckpt", "import", &old, &gateway.uri("/again")]).fails(EXISTS, "/again");
    gateway.run(["ckpt", "import", &gateway.uri("/again"), &gateway.uri("/odd")]).fails(17, "no hostdir");
}

#[test]
fn what_is_no_logical_file_is_refused() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", &gateway.uri("/directory")]).ok();
    for action in ["ls", "map", "check", "recover"] {
        let run = gateway.run(["ckpt", action, &gateway.uri("/directory")]);
        run.fails(run.code, "/directory");
        assert_ne!(run.code, 0);
    }
}

/// Bytes that each of four ranks writes as one part of the file: more than a chunk of Kadoop's, or a
/// block of the tests' HDFS.
const SEGMENT: usize = 3 << 20;

/// Four ranks write their parts, through a gateway; returns the file's bytes.
#[tokio::main(flavor = "current_thread")]
async fn write_segments(address: &str, directory: &str) -> Vec<u8> {
    let store = StraitStore::connect(address, strait_client::Options::default()).await.unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(store);
    let (who, path) = (Principal::new("the session decides"), format!("{directory}/ckpt"));
    fs.mkdirs(&who, &StorePath::parse(directory).unwrap(), None).await.unwrap();
    let path = StorePath::parse(&path).unwrap();
    let container = Container::create(fs, &who, &path, &Options::default()).await.unwrap();
    let content: Vec<u8> = (0..4 * SEGMENT).map(|at| (at / 1_000 % 251) as u8).collect();
    for rank in [2, 0, 3, 1] {
        let mut writer = container.writer(rank as u32);
        for at in (rank * SEGMENT..(rank + 1) * SEGMENT).step_by(1 << 20) {
            let piece = Bytes::copy_from_slice(&content[at..at + (1 << 20)]);
            writer.write_at(at as u64, piece).await.unwrap();
        }
        writer.close().await.unwrap();
    }
    content
}

#[tokio::main(flavor = "current_thread")]
async fn read_all(address: &str, path: &str) -> Vec<u8> {
    let store = StraitStore::connect(address, strait_client::Options::default()).await.unwrap();
    let path = StorePath::parse(path).unwrap();
    store.read_all(&Principal::new("the session decides"), &path, 8 * SEGMENT).await.unwrap()
}

/// The replicas of more than the plan's few bytes: inode, length and last change of their bytes.
fn replicas(data: &Path) -> BTreeMap<PathBuf, (u64, u64, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![data.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            // A datanode may rename a file at this moment.
            let Ok(known) = entry.metadata() else { continue };
            if known.is_dir() {
                directories.push(entry.path());
            } else if known.len() >= 1 << 20 && entry.path().extension().is_some_and(|of| of == "data") {
                let state = (known.ino(), known.len(), known.mtime(), known.mtime_nsec());
                found.insert(entry.path(), state);
            }
        }
    }
    found
}

#[test]
fn flattening_contiguous_parts_on_kadoop_moves_no_bytes() {
    let up = Up::start();
    let content = write_segments(&up.address, "/run");
    // A closed chunk gets its last name a moment later.
    let mut before = BTreeMap::new();
    eventually("the replicas are as they stay", || {
        let now = replicas(&up.data());
        let same =
            now == before && now.values().map(|(_, bytes, ..)| bytes).sum::<u64>() >= content.len() as u64;
        before = now;
        same
    });
    let flattened = up.run(["--json", "ckpt", "flatten", &up.uri("/run/ckpt"), "/run/plain"], b"");
    let told: serde_json::Value = serde_json::from_str(flattened.text()).unwrap();
    assert_eq!((&told["bytes"], &told["moved"]), (&content.len().into(), &0.into()));
    assert!(read_all(&up.address, "/run/plain") == content);
    assert_eq!(replicas(&up.data()), before, "the datanodes have the same files, unchanged");
    assert_eq!(up.run(["ls", &up.uri("/run")], b"").text().lines().count(), 1);

    let parts = ["one", "two", "three"].map(|name| up.uri(&format!("/run/{name}")));
    for part in &parts {
        up.run(["put", "-", part], part.as_bytes()).ok();
    }
    up.run(["concat", &parts[0], &parts[1], "/run/three"], b"").ok();
    assert_eq!(up.run(["cat", &parts[0]], b"").text(), parts.concat());
    up.run(["concat", &parts[0], &parts[1]], b"").fails(10, "/run/two");
}

/// The blocks of all files below a directory, with their stamps, by HDFS's own check.
fn blocks(hdfs: &MiniHdfs, directory: &str) -> Vec<String> {
    let told = hdfs.fsck(&[directory, "-files", "-blocks"]).unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let words =
        told.split_whitespace().filter_map(|word| word.split(':').find(|part| part.starts_with("blk_")));
    let mut blocks: Vec<String> = words.map(str::to_owned).collect();
    blocks.sort();
    blocks
}

#[test]
fn flattening_contiguous_parts_on_hdfs_moves_no_bytes() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return strait_testkit::skip("flattening on hdfs", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let flags = ["--store", hdfs.uri(), "--anonymous-user", &current_user()].map(str::to_owned);
    let gateway = Gateway::start(|_| flags.to_vec());
    let root = hdfs.scratch("flatten");
    let content = write_segments(&gateway.address, &root);
    let before = blocks(&hdfs, &format!("{root}/ckpt/logs"));
    let uri = gateway.uri(&format!("{root}/ckpt"));
    let flattened = gateway.run(["--json", "ckpt", "flatten", &uri, &format!("{root}/plain")]);
    let told: serde_json::Value = serde_json::from_str(flattened.text()).unwrap();
    assert_eq!((&told["bytes"], &told["moved"]), (&content.len().into(), &0.into()));
    let after = blocks(&hdfs, &format!("{root}/plain"));
    assert!(after.len() >= 4 && after.iter().all(|block| before.contains(block)), "{before:?}, {after:?}");
    assert!(read_all(&gateway.address, &format!("{root}/plain")) == content);
}
