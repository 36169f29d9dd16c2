//! The published contract suite on servers that nobody here wrote, and before one of them a stand-in for Google's.

use std::io::Write;
use std::sync::Arc;
use strait_store::contract::{self, Fixture, Scale};
use strait_store::{Principal, Scheme, StorePath};
use strait_store_object::{ObjectStore, Options};
use strait_testkit::{AZURE_ACCOUNT, AZURE_KEY, OBJECT_BUCKET, ObjectServer, skip};

/// More than a page of 1,000 keys.
const SCALE: Scale = Scale { entries: 1_050, file_bytes: 10_000_000 };
/// Of Azurite. The case has a name with a backslash.
const AZURITE: &[(&str, &str)] =
    &[("names_with_separators_of_urls_and_shells_come_back", "Azurite takes a backslash for a slash")];

async fn keeps_the_contract(name: &str, scheme: Scheme, options: &Options) {
    let known = if scheme == Scheme::Az { AZURITE } else { &[] };
    let top = StorePath::parse("/some/root").unwrap();
    let store = ObjectStore::connect(scheme, OBJECT_BUCKET, &top, options).await.unwrap();
    let root = StorePath::parse("/contract").unwrap();
    let fixture = Fixture::new(Arc::new(store), root, Principal::new("ann"));
    let fixture = Fixture { scale: SCALE, known, ..fixture };
    let report = contract::run(name, &fixture).await;
    // Straight to standard error, which the test harness doesn't capture.
    std::io::stderr().write_all(format!("{report}\n").as_bytes()).unwrap();
    assert!(report.failed.is_empty(), "{report}");
}

fn s3(server: &ObjectServer) -> Options {
    let variables = [("AWS_ACCESS_KEY_ID", "strait"), ("AWS_SECRET_ACCESS_KEY", "strait-secret")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    Options { endpoint: Some(server.url()), variables, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_at_moto_keeps_the_contract() {
    match ObjectServer::moto().unwrap() {
        Some(server) => keeps_the_contract("s3 (moto)", Scheme::S3, &s3(&server)).await,
        None => skip("s3_at_moto_keeps_the_contract", "moto in .venv-s3"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gs_at_a_stand_in_keeps_the_contract() {
    let Some(server) = ObjectServer::google_on_moto().unwrap() else {
        return skip("gs_at_a_stand_in_keeps_the_contract", "moto in .venv-s3");
    };
    let variables = vec![("STORAGE_EMULATOR_HOST".to_owned(), server.url())];
    let name = "gs (a stand-in of ours on moto, not Google's service)";
    keeps_the_contract(name, Scheme::Gs, &Options { variables, ..Options::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds MinIO: scripts/test-heavy.sh"]
async fn s3_at_minio_keeps_the_contract() {
    let server = ObjectServer::minio().unwrap().expect("STRAIT_TEST_MINIO names MinIO");
    keeps_the_contract("s3 (MinIO)", Scheme::S3, &s3(&server)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs Azurite: scripts/test-heavy.sh"]
async fn az_at_azurite_keeps_the_contract() {
    let server = ObjectServer::azurite().unwrap().expect("STRAIT_TEST_AZURITE names azurite-blob");
    let variables = [
        ("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT.to_owned()),
        ("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY.to_owned()),
        ("AZURE_STORAGE_ENDPOINT", format!("{}/{AZURE_ACCOUNT}", server.url())),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
    keeps_the_contract("az (Azurite)", Scheme::Az, &Options { variables, ..Options::default() }).await;
}
