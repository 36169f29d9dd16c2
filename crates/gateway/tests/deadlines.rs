//! Requests with a deadline: the gateway works no longer for clients that have given up.

mod common;
use bytes::Bytes;
use common::gated::{Gated, SLOWLY_OPENED};
use common::*;
use std::sync::Arc;
use strait_client::{Options, StraitStore};
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
fn a_gateway_in_front_of_another_hands_the_deadline_on() {
    let (store, gate) = Gated::new();
    let behind = serve_store(store, |_| {});
    put(&mut behind.session(), SLOWLY_OPENED, b"data");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let address = behind.address.to_string();
    let connected = runtime.block_on(StraitStore::connect(&address, Options::default())).unwrap();
    let front = serve_store(Arc::new(connected), |_| {});
    let mut client = front.session();
    gate.shut();
    assert_eq!(kind(client.v2::<methods::OpenFile>(open_slowly(BRIEF_MS))), "TimedOut");
    eventually("the end of the work at the store", || gate.waiting() == 0);
    gate.open();
    client.v2::<methods::OpenFile>(open_slowly(i32::MAX)).unwrap();
}
