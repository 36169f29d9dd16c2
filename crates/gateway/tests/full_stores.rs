//! A full store: writers of open files continue once there is room again, if the store supports that.

use crate::common::gated::Gated;
use crate::common::*;
use bytes::Bytes;
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath};
use strait_testkit::wait::eventually;

#[test]
fn a_file_goes_on_through_a_gateway_once_there_is_room() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = StraitStore::connect(&served.address.to_string(), Options::default()).await.unwrap();
        let (who, path) = (Principal::new("the session decides"), StorePath::parse("/f").unwrap());
        let mut writer = store.create(&who, &path, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"before, ")).await.unwrap();
        writer.flush().await.unwrap();
        gate.set_full(true);
        // The client sends these at once, without waiting. The gateway refuses the first, and so also
        // the others.
        for piece in ["one, ", "two, ", "three, "] {
            writer.append(Bytes::from_static(piece.as_bytes())).await.unwrap();
        }
        for _ in 0..2 {
            assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::NoSpace);
        gate.set_full(false);
        writer.flush().await.unwrap();
        gate.set_full(true);
        assert_eq!(
            writer.close().await.unwrap_err().kind(),
            ErrorKind::NoSpace,
            "nothing is left but to close"
        );
        gate.set_full(false);
        writer.append(Bytes::from_static(b"after")).await.unwrap();
        writer.close().await.unwrap();
        writer.close().await.unwrap();
        let read = store.read_all(&who, &path, 99).await.unwrap();
        assert_eq!(read, b"before, one, two, three, after");
    });
}

#[test]
fn a_file_that_does_not_go_on_is_abandoned_at_its_failed_close() {
    let (store, gate) = Gated::new();
    gate.end_files();
    let served = serve_store(store, |_| {});
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = StraitStore::connect(&served.address.to_string(), Options::default()).await.unwrap();
        let (who, path) = (Principal::new("the session decides"), StorePath::parse("/f").unwrap());
        let mut writer = store.create(&who, &path, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"bytes")).await.unwrap();
        writer.flush().await.unwrap();
        gate.set_full(true);
        assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(gate.writers(), 1, "only a failed close ends it");
        assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(gate.writers(), 0);
    });
}

#[test]
fn a_dropped_writer_of_a_full_store_holds_its_file_no_longer() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = StraitStore::connect(&served.address.to_string(), Options::default()).await.unwrap();
        let (who, path) = (Principal::new("the session decides"), StorePath::parse("/f").unwrap());
        let mut writer = store.create(&who, &path, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"bytes")).await.unwrap();
        writer.flush().await.unwrap();
        gate.set_full(true);
        writer.append(Bytes::from_static(b"more")).await.unwrap();
        assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::NoSpace);
        assert_eq!(gate.writers(), 1, "it goes on");
        drop(writer);
        eventually("the gateway drops it, too", || gate.writers() == 0);
    });
}
