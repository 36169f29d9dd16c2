//! Each limit holds, and its error names it.

use crate::common::*;
use std::io::Write;
use std::time::Duration;
use strait_gateway::PasswordFile;
use strait_testkit::wait::{eventually, pause};
use strait_wire::*;

#[test]
fn connections_over_the_limit_are_ended_and_places_come_free_again() {
    let served = serve_with(|config| config.limits.connections = 6); // half for one user
    let mut held: Vec<Client> = (0..3).map(|_| served.session()).collect();
    let mut fourth = served.client();
    assert!(fourth.is_closed());
    held[0].v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
    drop(held.pop());
    eventually("a place comes free", || {
        let mut client = served.client();
        client.send::<methods::ServerInfo>(&ServerInfoRequest::default().into());
        client.message().is_some()
    });
}

#[test]
fn handles_over_the_limit_are_refused_until_one_is_closed() {
    let served = serve_with(|config| config.limits.handles_per_session = 2);
    let mut client = served.session();
    put(&mut client, "/f", b"x");
    let first = open(&mut client, "/f").unwrap().handle.unwrap();
    open(&mut client, "/f").unwrap();
    let error = open(&mut client, "/f").unwrap_err();
    assert_eq!((error.kind.as_deref(), error.retry_safe), (Some("Busy"), Some(true)));
    close(&mut client, first).unwrap();
    open(&mut client, "/f").unwrap();
}

#[test]
fn one_origin_can_not_take_all_handles() {
    let served = serve_with(|config| config.limits.handles = 8);
    let (mut greedy, mut modest) = (served.session(), served.session());
    put(&mut modest, "/f", b"x");
    let mut held = Vec::new();
    let error = loop {
        match open(&mut greedy, "/f") {
            Ok(opened) => held.push(opened.handle.unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind.as_deref(), error.retry_safe), (Some("Busy"), Some(true)));
    assert_eq!(held.len(), 4);
    let writer = CreateFileRequest { path: Some("/g".into()), ..Default::default() };
    assert_eq!(kind(greedy.v2::<methods::CreateFile>(writer)), "Busy");
    assert_eq!(kind(open(&mut modest, "/f")), "Busy", "nor by another session");
    for handle in held {
        close(&mut greedy, handle).unwrap();
    }
    put(&mut modest, "/h", b"x");
}

#[test]
fn a_session_that_idles_out_is_gone_and_its_token_opens_a_new_one() {
    let served = serve_with(|config| config.limits.session_linger = Duration::from_millis(50));
    let mut client = served.session();
    put(&mut client, "/f", b"x");
    let handle = open(&mut client, "/f").unwrap().handle.unwrap();
    let token = client.token.take();
    drop(client);
    eventually("the session ends", || {
        pause("longer than an unused session lasts: each look uses it", Duration::from_millis(200));
        let mut other = served.client();
        let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
        other.v2::<methods::OpenSession>(request).unwrap();
        read(&mut other, handle, 0, 1).is_err()
    });
}

#[test]
fn a_session_used_by_its_token_alone_is_in_use_as_long_as_its_connection() {
    let served = serve_with(|config| config.limits.session_linger = Duration::from_millis(50));
    let mut client = served.session();
    put(&mut client, "/f", b"x");
    let token = client.token.take();
    let mut other = served.client(); // attached to no session
    let open = OpenFileRequest { session: token.clone(), path: Some("/f".into()), ..Default::default() };
    let handle = other.v2::<methods::OpenFile>(open).unwrap().handle;
    drop(client);
    pause("many times as long as an unused session lasts", Duration::from_millis(500));
    let (offset, length) = (Some(0), Some(1));
    let read = |session| ReadRangeRequest { session, handle, offset, length, ..Default::default() };
    assert_eq!(other.v2::<methods::ReadRange>(read(token.clone())).unwrap().data.unwrap(), "x");
    drop(other);
    eventually("it ends after its connections", || {
        pause("longer than an unused session lasts: each look uses it", Duration::from_millis(200));
        served.client().v2::<methods::ReadRange>(read(token.clone())).is_err()
    });
}

#[test]
fn a_wrong_token_and_a_foreign_store_are_refused() {
    let served = serve();
    let mut client = served.client();
    for token in ["", "s1.00", "s1.zz", "nonsense"] {
        let request = OpenSessionRequest { token: Some(Secret(token.into())), ..Default::default() };
        assert_eq!(kind(client.v2::<methods::OpenSession>(request)), "Unauthenticated");
    }
    for store in ["file:///etc", "hdfs://elsewhere:8020", "mainx"] {
        let request = OpenSessionRequest { store: Some(store.into()), ..Default::default() };
        assert_eq!(kind(client.v2::<methods::OpenSession>(request)), "NotFound", "{store}");
    }
    assert_eq!(kind(open(&mut client, "/")), "Unauthenticated", "no session");
}

#[test]
fn a_closed_session_s_tokens_are_good_for_nothing() {
    let served = serve();
    let mut client = served.session();
    let mut second = served.client();
    let request = OpenSessionRequest { token: client.token.clone(), ..Default::default() };
    let renewed = second.v2::<methods::OpenSession>(request).unwrap().token;
    let handle = create(&mut second, "/f");
    let tokens = [client.token.clone(), renewed];
    client.v2::<methods::CloseSession>(CloseSessionRequest::default()).unwrap();
    assert_eq!(kind(append(&mut second, handle, 0, b"x")), "Unauthenticated", "on its other connection");
    for token in tokens {
        let request = OpenSessionRequest { token: token.clone(), ..Default::default() };
        assert_eq!(kind(served.client().v2::<methods::OpenSession>(request)), "Unauthenticated");
        let by_token = OpenFileRequest { session: token, path: Some("/f".into()), ..Default::default() };
        assert_eq!(kind(served.client().v2::<methods::OpenFile>(by_token)), "Unauthenticated");
    }
}

#[test]
fn strangers_can_not_have_a_user_s_closed_session_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwd");
    PasswordFile::set(&file, "alice", "right").unwrap();
    let served = serve_with(|config| {
        config.access.passwords = Some(PasswordFile::load(&file).unwrap());
        config.limits.closed_sessions = 2;
    });
    let mut client = served.client();
    let login = OpenSessionRequest {
        user: Some("alice".into()),
        password: Some(Secret("right".into())),
        ..Default::default()
    };
    let token = client.v2::<methods::OpenSession>(login).unwrap().token;
    client.v2::<methods::CloseSession>(CloseSessionRequest::default()).unwrap();
    for _ in 0..3 {
        let mut stranger = served.session();
        stranger.v2::<methods::CloseSession>(CloseSessionRequest::default()).unwrap();
    }
    let request = OpenSessionRequest { token, ..Default::default() };
    assert_eq!(kind(client.v2::<methods::OpenSession>(request)), "Unauthenticated");
}

#[test]
fn only_the_right_password_opens_a_session_where_nobody_is_anonymous() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("passwd");
    PasswordFile::set(&file, "alice", "right").unwrap();
    let served = serve_with(|config| {
        config.access.passwords = Some(PasswordFile::load(&file).unwrap());
        config.access.anonymous = None;
    });
    let mut client = served.client();
    let login = |user: Option<&str>, password: Option<&str>| OpenSessionRequest {
        user: user.map(str::to_owned),
        password: password.map(|password| Secret(password.to_owned())),
        ..Default::default()
    };
    for wrong in [login(None, None), login(Some("alice"), None), login(Some("alice"), Some("wrong"))] {
        assert_eq!(kind(client.v2::<methods::OpenSession>(wrong)), "Unauthenticated");
    }
    assert_eq!(kind(client.v2::<methods::OpenSession>(login(Some("bob"), Some("right")))), "Unauthenticated");
    let opened = client.v2::<methods::OpenSession>(login(Some("alice"), Some("right"))).unwrap();
    assert_eq!(opened.user.as_deref(), Some("alice"));
    // The token represents the login on another connection.
    let mut other = served.client();
    let reply =
        other.v2::<methods::OpenSession>(OpenSessionRequest { token: opened.token, ..Default::default() });
    assert_eq!(reply.unwrap().user.as_deref(), Some("alice"));
}

#[test]
fn clients_that_never_read_leave_the_others_served() {
    let served = serve_with(|config| config.limits.buffered_bytes = 8 << 20);
    let mut writer = served.session();
    put(&mut writer, "/f", &vec![5; 4 << 20]);
    // Each asks for far more than the budget, and takes nothing.
    let _greedy: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = served.session();
            let handle = open(&mut client, "/f").unwrap().handle;
            let request =
                ReadRangeRequest { handle, offset: Some(0), length: Some(4 << 20), ..Default::default() };
            for _ in 0..20 {
                client.send::<methods::ReadRange>(&request.clone().into());
            }
            client
        })
        .collect();
    let mut client = served.session();
    let handle = open(&mut client, "/f").unwrap().handle.unwrap();
    let mut length = 0;
    while length < 4 << 20 {
        let piece = read(&mut client, handle, length as i64, 4 << 20).unwrap();
        assert!(!piece.is_empty(), "short is allowed, empty would mean the end");
        length += piece.len();
    }
}

#[test]
fn a_client_stalled_in_mid_request_is_cut() {
    let served = serve_with(|config| config.limits.stall = Duration::from_millis(200));
    let mut client = served.client();
    client.stream.write_all(&[0, 0, 1]).unwrap();
    assert!(client.is_closed());
    let mut idle = served.client();
    pause("longer than a request may stall", Duration::from_millis(700));
    idle.v2::<methods::ServerInfo>(ServerInfoRequest::default()).unwrap();
}

#[test]
fn shutting_down_ends_requests_in_flight_well_and_closes_files() {
    let mut served = serve();
    let mut client = served.session();
    let handle = create(&mut client, "/f");
    for index in 0..50 {
        let request = AppendDataRequest {
            handle: Some(handle),
            expected_offset: Some(index * 10_000),
            data: Some(bytes::Bytes::from(vec![1; 10_000])),
            ..Default::default()
        };
        client.send::<methods::AppendData>(&request.into());
    }
    let Reply::Success(_) = client.receive::<methods::AppendData>() else { panic!("no success") };
    served.shut_down();
    let mut answered = 1;
    while let Some(message) = client.message() {
        let (_, reply) = methods::AppendData::decode_reply(Protocol::Binary, message).unwrap();
        assert!(matches!(reply, Reply::Success(_)));
        answered += 1;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let who = strait_store::Principal::new("tester");
    let path = strait_store::StorePath::parse("/f").unwrap();
    let status = runtime.block_on(served.store.stat(&who, &path)).unwrap();
    assert!(status.length >= answered * 10_000, "{} answered, {} bytes", answered, status.length);
    assert!(std::net::TcpStream::connect(served.address).is_err());
}
