//! `strait ckpt` on a logical file of two ranks, directly and through a gateway.

mod support;

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use strait_plfs::{Container, Options};
use strait_store::{FileStore, Principal, StorePath};
use support::Gateway;

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
    gateway.run(["ckpt", "flatten", &uri, "/plain"]).ok();
    assert!(std::fs::read(gateway.data().join("plain")).unwrap() == content);
    gateway.run(["ckpt", "flatten", &uri, "/plain"]).fails(EXISTS, "/plain");
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
fn what_is_no_logical_file_is_refused() {
    let gateway = Gateway::over_files();
    gateway.run(["mkdir", &gateway.uri("/directory")]).ok();
    for action in ["ls", "map", "check", "recover"] {
        let run = gateway.run(["ckpt", action, &gateway.uri("/directory")]);
        run.fails(run.code, "/directory");
        assert_ne!(run.code, 0);
    }
}
