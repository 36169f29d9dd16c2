//! Thrift over HTTP: which requests are served, for whom, and what becomes of hostile ones.

use crate::common::http::*;
use crate::common::*;
use bytes::Bytes;
use std::io::Write;
use std::time::{Duration, Instant};
use strait_gateway::{Access, HttpAccess};
use strait_store::Principal;
use strait_testkit::wait::pause;
use strait_wire::*;

const JSON: Wire = Wire { protocol: Protocol::Json, framed: false };
const COMPACT: Wire = Wire { protocol: Protocol::Compact, framed: false };
fn request(fields: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn post(served: &Served, fields: &str, body: &[u8]) -> Answer {
    raw(served, &request(fields, body))
}

const THRIFT: &str = "Content-Type: application/x-thrift\r\n";
const COMPACT_TYPE: &str = "Content-Type: application/vnd.apache.thrift.compact\r\n";

fn info(wire: Wire) -> Bytes {
    methods::ServerInfo::call(wire, 1, &ServerInfoRequest::default().into()).to_bytes()
}

fn call<M: Method>(served: &Served, fields: &str, args: &M::Args) -> Reply<M> {
    let answer = post(served, &format!("{THRIFT}{fields}"), &M::call(JSON, 5, args).to_bytes());
    assert_eq!(answer.status, 200, "{} {:?}", answer.head, answer.body);
    M::decode_reply(Protocol::Json, answer.body).unwrap().1
}

/// A refusal that a program on Apache's libraries reads, since they ignore the status.
fn thrown(answer: &Answer, status: u16, protocol: Protocol, words: &str) {
    assert_eq!(answer.status, status, "{}", answer.head);
    let reply = methods::ServerInfo::decode_reply(protocol, answer.body.clone()).unwrap().1;
    let Reply::Application(error) = reply else { panic!("{}: {:?}", answer.head, answer.body) };
    assert!(error.message.contains(words), "{error:?}");
}

fn log_in(served: &Served) -> String {
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let request = OpenSessionRequest { user, password, ..Default::default() };
    let Reply::Success(reply) = call::<methods::OpenSession>(served, "", &request.into()) else {
        panic!("no session")
    };
    reply.token.unwrap().0
}

#[test]
fn each_protocol_is_served_by_content_type_on_one_kept_connection() {
    let served = serve();
    let mut stream = connect(&served);
    for (kind, wire) in [
        ("x-thrift", UNFRAMED),
        ("x-thrift", COMPACT),
        ("X-Thrift; charset=utf-8", JSON),
        ("vnd.apache.thrift.binary", UNFRAMED),
        ("vnd.apache.thrift.compact", COMPACT),
        ("vnd.apache.thrift.json", JSON),
    ] {
        stream.write_all(&request(&format!("Content-Type: application/{kind}\r\n"), &info(wire))).unwrap();
        let answer = receive(&mut stream);
        assert_eq!(answer.status, 200, "{kind}: {}", answer.head);
        let (_, reply) = methods::ServerInfo::decode_reply(wire.protocol, answer.body).unwrap();
        assert!(matches!(reply, Reply::Success(_)), "{kind}");
    }
}

#[test]
fn a_file_is_written_and_read_by_token() {
    let dir = tempfile::tempdir().unwrap();
    let served = with_users(dir.path());
    let bearer = format!("Authorization: Bearer {}\r\n", log_in(&served));
    let create = CreateFileRequest { path: Some("/f".into()), ..Default::default() };
    let Reply::Success(opened) = call::<methods::CreateFile>(&served, &bearer, &create.into()) else {
        panic!("not created")
    };
    let data = Bytes::from(vec![0xfe; 1 << 20]);
    let append = AppendDataRequest {
        handle: opened.handle,
        expected_offset: Some(0),
        data: Some(data.clone()),
        ..Default::default()
    };
    // A large body needs the token in its head.
    let body = methods::AppendData::call(JSON, 1, &append.clone().into()).to_bytes();
    thrown(&post(&served, THRIFT, &body), 413, Protocol::Json, "needs the session's token");
    assert!(matches!(call::<methods::AppendData>(&served, &bearer, &append.into()), Reply::Success(_)));
    let close = CloseFileRequest { handle: opened.handle, ..Default::default() };
    assert!(matches!(call::<methods::CloseFile>(&served, &bearer, &close.into()), Reply::Success(_)));
    let open = OpenFileRequest { path: Some("/f".into()), ..Default::default() };
    let Reply::Success(file) = call::<methods::OpenFile>(&served, &bearer, &open.into()) else {
        panic!("not opened")
    };
    let read = ReadRangeRequest {
        handle: file.handle,
        offset: Some(0),
        length: Some(1 << 20),
        ..Default::default()
    };
    let Reply::Success(reply) = call::<methods::ReadRange>(&served, &bearer, &read.into()) else {
        panic!("not read")
    };
    // JSON takes more memory, so an answer has less content.
    let read = reply.data.unwrap();
    assert!(read.len() > 100 << 10 && read == data[..read.len()], "{} bytes", read.len());
}

#[test]
fn http_never_gets_loopbacks_default_identity() {
    let served = serve_with(|config| {
        config.access = Access { starter: Some(Principal::new("tester")), ..Access::default() };
    });
    // The same user's program gets it over TCP, and its token is worth nothing over HTTP.
    let mut client = served.client();
    let session = client.v2::<methods::OpenSession>(OpenSessionRequest::default()).unwrap();
    let token = session.token.unwrap().0;
    let request = GetFileInfoRequest { path: Some("/".into()), ..Default::default() };
    client.v2::<methods::GetFileInfo>(request.clone()).unwrap();
    let Reply::Exception(error) =
        call::<methods::OpenSession>(&served, "", &OpenSessionRequest::default().into())
    else {
        panic!("a session without a login")
    };
    assert_eq!(error.kind.as_deref(), Some("Unauthenticated"), "{error:?}");
    let answer = post(&served, &format!("{THRIFT}Authorization: Bearer {token}\r\n"), &info(JSON));
    thrown(&answer, 401, Protocol::Json, "Unauthenticated: the token is wrong");
    let named = GetFileInfoRequest { session: Some(Secret(token)), ..request };
    let Reply::Exception(error) = call::<methods::GetFileInfo>(&served, "", &named.into()) else {
        panic!("served by a token without a login")
    };
    assert_eq!(error.kind.as_deref(), Some("Unauthenticated"));
}

#[test]
fn nothing_stays_with_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let served = with_users(dir.path());
    let mut stream = connect(&served);
    let (user, password) = (Some("tester".into()), Some(Secret("secret".into())));
    let login = OpenSessionRequest { user, password, ..Default::default() };
    stream
        .write_all(&request(THRIFT, &methods::OpenSession::call(JSON, 1, &login.into()).to_bytes()))
        .unwrap();
    assert_eq!(receive(&mut stream).status, 200);
    let info = GetFileInfoRequest { path: Some("/".into()), ..Default::default() };
    let message = methods::GetFileInfo::call(JSON, 2, &info.into()).to_bytes();
    stream.write_all(&request(THRIFT, &message)).unwrap();
    let (_, reply) = methods::GetFileInfo::decode_reply(Protocol::Json, receive(&mut stream).body).unwrap();
    let Reply::Exception(error) = reply else { panic!("the proxy's next user has the session") };
    assert_eq!(error.kind.as_deref(), Some("Unauthenticated"));
}

#[test]
fn calls_of_2009_name_their_session() {
    let served = serve();
    let Reply::Success(ch) = call::<methods::Init>(&served, "", &InitArgs::default()) else { panic!("init") };
    assert!(ch.id.unwrap() > 0);
    let path = |ch| PathArgs { ch, path: Some("/".into()) };
    assert!(matches!(call::<methods::Stat>(&served, "", &path(Some(ch))), Reply::Success(_)));
    assert!(matches!(call::<methods::Stat>(&served, "", &path(None)), Reply::Exception(_)));
    let early = OpenArgs { ch: None, filename: Some("/f".into()), mode: Some(2) };
    assert!(matches!(call::<methods::Open>(&served, "", &early), Reply::Exception(_)));
}

#[test]
fn unknown_hosts_and_origins_are_refused_and_configured_ones_served() {
    let served = serve_with(|config| {
        config.http =
            HttpAccess { hosts: vec!["files.example".into()], origins: vec!["https://app.example".into()] };
    });
    let body = info(JSON);
    for (fields, status) in [
        ("Host: files.example\r\n", 200),
        ("Host: files.example.\r\n", 200),
        ("Host: localhost.:80\r\n", 200),
        ("Host: evil.example\r\n", 403),
        ("", 400),
        ("Host: localhost\r\nHost: evil.example\r\n", 400),
        ("Host: localhost:1@evil.example\r\n", 403),
        ("Host: 127.0.0.1:x:y\r\n", 403),
        ("Host: [::1]:junk\r\n", 403),
        ("Host: localhost\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: null\r\n", 403),
        ("Host: localhost\r\nOrigin: https://app.example\r\nOrigin: https://evil.example\r\n", 403),
        ("Host: localhost\r\nOrigin: https://app.example\r\n", 200),
    ] {
        let head = format!("POST /thrift HTTP/1.1\r\n{fields}{THRIFT}Content-Length: {}\r\n\r\n", body.len());
        let answer = raw(&served, &[head.as_bytes(), &body].concat());
        assert_eq!(answer.status, status, "{fields}");
        let allows = answer.head.contains("access-control-allow-origin: https://app.example");
        assert_eq!(allows, status == 200 && fields.contains("Origin"), "{fields}");
    }
    for target in ["http://localhost:1@evil.example/openapi.json", "http://evil.example/openapi.json"] {
        let named = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        typed(&raw(&served, named.as_bytes()), 403, "PermissionDenied");
    }
    let preflight = |origin: &str| {
        raw(
            &served,
            format!("OPTIONS /thrift HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\n\r\n").as_bytes(),
        )
    };
    assert_eq!(preflight("https://app.example").status, 204);
    typed(&preflight("https://evil.example"), 403, "PermissionDenied");
}

/// The first request of Apache's library for Node, version 0.9.3, by its generated client of `DfsService`.
const NODE_0_9_3: &[u8] = b"POST /thrift HTTP/1.1\r\nConnection: keep-alive\r\nContent-length: 24\r\n\
    Host: 127.0.0.1:18999\r\n\r\n\x80\x01\x00\x01\x00\x00\x00\x04init\x00\x00\x00\x01\
    \x0b\x00\x01\x00\x00\x00\x00\x00";

#[test]
fn libraries_that_name_no_type_of_thrift_are_served() {
    let served = serve();
    for fields in ["", "Content-Type: application/octet-stream\r\n"] {
        assert_eq!(post(&served, fields, &info(JSON)).status, 200, "{fields}");
    }
    assert_eq!(raw(&served, NODE_0_9_3).status, 200);
}

#[test]
fn hostile_requests_get_4xx_and_others_are_served() {
    let served = serve();
    let deep = format!("[1,\"stat\",1,1,{{\"9\":{{\"lst\":{}", "[".repeat(100_000));
    typed(&raw(&served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404, "NotFound");
    typed(&raw(&served, b"GET /thrift HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405, "Unsupported");
    typed(&post(&served, "Content-Type: text/plain\r\n", &info(JSON)), 415, "InvalidArgument");
    let twice = format!("{THRIFT}{COMPACT_TYPE}");
    typed(&post(&served, &twice, &info(JSON)), 400, "InvalidArgument");
    typed(&post(&served, THRIFT, b"hello"), 400, "InvalidArgument");
    typed(&post(&served, THRIFT, b""), 400, "InvalidArgument");
    thrown(&post(&served, COMPACT_TYPE, b""), 400, Protocol::Compact, "the body is empty");
    typed(&post(&served, THRIFT, b"\0\0\0\x10\x80\x01\0\x01"), 400, "InvalidArgument");
    let wrong = "Authorization: Bearer x\r\n";
    for protocol in [Protocol::Binary, Protocol::Compact, Protocol::Json] {
        let body = info(Wire { protocol, framed: false });
        thrown(&post(&served, &format!("{THRIFT}{wrong}"), &body), 401, protocol, "the token is wrong");
    }
    // Before its body has come, only its type tells the protocol.
    let binary = "Content-Type: application/vnd.apache.thrift.binary\r\n";
    let large =
        format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{binary}Content-Length: 99999999\r\n\r\n");
    thrown(&raw(&served, large.as_bytes()), 413, Protocol::Binary, "the body is larger");
    typed(&post(&served, &format!("{THRIFT}{wrong}"), b"hello"), 401, "Unauthenticated");
    assert_eq!(post(&served, THRIFT, deep.as_bytes()).status, 400);
    let head = |fields: &str| format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{THRIFT}{fields}\r\n");
    typed(&raw(&served, head("Content-Length: 99999999999\r\n").as_bytes()), 413, "InvalidArgument");
    for (fields, rest) in [
        ("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
        ("Content-Length: -1\r\n", ""),
        ("Content-Length: +5\r\n", "hello"),
        ("Content-Length: 18446744073709551615\r\n", ""),
        ("Transfer-Encoding: gzip\r\n", "hello"),
        ("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhelloX\r\n"),
    ] {
        typed(&raw(&served, format!("{}{rest}", head(fields)).as_bytes()), 400, "InvalidArgument");
    }
    let query = format!("POST /thrift?{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(20 << 10));
    typed(&raw(&served, query.as_bytes()), 414, "InvalidArgument");
    let fields = "X-Y: z\r\n".repeat(65);
    typed(&raw(&served, head(&fields).as_bytes()), 431, "InvalidArgument");
    assert_eq!(post(&served, THRIFT, &info(JSON)).status, 200);
}

/// A proxy may see another end of such a body than the gateway.
#[test]
fn a_head_that_leaves_open_where_its_body_ends_is_refused() {
    let served = serve();
    let body = info(JSON);
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    let length = format!("Content-Length: {}\r\n", body.len());
    let send = |fields: &str, body: &[u8]| {
        let head = format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{THRIFT}{fields}\r\n");
        raw(&served, &[head.as_bytes(), body].concat())
    };
    assert_eq!(send("Transfer-Encoding: chunked\r\n", &chunked).status, 200);
    assert_eq!(send(&length, &body).status, 200);
    for fields in [
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        &format!("{length}Transfer-Encoding: chunked\r\n"),
        &format!("Transfer-Encoding: chunked\r\n{length}"),
    ] {
        typed(&send(fields, &chunked), 400, "InvalidArgument");
    }
    let bare = format!("POST /thrift HTTP/1.1\nHost: localhost\n{THRIFT}{length}\n");
    typed(&raw(&served, &[bare.as_bytes(), &body].concat()), 400, "InvalidArgument");
    typed(&send(&format!("X: a\n{length}"), &body), 400, "InvalidArgument");
}

#[test]
fn a_refused_head_is_answered_after_the_requests_before_it() {
    let served = serve();
    let mut stream = connect(&served);
    let good = request(THRIFT, &info(JSON));
    let bad = b"GET /openapi.json HTTP/1.1\nHost: localhost\n\n";
    stream.write_all(&[&good[..], &good, bad, &good].concat()).unwrap();
    assert_eq!((receive(&mut stream).status, receive(&mut stream).status), (200, 200));
    let refused = receive(&mut stream);
    typed(&refused, 400, "InvalidArgument");
    assert!(refused.head.contains("connection: close"), "{}", refused.head);
    assert_eq!(receive(&mut stream).status, 0);
}

#[test]
fn another_protocol_and_half_a_head_get_typed_errors() {
    let served = serve();
    typed(&raw(&served, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400, "InvalidArgument");
    let mut stream = connect(&served);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    typed(&receive(&mut stream), 400, "InvalidArgument");
    // The target that stands for a refused head has no refusal of its own.
    typed(&raw(&served, b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n"), 404, "NotFound");
}

#[test]
fn heads_and_bodies_may_come_in_pieces_of_any_size() {
    let served = serve();
    let message = request(THRIFT, &info(JSON));
    let both = [&message[..], &message].concat();
    for size in [1, 7, message.len() - 1, message.len() + 1] {
        let mut stream = connect(&served);
        stream.set_nodelay(true).unwrap();
        for piece in both.chunks(size) {
            stream.write_all(piece).unwrap();
        }
        assert_eq!((receive(&mut stream).status, receive(&mut stream).status), (200, 200), "{size}");
    }
}

#[test]
fn a_connection_ends_after_a_chunked_body_so_nothing_is_smuggled() {
    let served = serve();
    let body = info(UNFRAMED);
    let mut sent = format!(
        "POST /thrift HTTP/1.1\r\nHost: localhost\r\n{THRIFT}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n",
        body.len()
    )
    .into_bytes();
    sent.extend_from_slice(&body);
    sent.extend_from_slice(b"\r\n0\r\n\r\n");
    sent.extend_from_slice(&request(THRIFT, &body));
    let mut stream = connect(&served);
    stream.write_all(&sent).unwrap();
    let first = receive(&mut stream);
    assert_eq!(first.status, 200);
    assert!(first.head.contains("connection: close"), "{}", first.head);
    assert_eq!(receive(&mut stream).status, 0, "the second request has no answer");
}

#[test]
fn an_endless_chunked_body_is_cut_at_the_limit() {
    let served = serve_with(|config| config.limits.message_bytes = 1 << 20);
    let mut stream = connect(&served);
    let head =
        format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{THRIFT}Transfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"10000\r\n".to_vec(), vec![b'['; 1 << 16], b"\r\n".to_vec()].concat();
    let mut chunks = 0;
    while stream.write_all(&chunk).is_ok() && chunks < 10_000 {
        chunks += 1;
    }
    assert!(chunks < 10_000, "the gateway took {chunks} chunks");
}

#[test]
fn a_body_that_comes_too_slowly_times_out() {
    let served = serve_with(|config| config.limits.stall = Duration::from_millis(200));
    let slow = |fields: &str, sent: &str| {
        let mut stream = connect(&served);
        let head =
            format!("POST /thrift HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 1000\r\n\r\n");
        stream.write_all(format!("{head}{sent}").as_bytes()).unwrap();
        let begun = Instant::now();
        let answer = receive(&mut stream);
        assert!(begun.elapsed() < PATIENCE);
        answer
    };
    typed(&slow(THRIFT, ""), 408, "TimedOut");
    thrown(&slow(THRIFT, "[1,"), 408, Protocol::Json, "the body came too slowly");
    thrown(&slow(COMPACT_TYPE, ""), 408, Protocol::Compact, "the body came too slowly");
}

#[test]
fn a_client_that_sends_no_head_or_half_of_one_gives_its_place_back() {
    let served = serve_with(|config| config.limits.greeting = Duration::from_secs(2));
    let (mut half, mut idle, mut busy) = (connect(&served), connect(&served), connect(&served));
    half.write_all(b"POST /thrift HTTP/1.1\r\nHost: ").unwrap();
    let get = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    idle.write_all(get).unwrap();
    assert_eq!(receive(&mut idle).status, 200);
    let begun = Instant::now();
    // For longer than an idle client may stay.
    while begun.elapsed() < Duration::from_secs(3) {
        busy.write_all(get).unwrap();
        assert_eq!(receive(&mut busy).status, 200);
        pause("the pace of a client at work", Duration::from_millis(100));
    }
    let begun = Instant::now();
    typed(&receive(&mut half), 408, "TimedOut");
    assert_eq!((receive(&mut half).status, receive(&mut idle).status), (0, 0));
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
}

#[test]
fn options_of_the_server_is_answered() {
    let served = serve();
    let options = "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut stream = connect(&served);
    // The target also stands for a refused head within the gateway.
    stream
        .write_all(format!("{options}{options}GET /a#b HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        .unwrap();
    for _ in 0..2 {
        let answer = head_of(&mut stream);
        assert_eq!(answer.status, 204, "{}", answer.head);
        assert!(
            answer.head.contains("allow: GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS"),
            "{}",
            answer.head
        );
    }
    typed(&receive(&mut stream), 400, "InvalidArgument");
}

#[test]
fn old_clients_are_served_and_learn_when_their_connection_ends() {
    let served = serve();
    // HAProxy's check.
    assert_eq!(raw(&served, b"GET /openapi.json HTTP/1.0\r\n\r\n").status, 200);
    let evil = b"GET http://evil.example/openapi.json HTTP/1.0\r\n\r\n";
    typed(&raw(&served, evil), 403, "PermissionDenied");
    let kept = |target: &str| {
        let head = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
        raw(&served, head.as_bytes()).head
    };
    let (served_head, refused) = (kept("/openapi.json"), kept("/nothing"));
    assert!(served_head.contains("connection: keep-alive"), "{served_head}");
    assert!(refused.contains("connection: close") && !refused.contains("keep-alive"), "{refused}");
    let unmarked = format!("POST /thrift HTTP/1.0\r\nHost: localhost\r\n{THRIFT}\r\n");
    typed(&raw(&served, &[unmarked.as_bytes(), &info(JSON)].concat()), 411, "InvalidArgument");
}

#[test]
fn an_empty_line_may_come_before_the_first_request() {
    let served = serve();
    let mut stream = connect(&served);
    for _ in 0..2 {
        stream.write_all(&[b"\r\n", &request(THRIFT, &info(JSON))[..]].concat()).unwrap();
        assert_eq!(receive(&mut stream).status, 200);
    }
}

#[test]
fn a_refused_request_is_not_asked_to_continue() {
    let served = serve();
    let head = format!(
        "POST /thrift HTTP/1.1\r\nHost: localhost\r\n{THRIFT}Authorization: Bearer x\r\n\
         Content-Length: 9000000\r\nExpect: 100-continue\r\n\r\n"
    );
    typed(&raw(&served, head.as_bytes()), 401, "Unauthenticated");
}
