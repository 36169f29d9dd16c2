//! Serial multicasting through real sockets.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, FAIL, SLEEP_IF_MARKED, Service, client, procedure};
use bytes::Bytes;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_flexrpc::proto::chain::Hop;
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{Head, Kind, flags};
use strait_flexrpc::{
    CallError, CallId, CallOptions, Client, ClientOptions, ClusterKey, Doubt, MulticastOptions, Obstacle,
    Outcome, Refusal, Server, ServerOptions, Transport, Turn, WorkerLimits,
};

struct Chain {
    servers: Vec<Server>,
    services: Vec<Arc<Service>>,
    addresses: Vec<SocketAddr>,
}

fn chain(length: usize, options: &ServerOptions) -> Chain {
    let services: Vec<_> = (0..length).map(|_| Arc::new(Service::default())).collect();
    let servers: Vec<_> = services.iter().map(|service| common::start(options.clone(), service)).collect();
    let addresses = servers.iter().map(Server::address).collect();
    Chain { servers, services, addresses }
}

fn bytes(size: usize) -> Bytes {
    (0..size).map(|i| (i ^ (i >> 8)) as u8).collect()
}

fn executed(chain: &Chain) -> Vec<usize> {
    chain.services.iter().map(|service| service.executed()).collect()
}

/// A worker sleeps for up to 4 ms in a receive. It once slept before it passed on the bytes that
/// came with the head. So each callee delayed a chain until the next segment arrived.
#[test]
fn what_comes_with_the_head_is_passed_on_before_the_rest_is_waited_for() {
    const ROUNDS: u64 = 20;
    const SOON: Duration = Duration::from_millis(2);
    const LATE: Duration = Duration::from_secs(10);
    let first = chain(1, &ServerOptions::default());
    let held_up = (1..=ROUNDS).map(|round| {
        let next = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut caller = Raw::tcp(first.addresses[0]);
        let id = CallId { session: caller.session(), handle: 0, transaction: round };
        let elsewhere = CallId { transaction: round, ..CallId::default() };
        let hop = Hop { callee: next.local_addr().unwrap(), id: elsewhere };
        let hops = Some(strait_flexrpc::proto::chain::Chain { hops: vec![hop] });
        let extension = Extension { chain: hops, ..Extension::default() };
        let head = Head {
            flags: flags::CHAIN,
            procedure: procedure(COUNT),
            // The next callee never answers.
            time_left_us: 1_000_000,
            ..Head::new(Kind::Call, id)
        };
        let frame = raw::frame(head, &extension.encode(), &[6; 50_000]);
        let begun = Instant::now();
        caller.send(&frame[..40_000]);
        next.set_nonblocking(true).unwrap();
        let accept = || {
            std::thread::yield_now();
            next.accept().ok().or_else(|| (begun.elapsed() > LATE).then(|| panic!("nothing is passed on")))
        };
        let (mut passed_on, _) = std::iter::repeat_with(accept).flatten().next().unwrap();
        passed_on.set_nonblocking(false).unwrap();
        passed_on.set_read_timeout(Some(LATE)).unwrap();
        passed_on.read_exact(&mut [0; 30_000]).unwrap();
        begun.elapsed()
    });
    // Other processes may delay some rounds on a busy machine, so look at the fastest.
    assert!(held_up.min().unwrap() < SOON);
}

#[test]
fn every_callee_of_a_chain_executes_once_and_answers() {
    for length in [1, 2, 3, 7] {
        let chain = chain(length, &ServerOptions::default());
        let client = client();
        let mut calls = 0;
        for store_and_forward in [false, true] {
            for size in [0, 1, 1000, 65_536, 1 << 20, 5 << 20] {
                let args = bytes(size);
                let options = MulticastOptions { store_and_forward, ..MulticastOptions::default() };
                let outcomes = client.call_chain(
                    &chain.addresses,
                    procedure(ECHO),
                    &[args.slice(..size / 2), args.slice(size / 2..)],
                    &options,
                );
                // Results of a chain arrive together, so large ones belong in single calls.
                if size * length < 20 << 20 {
                    assert!(
                        outcomes.iter().all(|outcome| *outcome == Outcome::Value(args.clone())),
                        "{length} × {size}"
                    );
                }
                let outcomes = client.call_chain(
                    &chain.addresses,
                    procedure(COUNT),
                    &[args.slice(..size / 10)],
                    &options,
                );
                assert!(outcomes.iter().all(Outcome::is_value));
                calls += 1;
                assert_eq!(executed(&chain), vec![calls; length]);
            }
        }
        assert!(client.pooled_handles() <= length);
    }
}

#[test]
fn each_callees_outcome_is_its_own() {
    let mut chain = chain(4, &ServerOptions::default());
    chain.services[1].mark(true);
    drop(chain.servers.remove(3));
    let client = client();
    // The call begins only if all four callees are reachable.
    let options = MulticastOptions::default();
    let outcomes = client.call_chain(&chain.addresses, procedure(COUNT), &[bytes(10)], &options);
    assert!(
        matches!(outcomes[3], Outcome::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused))),
        "{outcomes:?}"
    );
    assert!(outcomes[..3].iter().all(|o| *o == Outcome::NotExecuted(Refusal::NotForwarded)));
    assert_eq!(executed(&chain), [0; 4]);
    let outcomes = client.call_chain(&chain.addresses[..3], procedure(FAIL), &[bytes(10)], &options);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Error(_))), "{outcomes:?}");
    let outcomes = client.call_chain(&chain.addresses[..3], procedure(999), &[bytes(10)], &options);
    assert!(outcomes.iter().all(|o| *o == Outcome::NotExecuted(Refusal::ProcedureUnavailable)));
}

#[test]
fn a_callee_lost_after_the_sessions_were_made_leaves_the_others_outcomes_certain() {
    for lost in [1, 2] {
        let mut chain = chain(3, &ServerOptions::default());
        let client = client();
        let options = MulticastOptions::default();
        let warm = client.call_chain(&chain.addresses, procedure(COUNT), &[bytes(10)], &options);
        assert!(warm.iter().all(Outcome::is_value));
        drop(chain.servers.remove(lost));
        for size in [10, 1 << 20] {
            let before = executed(&chain);
            let outcomes = client.call_chain(&chain.addresses, procedure(COUNT), &[bytes(size)], &options);
            for (index, outcome) in outcomes.iter().enumerate() {
                let executions = chain.services[index].executed() - before[index];
                match outcome {
                    Outcome::Value(_) => assert_eq!(executions, 1, "{index}: {outcomes:?}"),
                    Outcome::NotExecuted(_) => assert_eq!(executions, 0, "{index}: {outcomes:?}"),
                    other => panic!("{index}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_silent_callee_is_in_doubt_and_the_others_outcomes_arrive_before_the_deadline() {
    let chain = chain(3, &ServerOptions::default());
    let client = client();
    for slow in 0..3 {
        chain.services[slow].mark(true);
        let call = CallOptions { timeout: Some(Duration::from_millis(1500)), ..CallOptions::default() };
        let options = MulticastOptions { call, ..MulticastOptions::default() };
        let outcomes =
            client.call_chain(&chain.addresses, procedure(SLEEP_IF_MARKED), &[bytes(10)], &options);
        for (index, outcome) in outcomes.iter().enumerate() {
            match index == slow {
                true => assert!(matches!(outcome, Outcome::Unknown(Doubt::TimedOut)), "{slow}: {outcomes:?}"),
                false => assert!(outcome.is_value(), "{slow}: {outcomes:?}"),
            }
        }
        chain.services[slow].mark(false);
        common::eventually("it ends", || chain.services[slow].running() == 0);
    }
}

#[test]
fn chains_that_are_too_long_or_loop_are_refused() {
    let chain = chain(3, &ServerOptions { chain_callees: 2, ..ServerOptions::default() });
    let options = MulticastOptions::default();
    let refused = |outcomes: Vec<Outcome>| {
        assert!(
            outcomes.iter().all(|outcome| matches!(
                outcome,
                Outcome::NotExecuted(Refusal::BadChain | Refusal::NotForwarded)
            )),
            "{outcomes:?}"
        );
    };
    let client = client();
    let [a, b, c] = chain.addresses[..] else { unreachable!() };
    refused(client.call_chain(&[a, b, a], procedure(COUNT), &[], &options));
    // The limit of the callee itself, for payloads in one piece and in many.
    for size in [0, 10, 3 << 20] {
        refused(client.call_chain(&[a, b, c], procedure(COUNT), &[bytes(size)], &options));
    }
    let longest = Client::new(ClientOptions { chain_callees: 2, ..ClientOptions::default() });
    refused(longest.call_chain(&[a, b, c], procedure(COUNT), &[], &options));
    assert_eq!(executed(&chain), [0; 3]);
    assert!(client.call_chain(&[a, b], procedure(COUNT), &[], &options).iter().all(Outcome::is_value));
}

#[test]
fn crossing_chains_of_bounded_pools_dont_deadlock() {
    let workers = WorkerLimits { least: 1, most: 2, dormant: Duration::from_secs(1) };
    let chain = chain(3, &ServerOptions { workers, ..ServerOptions::default() });
    let client = client();
    let [a, b, c] = chain.addresses[..] else { unreachable!() };
    std::thread::scope(|scope| {
        for index in 0..32 {
            let (client, route) = (&client, if index % 2 == 0 { [a, b, c] } else { [c, b, a] });
            scope.spawn(move || {
                for call in 0..30 {
                    let size = if call % 10 == 0 { 300_000 } else { 100 };
                    let options = MulticastOptions::default();
                    let outcomes = client.call_chain(&route, procedure(COUNT), &[bytes(size)], &options);
                    assert!(outcomes.iter().all(Outcome::is_value), "{outcomes:?}");
                }
            });
        }
    });
    assert_eq!(executed(&chain), [32 * 30; 3]);
}

#[test]
fn chains_work_with_a_cluster_key() {
    let key = ClusterKey::new(&[9; 32]).ok();
    let chain = chain(3, &ServerOptions { key: key.clone(), ..ServerOptions::default() });
    let client = Client::new(ClientOptions { key, ..ClientOptions::default() });
    for size in [0, 100, 1 << 20] {
        let outcomes = client.call_chain(
            &chain.addresses,
            procedure(ECHO),
            &[bytes(size)],
            &MulticastOptions::default(),
        );
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Value(bytes(size))), "{size}");
    }
}

#[test]
fn a_connection_carries_single_calls_and_chains_in_turn() {
    let chain = chain(2, &ServerOptions::default());
    let client = client();
    for size in [10, 300_000] {
        for _ in 0..5 {
            let single = client.call(chain.addresses[0], Transport::Tcp, procedure(ECHO), &[&bytes(size)]);
            assert_eq!(single, Ok::<_, CallError>(bytes(size)));
            let options = MulticastOptions::default();
            let outcomes = client.call_chain(&chain.addresses, procedure(ECHO), &[bytes(size)], &options);
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Value(bytes(size))));
        }
    }
    assert_eq!(chain.servers[1].connection_count(), 2, "the caller's, and the first callee's");
}

/// Whether bytes arrive within this time.
fn is_spoken_to(stream: &TcpStream, within: Duration) -> bool {
    stream.set_read_timeout(Some(within)).unwrap();
    stream.peek(&mut [0]).is_ok_and(|len| len > 0)
}

#[test]
fn calls_with_one_turn_leave_one_after_the_other() {
    const PATIENCE: Duration = Duration::from_secs(10);
    // More bytes than two sockets buffer without a receiver.
    let args = bytes(48 << 20);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let callee = listener.local_addr().unwrap();
    let (client, turn) = (client(), Turn::default());
    let call = || {
        let options = MulticastOptions { turn: Some(turn.clone()), ..MulticastOptions::default() };
        client.call_chain(&[callee], procedure(ECHO), std::slice::from_ref(&args), &options)
    };
    std::thread::scope(|scope| {
        let ready = scope.spawn(|| drop([(); 2].map(|()| client.handle(callee, Transport::Tcp).unwrap())));
        let first = listener.accept().unwrap().0;
        let mut greeted = Raw::of(first.try_clone().unwrap());
        let hello = greeted.receive().unwrap();
        greeted.send(&raw::welcome(&hello));
        let streams = [first, listener.accept().unwrap().0];
        ready.join().unwrap();
        let calls = [scope.spawn(call), scope.spawn(call)];
        let mut looks = (0..1_000).map(|look| look % 2);
        let spoken_to = |at: &usize| is_spoken_to(&streams[*at], Duration::from_millis(10));
        let first = looks.find(spoken_to).expect("a call comes");
        let second = 1 - first;
        assert!(!is_spoken_to(&streams[second], Duration::from_millis(100)), "it waits for its turn");
        for at in [first, second] {
            assert!(is_spoken_to(&streams[at], PATIENCE));
            let mut raw = Raw::of(streams[at].try_clone().unwrap());
            let (head, ..) = raw.receive().unwrap();
            raw.send(&raw::frame(Head::new(Kind::Value, head.id), &[], b"done"));
        }
        for call in calls {
            assert_eq!(call.join().unwrap(), [Outcome::Value(Bytes::from_static(b"done"))]);
        }
    });
}
