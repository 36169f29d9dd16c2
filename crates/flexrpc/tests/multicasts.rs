//! Parallel multicasting through real sockets.

use crate::common::{self, COUNT, ECHO, FAIL, Service, client, procedure, server};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_flexrpc::{
    CallOptions, Client, ClientOptions, Doubt, Fault, MulticastOptions, Outcome, Server, Transport,
};

const BOTH: [Transport; 2] = [Transport::Tcp, Transport::Udp];

fn servers(count: usize) -> (Vec<Server>, Vec<Arc<Service>>, Vec<SocketAddr>) {
    let (servers, services): (Vec<_>, Vec<_>) = (0..count).map(|_| server()).unzip();
    let addresses = servers.iter().map(Server::address).collect();
    (servers, services, addresses)
}

fn bytes(size: usize) -> Bytes {
    (0..size).map(|i| (i ^ (i >> 8)) as u8).collect()
}

fn within(millis: u64) -> MulticastOptions {
    let call = CallOptions { timeout: Some(Duration::from_millis(millis)), ..CallOptions::default() };
    MulticastOptions { call, ..MulticastOptions::default() }
}

#[test]
fn every_callee_executes_once_and_answers() {
    let (_servers, services, addresses) = servers(3);
    let client = client();
    for transport in BOTH {
        let sizes: &[usize] =
            if transport == Transport::Tcp { &[0, 10, 60_000, 300_000, 1 << 20] } else { &[0, 10, 60_000] };
        for &size in sizes {
            for _ in 0..3 {
                let before: Vec<usize> = services.iter().map(|service| service.executed()).collect();
                let args = bytes(size);
                let (a, b) = (args.slice(..size / 2), args.slice(size / 2..));
                let outcomes = client.call_parallel(
                    &addresses,
                    transport,
                    procedure(COUNT),
                    &[a, b],
                    &MulticastOptions::default(),
                );
                assert!(
                    outcomes.iter().all(|outcome| *outcome == Outcome::Value(args.clone())),
                    "{size} bytes"
                );
                for (service, before) in services.iter().zip(before) {
                    assert_eq!(service.executed(), before + 1);
                }
            }
        }
    }
    assert!(client.pooled_handles() <= 6, "handles are used again");
}

#[test]
fn each_callees_outcome_is_its_own() {
    let (mut servers, _, mut addresses) = servers(3);
    let gone = servers.pop().unwrap();
    drop(gone);
    let client = Client::new(ClientOptions {
        connect_timeout: Duration::from_millis(200),
        ..ClientOptions::default()
    });
    for transport in BOTH {
        for size in [10, 50_000] {
            let outcomes = client.call_parallel(
                &addresses,
                transport,
                procedure(FAIL),
                &[Bytes::from(vec![b'x'; size])],
                &within(2000),
            );
            for outcome in &outcomes[..2] {
                assert_eq!(*outcome, Outcome::Error(Fault::application(13, "x".repeat(size.min(1024)))));
            }
            assert!(matches!(outcomes[2], Outcome::NotExecuted(_)), "{:?}", outcomes[2]);
        }
    }
    addresses.clear();
    let none =
        client.call_parallel(&addresses, Transport::Tcp, procedure(ECHO), &[], &MulticastOptions::default());
    assert!(none.is_empty());
}

#[test]
fn it_returns_when_the_required_number_have_answered() {
    let (servers, services, addresses) = servers(3);
    let client = client();
    for transport in BOTH {
        for _ in 0..2 {
            // This call returns all handles to the pool, except the one that is closed each time.
            client.call_parallel(&addresses, transport, procedure(ECHO), &[], &MulticastOptions::default());
            let options = MulticastOptions { required: Some(2), ..MulticastOptions::default() };
            services[2].mark(true);
            let start = Instant::now();
            for size in [4, 200_000usize] {
                if transport == Transport::Udp && size > 60_000 {
                    continue;
                }
                let outcomes = client.call_parallel(
                    &addresses,
                    transport,
                    procedure(common::SLEEP_IF_MARKED),
                    &[bytes(size)],
                    &options,
                );
                assert!(outcomes[0].is_value() && outcomes[1].is_value());
                assert_eq!(outcomes[2], Outcome::Unknown(Doubt::Abandoned));
            }
            assert!(start.elapsed() < Duration::from_millis(1800), "{:?}", start.elapsed());
            services[2].mark(false);
            common::eventually("the slow calls end", || services[2].running() == 0);
        }
    }
    drop(servers);
}

#[test]
fn a_silent_callee_is_in_doubt_at_the_deadline_and_the_others_answer() {
    let (_servers, services, addresses) = servers(3);
    let client = client();
    services[0].mark(true);
    for transport in BOTH {
        let outcomes = client.call_parallel(
            &addresses,
            transport,
            procedure(common::SLEEP_IF_MARKED),
            &[bytes(4)],
            &within(1200),
        );
        assert_eq!(outcomes[0], Outcome::Unknown(Doubt::TimedOut));
        assert!(outcomes[1].is_value() && outcomes[2].is_value());
    }
}

#[test]
fn a_dead_callee_is_not_waited_for_until_the_deadline() {
    const FAR_OFF: u64 = 60_000;
    for transport in BOTH {
        let (mut servers, _services, addresses) = servers(3);
        let client = client();
        let call = |payload| {
            client.call_parallel(&addresses, transport, procedure(ECHO), &[payload], &within(FAR_OFF))
        };
        assert!(call(bytes(4)).iter().all(Outcome::is_value));
        servers.remove(0);
        let begun = Instant::now();
        // The first call uses the session that the client knew; the second has none.
        for _ in 0..2 {
            let outcomes = call(bytes(4));
            assert!(!outcomes[0].is_value(), "{transport:?}: {outcomes:?}");
            assert!(outcomes[1].is_value() && outcomes[2].is_value(), "{transport:?}: {outcomes:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{transport:?}: {:?}", begun.elapsed());
    }
}

#[test]
fn many_threads_multicast_at_once_and_workers_end_when_dormant() {
    let (_servers, services, addresses) = servers(3);
    let client =
        Client::new(ClientOptions { calling_dormant: Duration::from_millis(50), ..ClientOptions::default() });
    let args = bytes(200_000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    let outcomes = client.call_parallel(
                        &addresses,
                        Transport::Tcp,
                        procedure(COUNT),
                        std::slice::from_ref(&args),
                        &MulticastOptions::default(),
                    );
                    assert!(outcomes.iter().all(Outcome::is_value));
                }
            });
        }
    });
    assert!(services.iter().all(|service| service.executed() == 100));
    common::eventually("dormant workers end", || client.calling_workers() == 0);
}
