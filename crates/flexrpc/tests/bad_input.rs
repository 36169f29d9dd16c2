//! Input from outside can't crash the server or fill its memory. Nor can it make the server execute
//! a call that no proper caller made.
//!
//! | what comes | the claim |
//! | --- | --- |
//! | truncations of a valid message | [`truncated_calls_are_not_executed`], [`no_part_of_any_message_and_no_damage_to_one_has_anything_executed`] |
//! | flipped bits of one | [`no_flipped_bit_has_anything_executed`], the same |
//! | either, from a callee | [`a_damaged_or_cut_answer_is_never_taken_for_the_value`], [`a_callee_that_answers_nonsense_leaves_doubt_and_no_harm`], [`a_callee_that_answers_for_a_chain_leaves_doubt_where_there_is_none`] |
//! | hostile lengths | [`claimed_sizes_cost_nothing_and_are_refused`], [`memory_for_large_calls_is_bounded`] |
//! | other protocols, versions, flags, kinds | [`foreign_protocols_and_versions_are_closed_at_once`], [`unknown_flags_kinds_and_extensions_are_refused`] |
//! | a wrong program, version, procedure | [`what_isnt_served_is_refused_by_its_reason`] |
//! | replayed and forged call ids | [`forged_and_replayed_identifiers_are_refused`] |
//! | a wrong key, or none | [`with_a_key_nothing_untagged_mistagged_or_altered_is_executed`], `forged_frames.rs` |
//! | chains that loop, or are too long | [`hostile_chains_are_refused_and_their_callees_untouched`] |
//! | a payload beyond a datagram | [`what_a_datagram_cant_carry_is_an_error_that_says_so`] |
//! | hunger for memory, workers, sessions | `hostile_callers.rs`, [`memory_for_sessions_and_results_is_bounded`] |
//! | callees that don't stop talking | `hostile_callees.rs` |
//! | chains that lead astray, or nowhere | `chain_limits.rs` |

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, Service, client, procedure};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use strait_flexrpc::proto::chain::{Chain, Hop, encode_outcomes};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{HEAD_BYTES, Head, Kind, VERSION, flags};
use strait_flexrpc::{
    AdmissionLimits, AuthSys, CallError, CallId, Client, ClientOptions, ClusterKey, Credentials, Doubt,
    MulticastOptions, Outcome, Procedure, Refusal, Reply, Request, ServerOptions, SessionId, Transport,
    limits,
};
use strait_testkit::wait::pause;

fn id(session: SessionId, transaction: u64) -> CallId {
    CallId { session, handle: 0, transaction }
}

/// Checks that the server still serves a proper caller, and has executed `executed` calls.
fn is_well(server: &strait_flexrpc::Server, service: &Service, executed: usize) {
    for transport in [Transport::Tcp, Transport::Udp] {
        let result = client().call(server.address(), transport, procedure(ECHO), &[b"well"]);
        assert_eq!(result.unwrap(), "well");
    }
    assert_eq!(service.executed(), executed);
}

#[test]
fn truncated_calls_are_not_executed() {
    let (server, service) = common::server();
    let session = Raw::udp(server.address()).session();
    let extension = Extension { nonce: Some([1; 16]), ..Extension::default() }.encode();
    let head = Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id(session, 1)) };
    let call = raw::frame(head, &extension, b"argument");
    let mut udp = Raw::udp(server.address());
    for len in 0..call.len() {
        Raw::tcp(server.address()).send(&call[..len]);
        udp.send(&call[..len]);
    }
    is_well(&server, &service, 0);
    assert_eq!(udp.ask(&call).unwrap().0.kind, Kind::Value);
    is_well(&server, &service, 1);
    common::eventually("the cut connections are gone", || server.connection_count() == 0);
}

#[test]
fn no_flipped_bit_has_anything_executed() {
    let (server, service) = common::server();
    let session = Raw::udp(server.address()).session();
    let call = raw::call(id(session, 1), procedure(COUNT), b"argument");
    let mut udp = Raw::udp(server.address());
    for bit in 0..call.len() * 8 {
        let mut damaged = call.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        udp.send(&damaged);
        Raw::tcp(server.address()).send(&damaged);
    }
    is_well(&server, &service, 0);
}

#[test]
fn a_call_whose_time_is_over_when_it_is_there_is_not_executed() {
    let (server, service) = common::server();
    let session = Raw::udp(server.address()).session();
    let timed = |transaction, left| {
        let head = Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id(session, transaction)) };
        raw::frame(Head { time_left_us: left, ..head }, &[], b"argument")
    };
    let mut raw = Raw::tcp(server.address());
    let late = timed(1, 1_000);
    // The time counts from the head's arrival.
    let (begun, rest) = late.split_at(HEAD_BYTES);
    raw.send(begun);
    raw.await_read();
    pause("longer than the call may take", Duration::from_millis(20));
    let (answer, _, _) = raw.ask(rest).unwrap();
    assert_eq!((answer.kind, answer.status), (Kind::Refused, 4));
    assert_eq!(raw.ask(&timed(2, 30_000_000)).unwrap().0.kind, Kind::Value);
    is_well(&server, &service, 1);
}

#[test]
fn claimed_sizes_cost_nothing_and_are_refused() {
    let (server, service) = common::server();
    let session = Raw::udp(server.address()).session();
    for claimed in [(64 << 20) + 1, 1 << 30, u32::MAX] {
        let head = Head { payload_len: claimed, ..Head::new(Kind::Call, id(session, 1)) };
        let mut raw = Raw::tcp(server.address());
        let (answer, _, _) = raw.ask(&head.encode(&[])).unwrap();
        assert_eq!((answer.kind, answer.status), (Kind::Refused, 7), "{claimed}");
        assert!(raw.is_closed());
        // The claimed size exceeds the datagram.
        Raw::udp(server.address()).send(&head.encode(&[]));
    }
    let mut extension = Head::new(Kind::Call, id(session, 1)).encode(&[]);
    extension[12..14].copy_from_slice(&u16::MAX.to_be_bytes());
    assert!(Raw::tcp(server.address()).ask(&extension).is_none());
    is_well(&server, &service, 0);
}

#[test]
fn foreign_protocols_and_versions_are_closed_at_once() {
    let (server, service) = common::server();
    let mut next = Head::new(Kind::Hello, CallId::default()).encode(&[]);
    next[4] = VERSION + 1;
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x80, 0, 0, 4, 0, 0, 0, 1], &[0; 100], &next[..5]] {
        let mut raw = Raw::tcp(server.address());
        raw.send(bytes);
        assert!(raw.is_closed());
        Raw::udp(server.address()).send(bytes);
    }
    is_well(&server, &service, 0);
}

#[test]
fn unknown_flags_kinds_and_extensions_are_refused() {
    let (server, service) = common::server();
    let session = Raw::udp(server.address()).session();
    let call = Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id(session, 1)) };
    let flagged = raw::frame(Head { flags: 0x4000, ..call }, &[], b"x");
    assert!(Raw::tcp(server.address()).ask(&flagged).is_none());
    for kind in [Kind::Welcome, Kind::Value, Kind::Refused, Kind::Outcomes, Kind::Pending] {
        assert!(Raw::tcp(server.address()).ask(&raw::frame(Head { kind, ..call }, &[], b"x")).is_none());
    }
    for extension in [&[77, 0, 1, 0][..], &[1, 0, 200, 1], &[1, 0, 0], &[3, 0, 1, 9]] {
        let (answer, _, _) = Raw::udp(server.address()).ask(&raw::frame(call, extension, b"x")).unwrap();
        assert_eq!((answer.kind, answer.status), (Kind::Refused, 13), "{extension:?}");
    }
    // A chain call without a chain, and a handshake without a nonce.
    let chain = raw::frame(Head { flags: flags::CHAIN, ..call }, &[], b"x");
    assert_eq!(Raw::tcp(server.address()).ask(&chain).unwrap().0.status, 13);
    let hello = raw::frame(Head::new(Kind::Hello, CallId::default()), &[], &[]);
    assert_eq!(Raw::udp(server.address()).ask(&hello).unwrap().0.status, 13);
    is_well(&server, &service, 0);
}

#[test]
fn forged_and_replayed_identifiers_are_refused() {
    let (server, service) = common::server();
    let mut raw = Raw::udp(server.address());
    let session = raw.session();
    let unknown = raw::call(id(SessionId([9; 16]), 1), procedure(COUNT), b"x");
    assert_eq!(raw.ask(&unknown).unwrap().0.status, 5);
    let call = raw::call(id(session, 7), procedure(COUNT), b"x");
    assert_eq!(raw.ask(&call).unwrap().0.kind, Kind::Value);
    assert_eq!(raw.ask(&call).unwrap().0.kind, Kind::Value, "from the cache");
    let older = raw::call(id(session, 6), procedure(COUNT), b"x");
    assert_eq!(raw.ask(&older).unwrap().0.kind, Kind::Refused);
    let handle = CallId { handle: u32::MAX, ..id(session, 8) };
    assert_eq!(raw.ask(&raw::call(handle, procedure(COUNT), b"x")).unwrap().0.status, 13);
    is_well(&server, &service, 1);
}

#[test]
fn with_a_key_nothing_untagged_mistagged_or_altered_is_executed() {
    let service = Arc::new(Service::default());
    let key = ClusterKey::new(&[5; 32]).unwrap();
    let server =
        common::start(ServerOptions { key: Some(key.clone()), ..ServerOptions::default() }, &service);
    // A proper caller's session, which an attacker learnt by listening.
    let mut raw = Raw::udp(server.address());
    let session = raw.ask(&raw::tagged_hello(&key)).unwrap().0.id.session;
    let head = Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id(session, 1)) };
    let other = ClusterKey::new(&[6; 32]).unwrap();
    let sound = raw::tagged(head, &[], b"transfer 1", &key);
    let mut altered = sound.clone();
    let payload = altered.len() - 32 - 10;
    altered[payload..payload + 10].copy_from_slice(b"transfer 9");
    for forged in [raw::frame(head, &[], b"x"), raw::tagged(head, &[], b"x", &other), altered] {
        Raw::tcp(server.address()).send(&forged);
        assert_eq!(raw.ask(&forged), None, "forged_frames.rs has what is answered to whom");
    }
    assert_eq!(service.executed(), 0);
    assert_eq!(raw.ask(&sound).unwrap().0.kind, Kind::Value);
    assert_eq!(raw.ask(&sound).unwrap().0.kind, Kind::Value, "replayed: answered, not executed");
    assert_eq!(service.executed(), 1);
}

/// The caller made a single call, so it must not accept outcomes of other callees.
#[test]
fn a_callee_that_answers_for_a_chain_leaves_doubt_where_there_is_none() {
    let outcomes = encode_outcomes(&[Outcome::Value(Bytes::from_static(b"mine"))]);
    let callee = raw::callee(move |_, (head, _, _)| {
        Some(raw::frame(Head::new(Kind::Outcomes, head.id), &[], &outcomes))
    });
    let (client, options) = (client(), MulticastOptions::default());
    let doubt = Outcome::Unknown(Doubt::BadAnswer);
    let single = client.call(callee, Transport::Tcp, procedure(ECHO), &[]).map(Outcome::Value);
    assert_eq!(single.unwrap_or_else(Outcome::from), doubt);
    // The first call is made by a worker, the second by this thread, and the third by a worker
    // because of its size.
    for size in [1, 1, 1 << 20] {
        let args = [Bytes::from(vec![0; size])];
        let parallel = client.call_parallel(&[callee], Transport::Tcp, procedure(ECHO), &args, &options);
        assert_eq!(parallel, std::slice::from_ref(&doubt), "{size} bytes");
    }
}

#[test]
fn a_callee_that_answers_nonsense_leaves_doubt_and_no_harm() {
    let nonsense: [fn(Head) -> Vec<u8>; 6] = [
        |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        |head| raw::frame(Head { status: 9999, ..Head::new(Kind::Refused, head.id) }, &[], &[]),
        |head| raw::frame(Head::new(Kind::Outcomes, head.id), &[], b"zzz"),
        |head| Head { payload_len: u32::MAX, ..Head::new(Kind::Value, head.id) }.encode(&[]),
        |head| raw::frame(Head::new(Kind::Welcome, head.id), &[], &[]),
        |head| raw::frame(Head::new(Kind::Value, CallId { transaction: 999, ..head.id }), &[], &[]),
    ];
    for (case, nonsense) in nonsense.into_iter().enumerate() {
        let callee = raw::callee(move |_, (head, _, _)| Some(nonsense(head)));
        let timeout = Some(std::time::Duration::from_millis(200));
        let client = Client::new(ClientOptions { timeout, ..ClientOptions::default() });
        let outcome = client.call(callee, Transport::Tcp, procedure(ECHO), &[b"x"]);
        assert!(matches!(outcome, Err(CallError::Unknown(_))), "{case}: {outcome:?}");
        let options = MulticastOptions::default();
        let args = [Bytes::from_static(b"x")];
        let parallel =
            client.call_parallel(&[callee, callee], Transport::Tcp, procedure(ECHO), &args, &options);
        assert!(
            parallel.iter().all(|outcome| matches!(outcome, Outcome::Unknown(_))),
            "{case}: {parallel:?}"
        );
    }
}

#[test]
fn hostile_chains_are_refused_and_their_callees_untouched() {
    let (server, service) = common::server();
    let (other, other_service) = common::server();
    let session = Raw::udp(server.address()).session();
    let hop = |callee, session: [u8; 16]| Hop { callee, id: id(SessionId(session), 1) };
    let elsewhere = "127.0.0.1:1".parse().unwrap();
    let chains = [
        // Back to this server under another name; twice to one callee; too many callees.
        vec![Hop { callee: elsewhere, id: id(session, 2) }],
        vec![hop(other.address(), [1; 16]), hop(other.address(), [2; 16])],
        vec![hop(other.address(), [1; 16]), hop(elsewhere, [1; 16])],
        (1..=40).map(|n| hop(([127, 0, 0, 1], n).into(), [n as u8; 16])).collect(),
        vec![],
    ];
    for (case, hops) in chains.into_iter().enumerate() {
        let extension = Extension { chain: Some(Chain { hops }), ..Extension::default() }.encode();
        let head = Head {
            flags: flags::CHAIN,
            procedure: procedure(COUNT),
            ..Head::new(Kind::Call, id(session, 10 + case as u64))
        };
        let mut raw = Raw::tcp(server.address());
        let (answer, _, _) = raw.ask(&raw::frame(head, &extension, &[1; 1000])).unwrap();
        assert_eq!((answer.kind, answer.status), (Kind::Refused, 10), "{case}");
        // The connection is still usable.
        assert_eq!(raw.ask(&raw::hello()).unwrap().0.kind, Kind::Welcome);
    }
    is_well(&server, &service, 0);
    is_well(&other, &other_service, 0);
}

#[test]
fn memory_for_sessions_and_results_is_bounded() {
    let service = Arc::new(Service::default());
    let admission = AdmissionLimits { handles: 4, result_bytes: 50_000, ..AdmissionLimits::default() };
    let server = common::start(ServerOptions { admission, ..ServerOptions::default() }, &service);
    let mut raw = Raw::tcp(server.address());
    let session = raw.session();
    for transaction in 1..=50 {
        let handle = CallId { handle: transaction as u32 % 4, ..id(session, transaction) };
        let (answer, _, _) = raw.ask(&raw::call(handle, procedure(COUNT), &[1; 20_000])).unwrap();
        assert_eq!(answer.kind, Kind::Value);
    }
    // A fifth handle finds no room; an evicted answer isn't executed again.
    let fifth = raw::call(CallId { handle: 5, ..id(session, 60) }, procedure(COUNT), b"x");
    assert_eq!(raw.ask(&fifth).unwrap().0.status, 8);
    let evicted = raw::call(CallId { handle: 3, ..id(session, 47) }, procedure(COUNT), &[1; 20_000]);
    let (answer, _, _) = raw.ask(&evicted).unwrap();
    assert_eq!((answer.kind, answer.status), (Kind::Doubtful, 104));
    assert_eq!(service.executed(), 50);
}

#[test]
fn idle_connections_cost_no_threads_and_are_bounded() {
    let service = Arc::new(Service::default());
    // One host gets at most half of the connections. On a loaded machine they don't call soon, so
    // `greeting` is long.
    let greeting = std::time::Duration::from_secs(600);
    let options = ServerOptions { connections: 400, greeting, ..ServerOptions::default() };
    let server = common::start(options, &service);
    let mut idle: Vec<Raw> = (0..200).map(|_| Raw::tcp(server.address())).collect();
    common::eventually("all are accepted", || server.connection_count() == 200);
    common::eventually("the workers go back to watching", || server.worker_count() <= 8);
    assert!(Raw::tcp(server.address()).is_closed(), "one too many");
    assert_eq!(idle[150].ask(&raw::hello()).unwrap().0.kind, Kind::Welcome);
    drop(idle.split_off(100));
    common::eventually("the closed ones are gone", || server.connection_count() == 100);
}

#[test]
fn a_head_is_sixty_eight_bytes() {
    // The length of the head is part of the wire's definition.
    assert_eq!(HEAD_BYTES, 68);
}

#[test]
fn memory_for_large_calls_is_bounded() {
    let service = Arc::new(Service::default());
    let server =
        common::start(ServerOptions { receive_bytes: 1 << 20, ..ServerOptions::default() }, &service);
    let session = Raw::udp(server.address()).session();
    let call = |transaction| raw::call(id(session, transaction), procedure(COUNT), &[1; 700_000]);
    let mut first = Raw::tcp(server.address());
    let refused = || Raw::tcp(server.address()).ask(&call(2)[..200_000]).map(|answer| answer.0.status);
    common::eventually("the second finds no room", || {
        // Sometimes a worker handles the second call first.
        first = Raw::tcp(server.address());
        first.send(&call(1)[..400_000]);
        refused() == Some(8)
    });
    assert_eq!(first.ask(&call(1)[400_000..]).unwrap().0.kind, Kind::Value);
    common::eventually("the first gives its room back", || {
        Raw::tcp(server.address()).ask(&call(3)).is_some_and(|answer| answer.0.kind == Kind::Value)
    });
    is_well(&server, &service, 2);
}

#[test]
fn no_part_of_any_message_and_no_damage_to_one_has_anything_executed() {
    let key = ClusterKey::new(&[5; 32]).unwrap();
    for key in [None, Some(key)] {
        let options = ServerOptions { key: key.clone(), ..ServerOptions::default() };
        let (service, next_service) = (Arc::new(Service::default()), Arc::new(Service::default()));
        let server = common::start(options.clone(), &service);
        let next = common::start(options, &next_service);
        let message = |head: Head, extension: &Extension, args: &[u8]| match &key {
            None => raw::frame(head, &extension.encode(), args),
            Some(key) => raw::tagged(head, &extension.encode(), args, key),
        };
        let nonce = Extension { nonce: Some([1; 16]), ..Extension::default() };
        let hello = message(Head::new(Kind::Hello, CallId::default()), &nonce, &[]);
        let session = |server: &strait_flexrpc::Server| {
            Raw::udp(server.address()).ask(&hello).expect("a welcome").0.id.session
        };
        let (here, there) = (session(&server), session(&next));
        let sys = AuthSys { machine: "host".into(), ..AuthSys::default() };
        let credentials = Credentials::Sys(sys);
        let call = Head { procedure: procedure(COUNT), ..Head::new(Kind::Call, id(here, 1)) };
        let chain = Chain { hops: vec![Hop { callee: next.address(), id: id(there, 1) }] };
        let chain = Extension { chain: Some(chain), credentials, ..Extension::default() };
        let messages = [
            hello.clone(),
            message(call, &Extension { chain: None, ..chain.clone() }, b"argument"),
            message(Head { flags: flags::CHAIN, ..call }, &chain, b"argument"),
            message(Head::new(Kind::Revoke, id(here, 1 << 40)), &Extension::default(), &[]),
        ];
        for bytes in &messages {
            for len in 0..bytes.len() {
                Raw::tcp(server.address()).send(&bytes[..len]);
            }
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                Raw::tcp(server.address()).send(&damaged);
            }
        }
        common::eventually("the server is done with them", || server.connection_count() == 0);
        assert_eq!((service.executed(), next_service.executed()), (0, 0));
        // Both callees execute the same call if it is whole and undamaged.
        let (answer, _, _) = Raw::tcp(server.address()).ask(&messages[2]).unwrap();
        assert_eq!(answer.kind, Kind::Outcomes);
        assert_eq!((service.executed(), next_service.executed()), (1, 1));
    }
}

#[test]
fn a_damaged_or_cut_answer_is_never_taken_for_the_value() {
    let value = |id| raw::frame(Head::new(Kind::Value, id), &[], b"the value");
    let bits = value(CallId::default()).len() * 8;
    let answered = Arc::new(AtomicUsize::new(0));
    let next = Arc::clone(&answered);
    let callee = raw::callee(move |_, (head, _, _)| {
        let case = next.fetch_add(1, Ordering::SeqCst);
        let mut bytes = value(head.id);
        match case.checked_sub(bits) {
            None => bytes[case / 8] ^= 1 << (case % 8),
            Some(len) => bytes.truncate(len),
        }
        Some(bytes)
    });
    let retry = strait_flexrpc::RetryPolicy { reconnects: 0, damaged: 0, ..Default::default() };
    let timeout = Some(std::time::Duration::from_millis(20));
    let client = Client::new(ClientOptions { retry, timeout, ..ClientOptions::default() });
    while answered.load(Ordering::SeqCst) < bits + bits / 8 {
        let case = answered.load(Ordering::SeqCst);
        let outcome = client.call(callee, Transport::Tcp, procedure(ECHO), &[b"x"]);
        // If the handshake takes all the time, the client sends nothing.
        let unsent = Err(CallError::NotExecuted(Refusal::DeadlinePassed));
        let unreached = matches!(outcome, Err(CallError::NotExecuted(Refusal::Unreachable(_))));
        assert!(
            matches!(outcome, Err(CallError::Unknown(_))) || unreached || outcome == unsent,
            "{case}: {outcome:?}"
        );
    }
}

#[test]
fn what_isnt_served_is_refused_by_its_reason() {
    let (server, service) = common::server();
    let mut raw = Raw::udp(server.address());
    let session = raw.session();
    let known = procedure(COUNT);
    let wrong = [
        (Procedure { program: 1, ..known }, Refusal::ProgramUnavailable),
        (Procedure { version: 7, ..known }, Refusal::VersionMismatch { lowest: 1, highest: 1 }),
        (Procedure { number: 99, ..known }, Refusal::ProcedureUnavailable),
    ];
    for (transaction, (procedure, refusal)) in (1..).zip(wrong) {
        for transport in [Transport::Tcp, Transport::Udp] {
            let outcome = client().call(server.address(), transport, procedure, &[b"x"]);
            assert_eq!(outcome, Err(CallError::NotExecuted(refusal)), "{transport:?}");
        }
        let (answer, _, _) = raw.ask(&raw::call(id(session, transaction), procedure, b"x")).unwrap();
        assert_eq!(answer.kind, Kind::Refused);
    }
    is_well(&server, &service, 0);
}

#[test]
fn what_a_datagram_cant_carry_is_an_error_that_says_so() {
    let service = Arc::new(Service::default());
    let server = common::start(ServerOptions::default(), &service);
    const LARGE: Procedure = Procedure::new(7, 1, 1);
    let registered = server.register(LARGE.program, LARGE.version, |_: &Request, reply: &mut Reply| {
        reply.put(&[1; limits::udp_payload_bytes(false) + 1]);
        Ok(())
    });
    registered.unwrap();
    let limit = limits::udp_payload_bytes(false);
    let call = |bytes: usize, number| {
        let args = vec![1; bytes];
        client().call(server.address(), Transport::Udp, procedure(number), &[&args])
    };
    assert!(call(limit, COUNT).is_ok());
    let too_large = call(limit + 1, COUNT);
    assert_eq!(too_large, Err(CallError::NotExecuted(Refusal::TooLarge)));
    assert!(too_large.unwrap_err().to_string().contains("use TCP"));
    assert_eq!(service.executed(), 1);
    // The callee executes it, but the result doesn't fit.
    match client().call(server.address(), Transport::Udp, LARGE, &[]) {
        Err(CallError::Fault(fault)) => assert!(fault.message.contains("use TCP"), "{fault}"),
        other => panic!("{other:?}"),
    }
}
