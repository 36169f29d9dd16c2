//! Requests with a deadline: the gateway works no longer for clients that have given up.

use crate::common::gated::{Gated, SLOWLY_CREATED, SLOWLY_LISTED, SLOWLY_OPENED};
use crate::common::*;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_client::{Options, StraitStore};
use strait_testkit::sockets::is_all_read;
use strait_testkit::wait::eventually;
use strait_wire::*;

/// Long enough for a request to reach the store on a busy machine.
const BRIEF_MS: i32 = 500;

/// An error's kind and path, and whether the request may be repeated.
fn told<T: std::fmt::Debug>(result: Result<T, DfsError>) -> (String, Option<String>, bool) {
    let error = result.unwrap_err();
    (error.kind.unwrap(), error.path, error.retry_safe.unwrap())
}

fn open_slowly(deadline_ms: i32) -> OpenFileRequest {
    let path = Some(SLOWLY_OPENED.to_owned());
    OpenFileRequest { path, deadline_ms: Some(deadline_ms), ..Default::default() }
}

#[test]
fn a_query_stops_at_its_deadline() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    put(&mut client, SLOWLY_OPENED, b"data");
    gate.shut();
    let opened = client.v2::<methods::OpenFile>(open_slowly(BRIEF_MS));
    assert_eq!(told(opened), ("TimedOut".to_owned(), Some(SLOWLY_OPENED.to_owned()), true));
    assert_eq!(gate.waiting(), 0, "the store works on");
    gate.open();
    client.v2::<methods::OpenFile>(open_slowly(i32::MAX)).unwrap();
}

#[test]
fn a_listing_that_stops_amid_a_page_holds_nothing() {
    // More than the gateway takes from the store at once.
    const FILES: usize = 100;
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.calls_per_store = 1);
    let mut client = served.session();
    (0..FILES).for_each(|number| put(&mut client, &format!("{SLOWLY_LISTED}/{number}"), b""));
    let path = Some(SLOWLY_LISTED.to_owned());
    let first = ListDirectoryRequest { path, max_entries: Some(1), ..Default::default() };
    let cursor = client.v2::<methods::ListDirectory>(first).unwrap().cursor;
    assert!(cursor.is_some());
    gate.shut();
    let next = ListDirectoryRequest { cursor, deadline_ms: Some(BRIEF_MS), ..Default::default() };
    assert_eq!(kind(client.v2::<methods::ListDirectory>(next)), "TimedOut");
    eventually("the end of the work at the store", || gate.waiting() == 0);
    // It has the store's only turn again.
    let stat = GetFileInfoRequest { path: Some("/".to_owned()), ..Default::default() };
    client.v2::<methods::GetFileInfo>(stat).unwrap();
    let again = ListDirectoryRequest { cursor, ..Default::default() };
    assert_eq!(kind(client.v2::<methods::ListDirectory>(again)), "InvalidArgument");
}

#[test]
fn a_change_goes_on_after_its_deadline_and_a_retry_learns_its_outcome() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    let append = AppendDataRequest {
        request_id: Some(Bytes::from_static(&[7; 16])),
        handle: Some(handle),
        expected_offset: Some(0),
        data: Some(Bytes::from_static(b"data")),
        deadline_ms: Some(BRIEF_MS),
        ..Default::default()
    };
    gate.shut();
    let appended = client.v2::<methods::AppendData>(append.clone());
    assert_eq!(told(appended), ("TimedOut".to_owned(), None, false));
    assert_eq!(gate.waiting(), 1, "the store works on");
    gate.open();
    let retry = AppendDataRequest { is_retry: Some(true), deadline_ms: None, ..append };
    assert_eq!(client.v2::<methods::AppendData>(retry).unwrap().position, Some(4));
    assert_eq!(close(&mut client, handle).unwrap().length, Some(4));
}

#[test]
fn a_file_that_opens_after_its_deadline_is_free_again() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    gate.shut();
    let request = |id: u8, deadline_ms| CreateFileRequest {
        request_id: Some(Bytes::from(vec![id; 16])),
        path: Some(SLOWLY_CREATED.to_owned()),
        overwrite: Some(true),
        deadline_ms,
        ..Default::default()
    };
    let created = client.v2::<methods::CreateFile>(request(1, Some(BRIEF_MS)));
    assert_eq!(told(created), ("TimedOut".to_owned(), Some(SLOWLY_CREATED.to_owned()), false));
    gate.open();
    // Its client never learns the handle, so nobody could close it.
    let mut id = 1;
    eventually("another writer", || {
        id += 1;
        client.v2::<methods::CreateFile>(request(id, None)).is_ok()
    });
}

#[test]
fn a_request_whose_time_is_over_is_not_begun() {
    let served = serve();
    let mut client = served.session();
    for deadline_ms in [0, -1, i32::MIN] {
        let (path, deadline_ms) = (Some("/d".to_owned()), Some(deadline_ms));
        let make = MakeDirectoriesRequest { path: path.clone(), deadline_ms, ..Default::default() };
        let made = client.v2::<methods::MakeDirectories>(make);
        assert_eq!(told(made), ("TimedOut".to_owned(), path.clone(), true));
        let stat = GetFileInfoRequest { path, ..Default::default() };
        assert_eq!(kind(client.v2::<methods::GetFileInfo>(stat)), "NotFound");
    }
}

#[test]
fn a_change_whose_turn_comes_after_its_deadline_is_not_begun() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.calls_per_store = 1);
    let (mut busy, mut client) = (served.session(), served.session());
    put(&mut client, SLOWLY_OPENED, b"data");
    gate.shut();
    busy.send::<methods::OpenFile>(&open_slowly(i32::MAX).into());
    gate.await_waiting(1);
    let path = Some("/d".to_owned());
    let request_id = Some(Bytes::from_static(&[7; 16]));
    let deadline_ms = Some(BRIEF_MS);
    let make = MakeDirectoriesRequest { request_id, path: path.clone(), deadline_ms, ..Default::default() };
    let made = client.v2::<methods::MakeDirectories>(make.clone());
    assert_eq!(told(made), ("TimedOut".to_owned(), path.clone(), false), "its turn may still come");
    gate.open();
    assert!(matches!(busy.receive::<methods::OpenFile>(), Reply::Success(_)));
    let retry = MakeDirectoriesRequest { is_retry: Some(true), deadline_ms: None, ..make };
    let made = client.v2::<methods::MakeDirectories>(retry);
    assert_eq!(told(made), ("TimedOut".to_owned(), path.clone(), true));
    let stat = GetFileInfoRequest { path, ..Default::default() };
    assert_eq!(kind(client.v2::<methods::GetFileInfo>(stat)), "NotFound");
}

#[test]
fn a_request_that_waits_behind_others_of_its_connection_is_not_begun_after_its_deadline() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    put(&mut client, SLOWLY_OPENED, b"data");
    gate.shut();
    client.send::<methods::OpenFile>(&open_slowly(i32::MAX).into());
    let make = |path: &str, deadline_ms| MakeDirectoriesRequest {
        path: Some(path.to_owned()),
        deadline_ms,
        ..Default::default()
    };
    // The gateway reads one request ahead, and keeps the bytes of the others.
    client.send::<methods::MakeDirectories>(&make("/a", None).into());
    client.send::<methods::MakeDirectories>(&make("/b", Some(BRIEF_MS)).into());
    gate.await_waiting(1);
    eventually("the gateway has read all", || is_all_read(&client.stream));
    let sent = Instant::now();
    eventually("its deadline", || sent.elapsed() > Duration::from_millis(2 * BRIEF_MS as u64));
    gate.open();
    assert!(matches!(client.receive::<methods::OpenFile>(), Reply::Success(_)));
    assert!(matches!(client.receive::<methods::MakeDirectories>(), Reply::Success(_)));
    let Reply::Exception(late) = client.receive::<methods::MakeDirectories>() else {
        panic!("it was executed")
    };
    assert_eq!(late.kind.as_deref(), Some("TimedOut"));
}

/// A gateway in front of another. The runtime serves its connections to that one.
fn in_front_of(behind: &Served) -> (Served, tokio::runtime::Runtime) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = behind.address.to_string();
    let connected = runtime.block_on(StraitStore::connect(&address, Options::default())).unwrap();
    (serve_store(Arc::new(connected), |_| {}), runtime)
}

#[test]
fn a_gateway_in_front_of_another_hands_the_deadline_on() {
    let (store, gate) = Gated::new();
    let behind = serve_store(store, |_| {});
    put(&mut behind.session(), SLOWLY_OPENED, b"data");
    let (front, _runtime) = in_front_of(&behind);
    let mut client = front.session();
    gate.shut();
    assert_eq!(kind(client.v2::<methods::OpenFile>(open_slowly(BRIEF_MS))), "TimedOut");
    eventually("the end of the work at the store", || gate.waiting() == 0);
    gate.open();
    client.v2::<methods::OpenFile>(open_slowly(i32::MAX)).unwrap();
}

#[test]
fn a_file_on_a_gateway_behind_outlasts_the_deadlines_of_its_flush_and_close() {
    let (store, gate) = Gated::new();
    let behind = serve_store(store, |_| {});
    let (front, _runtime) = in_front_of(&behind);
    let mut client = front.session();
    let handle = create(&mut client, "/f");
    append(&mut client, handle, 0, b"data").unwrap();
    gate.shut();
    let (file, deadline_ms) = (Some(handle), Some(BRIEF_MS));
    let mode = Some(FlushMode::Flush);
    let flush = FlushFileRequest { handle: file, mode, deadline_ms, ..Default::default() };
    assert_eq!(kind(client.v2::<methods::FlushFile>(flush)), "TimedOut");
    gate.open();
    append(&mut client, handle, 4, b"more").unwrap();
    gate.shut();
    let request_id = Some(Bytes::from_static(&[7; 16]));
    let close = CloseFileRequest { request_id, handle: file, deadline_ms, ..Default::default() };
    assert_eq!(kind(client.v2::<methods::CloseFile>(close.clone())), "TimedOut");
    gate.open();
    let retry = CloseFileRequest { is_retry: Some(true), deadline_ms: None, ..close };
    assert_eq!(client.v2::<methods::CloseFile>(retry).unwrap().length, Some(8));
}

#[test]
fn a_late_request_without_a_session_gets_a_short_answer() {
    let served = serve();
    let long = format!("/{}", "é".repeat(3_000));
    let request =
        || GetFileInfoRequest { path: Some(long.clone()), deadline_ms: Some(0), ..Default::default() };
    let (_, path, _) = told(served.client().v2::<methods::GetFileInfo>(request()));
    assert!(path.is_none_or(|path| path.len() <= 256));
    let (_, path, _) = told(served.session().v2::<methods::GetFileInfo>(request()));
    assert_eq!(path, Some(long.clone()));
}
