//! The published contract suite on a real Kadoop: namenode and datanodes in this process, on
//! sockets of loopback and disks.
mod kadoop_cluster;

use kadoop_cluster::{Cluster, SUPERUSER, path};
use std::io::Write;
use std::sync::Arc;
use strait_store::contract::{self, Fixture};
use strait_store::{FileSystem, Principal};

async fn assert_contract(subject: &str, replication: u16) {
    let cluster = Cluster::start(3);
    let store = cluster.store(replication).await;
    let (root, superuser) = (path("/contract"), Principal::new(SUPERUSER));
    store.mkdirs(&superuser, &root, Some(0o755)).await.unwrap();
    let report = contract::run(subject, &Fixture::new(Arc::new(store), root, superuser)).await;
    // Straight to standard error, which the test harness doesn't capture.
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kadoop_keeps_the_contract_with_one_replica() {
    assert_contract("kadoop, 1 replica", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kadoop_keeps_the_contract_with_three_replicas() {
    assert_contract("kadoop, 3 replicas", 3).await;
}
