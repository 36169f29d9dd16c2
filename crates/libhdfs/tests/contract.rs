//! The published contract suite over this library, as Strait loads any libhdfs.

use crate::common::built;
use std::io::Write;
use strait_store::contract::{self, Fixture};
use strait_store::{Principal, StorePath, StoreUri};
use strait_store_any::{ByUri, ForeignOptions, OpenOptions};

/// hdfs.h has no capabilities, so the library has the function for each store.
const REPLICATION: &str = "hdfsSetReplication exists, but a directory of this host has no replication";
const KNOWN: &[(&str, &str)] =
    &[("create_takes_replication", REPLICATION), ("replication_is_set", REPLICATION)];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_by_this_library_keep_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    let foreign = ForeignOptions { by_uri: ByUri::Listed(vec![built()]), ..ForeignOptions::default() };
    let options = OpenOptions { foreign, ..OpenOptions::default() };
    let uri = format!("libhdfs:{}!file:///", built().display());
    let store = strait_store_any::open(&StoreUri::parse(&uri).unwrap(), &options).await.unwrap();
    let root = StorePath::parse(&format!("{}/contract", directory.path().display())).unwrap();
    let who = Principal::new(&strait_testkit::current_user());
    let fixture = Fixture { known: KNOWN, ..Fixture::new(store, root, who) };
    let report = contract::run("libhdfs (this library, inside)", &fixture).await;
    // Straight to standard error, which the test harness doesn't capture.
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}
