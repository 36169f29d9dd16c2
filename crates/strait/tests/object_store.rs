//! object_store's own suite through a gateway.

use crate::support::Gateway;
use object_store::integration as suite;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use strait_client::Options;
use strait_object_store::Objects;

async fn objects(gateway: &Gateway) -> Objects {
    Objects::connect(&gateway.address, Options::default()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_passes_object_stores_suite() {
    let gateway = Gateway::over_files();
    let store = objects(&gateway).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_object_comes_back_in_parts_and_ranges() {
    let gateway = Gateway::over_files();
    let store = objects(&gateway).await;
    let path = Path::from("directory/large");
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut upload = WriteMultipart::new(store.put_multipart(&path).await.unwrap());
    for piece in bytes.chunks(777_777) {
        upload.wait_for_capacity(4).await.unwrap();
        upload.write(piece);
    }
    upload.finish().await.unwrap();
    assert!(store.get(&path).await.unwrap().bytes().await.unwrap() == bytes);
    let ranges = [0..10, 9_999_990..12_000_010, 19_999_999..20_000_000];
    for (got, range) in store.get_ranges(&path, &ranges).await.unwrap().iter().zip(&ranges) {
        assert!(got[..] == bytes[range.start as usize..range.end as usize]);
    }
    // Another program of the store sees a file.
    let ls = gateway.run(["ls", &gateway.uri("/directory")]);
    assert!(ls.ok().text().contains("large"));
    store.put(&path, PutPayload::from_static(b"small")).await.unwrap();
    assert_eq!(store.head(&path).await.unwrap().size, 5);
}
