//! Calls to callees that became silent fail early, even if they have much time left.

use crate::common::raw::{self, Raw};
use crate::common::{self, ECHO, SLEEP, SLEEP_IF_MARKED, Service, procedure};
use bytes::Bytes;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_flexrpc::{
    CallError, CallOptions, Client, ClientOptions, Doubt, Forwarding, MulticastOptions, Outcome,
    ServerOptions, Transport,
};
use strait_testkit::Network;

const SILENCE: Duration = Duration::from_secs(2);

/// Far longer than the silence, and a small part of [`long`].
const SOON: Duration = Duration::from_secs(60);

fn client() -> Client {
    let connect_timeout = Duration::from_millis(500);
    Client::new(ClientOptions { peer_silence: Some(SILENCE), connect_timeout, ..ClientOptions::default() })
}

fn long() -> CallOptions {
    CallOptions { timeout: Some(Duration::from_secs(300)), ..CallOptions::default() }
}

#[test]
fn a_callee_whose_link_is_cut_is_given_up_on_though_the_call_has_time_left() {
    if !rustix::process::geteuid().is_root() {
        return strait_testkit::skip("a callee whose link is cut", "root");
    }
    let network = Network::start(2, None).unwrap();
    let (here, there) = (network.host(0), network.host(1));
    let listen = (there.address(), 0).into();
    let options = ServerOptions { listen, udp: false, allow_anonymous: true, ..ServerOptions::default() };
    let service = Arc::new(Service::default());
    let server = there.run(|| common::start(options, &service));
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            here.run(|| {
                let mut handle = client().handle(server.address(), Transport::Tcp).unwrap();
                handle.call_with(procedure(SLEEP), &[&4_000u32.to_be_bytes()], &long())
            })
        });
        common::eventually("the call runs", || service.running() == 1);
        network.unplug(1).unwrap();
        let start = Instant::now();
        assert_eq!(calling.join().unwrap(), Err(CallError::Unknown(Doubt::ConnectionLost)));
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    });
}

#[test]
fn the_same_of_a_callee_further_back_by_the_one_before_it() {
    if !rustix::process::geteuid().is_root() {
        return strait_testkit::skip("a callee whose link is cut", "root");
    }
    let network = Network::start(3, None).unwrap();
    let services = [1, 2].map(|_| Arc::new(Service::default()));
    let servers = [0, 1].map(|at| {
        let host = network.host(at + 1);
        let options = ServerOptions {
            listen: (host.address(), 0).into(),
            udp: false,
            allow_anonymous: true,
            forwarding: Forwarding::Anywhere,
            peer_silence: Some(SILENCE),
            ..ServerOptions::default()
        };
        host.run(|| common::start(options, &services[at]))
    });
    let callees = servers.each_ref().map(|server| server.address());
    services[1].mark(true);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            network.host(0).run(|| {
                let options = MulticastOptions { call: long(), ..MulticastOptions::default() };
                client().call_chain(&callees, procedure(SLEEP_IF_MARKED), &[Bytes::new()], &options)
            })
        });
        common::eventually("the second has it", || services[1].running() == 1);
        network.unplug(2).unwrap();
        let start = Instant::now();
        let outcomes = calling.join().unwrap();
        assert!(matches!(outcomes[..], [Outcome::Value(_), Outcome::Unknown(_)]), "{outcomes:?}");
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    });
}

#[test]
fn a_callee_that_takes_nothing_in_counts_as_silent_though_its_host_is_well() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let callee = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| {
            // More bytes than the sockets buffer.
            client().handle(callee, Transport::Tcp)?.call_with(
                procedure(ECHO),
                &[&vec![1; 48 << 20]],
                &long(),
            )
        });
        let mut connection = Raw::of(listener.accept().unwrap().0);
        let hello = connection.receive().unwrap();
        connection.send(&raw::welcome(&hello));
        drop(listener);
        let start = Instant::now();
        let outcome = calling.join().unwrap();
        assert!(matches!(outcome, Err(CallError::NotExecuted(_))), "{outcome:?}");
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        drop(connection);
    });
}
