//! Real calls through a bad network: datagrams lost, duplicated, reordered;
//! connections reset in mid-message; servers restarted, slow, forgetful. Whatever
//! a caller is told must agree with what the service's own log says.
//!
//! `FLEXRPC_CALLS=…` sets how many calls each of the callers makes.

mod common;

use common::{COUNT_SLOWLY, Service, procedure};
use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::{
    AdmissionLimits, CallError, CallOptions, Client, ClientOptions, RetryPolicy, ServerOptions, Transport,
};

const CALLERS: u32 = 4;

/// A small generator: the network's dice needn't be good ones.
struct Dice(u64);

impl Dice {
    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Loses 2 %, duplicates 10 %, and holds 10 % back behind later datagrams.
fn udp_proxy(server: SocketAddr, stop: Arc<AtomicBool>) -> SocketAddr {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    front.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let address = front.local_addr().unwrap();
    std::thread::spawn(move || {
        // Behind the proxy each caller has a socket of its own.
        let mut backs: HashMap<SocketAddr, UdpSocket> = HashMap::new();
        let mut dice = Dice(0x1234_5678_9abc_def1);
        let mut held: VecDeque<(Vec<u8>, SocketAddr, bool)> = VecDeque::new();
        let mut buffer = vec![0; 65_536];
        while !stop.load(Ordering::Relaxed) {
            let mut arrived = Vec::new();
            if let Ok((len, caller)) = front.recv_from(&mut buffer) {
                arrived.push((buffer[..len].to_vec(), caller, true));
                backs.entry(caller).or_insert_with(|| {
                    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
                    back.connect(server).unwrap();
                    back.set_nonblocking(true).unwrap();
                    back
                });
            }
            for (caller, back) in &backs {
                while let Ok(len) = back.recv(&mut buffer) {
                    arrived.push((buffer[..len].to_vec(), *caller, false));
                }
            }
            for datagram in arrived {
                let copies = if dice.percent(2) { 0 } else { 1 + usize::from(dice.percent(10)) };
                for _ in 0..copies {
                    if dice.percent(10) {
                        held.push_back(datagram.clone());
                    } else {
                        held.push_front(datagram.clone());
                    }
                }
            }
            for _ in 0..held.len().saturating_sub(dice.below(3) as usize) {
                let Some((bytes, caller, to_server)) = held.pop_front() else { break };
                // A server that restarts refuses datagrams: lost, too.
                let _ = if to_server { backs[&caller].send(&bytes) } else { front.send_to(&bytes, caller) };
            }
        }
    });
    address
}

/// Cuts connections after a random number of bytes.
fn tcp_proxy(server: SocketAddr) -> SocketAddr {
    let front = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = front.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut dice = Dice(0xfeed_beef_1234_5671);
        for caller in front.incoming().flatten() {
            let Ok(callee) = TcpStream::connect(server) else { continue };
            for (mut from, mut to) in [
                (caller.try_clone().unwrap(), callee.try_clone().unwrap()),
                (callee.try_clone().unwrap(), caller.try_clone().unwrap()),
            ] {
                let mut left = 100 + dice.below(6_000) as usize;
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(len) = from.read(&mut buffer) {
                        if len == 0 || to.write_all(&buffer[..len.min(left)]).is_err() || len >= left {
                            break;
                        }
                        left -= len;
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

#[derive(Debug, PartialEq)]
enum Told {
    Executed,
    NotExecuted,
    Unknown,
}

#[test]
fn what_callers_are_told_agrees_with_the_services_log() {
    let calls: u32 = std::env::var("FLEXRPC_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(250);
    let service = Arc::new(Service::default());
    // Forgets soon: results, and sessions.
    let admission = AdmissionLimits {
        result_bytes: 2_000,
        result_us: 100_000,
        session_idle_us: 2_000_000,
        ..AdmissionLimits::default()
    };
    let options = |listen| ServerOptions {
        listen,
        admission,
        drain: Duration::from_millis(20),
        ..ServerOptions::default()
    };
    let server = common::start(options("127.0.0.1:0".parse().unwrap()), &service);
    let address = server.address();
    let stop = Arc::new(AtomicBool::new(false));
    let by = [(Transport::Udp, udp_proxy(address, Arc::clone(&stop))), (Transport::Tcp, tcp_proxy(address))];
    let told: Mutex<HashMap<Vec<u8>, Told>> = Mutex::default();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (told, by) = (&told, &by);
                scope.spawn(move || {
                    let retry = RetryPolicy { first_us: 5_000, ..RetryPolicy::default() };
                    let client = Client::new(ClientOptions { retry, ..ClientOptions::default() });
                    let (transport, callee) = by[caller as usize % 2];
                    let options =
                        CallOptions { timeout: Some(Duration::from_millis(400)), ..CallOptions::default() };
                    for call in 0..calls {
                        let tag = [caller.to_be_bytes(), call.to_be_bytes()].concat();
                        let outcome = client.handle(callee, transport).and_then(|mut handle| {
                            handle.call_with(procedure(COUNT_SLOWLY), &[&tag], &options)
                        });
                        let said = match outcome {
                            Ok(result) => {
                                assert_eq!(result[..], tag, "another call's result");
                                Told::Executed
                            }
                            Err(CallError::NotExecuted(_)) => Told::NotExecuted,
                            Err(CallError::Unknown(_)) => Told::Unknown,
                            Err(CallError::Fault(fault)) => panic!("{fault}"),
                        };
                        told.lock().unwrap().insert(tag, said);
                    }
                })
            })
            .collect();
        let mut server = Some(server);
        while !callers.iter().all(|caller| caller.is_finished()) {
            std::thread::sleep(Duration::from_millis(300));
            drop(server.take());
            common::eventually("the port is free again", || {
                server = common::try_start(options(address), &service);
                server.is_some()
            });
        }
    });
    stop.store(true, Ordering::Relaxed);
    let mut executions: HashMap<Vec<u8>, usize> = HashMap::new();
    service.log().into_iter().for_each(|tag| *executions.entry(tag).or_default() += 1);
    let told = told.into_inner().unwrap();
    let mut counts = [0; 3];
    for (tag, said) in &told {
        let times = executions.get(tag).copied().unwrap_or(0);
        match said {
            Told::Executed => assert_eq!(times, 1, "{tag:?}"),
            Told::NotExecuted => assert_eq!(times, 0, "{tag:?}"),
            Told::Unknown => assert!(times <= 1, "{tag:?}: {times}"),
        }
        counts[match said {
            Told::Executed => 0,
            Told::NotExecuted => 1,
            Told::Unknown => 2,
        }] += 1;
    }
    println!("executed, not executed, unknown: {counts:?}");
    assert_eq!(told.len() as u32, CALLERS * calls);
    assert!(counts[0] as u32 > CALLERS * calls / 2, "most calls get through: {counts:?}");
}
