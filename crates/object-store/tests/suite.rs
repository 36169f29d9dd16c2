//! object_store's own suite, on stores without a server.

use object_store::integration as suite;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use std::sync::Arc;
use strait_object_store::Objects;
use strait_store::{FileStore, FileSystem, MemoryStore, Principal};

async fn passes(files: Arc<dyn FileSystem>) {
    let store = Objects::new(files, Principal::new("tester"), "test");
    suite::put_get_delete_list(&store).await;
    suite::list_with_offset_exclusivity(&store).await;
    suite::get_opts(&store).await;
    suite::list_uses_directories_correctly(&store).await;
    suite::list_with_delimiter(&store).await;
    suite::rename_and_copy(&store).await;
    suite::copy_if_not_exists(&store).await;
    suite::copy_rename_nonexistent_object(&store).await;
    suite::stream_get(&store).await;
    suite::put_opts(&store, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_in_memory_passes_object_stores_suite() {
    passes(Arc::new(MemoryStore::new("tester"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_passes_object_stores_suite() {
    let directory = tempfile::tempdir().unwrap();
    passes(Arc::new(FileStore::open(directory.path(), false).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_come_in_the_order_of_their_calls_and_appear_at_the_end() {
    let store = Objects::new(Arc::new(MemoryStore::new("tester")), Principal::new("tester"), "test");
    let path = Path::from("a/b");
    let mut upload = store.put_multipart(&path).await.unwrap();
    let parts: Vec<_> = (0..10_u8).map(|n| upload.put_part(PutPayload::from(vec![n; 1000]))).collect();
    for part in parts.into_iter().rev() {
        part.await.unwrap();
    }
    assert!(store.head(&path).await.is_err(), "half an object is visible");
    assert!(store.list_with_delimiter(Some(&Path::from("a"))).await.unwrap().objects.is_empty());
    upload.complete().await.unwrap();
    let got = store.get(&path).await.unwrap().bytes().await.unwrap();
    assert_eq!(got, (0..10_u8).flat_map(|n| [n; 1000]).collect::<Vec<_>>());
    assert!(upload.complete().await.is_err(), "an upload ends once");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_upload_leaves_nothing() {
    let files = Arc::new(MemoryStore::new("tester"));
    let who = Principal::new("tester");
    let store = Objects::new(files.clone(), who.clone(), "test");
    let mut upload = store.put_multipart(&Path::from("a/b")).await.unwrap();
    upload.put_part(PutPayload::from_static(b"part")).await.unwrap();
    upload.abort().await.unwrap();
    let left = strait_store::FileSystemExt::list_all(files.as_ref(), &who, &"/a".parse_path(), 10).await;
    assert_eq!(left.unwrap(), []);
}

trait ParsePath {
    fn parse_path(&self) -> strait_store::StorePath;
}

impl ParsePath for str {
    fn parse_path(&self) -> strait_store::StorePath {
        strait_store::StorePath::parse(self).unwrap()
    }
}
