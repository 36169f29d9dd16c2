//! The adapter for Kadoop beyond the contract.
mod kadoop_cluster;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use kadoop_cluster::{Cluster, DEADLINE, SUPERUSER, path, superuser};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};
use strait_store::work::Work;
use strait_store::{
    CreateOptions, ErrorKind, FileSystem, FileSystemExt, MemoryStore, Principal, SetAttributes,
};
use strait_store_kadoop::{KadoopStore, Options};
use strait_telemetry::Page;
use strait_testkit::wait::stays_task;

/// Three replicas, and chunks that are small.
const SPREAD: CreateOptions = CreateOptions {
    overwrite: false,
    permission: None,
    replication: None,
    block_size: Some(1 << 20),
    min_replicas: None,
};

fn bytes(length: usize) -> Bytes {
    (0..length).map(|at| ((at * 31) >> 3) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_are_whole_chunks_with_every_holder() {
    let cluster = Cluster::start(3);
    let store = cluster.store(3).await;
    let (who, at) = (superuser(), path("/f"));
    store.write_all(&who, &at, &SPREAD, bytes(2_500_000)).await.unwrap();
    let blocks = store.block_locations(&who, &at, 1_100_000..1_100_001).await.unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!((blocks[0].offset, blocks[0].length), (1 << 20, 1 << 20));
    let hosts: BTreeSet<&str> = blocks[0].hosts.iter().map(String::as_str).collect();
    assert_eq!(hosts, ["host-0", "host-1", "host-2"].into());
    let addresses: BTreeSet<&String> = blocks[0].addresses.iter().collect();
    assert_eq!(addresses.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_is_the_one_that_other_stores_give_whatever_the_blocks_are() {
    let cluster = Cluster::start(2);
    let store = cluster.store(2).await;
    let (who, at, content) = (superuser(), path("/f"), bytes(5_300_001));
    let memory = MemoryStore::new(SUPERUSER);
    memory.write_all(&who, &at, &CreateOptions::default(), content.clone()).await.unwrap();
    let expected = memory.checksum(&who, &at).await.unwrap();
    assert_eq!(expected.algorithm, "COMPOSITE-CRC32C");
    for block_size in [1 << 20, 3 << 20, 1_500_000] {
        let options = CreateOptions { overwrite: true, block_size: Some(block_size), ..SPREAD };
        store.write_all(&who, &at, &options, content.clone()).await.unwrap();
        assert_eq!(store.checksum(&who, &at).await.unwrap(), expected, "blocks of {block_size}");
    }
    assert_eq!(calls(&cluster, "read"), 0, "no byte of it is read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_that_nobody_waits_for_asks_for_no_further_blocks() {
    let cluster = Cluster::start(1);
    let store = cluster.store(1).await;
    let (who, at) = (superuser(), path("/f"));
    store.write_all(&who, &at, &SPREAD, bytes(60 << 20)).await.unwrap();
    let begun = async {
        while calls(&cluster, "digest") == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = begun => {}
        whole = store.checksum(&who, &at) => panic!("{whole:?} came before its first block's"),
    }
    // The current step ends. After a later stat, the datanodes get no further step.
    store.stat(&who, &at).await.unwrap();
    let asked = calls(&cluster, "digest");
    assert!(asked < 30, "{asked} of 60 blocks were asked for");
    let stopped = async || calls(&cluster, "digest") <= asked + 1;
    stays_task("it doesn't go on", Duration::from_millis(300), stopped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_an_earlier_call_began_has_the_time_of_the_call_that_waits_for_it() {
    let cluster = Cluster::start(1);
    let store = cluster.store(1).await;
    let (who, root) = (superuser(), path("/"));
    store.mkdirs(&who, &path("/d"), None).await.unwrap();
    let earlier = Some(Instant::now());
    let mut entries = loop {
        let mut entries = store.list(&who, &root);
        // Rarely, the thread fails before this one looks for its answer.
        if Work::scope(earlier, async { entries.next().now_or_never() }).await.is_none() {
            break entries;
        }
    };
    let later = Some(Instant::now() + DEADLINE);
    let first = Work::scope(later, entries.next()).await.unwrap().unwrap();
    assert_eq!(first.path, "/d");
}

/// Number of calls of an operation at the datanodes.
fn calls(cluster: &Cluster, operation: &str) -> u64 {
    let mut page = Page::default();
    for datanode in &cluster.datanodes {
        datanode.numbers().write(&mut page, "any");
    }
    let wanted = format!("operation=\"{operation}\"}} ");
    let counts = page.to_string();
    let lines = counts.lines().filter(|line| line.starts_with("strait_call_seconds_count"));
    lines.filter_map(|line| line.split_once(&wanted)?.1.parse::<u64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_datanode_is_noticed_neither_by_writer_nor_by_reader() {
    let mut cluster = Cluster::start(4);
    let store = cluster.store(3).await;
    let (who, at, content) = (superuser(), path("/f"), bytes(9_000_000));
    let mut writer = store.create(&who, &at, &SPREAD).await.unwrap();
    for (number, piece) in content.chunks(500_000).enumerate() {
        if number == 7 {
            cluster.datanodes.pop();
        }
        writer.append(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    writer.close().await.unwrap();
    let reader = store.open(&who, &at).await.unwrap();
    cluster.datanodes.pop();
    let mut read = Vec::new();
    while read.len() < content.len() {
        let piece = reader.read_at(read.len() as u64, 300_000).await.unwrap();
        assert!(!piece.is_empty(), "the file ends at {}", read.len());
        read.extend_from_slice(&piece);
    }
    assert!(read == content, "other bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_come_with_the_principal() {
    let cluster = Cluster::start(1);
    let store = cluster.store(1).await;
    let at = path("/f");
    store.write_all(&superuser(), &at, &CreateOptions::default(), bytes(3)).await.unwrap();
    let set =
        SetAttributes { permission: Some(0o640), group: Some("lab".to_owned()), ..SetAttributes::default() };
    store.set_attributes(&superuser(), &at, &set).await.unwrap();
    let ada = |groups: &[&str]| Principal {
        user: "ada".into(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        session: None,
    };
    assert_eq!(store.read_all(&ada(&["lab"]), &at, 9).await.unwrap(), bytes(3));
    let refused = store.read_all(&ada(&["office"]), &at, 9).await.unwrap_err();
    assert_eq!((refused.kind(), refused.path()), (ErrorKind::PermissionDenied, "/f"));
    store.remove(&ada(&["supergroup"]), &at, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_file_is_closed_although_its_client_goes_on_writing_others() {
    let cluster = Cluster::start(1);
    let store = cluster.store(1).await;
    let (who, at) = (superuser(), path("/abandoned"));
    let _other = store.create(&who, &path("/other"), &CreateOptions::default()).await.unwrap();
    let mut writer = store.create(&who, &at, &CreateOptions::default()).await.unwrap();
    writer.append(bytes(1_000)).await.unwrap();
    writer.flush().await.unwrap();
    drop(writer);
    store.settled().await;
    assert_eq!(store.append(&who, &at).await.unwrap().position(), 1_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_dropped_after_a_failure_does_not_try_to_close() {
    let mut cluster = Cluster::start(1);
    let store = cluster.store(1).await;
    let (who, at) = (superuser(), path("/abandoned"));
    let mut writer = store.create(&who, &at, &CreateOptions::default()).await.unwrap();
    cluster.datanodes.clear();
    writer.append(bytes(1_000)).await.unwrap();
    assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(writer);
    tokio::time::timeout(Duration::from_secs(1), store.settled()).await.expect("it tries to close");
}

#[test]
fn abandoned_files_whose_datanodes_are_lost_leave_threads_to_calls() {
    const THREADS: usize = 16;
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).max_blocking_threads(THREADS).enable_all().build().unwrap();
    let mut cluster = Cluster::start(1);
    runtime.block_on(async {
        let store = cluster.store(1).await;
        let who = superuser();
        let mut writers = Vec::new();
        for number in 0..2 * THREADS {
            let at = path(&format!("/abandoned{number}"));
            let mut writer = store.create(&who, &at, &CreateOptions::default()).await.unwrap();
            writer.append(bytes(1_000)).await.unwrap();
            writers.push(writer);
        }
        cluster.datanodes.clear();
        drop(writers);
        let looked = tokio::time::timeout(Duration::from_secs(5), store.stat(&who, &path("/"))).await;
        looked.expect("closes hold all threads").unwrap();
    });
    // Some closes are still under way.
    runtime.shutdown_background();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_one_out_is_said_at_once() {
    let cluster = Cluster::start(0);
    let refused = async |namenode: &str, options: &Options| {
        KadoopStore::connect(namenode, options).await.err().unwrap()
    };
    let address = cluster.address();
    let without = refused(&address, &Options::default()).await;
    assert_eq!(without.kind(), ErrorKind::Unauthenticated);
    assert!(without.to_string().contains("--kadoop-key"), "{without}");
    let options = Options { key_file: Some(cluster.key_file()), ..Options::default() };
    let nobody = refused("127.0.0.1:1", &options).await;
    assert_eq!(nobody.kind(), ErrorKind::Unavailable);
    assert!(nobody.to_string().contains("kadoop://127.0.0.1:1: no namenode answers"), "{nobody}");
    std::fs::set_permissions(cluster.key_file(), PermissionsExt::from_mode(0o640)).unwrap();
    let open = refused(&address, &options).await;
    assert_eq!(open.kind(), ErrorKind::Unauthenticated);
    assert!(open.to_string().contains("chmod 600"), "{open}");
    let secret = std::fs::read_to_string(cluster.key_file()).unwrap();
    assert!(!format!("{open} {open:?}").contains(secret.trim()), "the key is told");
}
