//! The published contract suite through a gateway: the strait:// adapter over
//! the real binary over each store.

mod support;

use std::io::Write;
use std::sync::Arc;
use strait_client::{Options, StraitStore};
use strait_store::contract::{self, Fixture};
use strait_store::{FileSystem, Principal, StorePath};
use strait_testkit::{MiniHdfs, current_user};
use support::Gateway;

/// Runs the suite. The counts go straight to standard error, which the test harness doesn't
/// capture, so that every log has them.
async fn assert_contract(subject: &str, gateway: &Gateway, root: &str) {
    let store = StraitStore::connect(&gateway.address, Options::default()).await.unwrap();
    let root = StorePath::parse(root).unwrap();
    let who = Principal::new("whoever: the session decides");
    let store: Arc<dyn FileSystem> = Arc::new(store);
    store.mkdirs(&who, &root, None).await.unwrap();
    let report = contract::run(subject, &Fixture::new(store, root, who)).await;
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_files_keeps_the_contract() {
    let gateway = Gateway::over_files();
    assert_contract("file through a gateway", &gateway, "/contract").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_memory_keeps_the_contract() {
    let flags = ["--store", "memory:///", "--anonymous-user", "root"].map(str::to_owned);
    let gateway = Gateway::start(|_| flags.to_vec());
    assert_contract("memory through a gateway", &gateway, "/contract").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_a_gateway_keeps_the_contract() {
    let inner = Gateway::over_files();
    let outer = Gateway::start(|_| vec!["--store".to_owned(), inner.uri("/")]);
    assert_contract("file through two gateways", &outer, "/contract").await;
}

/// On the cluster that the environment names. Starting one takes longer than everything else here,
/// so `with-hdfs` does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_hdfs_keeps_the_contract() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return strait_testkit::skip("contract of hdfs through a gateway", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    // The cluster's superuser: some cases change owners.
    let superuser = current_user();
    let flags = ["--store", hdfs.uri(), "--anonymous-user", &superuser].map(str::to_owned);
    let gateway = Gateway::start(|_| flags.to_vec());
    let root = hdfs.scratch("through-gateway");
    assert_contract("hdfs through a gateway", &gateway, &root).await;
    gateway.run(["rm", "-r", &gateway.uri(&root)]).ok();
}
