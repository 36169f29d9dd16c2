//! The published contract suite through a gateway: the strait:// adapter over
//! the real binary over each store.

use crate::support::plugins::{HADOOP, HADOOP_OPTIONS, built, hadoop_environment};
use crate::support::{self, Gateway};
use std::io::Write;
use std::sync::Arc;
use strait_client::{Options, StraitStore};
use strait_store::contract::{self, Fixture, Scale};
use strait_store::{FileSystem, Principal, StorePath};
use strait_testkit::wait::eventually_task;
use strait_testkit::{HadoopLibhdfs, MiniHdfs, OBJECT_BUCKET, ObjectServer, current_user};

/// For buckets: more than a page of 1,000 keys, and more than one part.
const BUCKETS: Scale = Scale { entries: 1_050, file_bytes: 10_000_000 };

async fn assert_contract(subject: &str, gateway: &Gateway, root: &str) {
    assert_contract_as(subject, gateway, root, |fixture| fixture).await;
}

/// Runs the suite. The counts go straight to standard error, which the test harness doesn't
/// capture, so that every log has them.
async fn assert_contract_as(
    subject: &str,
    gateway: &Gateway,
    root: &str,
    adapted: impl FnOnce(Fixture) -> Fixture,
) {
    let connected = async || StraitStore::connect(&gateway.address, Options::default()).await.unwrap();
    let root = StorePath::parse(root).unwrap();
    let who = Principal::new("whoever: the session decides");
    // A library that starts a JVM needs some seconds. Until then, the gateway's store is away.
    let store = connected().await;
    eventually_task("the gateway's store is there", async || store.mkdirs(&who, &root, None).await.is_ok())
        .await;
    // A client gets the capabilities as it connects: those of an open store, now.
    let store: Arc<dyn FileSystem> = Arc::new(connected().await);
    let report = contract::run(subject, &adapted(Fixture::new(store, root, who))).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_a_plugin_keeps_the_contract() {
    let gateway = Gateway::start(|dir| {
        let data = support::fresh(dir, "data");
        let library = built("plugins/reference/reference.c", dir);
        vec![
            "--plugin".to_owned(),
            format!("dir={}", library.display()),
            "--plugin-option".to_owned(),
            format!("dir.root={}", data.display()),
            "--store".to_owned(),
            "plugin:dir://here/".to_owned(),
        ]
    });
    assert_contract("plugin (reference) through a gateway", &gateway, "/contract").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_a_bucket_keeps_the_contract() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return strait_testkit::skip("contract of s3 through a gateway", "moto in .venv-s3");
    };
    let keys = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|name| (name, "strait".to_owned()));
    let store = format!("s3://{OBJECT_BUCKET}/some/root");
    let flags = ["--endpoint-url", &server.url(), "--store", &store].map(str::to_owned);
    let gateway = Gateway::start_with(&keys, |_| flags.to_vec());
    let subject = "s3 (moto) through a gateway";
    let scaled = |fixture| Fixture { scale: BUCKETS, ..fixture };
    assert_contract_as(subject, &gateway, "/contract", scaled).await;
}

/// On the cluster that the environment names, by Hadoop's own library.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_over_libhdfs_keeps_the_contract() {
    if std::env::var_os("STRAIT_TEST_HDFS").is_none() {
        return strait_testkit::skip("contract of libhdfs through a gateway", "STRAIT_TEST_HDFS");
    }
    let hdfs = MiniHdfs::start().unwrap();
    let superuser = current_user();
    let gateway = Gateway::start_with(&hadoop_environment(&hdfs), |dir| {
        let library = HadoopLibhdfs::find().unwrap().build_in(dir).unwrap().join("libhdfs.so.0.0.0");
        let store = format!("libhdfs:{}!{}/", library.display(), hdfs.uri().trim_end_matches('/'));
        let options = HADOOP_OPTIONS
            .map(|(key, value)| ["--plugin-option".to_owned(), format!("libhdfs.{key}={value}")]);
        let flags = ["--store".to_owned(), store, "--anonymous-user".to_owned(), superuser];
        options.into_iter().flatten().chain(flags).collect()
    });
    let root = hdfs.scratch("through-gateway-and-libhdfs");
    let known = |fixture| Fixture { known: HADOOP, ..fixture };
    assert_contract_as("libhdfs through a gateway", &gateway, &root, known).await;
    gateway.run(["rm", "-r", &gateway.uri(&root)]).ok();
}
