//! One client with many concurrent calls uses as many connections of one session as it needs, and
//! no more.

use crate::common::gated::Gated;
use crate::common::*;
use bytes::Bytes;
use futures::future::join_all;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_testkit::wait::pause_task;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

fn who() -> Principal {
    Principal::new("the session decides")
}

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

/// The client's own runtime.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn connect(runtime: &Runtime, served: &Served) -> StraitStore {
    let address = served.address.to_string();
    runtime.block_on(StraitStore::connect(&address, Options::default())).unwrap()
}

async fn writers(store: &StraitStore, count: usize) -> Vec<Box<dyn FileWriter>> {
    let mut writers = Vec::new();
    for index in 0..count {
        let path = path(&format!("/f{index}"));
        let mut writer = store.create(&who(), &path, &CreateOptions::default()).await.unwrap();
        writer.append(Bytes::from_static(b"data")).await.unwrap();
        writer.flush().await.unwrap();
        writers.push(writer);
    }
    writers
}

#[test]
fn slow_mutations_of_one_client_do_not_wait_for_each_other() {
    let (behind, gate) = Gated::new();
    let served = serve_store(behind, |_| {});
    let runtime = runtime();
    let store = connect(&runtime, &served);
    let writers = runtime.block_on(writers(&store, 8));
    gate.shut();
    let closing: Vec<_> =
        writers.into_iter().map(|mut writer| runtime.spawn(async move { writer.close().await })).collect();
    gate.await_waiting(8); // one after another, the first alone would come so far
    gate.open();
    for closed in runtime.block_on(join_all(closing)) {
        closed.unwrap().unwrap();
    }
}

#[test]
fn a_client_that_asks_one_thing_at_a_time_has_one_connection() {
    let served = serve_with(|config| config.limits.connections = 4); // half for one user
    let runtime = runtime();
    let store = connect(&runtime, &served);
    runtime.block_on(async {
        for mut writer in writers(&store, 4).await {
            store.stat(&who(), &path("/f0")).await.unwrap();
            writer.close().await.unwrap();
        }
        let reader = store.open(&who(), &path("/f0")).await.unwrap();
        join_all((0..20).map(|_| reader.read_at(0, 4))).await;
    });
    served.session(); // the other place is free
}

#[test]
fn a_client_that_may_have_one_connection_does_all_on_it() {
    let served = serve_with(|config| config.limits.connections = 1);
    let runtime = runtime();
    let store = Arc::new(connect(&runtime, &served));
    let all: Vec<_> = (0..32).map(|index| runtime.spawn(write_and_read(store.clone(), index))).collect();
    let all = async { tokio::time::timeout(Duration::from_secs(30), join_all(all)).await.unwrap() };
    for done in runtime.block_on(all) {
        done.unwrap();
    }
}

async fn write_and_read(store: Arc<StraitStore>, index: u8) {
    let path = path(&format!("/f{index}"));
    let content = Bytes::from(vec![index; 100_000]);
    store.write_all(&who(), &path, &CreateOptions::default(), content.clone()).await.unwrap();
    assert!(store.read_all(&who(), &path, 1 << 20).await.unwrap() == content);
}

/// A proxy to a gateway for any number of concurrent connections. It cuts each of the first `times`
/// connections after `bytes` bytes of answers.
async fn cutting_proxy(gateway: SocketAddr, bytes: u64, times: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for connection in 0_usize.. {
            let (client, _) = listener.accept().await.unwrap();
            let left = if connection < times { bytes } else { u64::MAX };
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = client.into_split();
                let (from_gateway, mut to_gateway) = TcpStream::connect(gateway).await.unwrap().into_split();
                let mut answers = from_gateway.take(left);
                tokio::select! {
                    _ = tokio::io::copy(&mut from_client, &mut to_gateway) => {}
                    _ = tokio::io::copy(&mut answers, &mut to_client) => {}
                }
            });
        }
    });
    address
}

#[test]
fn what_is_done_side_by_side_happens_once_when_connections_break() {
    let served = serve();
    let runtime = runtime();
    // So many bytes are the answer to a login and some ten other answers.
    let address = runtime.block_on(cutting_proxy(served.address, 1_500, 12)).to_string();
    let store = Arc::new(runtime.block_on(StraitStore::connect(&address, Options::default())).unwrap());
    let all: Vec<_> = (0..32).map(|index| runtime.spawn(write_rename_read(store.clone(), index))).collect();
    let all = async { tokio::time::timeout(Duration::from_secs(60), join_all(all)).await.unwrap() };
    for done in runtime.block_on(all) {
        done.unwrap();
    }
    let left = runtime.block_on(store.list_all(&who(), &StorePath::root(), 100)).unwrap();
    assert_eq!(left.len(), 32, "each has its new name alone");
}

/// Renames. If the outcome is unknown, looks and repeats. The gateway doesn't begin a change whose
/// client has left, and can't tell whether another gateway executed it.
async fn rename(store: &StraitStore, old: &StorePath, new: &StorePath) {
    loop {
        match store.rename(&who(), old, new, false).await {
            Ok(()) => return,
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {}
            Err(error) => panic!("{error}"),
        }
        if store.stat(&who(), new).await.is_ok() {
            return;
        }
    }
}

async fn write_rename_read(store: Arc<StraitStore>, index: u8) {
    let (old, new) = (path(&format!("/old{index}")), path(&format!("/new{index}")));
    let mut writer = store.create(&who(), &old, &CreateOptions::default()).await.unwrap();
    for piece in 0..10 {
        writer.append(Bytes::from(vec![index ^ piece; 1_000])).await.unwrap();
    }
    writer.close().await.unwrap();
    rename(&store, &old, &new).await;
    let content: Vec<u8> = (0..10).flat_map(|piece| vec![index ^ piece; 1_000]).collect();
    assert!(store.read_all(&who(), &new, 1 << 20).await.unwrap() == content);
}

/// A proxy to a gateway that cuts all its connections whenever it is told.
async fn switched_proxy(gateway: SocketAddr) -> (SocketAddr, watch::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let cut = watch::Sender::new(());
    let told = cut.clone();
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut is_cut = told.subscribe();
            tokio::spawn(async move {
                let mut server = TcpStream::connect(gateway).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
                    _ = is_cut.changed() => {}
                }
            });
        }
    });
    (address, cut)
}

/// With a token that has expired, the client couldn't return to its session.
#[test]
fn a_client_at_work_renews_its_token_and_finds_its_files_open_after_a_cut() {
    const RENEWAL: Duration = Duration::from_millis(1_500);
    let served = serve_with(|config| config.limits.token_renewal = RENEWAL);
    runtime().block_on(async {
        let (address, cut) = switched_proxy(served.address).await;
        let store = StraitStore::connect(&address.to_string(), Options::default()).await.unwrap();
        let mut writer = store.create(&who(), &path("/f"), &CreateOptions::default()).await.unwrap();
        let begun = Instant::now();
        let mut length = 0;
        while begun.elapsed() < 2 * RENEWAL {
            writer.append(Bytes::from_static(b"data")).await.unwrap();
            writer.flush().await.unwrap();
            length += 4;
            pause_task("the pace of a writer", Duration::from_millis(20)).await;
        }
        cut.send(()).unwrap();
        writer.append(Bytes::from_static(b"end")).await.unwrap();
        writer.close().await.unwrap();
        assert_eq!(store.stat(&who(), &path("/f")).await.unwrap().length, length + 3);
    });
}
