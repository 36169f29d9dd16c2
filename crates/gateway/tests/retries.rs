//! The gateway answers a repeated mutation without executing it again. A client that dies leaves
//! nothing locked.

use crate::common::*;
use bytes::Bytes;
use std::io::Write;
use std::time::Duration;
use strait_testkit::wait::obtained;
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

/// A client of the second gateway over the same store, which has no memory of the first attempts.
fn elsewhere(first: &Served, second: &Served) -> Client {
    let mut client = first.session();
    come_back(second, &client.token.take())
}

fn content(client: &mut Client, path: &str) -> Bytes {
    let handle = open(client, path).unwrap().handle.unwrap();
    read(client, handle, 0, 100).unwrap()
}

/// The error's message, if the outcome is unknown.
fn doubt<T: std::fmt::Debug>(result: Result<T, DfsError>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind.as_deref(), Some("OutcomeUnknown"), "{error:?}");
    assert_eq!(error.retry_safe, Some(false));
    error.message.unwrap()
}

#[test]
fn a_retry_elsewhere_moves_no_file_that_came_after_the_first_attempt() {
    let first = serve();
    let second = serve_store(first.store.clone(), |_| {});
    let (mut retrying, mut bob) = (elsewhere(&first, &second), first.session());
    let rename = |from: &str, to: &str| RenamePathRequest {
        source: Some(from.into()),
        target: Some(to.into()),
        replace: Some(true),
        ..Default::default()
    };
    let retry = RenamePathRequest { is_retry: Some(true), request_id: id(1), ..rename("/a", "/b") };
    put(&mut bob, "/a", b"first");
    bob.v2::<methods::RenamePath>(rename("/a", "/b")).unwrap();
    put(&mut bob, "/a", b"bob's new one");
    let message = doubt(retrying.v2::<methods::RenamePath>(retry.clone()));
    assert!(message.contains("/a and /b"), "{message}");
    assert_eq!(content(&mut bob, "/b")[..], *b"first");

    bob.v2::<methods::RenamePath>(rename("/b", "/c")).unwrap();
    let retry = RenamePathRequest { request_id: id(2), ..retry };
    doubt(retrying.v2::<methods::RenamePath>(retry));
    assert_eq!(content(&mut bob, "/a")[..], *b"bob's new one", "without a target, too");
}

#[test]
fn a_retry_elsewhere_overwrites_no_file() {
    let first = serve();
    let second = serve_store(first.store.clone(), |_| {});
    let (mut retrying, mut bob) = (elsewhere(&first, &second), first.session());
    put(&mut bob, "/a", b"bob's");
    let create = |number, path: &str| CreateFileRequest {
        request_id: id(number),
        is_retry: Some(true),
        path: Some(path.into()),
        overwrite: Some(true),
        ..Default::default()
    };
    let message = doubt(retrying.v2::<methods::CreateFile>(create(1, "/a")));
    assert!(message.contains("/a"), "{message}");
    assert_eq!(content(&mut bob, "/a")[..], *b"bob's");
    let opened = retrying.v2::<methods::CreateFile>(create(2, "/b")).unwrap();
    assert_eq!(opened.position, Some(0), "where there is no file, nothing is lost");
}

#[test]
fn a_retry_elsewhere_sets_no_attributes_again() {
    let first = serve();
    let second = serve_store(first.store.clone(), |_| {});
    let (mut retrying, mut bob) = (elsewhere(&first, &second), first.session());
    put(&mut bob, "/a", b"");
    let set = |permission| SetAttributesRequest {
        path: Some("/a".into()),
        permission: Some(permission),
        ..Default::default()
    };
    bob.v2::<methods::SetAttributes>(set(0o600)).unwrap();
    let retry = |permission| SetAttributesRequest { is_retry: Some(true), ..set(permission) };
    let message = doubt(retrying.v2::<methods::SetAttributes>(retry(0o644)));
    assert!(message.contains("/a"), "{message}");
    retrying.v2::<methods::SetAttributes>(retry(0o600)).unwrap();
}

#[test]
fn an_append_is_recognised_by_its_offset_and_otherwise_not_repeated() {
    let served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    append(&mut client, handle, 0, b"abc").unwrap();
    append(&mut client, handle, 3, b"def").unwrap();
    let retry = |number, expected_offset| AppendDataRequest {
        request_id: id(number),
        is_retry: Some(true),
        handle: Some(handle),
        expected_offset,
        data: Some(Bytes::from_static(b"abc")),
        ..Default::default()
    };
    // Both answers were lost: the client sends both again.
    assert_eq!(client.v2::<methods::AppendData>(retry(1, Some(0))).unwrap().position, Some(3));
    assert_eq!(kind(client.v2::<methods::AppendData>(retry(2, Some(4)))), "InvalidArgument");
    doubt(client.v2::<methods::AppendData>(retry(3, None)));
    assert_eq!(close(&mut client, handle).unwrap().length, Some(6));
}

#[test]
fn many_changes_and_appends_push_no_answer_out() {
    let served = serve();
    let mut client = served.session();
    put(&mut client, "/a", b"first");
    let rename = RenamePathRequest {
        request_id: id(1),
        source: Some("/a".into()),
        target: Some("/b".into()),
        replace: Some(true),
        ..Default::default()
    };
    client.v2::<methods::RenamePath>(rename.clone()).unwrap();
    put(&mut client, "/a", b"second");
    for number in 0u128..2_000 {
        let request = MakeDirectoriesRequest {
            request_id: Some(Bytes::copy_from_slice(&number.to_be_bytes())),
            path: Some("/d".into()),
            ..Default::default()
        };
        client.v2::<methods::MakeDirectories>(request).unwrap();
    }
    let retry = RenamePathRequest { is_retry: Some(true), ..rename };
    client.v2::<methods::RenamePath>(retry).unwrap();
    assert_eq!(content(&mut client, "/b")[..], *b"first");
    assert_eq!(content(&mut client, "/a")[..], *b"second");
}

#[test]
fn a_retry_that_names_too_many_files_looks_at_none() {
    let served = serve();
    let request = ConcatFilesRequest {
        request_id: id(1),
        is_retry: Some(true),
        path: Some("/f".into()),
        sources: Some(vec!["/nothing-there".into(); 1_001]),
        ..Default::default()
    };
    assert_eq!(kind(served.session().v2::<methods::ConcatFiles>(request)), "InvalidArgument");
}

#[test]
fn a_retry_that_is_refused_does_not_say_that_nothing_was_done() {
    let first = serve();
    let second = serve_store(first.store.clone(), |config| config.limits.changes_per_store = 0);
    let third = serve_store(first.store.clone(), |config| config.limits.handles_per_session = 0);
    let (mut busy, mut full) = (elsewhere(&first, &second), elsewhere(&first, &third));
    let rename = |is_retry| RenamePathRequest {
        is_retry: Some(is_retry),
        source: Some("/a".into()),
        target: Some("/b".into()),
        ..Default::default()
    };
    assert_eq!(kind(busy.v2::<methods::RenamePath>(rename(false))), "Busy");
    let message = doubt(busy.v2::<methods::RenamePath>(rename(true)));
    assert!(message.contains("Busy: ") && message.contains("/a and /b"), "{message}");
    let create = CreateFileRequest { path: Some("/c".into()), is_retry: Some(true), ..Default::default() };
    let message = doubt(full.v2::<methods::CreateFile>(create));
    assert!(message.contains("Busy: ") && message.contains("/c"), "{message}");
}

/// As if the gateway had been stopped while its client repeated the change at another one.
#[test]
fn a_change_whose_client_has_left_is_not_begun() {
    let (store, gate) = gated::Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    let mut other = served.session();
    put(&mut other, "/a", b"");
    let handle = create(&mut client, "/f");
    let remove = |id| RemovePathRequest { request_id: id, path: Some("/a".into()), ..Default::default() };
    // While the append stands at the gate, the removal waits for it, and the client leaves.
    gate.shut();
    let request = AppendDataRequest {
        handle: Some(handle),
        data: Some(Bytes::from_static(b"data")),
        ..Default::default()
    };
    client.send::<methods::AppendData>(&request.into());
    gate.await_waiting(1);
    client.send::<methods::RemovePath>(&remove(id(1)).into());
    client.send::<methods::RemovePath>(&remove(None).into());
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    gate.open();
    assert!(matches!(client.receive::<methods::AppendData>(), Reply::Success(_)));
    let refused = match client.receive::<methods::RemovePath>() {
        Reply::Exception(error) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused.kind.as_deref(), Some("Unavailable"));
    // A program that gives no request id repeats nothing, and may wait with its sending side closed.
    assert!(matches!(client.receive::<methods::RemovePath>(), Reply::Success(_)));
}

#[test]
fn a_store_s_recovery_counts_the_time_that_a_lost_client_s_session_lingers() {
    let served = serve_with(|config| config.limits.session_linger = Duration::from_secs(40));
    let mut client = served.client();
    let opened = client.v2::<methods::OpenSession>(OpenSessionRequest::default()).unwrap();
    let own = served.store.capabilities().recovery_ms as i32;
    assert_eq!(opened.store.unwrap().recovery_ms, Some(own + 40_000 + 2_000));
}

#[test]
fn a_truncate_repeated_without_the_right_to_write_is_refused() {
    let first = serve();
    let stranger = |config: &mut strait_gateway::Config| {
        config.access.anonymous = Some(strait_store::Principal::new("stranger"));
    };
    let second = serve_store(first.store.clone(), stranger);
    let (mut owner, mut stranger) = (first.session(), second.session());
    put(&mut owner, "/f", b"12345");
    let retry = TruncateFileRequest {
        path: Some("/f".into()),
        length: Some(5),
        is_retry: Some(true),
        ..Default::default()
    };
    owner.v2::<methods::TruncateFile>(retry.clone()).unwrap();
    assert_eq!(kind(stranger.v2::<methods::TruncateFile>(retry)), "PermissionDenied");
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
    let opened = obtained("the dead client's file", || {
        let request = AppendFileRequest { path: Some("/f".into()), ..Default::default() };
        let opened = other.v2::<methods::AppendFile>(request);
        opened.inspect_err(|error| assert_eq!(error.kind.as_deref(), Some("Busy"))).ok()
    });
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
