//! The published contract suite on the stores without a server.

use std::io::Write;
use std::sync::Arc;
use strait_store::contract::{self, Fixture};
use strait_store::{DeferredStore, FileStore, FileSystem, MemoryStore, Principal, StorePath};

/// Runs the suite. The counts go straight to standard error, which the test harness doesn't
/// capture, so that every log has them.
async fn assert_contract(subject: &str, store: Arc<dyn FileSystem>) {
    let root = StorePath::parse("/contract").unwrap();
    let report = contract::run(subject, &Fixture::new(store, root, Principal::new("root"))).await;
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_store_keeps_the_contract() {
    assert_contract("memory", Arc::new(MemoryStore::new("root"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn file_store_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::open(directory.path(), false).unwrap();
    assert_contract("file", Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_store_keeps_the_contract_of_the_one_behind_it() {
    let store = DeferredStore::begin(Box::new(|| {
        Box::pin(async { Ok(Arc::new(MemoryStore::new("root")) as Arc<dyn FileSystem>) })
    }));
    store.opened(|_| {}).await;
    assert_contract("deferred memory", Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a mounted network file system: scripts/with-gluster.sh"]
async fn file_store_keeps_the_contract_on_a_network_file_system() {
    let mount = std::env::var("STRAIT_TEST_NETWORK_DIRECTORY").expect("it names a directory of a mount");
    let directory = tempfile::tempdir_in(mount).unwrap();
    let store = FileStore::open(directory.path(), false).unwrap();
    assert_contract("file (network file system)", Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a mounted GlusterFS volume of this host: scripts/with-gluster.sh"]
async fn a_file_of_a_network_file_system_is_on_the_hosts_of_its_bricks() {
    let mount = std::env::var("STRAIT_TEST_NETWORK_DIRECTORY").expect("it names a directory of a mount");
    let directory = tempfile::tempdir_in(mount).unwrap();
    std::fs::write(directory.path().join("a b"), "hello").unwrap();
    let store = FileStore::open(directory.path(), false).unwrap();
    let path = StorePath::parse("/a b").unwrap();
    let located = store.block_locations(&Principal::new("root"), &path, 0..5).await.unwrap();
    assert_eq!(located.len(), 1, "{located:?}");
    assert_eq!((located[0].offset, located[0].length), (0, 5));
    // The store names this host with or without bricks, so the test asks the mount, too.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(located[0].hosts, [host]);
    let mut answer = [0; 4096];
    let length = rustix::fs::getxattr(directory.path().join("a b"), "glusterfs.pathinfo", &mut answer[..]);
    assert!(String::from_utf8_lossy(&answer[..length.unwrap()]).contains("<POSIX("));
}
