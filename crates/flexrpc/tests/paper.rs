//! The paper's sections III and IV: its sentences about the system's behaviour, and a test of each.
//! If this crate does better than a sentence, the test says so. The following sentences don't hold
//! here:
//!
//! - IV.A: "The calling worker which finishes the last subcall of the request dequeues the
//!   corresponding entry." Here the worker that begins the last subcall does: later workers would
//!   find an entry without subcalls.
//! - IV.A: "The result is stored in pre-allocated area designated by the caller." Here the result
//!   is returned in its receive buffer, which needs no copy either.
//! - IV.B: "returns an error code to the caller", if a connection breaks. Here the caller gets an
//!   error only if it can't get the call's answer over another connection.
//! - IV.C: "The service worker monitor a set of socket descriptors using select()." Here service
//!   workers use epoll, which takes as long for a thousand connections as for one.
//! - IV.C: "For TCP, FlexRPC supports unlimited payload size." Here it is limited, to 64 MiB by
//!   default ([`limits::MESSAGE_BYTES`] gives the reason).
//! - IV.D: "The requests with the same cid an pid are clustered to check related requests fast."
//!   Here the cache finds requests by session and handle, and spreads them over its shards. So a
//!   client's threads don't contend for a lock.
//!
//! Section IV.E, the IDL, is the stub generator's. Behaviour of threads that these tests can't see
//! from outside has tests in `src`: the call request queue in `orders/calling_workers.rs`, the pool
//! in `net/pool.rs`, outcomes in `client/gather.rs`, the lifetime of cache entries in
//! `proto/admission`, the bytes that a relay may pass on in `proto/relay.rs`.

use crate::common::raw::{self, Raw};
use crate::common::{
    self, COUNT, ECHO, HOLD, PROGRAM, SLEEP, SLEEP_IF_MARKED, Service, client, procedure, server,
};
use bytes::Bytes;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::proto::frame::{Head, Kind};
use strait_flexrpc::{
    AdmissionLimits, CallError, CallId, Client, ClientOptions, Doubt, MulticastOptions, Outcome, Procedure,
    Refusal, Reply, Request, Server, ServerOptions, Transport, WorkerLimits, limits,
};
use strait_testkit::wait::{obtained, stays};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// III.A: "Using multiple threads on the server side is an effective way in
/// handling large numbers of concurrent requests"; IV.C: "Due to service workers,
/// multiple call requests can be handled concurrently on the server side."
#[test]
fn s3a_calls_are_served_concurrently() {
    let client = client();
    for transport in BOTH {
        let (server, service) = server();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| client.call(server.address(), transport, procedure(HOLD), &[]));
            }
            common::eventually("all six run at once", || service.running() == 6);
            service.let_go();
        });
    }
}

/// III.A: "a single thread must invoke a call at any given time" is the restriction to avoid. IV.A:
/// "FlexRPC inherently guarantees thread-safeness on the client side and can be used with any
/// Pthreads-based applications."
#[test]
fn s3a_any_threads_may_call_by_one_client() {
    let (server, service) = server();
    let client = client();
    std::thread::scope(|scope| {
        for thread in 0..8u32 {
            let (client, server) = (&client, &server);
            scope.spawn(move || {
                for call in 0..100u32 {
                    let args = (thread * 1000 + call).to_be_bytes();
                    let transport = BOTH[call as usize % 2];
                    let result = client.call(server.address(), transport, procedure(COUNT), &[&args]);
                    assert_eq!(result.unwrap()[..], args, "its own answer");
                }
            });
        }
    });
    let mut log = service.log();
    log.sort();
    log.dedup();
    assert_eq!(log.len(), 800, "each executed once");
}

/// III.B: "A single call is the traditional request/reply-based calling pattern
/// which is conceptually similar to a local procedure call."
#[test]
fn s3b_a_single_call() {
    let (server, _) = server();
    let result = client().call(server.address(), Transport::Tcp, procedure(ECHO), &[b"argument"]);
    assert_eq!(result.unwrap(), "argument");
}

/// III.B: "In the multicasting call, the caller invokes a remote procedure with
/// the same argument, and the call is completed if the caller receives the results
/// from all the callees." And: "In terms of calling semantics, parallel
/// multicasting and serial multicasting are identical."
#[test]
fn s3b_a_multicast_is_complete_with_the_results_of_all_callees() {
    let servers: Vec<_> = (0..3).map(|_| server()).collect();
    let callees: Vec<_> = servers.iter().map(|(server, _)| server.address()).collect();
    servers[1].1.mark(true);
    let (client, options) = (client(), MulticastOptions::default());
    let args = [Bytes::from_static(b"same")];
    let parallel =
        client.call_parallel(&callees, Transport::Tcp, procedure(SLEEP_IF_MARKED), &args, &options);
    let serial = client.call_chain(&callees, procedure(SLEEP_IF_MARKED), &args, &options);
    assert_eq!(servers[1].1.running(), 0, "both wait for the slowest");
    assert!(parallel.iter().all(Outcome::is_value));
    assert_eq!(parallel, serial);
}

/// III.B: "The caller sends a request to one of the callees and the callee
/// forwards the received request to the next callee forming a delivery chain",
/// "each callee replies to the requester by adding its own result to the results
/// obtained from the successive callee on the chain", "the caller transmits the
/// request only once".
#[test]
fn s3b_a_chain_is_sent_once_and_answered_by_the_first_callee() {
    let peers: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let servers: Vec<_> = peers
        .iter()
        .enumerate()
        .map(|(index, peers)| {
            let peers = Arc::clone(peers);
            Server::builder(ServerOptions::default())
                .register(PROGRAM, 1, move |request: &Request, reply: &mut Reply| {
                    peers.lock().unwrap().push(request.peer);
                    reply.put(&[index as u8]);
                    Ok(())
                })
                .start()
                .unwrap()
        })
        .collect();
    let callees: Vec<_> = servers.iter().map(Server::address).collect();
    let client = client();
    let outcomes = client.call_chain(&callees, procedure(1), &[Bytes::new()], &MulticastOptions::default());
    let results: Vec<_> = outcomes.into_iter().map(|outcome| outcome.into_result().unwrap()).collect();
    assert_eq!(results, [&[0][..], &[1], &[2]], "collected, in the chain's order");
    // The previous callee called the second and the third over a connection of its own. The caller
    // has another one to each, on which it got its session.
    assert_eq!(servers.iter().map(Server::connection_count).collect::<Vec<_>>(), [1, 2, 2]);
    let callers: Vec<_> = peers.iter().map(|peers| peers.lock().unwrap()[0].port()).collect();
    assert!(callers[0] != callers[1] && callers[1] != callers[2]);
}

/// III.B: "the failure in the middle of delivery chain impedes the exact failure detection". Not
/// here: every callee has an outcome of its own.
#[test]
fn s3b_a_failure_in_mid_chain_leaves_no_doubt_about_the_others() {
    let mut servers: Vec<_> = (0..3).map(|_| server()).collect();
    let callees: Vec<_> = servers.iter().map(|(server, _)| server.address()).collect();
    let (client, options) = (client(), MulticastOptions::default());
    let call = || client.call_chain(&callees, procedure(COUNT), &[Bytes::from_static(b"x")], &options);
    assert!(call().iter().all(Outcome::is_value));
    drop(servers.remove(1));
    let outcomes = call();
    assert!(matches!(outcomes[1], Outcome::NotExecuted(_)), "{outcomes:?}");
    for (outcome, (_, service)) in outcomes.iter().step_by(2).zip(&servers) {
        assert_eq!(outcome.is_value(), service.executed() == 2, "{outcomes:?}");
    }
}

/// III.C: "The widely used approach is to retransmit the same packet on timeout";
/// I: "the client retries the RPC call until it gets back a reply, and the server
/// suppresses duplicated calls".
#[test]
fn s3c_lost_datagrams_are_sent_again_and_executed_once() {
    let (server, service) = server();
    // Lost: the first two transmissions and the first answer.
    let (mut calls, mut answers) = (0, 0);
    let address = proxy(server.address(), move |from_callee, kind| {
        let (count, lost) = if from_callee { (&mut answers, 1) } else { (&mut calls, 2) };
        let greets = matches!(kind, Kind::Hello | Kind::Welcome);
        *count += usize::from(!greets);
        greets || *count > lost
    });
    let result = client().call(address, Transport::Udp, procedure(COUNT), &[b"once"]);
    assert_eq!((result.unwrap(), service.executed()), (Bytes::from_static(b"once"), 1));
}

/// A proxy between one caller and `callee`. It forwards a datagram if `passes` returns true, given
/// whether the callee sent it, and its kind.
fn proxy(callee: SocketAddr, mut passes: impl FnMut(bool, Kind) -> bool + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        let (mut caller, mut buffer) = (None, [0; 65_536]);
        loop {
            // A restarting callee refuses datagrams, which also loses them.
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
            let from_callee = from == callee;
            if !from_callee {
                caller = Some(from);
            }
            let kind = Head::decode(&buffer[..len]).unwrap().unwrap().kind;
            if passes(from_callee, kind) {
                let to = if from_callee { caller.unwrap() } else { callee };
                let _ = socket.send_to(&buffer[..len], to);
            }
        }
    });
    address
}

/// III.C: "The connection remains alive temporarily after the corresponding handle
/// is destroyed, and it can be used for other RPC requiring the connection to the
/// same callee." IV.B: "the handle manager looks up the handle pool to find the
/// same handle created already … checks out it … If there is no handle available,
/// the handle manager creates a new handle by establishing a connection … If the
/// caller returns the handle back, the handle manager inserts it into the pool."
#[test]
fn s4b_connections_are_pooled() {
    let (server, _) = server();
    let client = client();
    let first = client.handle(server.address(), Transport::Tcp).unwrap();
    let second = client.handle(server.address(), Transport::Tcp).unwrap();
    common::eventually("a connection each", || server.connection_count() == 2);
    assert_eq!(client.pooled_handles(), 0);
    drop((first, second));
    assert_eq!(client.pooled_handles(), 2);
    for _ in 0..10 {
        client.call(server.address(), Transport::Tcp, procedure(ECHO), &[]).unwrap();
    }
    assert_eq!((client.pooled_handles(), server.connection_count()), (2, 2));
}

/// IV.B: "there is a configurable upper limit to the number of cached handles. If
/// the number of cached handles reaches the limit, the handle manager picks up the
/// least recently used handle and closes it."
#[test]
fn s4b_the_least_recently_used_handle_is_closed_at_the_limit() {
    let servers: Vec<_> = (0..3).map(|_| server().0).collect();
    let client = Client::new(ClientOptions { pooled_handles: 2, ..ClientOptions::default() });
    for server in &servers {
        client.call(server.address(), Transport::Tcp, procedure(ECHO), &[]).unwrap();
    }
    assert_eq!(client.pooled_handles(), 2);
    common::eventually("the first callee's is closed", || servers[0].connection_count() == 0);
    assert_eq!((servers[1].connection_count(), servers[2].connection_count()), (1, 1));
}

/// IV.B: "If the connection terminates abnormally, FlexRPC sets a flag which
/// indicates the handle is invalidated and returns an error code to the caller …
/// If the flag is set, all the handles in the handle pool connected to the same
/// callee are invalidated, i.e., the handles are removed from the handle pool and
/// destroyed."
#[test]
fn s4b_one_broken_handle_takes_all_of_its_callee_from_the_pool() {
    let (dying, _) = server();
    let (living, _) = server();
    let client = client();
    let mut handles: Vec<_> =
        (0..3).map(|_| client.handle(dying.address(), Transport::Tcp).unwrap()).collect();
    client.call(living.address(), Transport::Tcp, procedure(ECHO), &[]).unwrap();
    let mut active = handles.pop().unwrap();
    drop(handles);
    assert_eq!(client.pooled_handles(), 3);
    dying.shutdown();
    assert!(active.call(procedure(ECHO), &[]).is_err());
    assert_eq!(client.pooled_handles(), 3, "not before it is returned");
    drop(active);
    assert_eq!(client.pooled_handles(), 1, "the other callee's stays");
}

/// IV.A: "FlexRPC uses multiple worker threads on the client side to invoke
/// parallel multicasting calls"; "the caller thread processes one of subcalls and
/// the remaining n-1 subcalls are issued by other calling workers"; "if a worker
/// thread remains as a dormant worker for a specified period of time, the thread
/// terminates itself." (Small arguments need none: one thread is faster.)
#[test]
fn s4a_calling_workers_come_and_go() {
    let (servers, services): (Vec<_>, Vec<_>) = (0..4).map(|_| server()).unzip();
    let callees: Vec<_> = servers.iter().map(Server::address).collect();
    let client =
        Client::new(ClientOptions { calling_dormant: Duration::from_millis(30), ..ClientOptions::default() });
    let args = [Bytes::from(vec![1; 1 << 20])];
    let options = MulticastOptions::default();
    assert_eq!(client.calling_workers(), 0);
    std::thread::scope(|scope| {
        let call =
            scope.spawn(|| client.call_parallel(&callees, Transport::Tcp, procedure(HOLD), &args, &options));
        common::eventually("all are called at once", || {
            services.iter().all(|service| service.running() == 1)
        });
        assert_eq!(client.calling_workers(), 3, "the caller's thread is the fourth");
        services.iter().for_each(|service| service.let_go());
        assert!(call.join().unwrap().iter().all(Outcome::is_value));
    });
    common::eventually("dormant workers end", || client.calling_workers() == 0);
}

/// IV.C: "The number of service workers is adjusted dynamically … a new worker is
/// spawned when there is not enough dormant workers. The dormant worker is
/// terminated after the specified timeout."
#[test]
fn s4c_service_workers_come_and_go() {
    let service = Arc::new(Service::default());
    let workers = WorkerLimits { least: 2, most: 16, dormant: Duration::from_millis(50) };
    let server = common::start(ServerOptions { workers, ..ServerOptions::default() }, &service);
    let client = client();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| client.call(server.address(), Transport::Tcp, procedure(HOLD), &[]));
        }
        common::eventually("as many as are needed", || server.worker_count() > 8);
        service.let_go();
    });
    assert!(server.worker_count() <= 16);
    common::eventually("back to the least", || server.worker_count() == 2);
}

/// IV.C: "FlexRPC places a restriction on the payload size over UDP." The paper's
/// 65,488 bytes forget the IP header; this is what a datagram carries.
#[test]
fn s4c_a_datagrams_payload_is_bounded() {
    let (server, _) = server();
    let mut handle = client().handle(server.address(), Transport::Udp).unwrap();
    let most = limits::udp_payload_bytes(false);
    assert!(most + 68 == 65_507 && most < 65_488);
    assert!(handle.call(procedure(ECHO), &[&vec![1; most]]).is_ok());
    let too_large = handle.call(procedure(ECHO), &[&vec![1; most + 1]]);
    assert_eq!(too_large, Err(CallError::NotExecuted(Refusal::TooLarge)));
    assert!(too_large.unwrap_err().to_string().contains("TCP"), "the error names the way out");
}

/// IV.C: "The payload over TCP can be divided into several packets … a partial
/// payload is received by non-blocking I/O scheme … If the whole argument is
/// received, the service worker begins to process the call request."
#[test]
fn s4c_a_payload_in_pieces_is_executed_when_it_is_whole_and_holds_no_worker() {
    let service = Arc::new(Service::default());
    let workers = WorkerLimits { least: 1, most: 1, ..ServerOptions::default().workers };
    let server = common::start(ServerOptions { workers, ..ServerOptions::default() }, &service);
    let mut raw = Raw::tcp(server.address());
    let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
    let bytes = raw::call(id, procedure(COUNT), &[5; 100_000]);
    for piece in bytes[..bytes.len() - 1].chunks(30_000) {
        raw.send(piece);
        // The only worker serves other callers in between.
        client().call(server.address(), Transport::Tcp, procedure(ECHO), &[]).unwrap();
    }
    assert_eq!(service.executed(), 0, "the last byte isn't there");
    let (answer, _, payload) = raw.ask(&bytes[bytes.len() - 1..]).unwrap();
    assert_eq!((answer.kind, answer.id, payload.len()), (Kind::Value, id, 100_000));
    assert_eq!(service.executed(), 1);
}

/// IV.C: "Since multiple RPC services can be registered, the service worker first
/// finds the corresponding service handler of the request and then invokes the
/// registered service handler with the received argument."
#[test]
fn s4c_several_programs_and_versions_share_a_server() {
    let answer = |text: &'static str| {
        move |_: &Request, reply: &mut Reply| {
            reply.put(text.as_bytes());
            Ok(())
        }
    };
    let server = Server::builder(ServerOptions::default())
        .register(1, 1, answer("one"))
        .register(1, 2, answer("one, second version"))
        .start()
        .unwrap();
    // "The socket descriptor set is updated whenever a new RPC service is registered".
    server.register(2, 1, answer("two")).unwrap();
    for transport in BOTH {
        let call = |program, version| {
            client().call(server.address(), transport, Procedure::new(program, version, 0), &[]).unwrap()
        };
        assert_eq!(call(1, 1), "one");
        assert_eq!(call(1, 2), "one, second version");
        assert_eq!(call(2, 1), "two");
    }
}

/// IV.C: "The maximum length of the delivery chain is configurable and currently
/// it is set to 16 by default."
#[test]
fn s4c_a_chain_has_sixteen_callees_by_default() {
    assert_eq!(limits::CHAIN_CALLEES, 16);
    let servers: Vec<_> = (0..17).map(|_| server().0).collect();
    let callees: Vec<_> = servers.iter().map(Server::address).collect();
    let options = MulticastOptions::default();
    let call = |length: usize| {
        client().call_chain(&callees[..length], procedure(ECHO), &[Bytes::from_static(b"x")], &options)
    };
    assert!(call(16).iter().all(Outcome::is_value));
    assert!(call(17).iter().all(|outcome| *outcome == Outcome::NotExecuted(Refusal::BadChain)));
}

/// IV.C: "the pipelining scheme which forwards the payload as soon as possible even if only a
/// partial payload is available", against "store-and-forward … after receiving the whole payload
/// from the sender". Here the next callee gets all bytes but the last one, which proves that they
/// are whole.
#[test]
fn s4c_pipelining_passes_a_partial_payload_on_and_store_and_forward_doesnt() {
    use strait_flexrpc::proto::chain::{Chain, Hop};
    use strait_flexrpc::proto::extension::Extension;
    use strait_flexrpc::proto::frame::flags;
    for (mode, early) in [(0, true), (flags::STORE_AND_FORWARD, false)] {
        let next = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let hop =
            Hop { callee: next.local_addr().unwrap(), id: CallId { transaction: 9, ..CallId::default() } };
        let (server, service) = server();
        let mut raw = Raw::tcp(server.address());
        let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
        let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() };
        let head = Head {
            flags: flags::CHAIN | mode,
            procedure: procedure(COUNT),
            // The next callee never answers.
            time_left_us: 1_000_000,
            ..Head::new(Kind::Call, id)
        };
        let bytes = raw::frame(head, &extension.encode(), &[6; 50_000]);
        let (first, rest) = bytes.split_at(40_000);
        raw.send(first);
        next.set_nonblocking(true).unwrap();
        let accept = || next.accept().ok();
        let _passed_on = if early {
            Some(obtained("a part of the payload", accept))
        } else {
            stays("the payload isn't whole", Duration::from_millis(100), || accept().is_none());
            None
        };
        raw.send(rest);
        common::eventually("it is executed here", || service.executed() == 1);
    }
}

/// IV.C: "FlexRPC supports the pipelined serial multicasting for TCP only".
#[test]
fn s4c_chains_are_for_tcp_only() {
    use strait_flexrpc::proto::chain::{Chain, Hop};
    use strait_flexrpc::proto::extension::Extension;
    use strait_flexrpc::proto::frame::flags;
    let (server, service) = server();
    let mut raw = Raw::udp(server.address());
    let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
    let hop = Hop { callee: server.address(), id: CallId::default() };
    let extension = Extension { chain: Some(Chain { hops: vec![hop] }), ..Extension::default() };
    let head = Head { flags: flags::CHAIN, procedure: procedure(COUNT), ..Head::new(Kind::Call, id) };
    let (answer, _, _) = raw.ask(&raw::frame(head, &extension.encode(), b"x")).unwrap();
    assert_eq!((answer.kind, answer.status), (Kind::Refused, 10));
    assert_eq!(service.executed(), 0);
}

/// IV.C: "the entire payload is verified by CRC32 checksum. There is a 32-bit
/// checksum field in the header that is computed by the sender and checked by the
/// receiver. If the mismatch is found on the checksum, the packet is recovered by
/// requesting retransmission to the sender." (CRC-32C here.)
#[test]
fn s4c_a_damaged_payload_is_asked_for_again() {
    let (server, service) = server();
    for mut raw in [Raw::tcp(server.address()), Raw::udp(server.address())] {
        let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
        let sound = raw::call(id, procedure(COUNT), b"payload");
        let mut damaged = sound.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let before = service.executed();
        assert_eq!(raw.ask(&damaged).unwrap().0.kind, Kind::SendAgain);
        assert_eq!(service.executed(), before);
        assert_eq!(raw.ask(&sound).unwrap().0.kind, Kind::Value);
        assert_eq!(service.executed(), before + 1);
    }
}

/// The same, from the caller's side: the caller repeats the same call.
#[test]
fn s4c_the_caller_sends_again_what_came_damaged() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let callee = raw::callee(move |_, (head, _, payload)| {
        log.lock().unwrap().push((head.id, payload.clone()));
        let kind = if log.lock().unwrap().len() < 3 { Kind::SendAgain } else { Kind::Value };
        Some(raw::frame(Head::new(kind, head.id), &[], b"done"))
    });
    assert_eq!(client().call(callee, Transport::Tcp, procedure(1), &[b"args"]).unwrap(), "done");
    let seen = seen.lock().unwrap();
    assert!(seen.len() == 3 && seen.iter().all(|call| *call == seen[0]));
}

/// IV.D: "If the response cache finds the call is duplicated, it returns the result
/// stored in the cache instead of executing the service handler again." The paper
/// caches for UDP only; here TCP has it too.
#[test]
fn s4d_a_duplicate_gets_the_stored_result() {
    let (server, service) = server();
    for mut raw in [Raw::tcp(server.address()), Raw::udp(server.address())] {
        let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
        let call = raw::call(id, procedure(COUNT), b"once");
        let before = service.executed();
        let answers: Vec<_> = (0..3).map(|_| raw.ask(&call).unwrap()).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0] && answer.2 == b"once"));
        assert_eq!(service.executed(), before + 1);
        // Over another connection or socket too.
        for mut other in [Raw::tcp(server.address()), Raw::udp(server.address())] {
            assert_eq!(other.ask(&call).unwrap(), answers[0]);
        }
        assert_eq!(service.executed(), before + 1);
    }
}

/// IV.D: "The cid and pid enable multiple callers to coexist in a host." Sessions do.
#[test]
fn s4d_callers_with_the_same_handle_and_transaction_ids_are_told_apart() {
    let (server, service) = server();
    for (first, second) in [(b"a", b"b"), (b"c", b"d")] {
        for (args, mut raw) in [(first, Raw::tcp(server.address())), (second, Raw::udp(server.address()))] {
            let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
            let (answer, _, payload) = raw.ask(&raw::call(id, procedure(COUNT), args)).unwrap();
            assert_eq!((answer.kind, &payload[..]), (Kind::Value, &args[..]));
        }
    }
    assert_eq!(service.log(), [b"a", b"b", b"c", b"d"], "each executed");
}

/// IV.D: "In order to minimize resource usage, the response cache stores only the
/// result discarding the argument."
#[test]
fn s4d_of_a_call_the_result_is_kept_and_not_the_argument() {
    // Room for twenty empty results with their heads, or for a fiftieth of one argument.
    let admission = AdmissionLimits { result_bytes: 2_000, ..AdmissionLimits::default() };
    let executed = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&executed);
    let server = Server::builder(ServerOptions { admission, ..ServerOptions::default() })
        .register(PROGRAM, 1, move |_: &Request, _: &mut Reply| {
            counter.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
        .start()
        .unwrap();
    let mut raw = Raw::tcp(server.address());
    let session = raw.session();
    let calls = [0, 1, 2, 3]
        .map(|handle| raw::call(CallId { session, handle, transaction: 1 }, procedure(1), &[0; 100_000]));
    for _ in 0..2 {
        for call in &calls {
            let (answer, _, payload) = raw.ask(call).unwrap();
            assert_eq!((answer.kind, payload.len()), (Kind::Value, 0));
        }
    }
    assert_eq!(executed.load(Ordering::SeqCst), calls.len(), "the second time from the cache");
}

/// IV.D: "In case the duplicated request is detected but the result is not ready … the response
/// cache returns a special code that makes the service worker to ignore the request." Over TCP the
/// first copy's connection may be gone, so there the server answers the duplicate.
#[test]
fn s4d_a_duplicate_of_a_running_call_is_ignored() {
    let (server, service) = server();
    let mut raw = Raw::udp(server.address());
    let id = CallId { session: raw.session(), handle: 0, transaction: 1 };
    let call = raw::call(id, procedure(SLEEP), &150u32.to_be_bytes());
    raw.send(&call);
    common::eventually("it runs", || service.running() == 1);
    raw.send(&call);
    let (told, _, _) = Raw::tcp(server.address()).ask(&call).unwrap();
    assert_eq!(told.kind, Kind::Pending);
    assert_eq!(raw.receive().unwrap().0.kind, Kind::Value);
    assert!(raw.receive().is_none(), "one answer for two datagrams");
}

/// IV.D: "The unique tid is issued on each call and the same tid is used during
/// retransmission."
#[test]
fn s4d_a_retransmission_keeps_its_identifier_and_a_new_call_has_a_new_one() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&ids);
    let callee = raw::callee(move |connection, (head, _, _)| {
        log.lock().unwrap().push(head.id);
        // The first connection breaks after the call was sent.
        (connection > 0).then(|| raw::frame(Head::new(Kind::Value, head.id), &[], b""))
    });
    let mut handle = client().handle(callee, Transport::Tcp).unwrap();
    handle.call(procedure(1), &[]).unwrap();
    handle.call(procedure(1), &[]).unwrap();
    let ids = ids.lock().unwrap();
    assert_eq!((ids.len(), ids[0]), (3, ids[1]));
    assert!(ids[2].transaction > ids[1].transaction && ids[2].handle == ids[1].handle);
}

/// IV.D: "if the tid is changed for the given hid, it means the request with the
/// previous tid has been completed and the cache entry of the old request can be
/// removed from the response cache."
#[test]
fn s4d_a_new_transaction_of_a_handle_retires_the_old_one() {
    let (server, service) = server();
    let mut raw = Raw::udp(server.address());
    let session = raw.session();
    let call = |transaction| raw::call(CallId { session, handle: 4, transaction }, procedure(COUNT), b"x");
    assert_eq!(raw.ask(&call(1)).unwrap().0.kind, Kind::Value);
    assert_eq!(raw.ask(&call(2)).unwrap().0.kind, Kind::Value);
    // A late duplicate of the first is refused, not executed.
    assert_eq!(raw.ask(&call(1)).unwrap().0.kind, Kind::Refused);
    assert_eq!(service.executed(), 2);
}

/// The paper doesn't cover callees that restart: its cache dies with them. Here a session
/// identifies the server's incarnation.
#[test]
fn s4d_a_call_of_an_earlier_incarnation_is_refused() {
    let (server, _) = server();
    let address = server.address();
    let session = Raw::udp(address).session();
    server.shutdown();
    let service = Arc::new(Service::default());
    let _server = common::start(ServerOptions { listen: address, ..ServerOptions::default() }, &service);
    let call = raw::call(CallId { session, handle: 0, transaction: 1 }, procedure(COUNT), b"x");
    for mut raw in [Raw::udp(address), Raw::tcp(address)] {
        let (answer, _, _) = raw.ask(&call).unwrap();
        assert_eq!((answer.kind, answer.status), (Kind::Refused, 5));
    }
    assert_eq!(service.executed(), 0);
}

/// The caller of such a call can't know, over UDP, whether the earlier incarnation executed it.
#[test]
fn s4d_a_call_sent_before_a_restart_is_in_doubt() {
    let service = Arc::new(Service::default());
    let options = |listen| ServerOptions { listen, drain: Duration::ZERO, ..ServerOptions::default() };
    let server = common::start(options("127.0.0.1:0".parse().unwrap()), &service);
    let address = server.address();
    // The proxy drops every copy of its answer.
    let lossy = proxy(address, |from_callee, kind| !(from_callee && kind == Kind::Value));
    let next = Arc::new(Service::default());
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| client().call(lossy, Transport::Udp, procedure(COUNT), &[b"x"]));
        common::eventually("it is executed", || service.executed() == 1);
        drop(server);
        let mut restarted = None;
        common::eventually("the port is free again", || {
            restarted = common::try_start(options(address), &next);
            restarted.is_some()
        });
        assert_eq!(caller.join().unwrap(), Err(CallError::Unknown(Doubt::SessionLost)));
    });
    assert_eq!((service.executed(), next.executed()), (1, 0));
}
