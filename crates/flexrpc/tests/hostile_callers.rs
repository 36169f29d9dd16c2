//! No caller can take so many workers, so much memory or so many sessions that other callers get
//! none.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, SLEEP, Service, procedure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use strait_flexrpc::proto::chain::{Chain, Hop};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{Head, Kind, flags};
use strait_flexrpc::{
    AdmissionLimits, CallId, Client, ClientOptions, Server, ServerOptions, SessionId, Transport, WorkerLimits,
};
use strait_testkit::wait;

/// A session that no server knows.
const NOBODY: SessionId = SessionId([8; 16]);

fn start(options: ServerOptions) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (common::start(options, &service), service)
}

fn id(session: SessionId, handle: u32, transaction: u64) -> CallId {
    CallId { session, handle, transaction }
}

/// Whether the server answers a proper caller within two seconds.
fn is_served(server: &Server) -> bool {
    let (timeout, connect_timeout) = (Some(Duration::from_secs(2)), Duration::from_secs(2));
    let client = Client::new(ClientOptions { timeout, connect_timeout, ..ClientOptions::default() });
    client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"x"]).is_ok()
}

#[test]
fn a_connection_without_a_call_soon_gives_its_place_back() {
    let greeting = Duration::from_millis(200);
    let (server, _) = start(ServerOptions { greeting, ..ServerOptions::default() });
    let client = Client::default();
    client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"x"]).unwrap();
    let callers = server.connection_count();
    let silent: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for mut stream in silent {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed");
    }
    common::eventually("only the caller's stays", || server.connection_count() == callers);
    client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"x"]).unwrap();
    assert_eq!(server.connection_count(), callers);
}

#[test]
fn one_host_leaves_as_many_connections_to_others_as_it_has() {
    let (server, _) = start(ServerOptions { connections: 8, ..ServerOptions::default() });
    let streams: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    for mut refused in &streams[4..] {
        refused.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // The server may close the connection before it has received anything, which resets the
        // connection.
        assert!(!matches!(refused.read(&mut [0]), Ok(1..)), "refused");
    }
    assert_eq!(server.connection_count(), 4);
}

/// Sends calls without a pause to a server with one worker, while proper callers want service too.
/// `call` makes the calls from a session and a number.
fn never_pauses(call: impl Fn(SessionId, u64) -> Vec<u8> + Sync) {
    let workers = WorkerLimits { least: 1, most: 1, dormant: Duration::from_secs(10) };
    let (server, _) = start(ServerOptions { workers, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    let stream = TcpStream::connect(server.address()).unwrap();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (mut calls, mut answers) = (&stream, &stream);
        let (over, call, answered) = (&over, &call, &answered);
        scope.spawn(move || {
            // It sends many calls in one write. The next write doesn't wait for the answers.
            for round in 0u64.. {
                let bytes: Vec<u8> = (1..=1_000).flat_map(|n| call(session, round * 1_000 + n)).collect();
                if over.load(Ordering::SeqCst) || calls.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        scope.spawn(move || {
            let mut answer = [0; 65_536];
            while let Ok(len @ 1..) = answers.read(&mut answer) {
                answered.fetch_add(len, Ordering::SeqCst);
            }
        });
        common::eventually("it keeps the worker busy", || answered.load(Ordering::SeqCst) > 300_000);
        let served = (0..3).all(|_| is_served(&server));
        over.store(true, Ordering::SeqCst);
        stream.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(served, "others are served meanwhile");
    });
}

#[test]
fn a_caller_that_never_pauses_leaves_others_their_turn() {
    never_pauses(|session, n| raw::call(id(session, 0, n), procedure(COUNT), b"x"));
}

#[test]
fn a_caller_of_chains_that_never_pauses_leaves_others_their_turn() {
    // The server refuses these calls at once, since the chain is empty.
    let extension = Extension { chain: Some(Chain::default()), ..Extension::default() }.encode();
    never_pauses(|session, n| {
        let head = Head { flags: flags::CHAIN, ..Head::new(Kind::Call, id(session, 0, n)) };
        raw::frame(head, &extension, b"x")
    });
}

#[test]
fn greetings_without_calls_keep_nobody_out_and_take_nobodys_session() {
    let admission = AdmissionLimits { sessions: 4, ..AdmissionLimits::default() };
    let (server, service) = start(ServerOptions { admission, ..ServerOptions::default() });
    let mut raw = Raw::udp(server.address());
    let session = raw.session();
    assert_eq!(raw.ask(&raw::call(id(session, 0, 1), procedure(COUNT), b"x")).unwrap().0.kind, Kind::Value);
    for _ in 0..100 {
        assert_eq!(raw.ask(&raw::hello()).unwrap().0.kind, Kind::Welcome);
    }
    assert!(is_served(&server));
    assert_eq!(raw.ask(&raw::call(id(session, 0, 1), procedure(COUNT), b"x")).unwrap().0.kind, Kind::Value);
    assert_eq!(service.executed(), 1, "the session that was in use is known");
}

#[test]
fn sessions_with_calls_in_them_are_bounded() {
    let admission = AdmissionLimits { sessions: 3, ..AdmissionLimits::default() };
    let (server, service) = start(ServerOptions { admission, ..ServerOptions::default() });
    let mut raw = Raw::udp(server.address());
    let used: Vec<_> = (0..3)
        .map(|_| {
            let session = raw.session();
            raw.ask(&raw::call(id(session, 0, 1), procedure(COUNT), b"x")).unwrap();
            session
        })
        .collect();
    assert_eq!(raw.ask(&raw::hello()).unwrap().0.status, 8, "a fourth");
    for session in used {
        let again = raw.ask(&raw::call(id(session, 0, 1), procedure(COUNT), b"x")).unwrap();
        assert_eq!(again.0.kind, Kind::Value, "still known");
    }
    assert_eq!(service.executed(), 3);
}

#[test]
fn answers_that_nobody_takes_take_bounded_memory() {
    const ANSWER: usize = 24 << 20;
    let (server, _) = start(ServerOptions { send_bytes: ANSWER * 3 / 2, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    let args = vec![1; ANSWER];
    let mut greedy: Vec<Raw> = (0..4)
        .map(|handle| {
            let mut raw = Raw::tcp(server.address());
            raw.send(&raw::call(id(session, handle, u64::from(handle) + 1), procedure(ECHO), &args));
            raw
        })
        .collect();
    common::eventually("who asks for too much is cut off", || server.connection_count() == 1);
    assert!(is_served(&server));
    let answers = greedy.iter_mut().filter_map(Raw::receive).filter(|answer| answer.2.len() == ANSWER);
    assert_eq!(answers.count(), 1, "the one that was within the bound gets its own");
}

/// A single call, and the same call to a chain without a callee behind.
fn calls(session: SessionId, number: u32, args: &[u8]) -> [Vec<u8>; 2] {
    [0, flags::CHAIN].map(|mode| {
        let transaction = if mode == 0 { 1 } else { 2 };
        let id = id(session, number, transaction);
        let next = Hop { callee: "127.0.0.1:1".parse().unwrap(), id: CallId { session: NOBODY, ..id } };
        let chain = (mode != 0).then(|| Chain { hops: vec![next] });
        let head = Head { flags: mode, procedure: procedure(number), ..Head::new(Kind::Call, id) };
        raw::frame(head, &Extension { chain, ..Extension::default() }.encode(), args)
    })
}

#[test]
fn who_sends_or_takes_drop_by_drop_is_cut_off() {
    /// The test sends at most this many drops: they would take some minutes, and the call has more.
    const MOST_DROPS: usize = 15_000;
    let message_stall = Duration::from_millis(300);
    let (server, service) = start(ServerOptions { message_stall, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    // The sender never pauses for as long as the server allows. One of the pauses is even shorter
    // than a worker's stay with a connection.
    let record = [&[0x80, 0x10, 0, 0][..], &[0; 1 << 20]].concat();
    for call in calls(session, COUNT, &[1; 1 << 20]).into_iter().chain([record]) {
        for pause in [10, 2] {
            let mut raw = Raw::tcp(server.address());
            raw.send(&call[..200_000]);
            common::eventually("it is there", || server.connection_count() == 1);
            let is_cut = call[200_000..].chunks(1).take(MOST_DROPS).any(|drop| {
                wait::pause("the pace of the drops", Duration::from_millis(pause));
                raw.send(drop);
                server.connection_count() == 0
            });
            assert!(is_cut, "it sends on");
        }
    }
    assert_eq!(service.executed(), 0);
    for call in calls(session, ECHO, &vec![1; 16 << 20]) {
        let Raw::Tcp(mut taker, _) = Raw::tcp(server.address()) else { unreachable!() };
        taker.write_all(&call).unwrap();
        let is_cut = (0..MOST_DROPS).any(|_| {
            wait::pause("the pace of the drops", Duration::from_millis(10));
            let _ = taker.read(&mut [0; 1000]);
            server.connection_count() == 0
        });
        assert!(is_cut, "it takes on");
    }
}

#[test]
fn what_is_claimed_and_doesnt_come_takes_no_memory_from_others() {
    let (server, service) = start(ServerOptions { receive_bytes: 32 << 20, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    for call in calls(session, COUNT, &vec![1; 30 << 20]) {
        let mut slow = Raw::tcp(server.address()).patient();
        slow.send(&call[..1000]);
        common::eventually("it has begun", || server.connection_count() == 1);
        let mut quick = Raw::tcp(server.address()).patient();
        let other = raw::call(id(session, 9, call.len() as u64), procedure(COUNT), &vec![1; 20 << 20]);
        assert_eq!(quick.ask(&other).unwrap().0.kind, Kind::Value);
        drop(quick);
        slow.send(&call[1000..]);
        assert!(matches!(slow.receive().unwrap().0.kind, Kind::Value | Kind::Outcomes));
        drop(slow);
        common::eventually("both are gone", || server.connection_count() == 0);
    }
    assert_eq!(service.executed(), 4);
}

#[test]
fn what_is_sent_ahead_takes_bounded_memory() {
    let (server, _) = start(ServerOptions { receive_bytes: 1 << 20, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    let held: Vec<Raw> = (0..12)
        .map(|handle| {
            let mut raw = Raw::tcp(server.address());
            let call = |transaction, number, args: &[u8]| {
                raw::call(id(session, handle, transaction), procedure(number), args)
            };
            // The call takes long enough for the rest to arrive before its end.
            let first = [&100u32.to_be_bytes()[..], &[0; 250_000]].concat();
            raw.send(&call(1, SLEEP, &first));
            raw.send(&[call(2, ECHO, b"x"), call(3, COUNT, &[7; 264_000])[..263_000].to_vec()].concat());
            let _ = (raw.receive(), raw.receive());
            raw
        })
        .collect();
    common::eventually("all but what there is room for are cut off", || server.connection_count() < 5);
    assert!(is_served(&server));
    drop(held);
}

#[test]
fn beginnings_of_messages_take_bounded_memory() {
    let (server, service) = start(ServerOptions { receive_bytes: 300_000, ..ServerOptions::default() });
    let session = Raw::udp(server.address()).session();
    let call = raw::call(id(session, 0, 1), procedure(COUNT), &[1; 120_000]);
    let pausing: Vec<Raw> = (0..10)
        .map(|_| {
            let mut raw = Raw::tcp(server.address());
            raw.send(&call[..100_000]);
            raw
        })
        .collect();
    common::eventually("all but three are cut off", || server.connection_count() == 3);
    assert!(is_served(&server));
    drop(pausing);
    common::eventually("they give their room back", || {
        Raw::tcp(server.address()).ask(&call).is_some_and(|answer| answer.0.kind == Kind::Value)
    });
    assert_eq!(service.executed(), 1);
}
