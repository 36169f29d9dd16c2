//! The published contract suite on servers that nobody here wrote, and before one of them a stand-in for Google's.

use bytes::Bytes;
use std::io::Write;
use std::sync::Arc;
use strait_store::contract::{self, Fixture, Scale};
use strait_store::{CreateOptions, FileSystem, FileSystemExt, Principal, Scheme, StorePath};
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

/// Neither by a rename of its directory nor by a removal of the empty directory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_was_closed_meanwhile_is_not_lost() {
    let Some(server) = ObjectServer::moto().unwrap() else {
        return skip("a_file_that_was_closed_meanwhile_is_not_lost", "moto in .venv-s3");
    };
    let store =
        ObjectStore::connect(Scheme::S3, OBJECT_BUCKET, &StorePath::root(), &s3(&server)).await.unwrap();
    let (store, who) = (Arc::new(store), Principal::new("ann"));
    let path = |text: &str| StorePath::parse(text).unwrap();
    let put = async |text: &str, content: &'static str| {
        let over = CreateOptions { overwrite: true, ..CreateOptions::default() };
        store.write_all(&who, &path(text), &over, Bytes::from(content)).await.unwrap();
    };
    let text = async |text: &str| store.read_all(&who, &path(text), 99).await.ok();
    store.mkdirs(&who, &path("/from"), None).await.unwrap();
    for number in 0..60 {
        put(&format!("/from/{number}"), "old").await;
    }
    let (from, to) = (path("/from"), path("/to"));
    let renamed = store.rename(&who, &from, &to, false);
    let written = async {
        for number in 0..60 {
            put(&format!("/from/{number}"), "new").await;
            put(&format!("/from/{number}-new"), "new").await;
        }
    };
    let (renamed, ()) = tokio::join!(renamed, written);
    for number in 0..60 {
        for name in [format!("{number}"), format!("{number}-new")] {
            let now = [text(&format!("/from/{name}")).await, text(&format!("/to/{name}")).await];
            // No service has a condition for removals of many objects. So one that is replaced just then can be lost.
            let is_kept =
                |content: &Vec<u8>| content == b"new" || (content == b"old" && !name.ends_with("-new"));
            assert!(now.iter().flatten().any(is_kept), "{name}: {now:?} after {renamed:?}");
        }
    }
    for number in 0..20 {
        let (directory, file) = (format!("/d{number}"), format!("/d{number}/f"));
        store.mkdirs(&who, &path(&directory), None).await.unwrap();
        let gone = path(&directory);
        let removed = store.remove(&who, &gone, false);
        let (removed, ()) = tokio::join!(removed, put(&file, "new"));
        assert_eq!(text(&file).await.as_deref(), Some(&b"new"[..]), "{directory} after {removed:?}");
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
