//! A store that is slow or panics costs clients only time. Requests keep their order, and clients keep
//! their connections, sessions and bytes.

use crate::common::gated::{Gated, SLOWLY_CREATED, SLOWLY_READ};
use crate::common::http::{connect, head_of, receive};
use crate::common::*;
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_gateway::{Access, ConfiguredStore, PasswordFile};
use strait_store::MemoryStore;
use strait_testkit::sockets::{is_all_read, is_ended};
use strait_testkit::wait::{eventually, pause, stays};
use strait_wire::*;

fn append_request(handle: i64, at: i64, data: &'static [u8]) -> AppendDataRequest {
    AppendDataRequest {
        handle: Some(handle),
        expected_offset: Some(at),
        data: Some(Bytes::from_static(data)),
        ..Default::default()
    }
}

/// Ends a connection in mid-request, so that the gateway closes it at once instead of answering
/// earlier requests.
fn cut(mut client: Client) {
    client.stream.write_all(&[0, 0]).unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert!(client.message().is_none(), "cut off");
}

#[test]
fn a_refusal_comes_after_the_answers_to_what_was_asked_before() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    gate.shut();
    client.send::<methods::AppendData>(&append_request(handle, 0, b"data").into());
    gate.await_waiting(1);
    client.stream.write_all(&[0; 4]).unwrap(); // an empty frame
    eventually("it is received", || is_all_read(&client.stream));
    gate.open();
    assert!(matches!(client.receive::<methods::AppendData>(), Reply::Success(_)));
    assert!(matches!(client.receive::<methods::AppendData>(), Reply::Application(_)));
    assert!(client.is_closed());
}

#[test]
fn a_read_waits_for_the_flush_that_was_sent_before_it() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    let writer = create(&mut client, "/f");
    let reader = open(&mut client, "/f").unwrap().handle;
    append(&mut client, writer, 0, b"data").unwrap();
    gate.shut();
    let flush = FlushFileRequest { handle: Some(writer), mode: Some(FlushMode::Flush), ..Default::default() };
    client.send::<methods::FlushFile>(&flush.into());
    gate.await_waiting(1);
    let read = ReadRangeRequest { handle: reader, offset: Some(0), length: Some(4), ..Default::default() };
    client.send::<methods::ReadRange>(&read.into());
    eventually("it is received", || is_all_read(&client.stream));
    gate.open();
    assert!(matches!(client.receive::<methods::FlushFile>(), Reply::Success(_)));
    let Reply::Success(read) = client.receive::<methods::ReadRange>() else { panic!("no success") };
    assert_eq!(read.data.as_deref(), Some(&b"data"[..]));
}

#[test]
fn a_client_is_not_cut_off_for_the_time_its_store_takes() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.stall = Duration::from_millis(100));
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    gate.shut();
    for index in 0..8 {
        client.send::<methods::AppendData>(&append_request(handle, index * 4, b"data").into());
    }
    gate.await_waiting(1);
    pause("many times as long as a client may stall", Duration::from_millis(600));
    gate.open();
    for index in 1..=8 {
        match client.message().map(|m| methods::AppendData::decode_reply(Protocol::Binary, m).unwrap().1) {
            Some(Reply::Success(reply)) => assert_eq!(reply.position, Some(index * 4)),
            other => panic!("append {index}: {other:?}"),
        }
    }
}

#[test]
fn transfers_that_hang_leave_turns_to_calls_that_only_look() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.calls_per_store = 8);
    let large: &'static [u8] = vec![7; 1 << 20].leak();
    let mut writers: Vec<Client> = (0..6).map(|_| served.session()).collect();
    for (number, writer) in writers.iter_mut().enumerate() {
        let handle = create(writer, &format!("/f{number}"));
        gate.shut();
        writer.send::<methods::AppendData>(&append_request(handle, 0, large).into());
        gate.await_waiting(1);
    }
    let request = GetFileInfoRequest { path: Some("/f0".into()), ..Default::default() };
    served.session().v2::<methods::GetFileInfo>(request).unwrap();
    assert!(gate.waiting() <= 2, "{} of 8 turns", gate.waiting());
    gate.open();
    for writer in &mut writers {
        assert!(matches!(writer.receive::<methods::AppendData>(), Reply::Success(_)));
    }
}

#[test]
fn a_session_at_work_does_not_idle_out() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.session_linger = Duration::from_millis(50));
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    // On a connection that isn't attached to a session.
    let mut other = served.client();
    gate.shut();
    let request = AppendDataRequest { session: client.token.clone(), ..append_request(handle, 0, b"data") };
    other.send::<methods::AppendData>(&request.into());
    gate.await_waiting(1);
    let token = client.token.take();
    drop(client);
    pause("many times as long as an unused session lasts", Duration::from_millis(500));
    gate.open();
    assert!(matches!(other.receive::<methods::AppendData>(), Reply::Success(_)));
    let close = CloseFileRequest { session: token, handle: Some(handle), ..Default::default() };
    assert_eq!(other.v2::<methods::CloseFile>(close).unwrap().length, Some(4));
}

#[test]
fn appends_whose_clients_have_gone_keep_their_place_in_memory() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.buffered_bytes = 18 << 20);
    let chunk: &'static [u8] = vec![7; 4 << 20].leak();
    let mut writer = served.session();
    let handles: Vec<i64> = (0..4).map(|n| create(&mut writer, &format!("/f{n}"))).collect();
    gate.shut();
    for (index, handle) in handles.iter().enumerate() {
        let mut client = served.client();
        let request =
            AppendDataRequest { session: writer.token.clone(), ..append_request(*handle, 0, chunk) };
        // On a thread, since sending may block.
        let sending = std::thread::spawn(move || {
            client.send::<methods::AppendData>(&request.into());
            client
        });
        if index < 2 {
            gate.await_waiting(index + 1);
            cut(sending.join().unwrap());
        }
    }
    served.await_waiting_for_memory(2);
    assert_eq!(gate.waiting(), 2, "as many as there is memory for");
    gate.open();
    for handle in &handles {
        eventually("the others have their turn", || append(&mut writer, *handle, 4 << 20, b"x").is_ok());
    }
}

#[test]
fn changes_whose_clients_have_gone_do_not_become_ever_more() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| {
        let elsewhere = Arc::new(MemoryStore::new("tester"));
        config.stores.push(ConfiguredStore {
            name: "other".into(),
            uri: "memory:///2".into(),
            fs: elsewhere,
        });
        config.limits.changes_per_store = 6; // of which one user has half
    });
    let mut owner = served.session();
    let handles: Vec<i64> = (0..4).map(|n| create(&mut owner, &format!("/f{n}"))).collect();
    gate.shut();
    let close_of = |handle: i64| CloseFileRequest {
        session: owner.token.clone(),
        handle: Some(handle),
        ..Default::default()
    };
    for (index, handle) in handles[..3].iter().enumerate() {
        let mut client = served.client();
        client.send::<methods::CloseFile>(&close_of(*handle).into());
        gate.await_waiting(index + 1);
        cut(client);
    }
    let mut client = served.session();
    let error = client.v2::<methods::CloseFile>(close_of(handles[3])).unwrap_err();
    assert_eq!((error.kind.as_deref(), error.retry_safe), (Some("Busy"), Some(true)));
    let flush = FlushFileRequest {
        session: owner.token.clone(),
        handle: Some(handles[3]),
        mode: Some(FlushMode::Flush),
        ..Default::default()
    };
    assert_eq!(kind(client.v2::<methods::FlushFile>(flush)), "Busy");
    open(&mut client, "/f3").unwrap(); // a query still works
    let mut elsewhere = served.client();
    let request = OpenSessionRequest { store: Some("other".into()), ..Default::default() };
    elsewhere.v2::<methods::OpenSession>(request).unwrap();
    put(&mut elsewhere, "/f", b"and so does another store");
    gate.open();
    eventually("a place is free", || client.v2::<methods::CloseFile>(close_of(handles[3])).is_ok());
}

#[test]
fn a_repetition_is_answered_however_many_changes_are_at_work() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.changes_per_store = 1);
    let mut owner = served.session();
    let request_id = Some(Bytes::from_static(&[7; 16]));
    let handle = create(&mut owner, "/f");
    let request = AppendDataRequest { request_id, ..append_request(handle, 0, b"data") };
    let by_token = AppendDataRequest { session: owner.token.clone(), ..request };
    gate.shut();
    let mut first = served.client();
    first.send::<methods::AppendData>(&by_token.clone().into());
    gate.await_waiting(1);
    cut(first);
    let mut second = served.client();
    second.send::<methods::AppendData>(&AppendDataRequest { is_retry: Some(true), ..by_token }.into());
    let mut other = served.session();
    let mkdir = MakeDirectoriesRequest { path: Some("/d".into()), ..Default::default() };
    assert_eq!(kind(other.v2::<methods::MakeDirectories>(mkdir)), "Busy");
    eventually("the repetition is received", || is_all_read(&second.stream));
    gate.open();
    let Reply::Success(reply) = second.receive::<methods::AppendData>() else { panic!("not answered") };
    assert_eq!(reply.position, Some(4));
}

#[test]
fn a_write_of_2009_that_is_cut_off_is_no_half_write() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut owner = served.client();
    let Reply::Success(ch) = owner.call::<methods::Init>(InitArgs::default()) else { panic!("no session") };
    let ch = Some(ch);
    let open = OpenArgs { ch: ch.clone(), filename: Some("/f".into()), mode: Some(2) };
    let dh = Some(owner.old::<methods::Open>(open).unwrap());
    let write = |data: &'static [u8]| WriteArgs {
        ch: ch.clone(),
        dh: dh.clone(),
        buf: Some(Bytes::from_static(data)),
        offset: Some(-1),
        len: Some(data.len() as i64),
    };
    gate.shut();
    let mut other = served.client();
    other.send::<methods::Write>(&write(b"whole."));
    gate.await_waiting(1);
    cut(other);
    gate.open();
    owner.old::<methods::Write>(write(b"and more")).unwrap();
    owner.old::<methods::Close>(CloseArgs { ch: ch.clone(), dh: dh.clone() }).unwrap();
    let stat = PathArgs { ch, path: Some("/f".into()) };
    assert_eq!(owner.old::<methods::Stat>(stat).unwrap().length, Some(14));
}

#[test]
fn a_copy_whose_client_goes_away_leaves_what_was_there() {
    let (store, gate) = Gated::new();
    let local = std::sync::Arc::new(strait_store::MemoryStore::new("tester"));
    let served = serve_store(store, |config| {
        config.local_root = Some(strait_gateway::LocalRoot { path: "/here".into(), fs: local, umask: 0o022 });
    });
    let copy = |src: &str, dest: &str| CopyArgs { src: Some(src.into()), dest: Some(dest.into()) };
    let mut client = served.session();
    put(&mut client, "/f", b"what was there");
    let mut other = served.client();
    let _ = other.call::<methods::Init>(InitArgs::default());
    other.old::<methods::CopyToLocalFile>(copy("/f", "/here/f")).unwrap();
    gate.shut();
    other.send::<methods::CopyFromLocalFile>(&copy("/here/f", "/f"));
    gate.await_waiting(1);
    cut(other);
    gate.open();
    let handle = open(&mut client, "/f").unwrap().handle.unwrap();
    assert_eq!(read(&mut client, handle, 0, 100).unwrap(), "what was there");
    let list = ListDirectoryRequest { path: Some("/".into()), ..Default::default() };
    eventually("no temporary file is left", || {
        client.v2::<methods::ListDirectory>(list.clone()).unwrap().entries.unwrap().len() == 1
    });
}

#[test]
fn changes_of_2009_take_places_among_the_changes_of_their_store() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| config.limits.changes_per_store = 1);
    let mut owner = served.session();
    let handle = create(&mut owner, "/f");
    gate.shut();
    owner.send::<methods::AppendData>(&append_request(handle, 0, b"data").into());
    gate.await_waiting(1);
    let mut client = served.client();
    let _ = client.call::<methods::Init>(InitArgs::default());
    let path = || Some("/d".into());
    let moved = MoveArgs { old_path: path(), new_path: Some("/e".into()), ch: None };
    for refused in [
        client.old::<methods::Mkdir>(PathArgs { ch: None, path: path() }),
        client.old::<methods::Move>(moved),
        client.old::<methods::Remove>(RemoveArgs { ch: None, path: path(), recursive: None }),
    ] {
        let error = refused.unwrap_err();
        assert!(error.contains("too many changes"), "{error}");
    }
    gate.open();
}

#[test]
fn copies_wait_for_a_part_of_the_memory_that_clients_share() {
    let (store, gate) = Gated::new();
    let local = Arc::new(MemoryStore::new("tester"));
    let served = serve_store(store, |config| {
        config.local_root = Some(strait_gateway::LocalRoot { path: "/here".into(), fs: local, umask: 0o022 });
        config.limits.buffered_bytes = 2 << 20;
    });
    let copy = |src: &str, dest: &str| CopyArgs { src: Some(src.into()), dest: Some(dest.into()) };
    put(&mut served.session(), "/f", b"content");
    let mut copying: Vec<Client> = (0..2).map(|_| served.client()).collect();
    for client in &mut copying {
        let _ = client.call::<methods::Init>(InitArgs::default());
        client.old::<methods::CopyToLocalFile>(copy("/f", "/here/f")).unwrap();
    }
    gate.shut();
    for client in &mut copying {
        client.send::<methods::CopyFromLocalFile>(&copy("/here/f", "/g"));
    }
    served.await_waiting_for_memory(1);
    gate.await_waiting(1);
    assert_eq!(gate.waiting(), 1, "the other copy's turn comes later");
    gate.open();
    for client in &mut copying {
        assert!(matches!(client.receive::<methods::CopyFromLocalFile>(), Reply::Success(true)));
    }
}

#[test]
fn a_client_that_never_stops_asking_does_not_hold_up_the_end() {
    let mut served = serve();
    let mut client = served.session();
    let stat = GetFileInfoRequest { path: Some("/".into()), ..Default::default() };
    let mut answers = client.stream.try_clone().unwrap();
    let (under_way, is_under_way) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        answers.read_exact(&mut [0; 64 << 10]).unwrap();
        under_way.send(()).unwrap();
        std::io::copy(&mut answers, &mut std::io::sink())
    });
    let asking = std::thread::spawn(move || {
        let one = methods::GetFileInfo::call(FRAMED, 1, &stat.into()).to_bytes();
        let many = one.repeat(100);
        while client.stream.write_all(&many).is_ok() {}
    });
    is_under_way.recv().unwrap();
    let begun = Instant::now();
    served.shut_down();
    // It would never end. A busy machine needs time for the calls in progress.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    asking.join().unwrap();
    let _ = reading.join().unwrap();
}

#[test]
fn a_panic_in_a_store_is_one_calls_failure() {
    let (store, _gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    let defect = OpenFileRequest { path: Some("/defect".into()), ..Default::default() };
    let Reply::Application(error) = client.call::<methods::OpenFile>(defect.into()) else {
        panic!("no exception")
    };
    assert_eq!(error.kind, ApplicationErrorKind::InternalError);
    append(&mut client, handle, 0, b"data").unwrap();
}

#[test]
fn a_file_that_is_made_while_its_session_is_closed_stays_open_for_nobody() {
    let (store, gate) = Gated::new();
    let served = serve_store(store, |_| {});
    let [mut one, mut other] = [served.session(), served.client()];
    let attach = OpenSessionRequest { token: one.token.clone(), ..Default::default() };
    other.v2::<methods::OpenSession>(attach).unwrap();
    gate.shut();
    let request = CreateFileRequest { path: Some(SLOWLY_CREATED.into()), ..Default::default() };
    one.send::<methods::CreateFile>(&request.into());
    gate.await_waiting(1);
    other.v2::<methods::CloseSession>(CloseSessionRequest::default()).unwrap();
    gate.open();
    let Reply::Exception(error) = one.receive::<methods::CreateFile>() else { panic!("it has a handle") };
    assert_eq!(error.kind.as_deref(), Some("OutcomeUnknown"), "the file is there");
    assert_eq!(gate.writers(), 0, "though its connection lasts");
}

#[test]
fn a_file_that_is_opened_during_a_logout_is_not_the_next_users() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("passwords");
    PasswordFile::set(&users, "tester", "secret").unwrap();
    let (store, gate) = Gated::new();
    let served = serve_store(store, |config| {
        let passwords = Some(PasswordFile::load(&users).unwrap());
        config.access = Access { passwords, ..Access::default() };
    });
    let [mut one, mut other] = [(); 2].map(|()| served.client_on(UNFRAMED));
    let Reply::Success(ch) = one.call::<methods::Init>(InitArgs { uri: None }) else { panic!("no client") };
    let ch = Some(ch);
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let login = LoginArgs { ch: ch.clone(), user, password };
    assert!(matches!(one.call::<methods::Login>(login), Reply::Success(true)));
    gate.shut();
    let (filename, mode) = (Some(SLOWLY_CREATED.into()), Some(2));
    one.send::<methods::Open>(&OpenArgs { ch: ch.clone(), filename, mode });
    gate.await_waiting(1);
    assert!(matches!(other.call::<methods::Logout>(ClientArgs { ch }), Reply::Success(true)));
    gate.open();
    assert!(matches!(one.receive::<methods::Open>(), Reply::Exception(_)));
    assert_eq!(gate.writers(), 0);
}

#[test]
fn a_download_waits_for_its_store_though_its_client_sends_nothing() {
    const FIRST: usize = 512 << 10;
    let (store, gate) = Gated::new();
    // A client that rests for longer loses its connection.
    let greeting = Duration::from_secs(1);
    let served = serve_store(store, |config| config.limits.greeting = greeting);
    let content: Vec<u8> = (0..(2 * FIRST as u32 / 4)).flat_map(u32::to_le_bytes).collect();
    put(&mut served.session(), SLOWLY_READ, &content);
    gate.shut();
    let mut stream = connect(&served);
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(get(&format!("/v1/files{SLOWLY_READ}")).as_bytes()).unwrap();
    assert_eq!(head_of(&mut stream).status, 200);
    let mut got = vec![0; FIRST];
    stream.read_exact(&mut got).unwrap();
    gate.await_waiting(1);
    stays("the gateway keeps the connection", 3 * greeting, || !is_ended(&stream));
    gate.open();
    got.resize(content.len(), 0);
    stream.read_exact(&mut got[FIRST..]).unwrap();
    assert!(got == content);
    stream.write_all(get("/openapi.json").as_bytes()).unwrap();
    assert_eq!(receive(&mut stream).status, 200);
}
