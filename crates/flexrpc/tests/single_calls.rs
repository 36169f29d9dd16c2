//! Single calls over both transports, through real sockets.

use crate::common::{
    self, COUNT, ECHO, FAIL, FULL, PANIC, PROGRAM, RUNNING, SLEEP, Service, client, procedure, server,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_flexrpc::{
    AuthSys, CallError, CallOptions, Client, ClientOptions, ClusterKey, Credentials, Doubt, Fault, Obstacle,
    Procedure, Refusal, Server, ServerOptions, Transport, WorkerLimits, limits,
};
use strait_testkit::wait::{pause, stays};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

#[test]
fn arguments_and_results_of_all_sizes_pass_unchanged() {
    let (server, _) = server();
    for transport in BOTH {
        let mut handle = client().handle(server.address(), transport).unwrap();
        let tcp_sizes = [100_000, 1 << 20, (1 << 20) + 1, 9 << 20];
        let sizes = [0, 1, 4095, 4096, 8192, 60_000, limits::udp_payload_bytes(false)];
        for &size in sizes.iter().chain(if transport == Transport::Tcp { &tcp_sizes[..] } else { &[] }) {
            let args: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8)) as u8).collect();
            let (a, b) = args.split_at(size / 3);
            let result = handle.call(procedure(ECHO), &[a, b, b""]).unwrap();
            assert!(result == args, "{size} bytes over {transport:?}");
        }
    }
}

#[test]
fn threads_call_concurrently_and_each_call_executes_once() {
    let (server, service) = server();
    let client = client();
    for transport in BOTH {
        let before = service.executed();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        client.call(server.address(), transport, procedure(COUNT), &[b"x"]).unwrap();
                    }
                });
            }
        });
        assert_eq!(service.executed() - before, 1600);
    }
    assert!(client.pooled_handles() <= 16);
}

#[test]
fn errors_are_typed() {
    let (server, _) = server();
    for transport in BOTH {
        let mut handle = client().handle(server.address(), transport).unwrap();
        let mut call = |procedure| handle.call(procedure, &[b"args"]).unwrap_err();
        assert_eq!(call(procedure(FAIL)), CallError::Fault(Fault::application(13, "args")));
        assert!(matches!(call(procedure(PANIC)), CallError::Fault(_)));
        let refused = CallError::NotExecuted;
        assert_eq!(call(procedure(999)), refused(Refusal::ProcedureUnavailable));
        assert_eq!(call(procedure(FULL)), refused(Refusal::Overloaded));
        assert_eq!(call(Procedure::new(PROGRAM + 1, 1, 1)), refused(Refusal::ProgramUnavailable));
        let mismatch = Refusal::VersionMismatch { lowest: 1, highest: 1 };
        assert_eq!(call(Procedure::new(PROGRAM, 2, 1)), refused(mismatch));
        assert_eq!(handle.call(procedure(ECHO), &[b"still fine"]).unwrap(), "still fine");
    }
}

#[test]
fn a_call_that_isnt_answered_in_time_is_in_doubt_and_its_handle_is_closed() {
    let (server, _) = server();
    for transport in BOTH {
        let client = client();
        let mut handle = client.handle(server.address(), transport).unwrap();
        let options = CallOptions { timeout: Some(Duration::from_millis(100)), ..CallOptions::default() };
        let start = Instant::now();
        let outcome = handle.call_with(procedure(SLEEP), &[&1500u32.to_be_bytes()], &options);
        assert_eq!(outcome, Err(CallError::Unknown(Doubt::TimedOut)));
        assert!(start.elapsed() < Duration::from_millis(1400));
        drop(handle);
        assert_eq!(client.pooled_handles(), 0, "closed, not pooled");
        let mut handle = client.handle(server.address(), transport).unwrap();
        assert_eq!(handle.call(procedure(ECHO), &[b"next"]).unwrap(), "next");
        drop(handle);
        assert_eq!(client.pooled_handles(), 1);
    }
}

#[test]
fn slow_calls_dont_delay_others() {
    let (server, _) = server();
    let client = client();
    for transport in BOTH {
        std::thread::scope(|scope| {
            let mut slow = client.handle(server.address(), transport).unwrap();
            let mut fast = client.handle(server.address(), transport).unwrap();
            fast.call(procedure(ECHO), &[b"warm"]).unwrap();
            scope.spawn(move || slow.call(procedure(SLEEP), &[&1500u32.to_be_bytes()]).unwrap());
            common::eventually("the slow call runs", || {
                fast.call(procedure(RUNNING), &[]).unwrap()[..] == 1u32.to_be_bytes()
            });
            let start = Instant::now();
            for _ in 0..20 {
                fast.call(procedure(ECHO), &[b"fast"]).unwrap();
            }
            assert!(start.elapsed() < Duration::from_millis(1200), "{transport:?} {:?}", start.elapsed());
        });
    }
}

#[test]
fn somebody_watches_for_calls_however_long_all_others_are_busy() {
    let workers = WorkerLimits { least: 1, most: 4, dormant: Duration::from_millis(50) };
    let service = Arc::new(Service::default());
    let server = common::start(ServerOptions { workers, ..ServerOptions::default() }, &service);
    for transport in [Transport::Tcp, Transport::Udp] {
        std::thread::scope(|scope| {
            let slow =
                || client().call(server.address(), transport, procedure(SLEEP), &[&1500u32.to_be_bytes()]);
            scope.spawn(slow);
            common::eventually("it runs", || service.running() == 1);
            pause("longer than the watching worker may be dormant", Duration::from_millis(400));
            client().call(server.address(), transport, procedure(ECHO), &[b"x"]).unwrap();
            assert_eq!(service.running(), 1, "{transport:?}: answered beside the slow call");
        });
    }
}

#[test]
fn a_callee_that_isnt_there_hasnt_executed_anything() {
    let (server, _) = server();
    let gone = server.address();
    drop(server);
    let client = Client::new(ClientOptions {
        timeout: Some(Duration::from_millis(300)),
        connect_timeout: Duration::from_millis(200),
        ..ClientOptions::default()
    });
    for transport in BOTH {
        let error = client.call(gone, transport, procedure(ECHO), &[b"x"]).unwrap_err();
        assert!(error.is_retry_safe(), "{error}");
    }
}

#[test]
fn a_restarted_server_is_a_new_incarnation_and_calls_go_on() {
    let (server, _) = server();
    let address = server.address();
    let client = client();
    client.call(address, Transport::Tcp, procedure(ECHO), &[b"before"]).unwrap();
    assert!(server.shutdown());
    let service = Arc::new(Service::default());
    let mut restarted = None;
    // Another process's connection may have the port for a moment.
    common::eventually("the port is free again", || {
        let options = ServerOptions { listen: address, ..ServerOptions::default() };
        restarted = common::try_start(options, &service);
        restarted.is_some()
    });
    // The pooled connection turns out dead and the session unknown, so the client makes new ones.
    common::eventually("a call succeeds", || {
        client.call(address, Transport::Tcp, procedure(COUNT), &[b"after"]).is_ok()
    });
    assert_eq!(service.executed(), 1);
}

#[test]
fn credentials_reach_the_service() {
    let (server, service) = server();
    let sys = AuthSys { machine: "node7".into(), uid: 1001, gids: vec![5, 6], ..AuthSys::default() };
    let credentials = Credentials::Sys(sys);
    let client = Client::new(ClientOptions { credentials: credentials.clone(), ..ClientOptions::default() });
    for transport in BOTH {
        client.call(server.address(), transport, procedure(ECHO), &[]).unwrap();
        assert_eq!(service.last_credentials(), credentials);
        let mut handle = client.handle(server.address(), transport).unwrap();
        let none = CallOptions { credentials: Some(Credentials::None), ..CallOptions::default() };
        handle.call_with(procedure(ECHO), &[], &none).unwrap();
        assert_eq!(service.last_credentials(), Credentials::None);
    }
}

#[test]
fn only_holders_of_the_cluster_key_are_served() {
    let service = Arc::new(Service::default());
    let key = ClusterKey::new(&[7; 32]).ok();
    let server = common::start(ServerOptions { key: key.clone(), ..ServerOptions::default() }, &service);
    let with = |key: Option<ClusterKey>| {
        let connect_timeout = Duration::from_millis(300);
        Client::new(ClientOptions { key, connect_timeout, ..ClientOptions::default() })
    };
    let refused = Err(CallError::NotExecuted(Refusal::Unauthenticated));
    for transport in BOTH {
        let call = |client: Client| client.call(server.address(), transport, procedure(COUNT), &[b"secret"]);
        assert_eq!(call(with(key.clone())).unwrap(), "secret");
        assert_eq!(call(with(None)), refused);
        assert_eq!(call(with(ClusterKey::new(&[8; 32]).ok())), refused);
    }
    assert_eq!(service.executed(), 2);
    let (keyless, _) = common::server();
    let outcome = with(key).call(keyless.address(), Transport::Tcp, procedure(COUNT), &[]);
    assert_eq!(outcome, refused, "nor is a server without the key trusted");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let (taken, service) = server();
    let options = ServerOptions { listen: taken.address(), ..ServerOptions::default() };
    let error = common::builder(options, &service).start().err().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&taken.address().to_string()), "{error}");
}

#[test]
fn off_loopback_a_key_or_leave_is_needed() {
    let off = ServerOptions { listen: "0.0.0.0:0".parse().unwrap(), ..ServerOptions::default() };
    assert!(Server::builder(off.clone()).start().is_err());
    assert!(Server::builder(ServerOptions { allow_anonymous: true, ..off.clone() }).start().is_ok());
    assert!(Server::builder(ServerOptions { key: ClusterKey::new(&[7; 32]).ok(), ..off }).start().is_ok());
}

#[test]
fn what_exceeds_a_datagram_or_the_callees_limit_is_refused_before_it_is_sent() {
    let service = Arc::new(Service::default());
    let server =
        common::start(ServerOptions { payload_bytes: 100_000, ..ServerOptions::default() }, &service);
    let call = |transport, size: usize| {
        client().call(server.address(), transport, procedure(COUNT), &[&vec![1; size]])
    };
    let refused = Err(CallError::NotExecuted(Refusal::TooLarge));
    assert_eq!(call(Transport::Udp, limits::udp_payload_bytes(false) + 1), refused);
    assert_eq!(call(Transport::Tcp, 100_001), refused);
    assert_eq!(service.executed(), 0);
    assert!(call(Transport::Tcp, 100_000).is_ok());
}

#[test]
fn a_shutdown_lets_running_calls_end() {
    let (server, service) = server();
    let address = server.address();
    let caller = std::thread::spawn(move || {
        client().call(address, Transport::Tcp, procedure(SLEEP), &[&200u32.to_be_bytes()])
    });
    common::eventually("the call runs", || service.running() == 1);
    assert!(server.shutdown());
    assert!(caller.join().unwrap().is_ok(), "answered before the end");
    let outcome = client().call(address, Transport::Tcp, procedure(ECHO), &[]);
    assert_eq!(outcome, Err(CallError::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused))));
}

#[test]
fn who_calls_while_a_server_waits_for_others_is_told_so_at_once() {
    let (server, service) = server();
    let address = server.address();
    let mut handles = BOTH.map(|transport| client().handle(address, transport).unwrap());
    let caller = std::thread::spawn(move || {
        client().call(address, Transport::Tcp, procedure(SLEEP), &[&1_500u32.to_be_bytes()])
    });
    common::eventually("the call runs", || service.running() == 1);
    let shutdown = std::thread::spawn(|| server.shutdown());
    let begun = Instant::now();
    common::eventually("it has begun", || std::net::TcpStream::connect(address).is_err());
    for handle in &mut handles {
        for _ in 0..3 {
            let outcome = handle.call(procedure(ECHO), &[]);
            assert_eq!(outcome, Err(CallError::NotExecuted(Refusal::ShuttingDown)));
        }
    }
    let late = |transport| client().call(address, transport, procedure(ECHO), &[]);
    assert_eq!(
        late(Transport::Tcp),
        Err(CallError::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused)))
    );
    assert_eq!(late(Transport::Udp), Err(CallError::NotExecuted(Refusal::ShuttingDown)));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(shutdown.join().unwrap() && caller.join().unwrap().is_ok());
}

#[test]
fn arguments_come_in_any_number_of_pieces() {
    let (server, _) = server();
    for count in [1_000, 1_022, 1_024, 5_000] {
        let full = vec![&[7; 100][..]; count];
        let small = vec![&[7; 4][..]; count];
        let large = [7; 20_000];
        let mostly_empty: Vec<&[u8]> = (0..count).map(|n| if n == 0 { &large[..] } else { &[] }).collect();
        for (transport, args) in [
            (Transport::Tcp, &full),
            (Transport::Tcp, &mostly_empty),
            (Transport::Udp, &small),
            (Transport::Udp, &mostly_empty),
        ] {
            let echoed = client().call(server.address(), transport, procedure(ECHO), args);
            assert_eq!(echoed.as_deref(), Ok(&args.concat()[..]), "{transport:?}, {count}");
        }
        let args: Vec<_> = full.iter().map(|slice| bytes::Bytes::copy_from_slice(slice)).collect();
        let options = strait_flexrpc::MulticastOptions::default();
        let callees = [server.address()];
        let outcomes = client().call_parallel(&callees, Transport::Tcp, procedure(ECHO), &args, &options);
        assert!(outcomes[0].is_value(), "{outcomes:?}");
    }
}

#[test]
fn without_any_time_nothing_is_sent() {
    let (server, service) = server();
    let options = CallOptions { timeout: Some(Duration::ZERO), ..CallOptions::default() };
    for transport in BOTH {
        let mut handle = client().handle(server.address(), transport).unwrap();
        for _ in 0..100 {
            let outcome = handle.call_with(procedure(COUNT), &[], &options);
            assert_eq!(outcome, Err(CallError::NotExecuted(Refusal::DeadlinePassed)));
        }
    }
    assert_eq!(service.executed(), 0);
}

#[test]
fn a_result_above_the_clients_own_limit_is_told_as_that() {
    let (server, _) = server();
    let client = Client::new(ClientOptions { payload_bytes: 1_000, ..ClientOptions::default() });
    let echo = |size| client.call(server.address(), Transport::Tcp, procedure(ECHO), &[&vec![1; size]]);
    assert_eq!(echo(1_001), Err(CallError::Unknown(Doubt::AnswerTooLarge)));
    assert_eq!(echo(1_000).unwrap().len(), 1_000);
}

#[test]
fn the_longest_times_there_are_mean_for_ever_and_nothing_breaks() {
    let ever = Duration::MAX;
    let options = ServerOptions {
        workers: WorkerLimits { least: 1, most: 4, dormant: ever },
        connection_idle: ever,
        message_stall: ever,
        chain_wait: ever,
        drain: ever,
        ..ServerOptions::default()
    };
    let service = Arc::new(Service::default());
    let (server, next) = (common::start(options.clone(), &service), common::start(options, &service));
    let client = Client::new(ClientOptions {
        timeout: Some(ever),
        connect_timeout: ever,
        calling_dormant: ever,
        ..ClientOptions::default()
    });
    for transport in BOTH {
        assert_eq!(client.call(server.address(), transport, procedure(ECHO), &[b"x"]).unwrap(), "x");
        let callees = [server.address(), next.address()];
        let outcomes = client.call_parallel(&callees, transport, procedure(ECHO), &[], &Default::default());
        assert!(outcomes.iter().all(strait_flexrpc::Outcome::is_value), "{outcomes:?}");
    }
    let callees = [server.address(), next.address()];
    for size in [0, 1 << 20] {
        let args = [vec![1; size].into()];
        let outcomes = client.call_chain(&callees, procedure(COUNT), &args, &Default::default());
        assert!(outcomes.iter().all(strait_flexrpc::Outcome::is_value), "{outcomes:?}");
    }
    stays("all threads run", Duration::from_millis(100), || {
        client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"x"]).unwrap() == "x"
    });
    assert!(server.shutdown() && next.shutdown());
}
