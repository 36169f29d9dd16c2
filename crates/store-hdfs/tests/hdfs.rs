//! The published contract suite on a real HDFS.
use std::io::Write;
use std::sync::Arc;
use strait_store::contract::{self, Fixture};
use strait_store::{FileSystem, Principal, StorePath};
use strait_store_hdfs::HdfsStore;
use strait_testkit::{MiniHdfs, current_user};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hdfs_store_keeps_the_contract() {
    let hdfs = MiniHdfs::start().unwrap();
    let store = HdfsStore::connect(hdfs.uri()).await.unwrap();
    let root = StorePath::parse(&hdfs.scratch("contract")).unwrap();
    // The cluster's superuser: some cases change owners.
    let superuser = Principal::new(&current_user());
    store.mkdirs(&superuser, &root, Some(0o755)).await.unwrap();

    let fixture = Fixture::new(Arc::new(store.clone()), root.clone(), superuser.clone());
    let report = contract::run("hdfs", &fixture).await;
    // Straight to standard error, which the test harness doesn't capture.
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
    store.remove(&superuser, &root, true).await.unwrap();
}
