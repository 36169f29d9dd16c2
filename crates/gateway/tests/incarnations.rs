//! A client can tell whether its open files still exist: a session that was made anew reports
//! another incarnation.

use crate::common::*;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use strait_client::{Options, StraitStore};
use strait_store::{CreateOptions, ErrorKind, FileSystem, FileSystemExt, FileWriter, Principal, StorePath};
use strait_testkit::wait::{eventually_task, obtained, pause, pause_task};
use strait_wire::*;

/// Attaches a client to a session, and returns the incarnation.
fn resume(client: &mut Client, token: &Option<Secret>) -> i64 {
    let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
    client.v2::<methods::OpenSession>(request).unwrap().incarnation.unwrap()
}

#[test]
fn a_session_taken_up_again_is_the_same_and_at_another_gateway_it_is_not() {
    let (served, other) = (serve(), serve());
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    let token = client.token.clone();
    let first = resume(&mut client, &token);
    let mut second = served.client();
    assert_eq!(resume(&mut second, &token), first);
    append(&mut second, handle, 0, b"on another connection").unwrap();
    let mut elsewhere = other.client(); // of the same deployment: it takes the token
    assert_ne!(resume(&mut elsewhere, &token), first);
    assert_eq!(kind(append(&mut elsewhere, handle, 0, b"x")), "InvalidArgument");
}

#[test]
fn a_session_that_idled_out_under_its_connection_takes_no_calls_until_it_is_made_anew() {
    let served = serve_with(|config| {
        config.limits.session_idle = Duration::from_millis(100);
        config.limits.session_linger = Duration::from_millis(100);
    });
    let mut client = served.session();
    let token = client.token.clone();
    let first = resume(&mut client, &token);
    let handle = create(&mut client, "/f");
    let error = obtained("the end of the session", || {
        pause("longer than a session may be idle", Duration::from_millis(300));
        append(&mut client, handle, 0, b"").err()
    });
    assert_eq!(error.kind.as_deref(), Some("Unauthenticated"));
    assert_ne!(resume(&mut client, &token), first);
}

#[test]
fn files_of_a_session_that_idled_out_are_read_on_and_their_writers_know_no_outcome() {
    let served = serve_with(|config| {
        config.limits.session_idle = Duration::from_secs(1);
        config.limits.session_linger = Duration::from_millis(100); // how often it is looked
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (who, file) = (Principal::new("tester"), StorePath::parse("/f").unwrap());
    let address = served.address.to_string();
    runtime.block_on(async {
        let store = StraitStore::connect(&address, Options::default()).await.unwrap();
        let content = Bytes::from_static(b"content");
        store.write_all(&who, &file, &CreateOptions::default(), content.clone()).await.unwrap();
        let reader = store.open(&who, &file).await.unwrap();
        let path = |name| StorePath::parse(name).unwrap();
        let mut appending = writer_of_new(&store, &path("/appending")).await;
        let mut closing = writer_of_new(&store, &path("/closing")).await;
        let mut probe = writer_of_new(&store, &path("/probe")).await;
        eventually_task("the session ends", async || {
            pause_task("longer than a session may be idle", Duration::from_millis(1_300)).await;
            probe.flush().await.is_err()
        })
        .await;
        appending.append(content.clone()).await.unwrap(); // told with the flush
        assert_eq!(appending.flush().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(closing.close().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        assert_eq!(reader.read_at(0, 100).await.unwrap(), content);
    });
}

async fn writer_of_new(store: &StraitStore, path: &StorePath) -> Box<dyn FileWriter> {
    let who = Principal::new("tester");
    let mut writer = store.create(&who, path, &CreateOptions::default()).await.unwrap();
    writer.append(Bytes::from_static(b"data")).await.unwrap();
    writer.flush().await.unwrap();
    writer
}

#[test]
fn appends_to_a_gateway_that_is_away_do_not_each_wait_for_it() {
    let mut served = serve();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let address = served.address;
        let store = StraitStore::connect(&address.to_string(), Options::default()).await.unwrap();
        let mut writer = writer_of_new(&store, &StorePath::parse("/f").unwrap()).await;
        tokio::task::block_in_place(|| served.shut_down());
        drop(served);
        // Now a listener there ends each connection, and counts them.
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        for _ in 0..32 {
            writer.append(Bytes::from_static(b"x")).await.unwrap(); // told with the flush
        }
        let tries = accepted.load(Ordering::SeqCst);
        assert!(tries <= 4, "{tries} connections for 32 appends");
        // None was sent.
        assert_eq!(writer.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    });
}
