//! The receivers of datagrams: those that receive, those that are parked, and the standby.

use super::in_any_order_with_sockets;
use crate::net::{clock, socket};
use crate::proto::frame::{Head, Kind};
use crate::proto::ids::{CallId, Procedure, SessionId};
use crate::server::core::Core;
use crate::server::datagrams::Datagrams;
use crate::server::service::{Reply, Request};
use crate::server::threads::Threads;
use crate::sync::{Condvar, Mutex, thread};
use crate::{ServerOptions, WorkerLimits};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

const ECHO: Procedure = Procedure::new(1, 1, 1);

/// A procedure that waits until another call of it is running, too.
const MEET: Procedure = Procedure::new(1, 1, 2);

const SESSION: SessionId = SessionId([1; 16]);

#[derive(Default)]
struct Service {
    executed: Mutex<Vec<u32>>,
    met: Condvar,
}

struct Callee {
    datagrams: Arc<Datagrams>,
    threads: Threads,
    service: Arc<Service>,
    caller: UdpSocket,
}

impl Callee {
    fn start(most: usize) -> Self {
        let limits = WorkerLimits { least: 1, most, dormant: Duration::from_secs(1) };
        let options = ServerOptions { workers: limits, spin: Duration::ZERO, ..ServerOptions::default() };
        let core = Arc::new(Core::new(options));
        core.admission.open_session(SESSION, clock::now()).unwrap();
        let service = Arc::new(Service::default());
        let served = Arc::clone(&service);
        let execute = move |request: &Request, _: &mut Reply| {
            let mut executed = served.executed.lock().unwrap();
            executed.push(request.id.handle);
            served.met.notify_all();
            while request.procedure == MEET && executed.len() < 2 {
                executed = served.met.wait(executed).unwrap();
            }
            Ok(())
        };
        core.registry.register(1, 1, Arc::new(execute));
        let fd = socket::bind_udp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = socket::local_address(&fd).unwrap();
        let threads = Threads::default();
        let datagrams = Arc::new(Datagrams::new(core, fd, threads.clone()).unwrap());
        datagrams.start().unwrap();
        let caller = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        caller.connect(address).unwrap();
        caller.set_nonblocking(true).unwrap();
        Self { datagrams, threads, service, caller }
    }

    /// Sends a call on a handle of its own.
    fn call(&self, handle: u32, procedure: Procedure) {
        let id = CallId { session: SESSION, handle, transaction: 1 };
        let head = Head { procedure, ..Head::new(Kind::Call, id) };
        self.caller.send(&head.fixed(&[])).unwrap();
    }

    /// The handles of the next `count` answers; waits for ever if one doesn't come.
    fn answers(&self, count: usize) -> Vec<u32> {
        let mut answered = Vec::new();
        while answered.len() < count {
            let mut datagram = [0; 1000];
            match self.caller.recv(&mut datagram) {
                Ok(len) => {
                    let head = Head::decode(&datagram[..len]).unwrap().unwrap();
                    assert_eq!(head.kind, Kind::Value);
                    answered.push(head.id.handle);
                }
                Err(_) => thread::yield_now(),
            }
        }
        answered.sort_unstable();
        answered
    }

    /// Stops, and waits until all receivers have ended.
    fn stop(&self) -> Vec<u32> {
        self.datagrams.stop();
        while !self.threads.wait(Duration::from_secs(1)) {}
        let mut executed = self.service.executed.lock().unwrap().clone();
        executed.sort_unstable();
        executed
    }
}

#[test]
fn every_datagram_is_executed_once_while_receivers_come_and_go_dormant() {
    in_any_order_with_sockets(|| {
        let callee = Callee::start(3);
        (0..4).for_each(|handle| callee.call(handle, ECHO));
        assert_eq!(callee.answers(4), [0, 1, 2, 3]);
        callee.call(4, ECHO);
        assert_eq!(callee.answers(1), [4]);
        assert_eq!(callee.stop(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_datagram_never_waits_for_ever_behind_a_slow_call() {
    in_any_order_with_sockets(|| {
        let callee = Callee::start(2);
        // Each ends only while both run.
        (0..2).for_each(|handle| callee.call(handle, MEET));
        assert_eq!(callee.answers(2), [0, 1]);
        assert_eq!(callee.stop(), [0, 1]);
    });
}

#[test]
fn a_stop_ends_all_receivers_and_what_was_begun_is_answered() {
    in_any_order_with_sockets(|| {
        let callee = Callee::start(3);
        (0..2).for_each(|handle| callee.call(handle, ECHO));
        let executed = callee.stop();
        assert_eq!(callee.answers(executed.len()), executed);
    });
}
