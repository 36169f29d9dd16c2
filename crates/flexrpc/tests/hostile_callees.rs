//! A callee can't keep its callers beyond their timeout, whatever it sends or omits.

use crate::common::raw::{self, Raw};
use crate::common::{self, COUNT, ECHO, SLEEP, client, procedure};
use bytes::Bytes;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use strait_flexrpc::proto::frame::{Head, Kind};
use strait_flexrpc::{
    CallError, CallId, CallOptions, Client, ClientOptions, Doubt, MulticastOptions, Outcome, Refusal,
    Transport, Turn,
};

/// Timeout of the callers of these tests.
const TIMEOUT: Duration = Duration::from_millis(300);

/// Far longer than the timeout, and shorter than any default.
const TOO_LONG: Duration = Duration::from_secs(3);

fn options() -> CallOptions {
    CallOptions { timeout: Some(TIMEOUT), ..CallOptions::default() }
}

/// A callee that answers a call with one frame after another until the caller is gone.
fn chatterbox(frame: fn(CallId) -> Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut raw = Raw::of(stream);
                while let Some((head, extension, payload)) = raw.receive() {
                    if head.kind == Kind::Hello {
                        raw.send(&raw::welcome(&(head, extension, payload)));
                        continue;
                    }
                    let many = frame(head.id).repeat(100);
                    let begun = Instant::now();
                    while begun.elapsed() < 2 * TOO_LONG && raw.try_send(&many) {}
                    return;
                }
            });
        }
    });
    address
}

fn in_time<T>(body: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = body();
    assert!(begun.elapsed() < TOO_LONG, "{:?}", begun.elapsed());
    result
}

#[test]
fn answers_to_other_calls_dont_keep_a_caller_beyond_its_deadline() {
    let other = |id: CallId| raw::frame(Head::new(Kind::Value, CallId { transaction: 0, ..id }), &[], &[]);
    let pending = |id: CallId| raw::frame(Head::new(Kind::Pending, id), &[], &[]);
    for frame in [other, pending] {
        let callee = chatterbox(frame);
        let outcome = in_time(|| {
            let mut handle = client().handle(callee, Transport::Tcp).unwrap();
            handle.call_with(procedure(ECHO), &[b"x"], &options())
        });
        assert_eq!(outcome, Err(CallError::Unknown(Doubt::TimedOut)));
        // The same if one thread serves several callees.
        let client = client();
        drop([(); 2].map(|()| client.handle(callee, Transport::Tcp).unwrap()));
        let outcomes = in_time(|| {
            let options = MulticastOptions { call: options(), ..MulticastOptions::default() };
            let args = [Bytes::from_static(b"x")];
            client.call_parallel(&[callee, callee], Transport::Tcp, procedure(ECHO), &args, &options)
        });
        let late = Outcome::Unknown(Doubt::TimedOut);
        assert!(outcomes.iter().all(|outcome| *outcome == late), "{outcomes:?}");
    }
}

#[test]
fn a_handshake_that_is_answered_with_chatter_ends_in_its_time() {
    let callee = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = callee.local_addr().unwrap();
    std::thread::spawn(move || {
        let (_, caller) = callee.recv_from(&mut [0; 1000]).unwrap();
        let other = raw::frame(Head::new(Kind::Welcome, CallId::default()), &[], &[]);
        let begun = Instant::now();
        while begun.elapsed() < 2 * TOO_LONG {
            let _ = callee.send_to(&other, caller);
        }
    });
    let outcome = in_time(|| {
        let options = ClientOptions { timeout: Some(TIMEOUT), ..ClientOptions::default() };
        Client::new(options).call(address, Transport::Udp, procedure(ECHO), &[])
    });
    assert!(matches!(outcome, Err(CallError::NotExecuted(_))), "{outcome:?}");
}

#[test]
fn a_callers_deadline_holds_while_another_shakes_hands_with_a_silent_callee() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let callee = silent.local_addr().unwrap();
    let client = Client::new(ClientOptions { connect_timeout: 2 * TOO_LONG, ..ClientOptions::default() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.call(callee, Transport::Tcp, procedure(ECHO), &[]));
        let (_connection, _) = silent.accept().unwrap();
        // The handshake has begun when its first bytes have arrived.
        std::io::Read::read_exact(&mut &_connection, &mut [0; 4]).unwrap();
        let options = MulticastOptions { call: options(), ..MulticastOptions::default() };
        let outcomes =
            in_time(|| client.call_parallel(&[callee], Transport::Tcp, procedure(ECHO), &[], &options));
        assert!(matches!(outcomes[0], Outcome::NotExecuted(_)), "{outcomes:?}");
        drop((_connection, silent));
        assert!(matches!(first.join().unwrap(), Err(CallError::NotExecuted(_))));
    });
}

#[test]
fn a_multicasts_deadline_holds_while_all_calling_workers_are_busy() {
    let (server, service) = common::server();
    let client = Client::new(ClientOptions { calling_workers: 1, ..ClientOptions::default() });
    let callees = [server.address()];
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| {
            // The client has no session yet, so a worker makes the call.
            let args = [Bytes::copy_from_slice(&(2 * TOO_LONG.as_millis() as u32).to_be_bytes())];
            client.call_parallel(
                &callees,
                Transport::Udp,
                procedure(SLEEP),
                &args,
                &MulticastOptions::default(),
            )
        });
        common::eventually("it runs", || service.running() == 1);
        let options = MulticastOptions { call: options(), ..MulticastOptions::default() };
        let outcomes =
            in_time(|| client.call_parallel(&callees, Transport::Tcp, procedure(COUNT), &[], &options));
        assert!(matches!(outcomes[0], Outcome::NotExecuted(_)), "nobody had time for it: {outcomes:?}");
        assert!(slow.join().unwrap()[0].is_value());
    });
    assert_eq!(service.executed(), 0, "nor is it executed later");
}

#[test]
fn a_caller_in_a_hurry_doesnt_sleep_before_it_connects_anew() {
    // Closes each connection as soon as a call arrives.
    let callee = raw::callee(|_, _| None);
    let retry =
        strait_flexrpc::RetryPolicy { first_us: 10_000_000, longest_us: 60_000_000, ..Default::default() };
    let client = Client::new(ClientOptions { retry, ..ClientOptions::default() });
    let outcome = in_time(|| {
        let mut handle = client.handle(callee, Transport::Tcp).unwrap();
        handle.call_with(procedure(ECHO), &[b"x"], &options())
    });
    assert!(matches!(outcome, Err(CallError::Unknown(_))), "{outcome:?}");
}

#[test]
fn a_callers_deadline_holds_while_another_has_the_turn() {
    // The callee receives the handshake, but nothing of the call.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap();
    let (server, service) = common::server();
    let (client, turn) = (client(), Turn::default());
    let call = |callee, size, timeout| {
        let call = CallOptions { timeout: Some(timeout), ..CallOptions::default() };
        let options = MulticastOptions { call, turn: Some(turn.clone()), ..MulticastOptions::default() };
        client.call_chain(&[callee], procedure(COUNT), &[Bytes::from(vec![1; size])], &options)
    };
    std::thread::scope(|scope| {
        // More bytes than the sockets buffer.
        let first = scope.spawn(|| call(silent, 48 << 20, 2 * TOO_LONG));
        let mut connection = Raw::of(listener.accept().unwrap().0);
        let hello = connection.receive().unwrap();
        connection.send(&raw::welcome(&hello));
        let Raw::Tcp(stream, _) = &connection else { unreachable!() };
        stream.peek(&mut [0]).expect("it has begun to leave");
        let outcomes = in_time(|| call(server.address(), 1, TIMEOUT));
        assert_eq!(outcomes, [Outcome::NotExecuted(Refusal::DeadlinePassed)]);
        // The next call doesn't wait for a call that is over.
        let next = scope.spawn(|| call(server.address(), 1, 2 * TOO_LONG));
        drop((connection, listener));
        assert!(matches!(first.join().unwrap()[..], [Outcome::NotExecuted(_)]));
        assert!(next.join().unwrap()[0].is_value());
    });
    assert_eq!(service.executed(), 1);
}
