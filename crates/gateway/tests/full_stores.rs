//! A store without room: files that are open go on once there is room again, if their store can do
//! that.

mod common;
use bytes::Bytes;
use common::gated::Gated;
use common::*;
use std::time::Duration;
use strait_store::strait::{Options, StraitStore};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, Principal, StorePath};

/// Far more than a removal needs, and less than a store waits for room.
const SOON: Duration = Duration::from_secs(5);

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
        // These are under way at once. The gateway refuses the first, and with it the others.
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
fn a_removal_does_not_wait_for_the_close_of_an_abandoned_file() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = StraitStore::connect(&served.address.to_string(), Options::default()).await.unwrap();
        let (who, path) = (Principal::new("the session decides"), StorePath::parse("/f").unwrap());
        let mut writer = store.create(&who, &path, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"bytes")).await.unwrap();
        gate.set_full(true);
        assert_eq!(writer.close().await.unwrap_err().kind(), ErrorKind::NoSpace);
        // From now on, a close waits for room.
        gate.set_full(false);
        gate.shut();
        drop(writer);
        gate.await_waiting(1);
        tokio::time::timeout(SOON, store.remove(&who, &path, false)).await.expect("an answer").unwrap();
        assert_eq!(gate.waiting(), 1, "the close still waits");
        gate.open();
    });
}
