//! Limits of a chain call at a callee: to which callees it may pass the call on, and how long that
//! may take.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, SLEEP, Service, client, procedure};
use bytes::Bytes;
use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use strait_flexrpc::proto::chain::{self, Chain, Hop};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{Head, Kind, flags};
use strait_flexrpc::{
    CallId, ClusterKey, Doubt, Forwarding, MulticastOptions, Outcome, Refusal, Server, ServerOptions,
    SessionId, Transport, WorkerLimits,
};

fn start(options: ServerOptions) -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (common::start(options, &service), service)
}

fn forwarding(forwarding: Forwarding) -> ServerOptions {
    ServerOptions { forwarding, ..ServerOptions::default() }
}

fn call(callees: &[SocketAddr]) -> Vec<Outcome> {
    let args = [Bytes::from_static(b"argument")];
    client().call_chain(callees, procedure(COUNT), &args, &MulticastOptions::default())
}

/// The bytes of a call without a deadline to `next`, by way of `server`.
fn bytes_of_chain(raw: &mut Raw, next: SocketAddr, number: u32, args: &[u8]) -> Vec<u8> {
    let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
    let hop = Hop { callee: next, id: CallId { session: SessionId([8; 16]), ..id } };
    let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() };
    let head = Head { flags: flags::CHAIN, procedure: procedure(number), ..Head::new(Kind::Call, id) };
    raw::frame(head, &extension.encode(), args)
}

/// The outcomes in the answer.
fn outcomes(raw: &mut Raw) -> Vec<Outcome> {
    let (head, _, payload) = raw.receive().expect("an answer");
    assert_eq!(head.kind, Kind::Outcomes);
    chain::decode_outcomes(&payload.into(), 2).unwrap()
}

/// A callee that receives calls and never answers.
fn silent_callee() -> SocketAddr {
    raw::callee(|_, _| Some(Vec::new()))
}

#[test]
fn a_call_is_passed_on_to_nobody_whom_the_server_may_not_forward_to() {
    let (first, first_service) = start(forwarding(Forwarding::Nowhere));
    let next = TcpListener::bind("127.0.0.1:0").unwrap();
    next.set_nonblocking(true).unwrap();
    let mut raw = Raw::tcp(first.address());
    // The payload comes in one piece, and then in many. Not even the head leaves.
    for size in [10, 1 << 20] {
        let bytes = bytes_of_chain(&mut raw, next.local_addr().unwrap(), COUNT, &vec![1; size]);
        let (head, _, _) = raw.ask(&bytes).unwrap();
        assert_eq!((head.kind, head.status), (Kind::Refused, 17));
    }
    assert!(next.accept().is_err(), "nobody connected");
    assert_eq!(first_service.executed(), 0);
    // The last callee of a chain forwards to no other.
    assert!(call(&[first.address()])[0].is_value());
}

#[test]
fn a_denied_hop_is_typed_and_nobody_from_there_on_executes() {
    let (first, first_service) = start(ServerOptions::default());
    let (second, second_service) = start(forwarding(Forwarding::Nowhere));
    let (third, third_service) = start(ServerOptions::default());
    let outcomes = call(&[first.address(), second.address(), third.address()]);
    assert!(outcomes[0].is_value(), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::NotExecuted(Refusal::ForwardingDenied));
    assert_eq!(outcomes[2], Outcome::NotExecuted(Refusal::NotForwarded));
    assert_eq!([first_service, second_service, third_service].map(|service| service.executed()), [1, 0, 0]);
}

#[test]
fn the_rule_may_change_while_the_server_runs() {
    let registered: Arc<Mutex<HashSet<SocketAddr>>> = Arc::default();
    let look = Arc::clone(&registered);
    let (first, _) = start(forwarding(Forwarding::only(move |next| look.lock().unwrap().contains(&next))));
    let (second, service) = start(ServerOptions::default());
    let route = [first.address(), second.address()];
    let denied = Outcome::NotExecuted(Refusal::ForwardingDenied);
    assert_eq!(call(&route)[0], denied);
    registered.lock().unwrap().insert(second.address());
    assert!(call(&route).iter().all(Outcome::is_value), "registered meanwhile");
    registered.lock().unwrap().clear();
    assert_eq!(call(&route)[0], denied);
    first.set_forwarding(Forwarding::Anywhere);
    assert!(call(&route).iter().all(Outcome::is_value), "another rule");
    // The rule itself may replace the rule.
    let first = Arc::new(first);
    let itself = Arc::downgrade(&first);
    first.set_forwarding(Forwarding::only(move |_| {
        itself.upgrade().is_some_and(|server| {
            server.set_forwarding(Forwarding::Nowhere);
            true
        })
    }));
    assert!(call(&route).iter().all(Outcome::is_value), "once");
    assert_eq!(call(&route)[0], denied);
    assert_eq!(service.executed(), 3);
}

#[test]
fn anonymous_callers_off_loopback_lead_a_server_nowhere_and_key_holders_anywhere() {
    let listen = "0.0.0.0:0".parse().unwrap();
    let anonymous = ServerOptions { listen, allow_anonymous: true, ..ServerOptions::default() };
    let (first, _) = start(anonymous);
    let (second, service) = start(ServerOptions::default());
    let reach = |server: &Server| ([127, 0, 0, 1], server.address().port()).into();
    let route = [reach(&first), second.address()];
    assert_eq!(call(&route)[0], Outcome::NotExecuted(Refusal::ForwardingDenied));
    assert_eq!(service.executed(), 0);
    let key = ClusterKey::new(&[3; 32]).ok();
    let keyed = |listen| ServerOptions { listen, key: key.clone(), ..ServerOptions::default() };
    let (first, _) = start(keyed(listen));
    let (second, _) = start(keyed("127.0.0.1:0".parse().unwrap()));
    let options = strait_flexrpc::ClientOptions { key: key.clone(), ..Default::default() };
    let outcomes = strait_flexrpc::Client::new(options).call_chain(
        &[reach(&first), second.address()],
        procedure(COUNT),
        &[],
        &MulticastOptions::default(),
    );
    assert!(outcomes.iter().all(Outcome::is_value), "{outcomes:?}");
}

#[test]
fn a_next_callee_that_never_answers_doesnt_hold_up_a_shutdown() {
    let (server, service) = start(ServerOptions::default());
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, silent_callee(), COUNT, b"argument");
    raw.send(&bytes);
    common::eventually("it is executed here", || service.executed() == 1);
    let begun = Instant::now();
    assert!(server.shutdown(), "all calls ended");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let outcomes = outcomes(&mut raw);
    assert!(outcomes[0].is_value());
    assert_eq!(outcomes[1], Outcome::Unknown(Doubt::TimedOut));
}

#[test]
fn chains_that_wait_leave_their_workers_to_others() {
    let workers = WorkerLimits { least: 1, most: 2, dormant: Duration::from_secs(10) };
    let (server, service) = start(ServerOptions { workers, ..ServerOptions::default() });
    let next = silent_callee();
    let mut waiting: Vec<Raw> = Vec::new();
    for count in 1..=3 {
        let mut raw = Raw::tcp(server.address());
        let bytes = bytes_of_chain(&mut raw, next, COUNT, b"argument");
        raw.send(&bytes);
        waiting.push(raw);
        common::eventually("it is executed here", || service.executed() == count);
    }
    assert!(call(&[server.address()])[0].is_value());
}

#[test]
fn a_call_that_arrives_no_further_doesnt_hold_up_a_shutdown() {
    let (server, service) = start(ServerOptions::default());
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, silent_callee(), COUNT, &[1; 500_000]);
    raw.send(&bytes[..300_000]);
    let begun = Instant::now();
    assert!(server.shutdown());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(service.executed(), 0);
}

#[test]
fn a_shutdown_waits_for_a_chains_call_that_runs_here_and_says_what_became_of_it() {
    let (server, service) = start(ServerOptions::default());
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, silent_callee(), SLEEP, &1_500u32.to_be_bytes());
    raw.send(&bytes);
    common::eventually("it runs", || service.running() == 1);
    assert!(server.shutdown());
    assert_eq!(service.running(), 0, "it ran to its end");
    let outcomes = outcomes(&mut raw);
    assert!(outcomes[0].is_value(), "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::Unknown(Doubt::TimedOut));
}

#[test]
fn a_server_that_has_shut_down_holds_nothing_of_a_chains_call() {
    let drain = Duration::from_millis(100);
    let (server, service) = start(ServerOptions { drain, ..ServerOptions::default() });
    let address = server.address();
    let mut raw = Raw::tcp(address);
    let bytes = bytes_of_chain(&mut raw, silent_callee(), SLEEP, &3_000u32.to_be_bytes());
    raw.send(&bytes);
    common::eventually("it runs", || service.running() == 1);
    let begun = Instant::now();
    assert!(!server.shutdown(), "a call still runs");
    assert!(begun.elapsed() < Duration::from_secs(2), "waited once, not twice: {:?}", begun.elapsed());
    // The service still holds its thread, but the port is free for the next incarnation.
    let next = ServerOptions { listen: address, udp: false, ..ServerOptions::default() };
    let next = common::try_start(next, &service);
    assert!(next.is_some() && service.running() == 1);
}

#[test]
fn a_call_without_a_deadline_waits_for_those_behind_as_long_as_the_server_says() {
    let chain_wait = Duration::from_millis(300);
    let (server, _) = start(ServerOptions { chain_wait, ..ServerOptions::default() });
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, silent_callee(), COUNT, b"argument");
    raw.send(&bytes);
    let outcomes = outcomes(&mut raw);
    assert!(outcomes[0].is_value());
    assert_eq!(outcomes[1], Outcome::Unknown(Doubt::TimedOut));
}

#[test]
fn who_begins_a_chains_call_and_stalls_is_cut_off() {
    let message_stall = Duration::from_millis(200);
    let (server, service) = start(ServerOptions { message_stall, ..ServerOptions::default() });
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, silent_callee(), COUNT, &[1; 500_000]);
    raw.send(&bytes[..300_000]);
    common::eventually("its connection is closed", || server.connection_count() == 0);
    assert!(raw.is_closed());
    assert_eq!(service.executed(), 0);
}

#[test]
fn a_chains_call_outlives_the_idle_time_of_connections() {
    let connection_idle = Duration::from_millis(100);
    let (first, _) = start(ServerOptions { connection_idle, ..ServerOptions::default() });
    let (second, _) = start(ServerOptions::default());
    let args = [Bytes::copy_from_slice(&800u32.to_be_bytes())];
    let route = [first.address(), second.address()];
    let outcomes = client().call_chain(&route, procedure(SLEEP), &args, &MulticastOptions::default());
    assert!(outcomes.iter().all(Outcome::is_value), "{outcomes:?}");
}

#[test]
fn what_a_next_callee_answers_takes_bounded_memory() {
    let next = raw::callee(|_, (head, _, _)| {
        Some(raw::frame(Head::new(Kind::Outcomes, head.id), &[], &vec![1; 2 << 20]))
    });
    let (server, _) = start(ServerOptions { receive_bytes: 1 << 20, ..ServerOptions::default() });
    let mut raw = Raw::tcp(server.address());
    let bytes = bytes_of_chain(&mut raw, next, COUNT, b"argument");
    raw.send(&bytes);
    let outcomes = outcomes(&mut raw);
    assert!(outcomes[0].is_value());
    assert_eq!(outcomes[1], Outcome::Unknown(Doubt::ConnectionLost));
}

#[test]
fn a_call_that_was_sent_ahead_behind_a_chains_call_is_answered_too() {
    // With one worker the forwarder takes over the chain.
    let workers = strait_flexrpc::WorkerLimits { least: 1, most: 1, dormant: Duration::from_secs(10) };
    for options in [ServerOptions::default(), ServerOptions { workers, ..ServerOptions::default() }] {
        let (server, service) = start(options);
        let (next, _) = start(ServerOptions::default());
        let mut raw = Raw::tcp(server.address());
        let mut bytes = bytes_of_chain(&mut raw, next.address(), COUNT, b"chain");
        let id = Head::decode(&bytes).unwrap().unwrap().id;
        let behind = CallId { transaction: 2, ..id };
        bytes.extend_from_slice(&raw::call(behind, procedure(COUNT), b"behind"));
        raw.send(&bytes);
        assert_eq!(outcomes(&mut raw).len(), 2);
        let (head, _, payload) = raw.receive().expect("an answer to the second");
        assert_eq!((head.id, &payload[..]), (behind, &b"behind"[..]));
        assert_eq!(service.executed(), 2);
    }
}

/// Relays bytes between callers and `server`. It drops the second answer of the first connection,
/// together with that connection, and calls `when_lost`.
fn loses_an_answer(server: SocketAddr, when_lost: impl FnOnce() + Send + 'static) -> SocketAddr {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    let mut when_lost = Some(when_lost);
    // Ends with the test's process.
    std::thread::spawn(move || {
        for caller in front.incoming() {
            let (mut caller, Ok(mut callee)) = (caller.unwrap(), TcpStream::connect(server)) else { return };
            let (mut from, mut to) = (caller.try_clone().unwrap(), callee.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
            let (mut buffer, mut answers) = ([0; 65_536], 0);
            while let Ok(len @ 1..) = callee.read(&mut buffer) {
                answers += 1;
                if answers == 2
                    && let Some(when_lost) = when_lost.take()
                {
                    when_lost();
                    caller.shutdown(Shutdown::Both).unwrap();
                    break;
                }
                let _ = caller.write_all(&buffer[..len]);
            }
        }
    });
    address
}

#[test]
fn what_was_executed_isnt_refused_by_a_rule_that_came_later() {
    let (first, first_service) = start(ServerOptions::default());
    let (second, second_service) = start(ServerOptions::default());
    let (first, next) = (Arc::new(first), second.address());
    let rules = Arc::clone(&first);
    let front = loses_an_answer(first.address(), move || rules.set_forwarding(Forwarding::Nowhere));
    let outcomes = call(&[front, next]);
    assert!(outcomes.iter().all(Outcome::is_value), "{outcomes:?}");
    assert_eq!((first_service.executed(), second_service.executed()), (1, 1));
    assert_eq!(call(&[front, next])[0], Outcome::NotExecuted(Refusal::ForwardingDenied), "a new one");
}

#[test]
fn what_was_refused_by_a_rule_isnt_executed_under_a_later_one() {
    let (first, service) = start(forwarding(Forwarding::Nowhere));
    let (second, next_service) = start(ServerOptions::default());
    let mut raw = Raw::tcp(first.address());
    let bytes = bytes_of_chain(&mut raw, second.address(), COUNT, b"argument");
    assert_eq!(raw.ask(&bytes).unwrap().0.status, 17);
    first.set_forwarding(Forwarding::Anywhere);
    assert_eq!(raw.ask(&bytes).unwrap().0.kind, Kind::Refused, "its caller was told otherwise");
    assert_eq!((service.executed(), next_service.executed()), (0, 0));
}

#[test]
fn a_call_that_runs_isnt_refused_by_a_rule_that_came_later() {
    let workers = WorkerLimits { least: 4, most: 8, dormant: Duration::from_secs(10) };
    let (first, service) = start(ServerOptions { workers, ..ServerOptions::default() });
    let (second, _) = start(ServerOptions::default());
    let mut raw = Raw::tcp(first.address());
    let bytes = bytes_of_chain(&mut raw, second.address(), SLEEP, &400u32.to_be_bytes());
    raw.send(&bytes);
    let mut again = Raw::tcp(first.address());
    common::eventually("it runs", || service.running() == 1);
    first.set_forwarding(Forwarding::Nowhere);
    assert_eq!(again.ask(&bytes).unwrap().0.kind, Kind::Pending, "neither executed nor refused");
    assert_eq!(raw.receive().unwrap().0.kind, Kind::Outcomes);
}

#[test]
fn a_connection_that_carried_a_chains_call_may_rest() {
    let message_stall = Duration::from_millis(300);
    let (first, service) = start(ServerOptions { message_stall, ..ServerOptions::default() });
    let (second, _) = start(ServerOptions::default());
    let mut raw = Raw::tcp(first.address());
    let call = bytes_of_chain(&mut raw, second.address(), COUNT, &[1; 100_000]);
    // Only the first bytes, so that the server waits for the head too.
    raw.send(&call[..30]);
    let mut other = Raw::tcp(first.address());
    let session = other.session();
    raw.send(&call[30..1000]);
    other.session();
    raw.send(&call[1000..]);
    assert_eq!(raw.receive().unwrap().0.kind, Kind::Outcomes);
    let id = CallId { session, handle: 1, transaction: 1 };
    other.send(&raw::call(id, procedure(COUNT), b"argument")[..70]);
    common::eventually("who pauses in mid-message is cut off", || other.is_closed());
    assert_eq!(raw.ask(&call).unwrap().0.kind, Kind::Outcomes, "who has paused since its last isn't");
    assert_eq!(service.executed(), 1);
}

#[test]
fn a_callee_that_is_lost_after_a_damaged_answer_may_have_executed() {
    // The callee damages its answer, and is gone before the first callee sends the call again.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let next = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut raw = Raw::of(stream.try_clone().unwrap());
            let Some((call, _, _)) = raw.receive() else { continue };
            let mut answer = raw::frame(Head::new(Kind::Value, call.id), &[], b"done");
            *answer.last_mut().unwrap() ^= 1;
            // A reset, so that no byte can follow.
            rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            raw.send(&answer);
        }
    });
    let (first, _) = start(ServerOptions::default());
    for _ in 0..50 {
        let mut raw = Raw::tcp(first.address()).patient();
        let call = bytes_of_chain(&mut raw, next, COUNT, b"argument");
        raw.send(&call);
        let outcomes = outcomes(&mut raw);
        assert!(matches!(outcomes[1], Outcome::Unknown(_)), "{outcomes:?}");
    }
}

#[test]
fn a_chain_that_comes_in_pieces_to_a_server_that_ends_is_told_so() {
    let (server, service) = common::server();
    let address = server.address();
    let mut raw = Raw::tcp(address).patient();
    let session = raw.session();
    let caller = std::thread::spawn(move || {
        client().call(address, Transport::Tcp, procedure(SLEEP), &[&1_500u32.to_be_bytes()])
    });
    common::eventually("the call runs", || service.running() == 1);
    let shutdown = std::thread::spawn(|| server.shutdown());
    let begun = Instant::now();
    common::eventually("it has begun", || std::net::TcpStream::connect(address).is_err());
    for transaction in 1..=2 {
        let id = CallId { session, handle: 0, transaction };
        let theirs = CallId { session: SessionId([8; 16]), ..id };
        let next = Hop { callee: "127.0.0.1:1".parse().unwrap(), id: theirs };
        let extension = Extension { chain: Some(Chain { hops: vec![next] }), ..Extension::default() };
        let head = Head { flags: flags::CHAIN, procedure: procedure(COUNT), ..Head::new(Kind::Call, id) };
        let call = raw::frame(head, &extension.encode(), &[1; 1000]);
        raw.send(&call[..500]);
        raw.await_read();
        raw.send(&call[500..]);
        let (answer, _, payload) = raw.receive().unwrap();
        let outcomes = chain::decode_outcomes(&Bytes::from(payload), 2);
        let refused = (answer.kind, answer.status) == (Kind::Refused, 9)
            || outcomes.is_ok_and(|outcomes| outcomes[0] == Outcome::NotExecuted(Refusal::ShuttingDown));
        assert!(refused, "{answer:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(shutdown.join().unwrap() && caller.join().unwrap().is_ok());
    assert_eq!(service.executed(), 0);
}
