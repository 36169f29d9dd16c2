//! The gateway answers a repeated mutation without executing it again. A client that dies leaves
//! nothing locked.

mod common;
use bytes::Bytes;
use common::*;
use std::io::Write;
use std::time::{Duration, Instant};
use strait_wire::*;

fn id(byte: u8) -> Option<Bytes> {
    Some(Bytes::from(vec![byte; 16]))
}

/// Resumes a session on a new connection.
fn come_back(served: &Served, token: &Option<Secret>) -> Client {
    let mut client = served.client();
    client
        .v2::<methods::OpenSession>(OpenSessionRequest { token: token.clone(), ..Default::default() })
        .unwrap();
    client.token = token.clone();
    client
}

#[test]
fn an_append_retried_after_a_cut_connection_is_executed_once() {
    let served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    let request = AppendDataRequest {
        request_id: id(1),
        handle: Some(handle),
        expected_offset: Some(0),
        data: Some(Bytes::from_static(b"once")),
        ..Default::default()
    };
    // The answer never arrives: the connection is cut after the request.
    client.send::<methods::AppendData>(&request.clone().into());
    let token = client.token.take();
    drop(client);

    let mut client = come_back(&served, &token);
    for _ in 0..3 {
        let retry = AppendDataRequest { is_retry: Some(true), ..request.clone() };
        assert_eq!(client.v2::<methods::AppendData>(retry).unwrap().position, Some(4));
    }
    assert_eq!(close(&mut client, handle).unwrap().length, Some(4));
}

#[test]
fn every_kind_of_mutation_gives_the_same_answer_again() {
    let served = serve();
    let mut client = served.session();
    let create = CreateFileRequest { request_id: id(1), path: Some("/a".into()), ..Default::default() };
    let first = client.v2::<methods::CreateFile>(create.clone()).unwrap();
    assert_eq!(client.v2::<methods::CreateFile>(create).unwrap(), first, "the same handle");
    let close = CloseFileRequest { request_id: id(2), handle: first.handle, ..Default::default() };
    client.v2::<methods::CloseFile>(close.clone()).unwrap();
    client.v2::<methods::CloseFile>(close).unwrap();

    let rename = RenamePathRequest {
        request_id: id(3),
        source: Some("/a".into()),
        target: Some("/b".into()),
        ..Default::default()
    };
    client.v2::<methods::RenamePath>(rename.clone()).unwrap();
    client.v2::<methods::RenamePath>(rename).unwrap();

    let remove = RemovePathRequest { request_id: id(4), path: Some("/b".into()), ..Default::default() };
    client.v2::<methods::RemovePath>(remove.clone()).unwrap();
    // Another client makes it anew in between: the repetition must not remove that.
    put(&mut served.session(), "/b", b"new");
    client.v2::<methods::RemovePath>(remove).unwrap();
    assert!(open(&mut client, "/b").is_ok());

    let failing = RemovePathRequest { request_id: id(5), path: Some("/c".into()), ..Default::default() };
    assert_eq!(kind(client.v2::<methods::RemovePath>(failing.clone())), "NotFound");
    put(&mut client, "/c", b"");
    assert_eq!(kind(client.v2::<methods::RemovePath>(failing)), "NotFound", "failures are remembered too");

    let other = MakeDirectoriesRequest { request_id: id(5), path: Some("/d".into()), ..Default::default() };
    assert_eq!(
        kind(client.v2::<methods::MakeDirectories>(other)),
        "InvalidArgument",
        "an id used for another method"
    );
}

#[test]
fn a_retry_that_another_gateway_executed_is_recognised_by_its_effect() {
    // Two gateways over one store, with the same key: a token is good at both.
    let first = serve();
    let second = serve_store(first.store.clone(), |_| {});
    let mut client = first.session();
    put(&mut client, "/a", b"x");
    let rename = RenamePathRequest {
        request_id: id(1),
        source: Some("/a".into()),
        target: Some("/b".into()),
        ..Default::default()
    };
    client.v2::<methods::RenamePath>(rename.clone()).unwrap();

    let mut client = come_back(&second, &client.token.take());
    let retry = RenamePathRequest { is_retry: Some(true), ..rename.clone() };
    client.v2::<methods::RenamePath>(retry).unwrap();
    assert_eq!(
        kind(client.v2::<methods::RenamePath>(RenamePathRequest { request_id: id(2), ..rename })),
        "NotFound",
        "without the word that it's a retry it is a request like any other"
    );

    let remove = |path: &str| RemovePathRequest {
        path: Some(path.into()),
        is_retry: Some(true),
        ..Default::default()
    };
    client.v2::<methods::RemovePath>(remove("/gone")).unwrap();
    // A retry must not destroy another client's file, made since.
    assert_eq!(kind(client.v2::<methods::RemovePath>(remove("/b"))), "OutcomeUnknown");
    let truncate = TruncateFileRequest {
        path: Some("/b".into()),
        length: Some(0),
        is_retry: Some(true),
        ..Default::default()
    };
    assert_eq!(kind(client.v2::<methods::TruncateFile>(truncate)), "OutcomeUnknown");
    let gone = RenamePathRequest {
        source: Some("/gone".into()),
        target: Some("/gone, too".into()),
        is_retry: Some(true),
        ..Default::default()
    };
    assert_eq!(kind(client.v2::<methods::RenamePath>(gone)), "OutcomeUnknown");
    let create = CreateFileRequest {
        request_id: id(3),
        path: Some("/b".into()),
        is_retry: Some(true),
        ..Default::default()
    };
    assert_eq!(kind(client.v2::<methods::CreateFile>(create)), "OutcomeUnknown");
}

#[test]
fn a_client_killed_in_mid_write_leaves_the_flushed_prefix_and_a_writable_file() {
    let served = serve_with(|config| config.limits.session_linger = Duration::from_millis(100));
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    append(&mut client, handle, 0, b"flushed").unwrap();
    let flush = FlushFileRequest { handle: Some(handle), mode: Some(FlushMode::Flush), ..Default::default() };
    client.v2::<methods::FlushFile>(flush).unwrap();
    // Sends half an append, and closes the connection.
    let request = AppendDataRequest {
        handle: Some(handle),
        expected_offset: Some(7),
        data: Some(Bytes::from(vec![b'x'; 100_000])),
        ..Default::default()
    };
    let whole = methods::AppendData::call(FRAMED, 9, &request.into()).to_bytes();
    client.stream.write_all(&whole[..50_000]).unwrap();
    drop(client);

    let mut other = served.session();
    let deadline = Instant::now() + Duration::from_secs(10);
    let opened = loop {
        let request = AppendFileRequest { path: Some("/f".into()), ..Default::default() };
        match other.v2::<methods::AppendFile>(request) {
            Ok(opened) => break opened,
            Err(error) => assert_eq!(error.kind.as_deref(), Some("Busy")),
        }
        assert!(Instant::now() < deadline, "the dead client's file stays locked");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(opened.position, Some(7));
    append(&mut other, opened.handle.unwrap(), 7, b"!").unwrap();
}

#[test]
fn a_client_that_comes_back_in_time_finds_its_files_open() {
    let served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    append(&mut client, handle, 0, b"ab").unwrap();
    let token = client.token.take();
    drop(client);
    let mut client = come_back(&served, &token);
    append(&mut client, handle, 2, b"cd").unwrap();
    assert_eq!(close(&mut client, handle).unwrap().length, Some(4));
}
