//! A chain call between the worker that carries it, the forwarder, and the check for late calls.

use super::in_any_order_with_sockets;
use crate::net::{clock, socket};
use crate::proto::chain::{self, Chain, Hop};
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::{CallId, Procedure, SessionId};
use crate::proto::status::{Doubt, Outcome, Refusal};
use crate::server::chain::Forwarder;
use crate::server::core::Core;
use crate::server::service::{Reply, Request};
use crate::server::threads::Threads;
use crate::server::workers::Workers;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, thread};
use crate::{ServerOptions, WorkerLimits};
use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use strait_crc::crc32c;

const ECHO: Procedure = Procedure::new(1, 1, 1);

/// A procedure that waits until the test lets it go.
const STAY: Procedure = Procedure::new(1, 1, 2);

/// The caller's sessions at this callee and at the next.
const SESSIONS: [SessionId; 2] = [SessionId([1; 16]), SessionId([2; 16])];

const ARGUMENT: &[u8] = b"an argument";

#[derive(Default)]
struct Service {
    executed: Mutex<Vec<u32>>,
    free: Mutex<bool>,
    freed: Condvar,
}

/// A callee in a chain, with one more callee behind it.
struct Callee {
    workers: Arc<Workers>,
    forwarding: Threads,
    service: Arc<Service>,
    address: SocketAddr,
    next: Arc<TcpListener>,
}

impl Callee {
    fn start(most_workers: usize) -> Self {
        let limits = WorkerLimits { least: 1, most: most_workers, dormant: Duration::from_secs(1) };
        let options = ServerOptions { workers: limits, spin: Duration::ZERO, ..ServerOptions::default() };
        // These waits are endless, except in tests that are about them.
        let (chain_wait, message_stall) = (Duration::MAX, Duration::MAX);
        let core = Arc::new(Core::new(ServerOptions { chain_wait, message_stall, ..options }));
        core.admission.open_session(SESSIONS[0], clock::now()).unwrap();
        let service = Arc::new(Service::default());
        let served = Arc::clone(&service);
        let execute = move |request: &Request, reply: &mut Reply| {
            served.executed.lock().unwrap().push(request.id.handle);
            let mut free = served.free.lock().unwrap();
            while request.procedure == STAY && !*free {
                free = served.freed.wait(free).unwrap();
            }
            reply.put(&request.args);
            Ok(())
        };
        core.registry.register(1, 1, Arc::new(execute));
        let listener = socket::listen_tcp((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = socket::local_address(&listener).unwrap();
        let workers = Arc::new(Workers::new(core, Some(listener), Threads::default()).unwrap());
        workers.start().unwrap();
        let (core, chains) = (Arc::clone(&workers.core), Arc::clone(&workers.chains));
        let forwarder = Forwarder::new(core, chains, Arc::clone(&workers)).unwrap();
        let forwarding = Threads::default();
        assert!(forwarding.spawn("forwarder", move || forwarder.run()));
        let next = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        next.set_nonblocking(true).unwrap();
        Self { workers, forwarding, service, address, next: Arc::new(next) }
    }

    /// Begins a call, sent in two pieces.
    fn call(&self, handle: u32, procedure: Procedure, time_left: Duration) -> Caller {
        let id = |session| CallId { session, handle, transaction: 1 };
        let hop = Hop { callee: self.next.local_addr().unwrap(), id: id(SESSIONS[1]) };
        let chain = Some(Chain { hops: vec![hop] });
        let head = Head {
            flags: flags::CHAIN,
            payload_len: ARGUMENT.len() as u32,
            payload_crc: crc32c(ARGUMENT),
            procedure,
            time_left_us: time_left.as_micros() as u32,
            ..Head::new(Kind::Call, id(SESSIONS[0]))
        };
        let frame = head.encode(&Extension { chain, ..Extension::default() }.encode());
        let mut caller = Caller::new(TcpStream::connect(self.address).unwrap());
        caller.stream.write_all(&frame).unwrap();
        thread::yield_now();
        caller.stream.write_all(ARGUMENT).unwrap();
        caller
    }

    /// The next callee, which answers every call until the test ends it.
    fn answer_as_next(&self) -> Next {
        let (next, over) = (Arc::clone(&self.next), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut callers: Vec<Caller> = Vec::new();
            while !told.load(Ordering::Acquire) {
                callers.extend(next.accept().ok().map(|(stream, _)| Caller::new(stream)));
                for caller in &mut callers {
                    if let Some(Some((call, argument))) = caller.take_in() {
                        assert_eq!(argument, ARGUMENT);
                        let value = Head::new(Kind::Value, call.id);
                        caller.stream.write_all(&value.fixed(&[])).unwrap();
                    }
                }
                thread::yield_now();
            }
        });
        Next { thread, over }
    }

    /// Shuts down and waits until all threads have ended. Returns the executed calls.
    fn stop(&self) -> Vec<u32> {
        self.workers.core.draining.store(true, std::sync::atomic::Ordering::Release);
        self.workers.stop_listening();
        self.workers.chains.close();
        self.workers.chains.end();
        while !self.forwarding.wait(Duration::from_secs(1)) {}
        self.workers.stop();
        while !self.workers.threads.wait(Duration::from_secs(1)) {}
        self.workers.close_all();
        // Messages that arrive after the forwarder's end are lost with the server.
        while self.workers.chains.adopted.take_one().is_some() {}
        let mut executed = self.service.executed.lock().unwrap().clone();
        executed.sort_unstable();
        executed
    }
}

struct Next {
    thread: thread::JoinHandle<()>,
    over: Arc<AtomicBool>,
}

impl Next {
    fn end(self) {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap();
    }
}

/// One end of a connection.
struct Caller {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Caller {
    fn new(stream: TcpStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        // Shuttle can't model the delays of Nagle's algorithm.
        stream.set_nodelay(true).unwrap();
        Self { stream, bytes: Vec::new() }
    }

    /// A frame, if one has arrived; `Some(None)` if the other end has closed.
    fn take_in(&mut self) -> Option<Option<(Head, Vec<u8>)>> {
        loop {
            if let Some(head) = Head::decode(&self.bytes).unwrap()
                && self.bytes.len() == head.frame_len()
            {
                let payload = self.bytes.split_off(head.head_len());
                self.bytes.clear();
                return Some(Some((head, payload)));
            }
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1) => self.bytes.push(byte[0]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
                _ => return Some(None),
            }
        }
    }

    /// The next frame; `None` if the other end closes.
    fn frame(&mut self) -> Option<(Head, Vec<u8>)> {
        loop {
            match self.take_in() {
                Some(taken) => return taken,
                None => thread::yield_now(),
            }
        }
    }

    /// The outcomes in the answer, of this callee and the next; empty if the call is refused.
    fn outcomes(&mut self) -> Option<Vec<Outcome>> {
        let (head, payload) = self.frame()?;
        match head.kind {
            Kind::Refused => Some(Vec::new()),
            Kind::Outcomes => Some(chain::decode_outcomes(&Bytes::from(payload), 2).unwrap()),
            kind => panic!("{kind:?}"),
        }
    }
}

fn value(bytes: &'static [u8]) -> Outcome {
    Outcome::Value(Bytes::from_static(bytes))
}

#[test]
fn a_call_is_executed_and_answered_once_whoever_has_it_at_its_end() {
    for workers in 1..=2 {
        in_any_order_with_sockets(move || {
            let callee = Callee::start(workers);
            let next = callee.answer_as_next();
            let mut callers = [0, 1].map(|handle| callee.call(handle, ECHO, Duration::ZERO));
            for caller in &mut callers {
                assert_eq!(caller.outcomes().unwrap(), [value(ARGUMENT), value(b"")]);
            }
            assert_eq!(callee.stop(), [0, 1]);
            next.end();
            assert!(callers.iter_mut().all(|caller| caller.frame().is_none()), "answered twice");
        });
    }
}

#[test]
fn a_call_whose_time_is_over_is_answered_once_though_its_service_goes_on() {
    in_any_order_with_sockets(|| {
        let callee = Callee::start(2);
        let next = callee.answer_as_next();
        let mut caller = callee.call(0, STAY, Duration::from_secs(1));
        // The callee closes the connection if the call timed out before it was whole.
        let outcomes = caller.outcomes();
        *callee.service.free.lock().unwrap() = true;
        callee.service.freed.notify_all();
        let executed = callee.stop().len();
        match outcomes.as_ref().and_then(|outcomes| outcomes.first()) {
            Some(Outcome::Unknown(Doubt::TimedOut)) => {}
            None | Some(Outcome::NotExecuted(Refusal::DeadlinePassed)) => assert_eq!(executed, 0),
            other => panic!("{other:?}"),
        }
        next.end();
        assert!(caller.frame().is_none(), "answered twice");
    });
}

#[test]
fn a_shutdown_ends_though_calls_are_under_way_and_no_answer_is_half() {
    in_any_order_with_sockets(|| {
        let callee = Callee::start(2);
        let next = callee.answer_as_next();
        let mut caller = callee.call(0, ECHO, Duration::ZERO);
        let executed = callee.stop();
        match caller.outcomes().as_deref() {
            // The shutdown doesn't wait for ever.
            None | Some([Outcome::Unknown(_), _]) => {}
            Some([Outcome::NotExecuted(_), _] | []) => assert_eq!(executed, []),
            Some([own, _]) => assert_eq!((own, &executed[..]), (&value(ARGUMENT), &[0][..])),
            Some(other) => panic!("{other:?}"),
        }
        next.end();
    });
}
