//! A URI leads to the adapter of its scheme.

#[path = "../../store-kadoop/tests/kadoop_cluster/mod.rs"]
mod kadoop_cluster;

use kadoop_cluster::{Cluster, SUPERUSER, superuser};
use strait_store::{ErrorKind, Principal, StoreUri};
use strait_store_any::OpenOptions;
use strait_store_kadoop::Options;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_uri_chooses_the_adapter() {
    let cluster = Cluster::start(0);
    let uri = StoreUri::parse(&format!("kadoop://{}/dir", cluster.address())).unwrap();
    let kadoop = Options { key_file: Some(cluster.key_file()), ..Options::default() };
    let options = OpenOptions { kadoop, ..Default::default() };
    let store = strait_store_any::open(&uri, &options).await.unwrap();
    store.mkdirs(&Principal::new(SUPERUSER), uri.path(), None).await.unwrap();
    assert!(store.stat(&superuser(), uri.path()).await.unwrap().is_directory());
    assert_eq!(StoreUri::parse("kadoop:///x").unwrap_err().kind(), ErrorKind::InvalidArgument);
}
