//! Real calls through a bad network: datagrams are lost, duplicated, reordered and late;
//! connections are closed and reset in mid-message. Servers restart, stall, and forget results and
//! sessions. Each outcome must agree with the service's own log, and each of these faults must have
//! occurred.
//!
//! `FLEXRPC_CALLS=…` sets the number of calls. It is a thousand by default, and a million in `make
//! test-heavy`.

use crate::common::proxy::{Faults, tcp_proxy, udp_proxy};
use crate::common::{self, COUNT_SLOWLY, STALL_EVERY, Service, procedure};
use bytes::Bytes;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::{
    AdmissionLimits, CallError, CallOptions, Client, ClientOptions, Doubt, MulticastOptions, Outcome,
    RetryPolicy, Server, ServerOptions, Transport,
};
use strait_testkit::wait::{pause, wait_until};

/// Number of concurrent callers. Half of them use UDP.
const CALLERS: u32 = 16;

/// Of about this many calls, one is a chain call.
const CALLS_PER_CHAIN: u32 = 10;

/// With at least this many calls, every kind of doubt must have occurred.
const MANY: u32 = 100_000;

/// Times between restarts, used in turn. The longer ones let results and sessions expire.
const LIVES_MS: [u64; 4] = [300, 700, 200, 1_500];

fn calls() -> u32 {
    std::env::var("FLEXRPC_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(1_000)
}

#[derive(Debug, PartialEq)]
enum Told {
    Executed,
    NotExecuted,
    Unknown(Doubt),
}

#[test]
fn what_callers_are_told_agrees_with_the_services_log() {
    let calls = calls();
    let service = Arc::new(Service::default());
    let admission = AdmissionLimits {
        // Room for some ten results, for a short time.
        result_bytes: 1_000,
        result_us: 100_000,
        // Shorter than the network's pauses.
        session_idle_us: 80_000,
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
    let faults = Arc::new(Faults::default());
    let by = [
        (Transport::Udp, udp_proxy(address, &faults, Arc::clone(&stop))),
        (Transport::Tcp, tcp_proxy(address, &faults)),
    ];
    let told: Mutex<HashMap<u32, Told>> = Mutex::default();
    let (next, restarts) = (AtomicU32::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (told, by, next) = (&told, &by, &next);
                scope.spawn(move || {
                    let client = impatient_client();
                    loop {
                        let tag = next.fetch_add(1, Ordering::Relaxed);
                        if tag >= calls {
                            return;
                        }
                        let said = tell(&client, by[caller as usize % 2], tag);
                        if said == Told::NotExecuted {
                            pause("refusals come fast while the server restarts", Duration::from_millis(5));
                        }
                        told.lock().unwrap().insert(tag, said);
                    }
                })
            })
            .collect();
        let mut server = Some(server);
        for life in LIVES_MS.iter().cycle() {
            let over = || callers.iter().all(|caller| caller.is_finished());
            if wait_until(Duration::from_millis(*life), over) {
                break;
            }
            drop(server.take());
            restarts.fetch_add(1, Ordering::Relaxed);
            common::eventually("the port is free again", || {
                server = common::try_start(options(address), &service);
                server.is_some()
            });
        }
    });
    stop.store(true, Ordering::Relaxed);
    let executions = count(service.log());
    let told = told.into_inner().unwrap();
    let mut counts = [0; 3];
    let mut doubts: HashMap<String, usize> = HashMap::new();
    for (tag, said) in &told {
        let times = executions.get(&tag.to_be_bytes()[..]).copied().unwrap_or(0);
        match said {
            Told::Executed => assert_eq!(times, 1, "{tag}"),
            Told::NotExecuted => assert_eq!(times, 0, "{tag}"),
            Told::Unknown(_) => assert!(times <= 1, "{tag}: {times}"),
        }
        counts[match said {
            Told::Executed => 0,
            Told::NotExecuted => 1,
            Told::Unknown(doubt) => {
                *doubts.entry(format!("{doubt:?}")).or_default() += 1;
                2
            }
        }] += 1;
    }
    let restarts = restarts.into_inner();
    println!("executed, not executed, unknown: {counts:?}; doubts {doubts:?}");
    println!("{restarts} restarts, {} stalls, {faults:?}", executions.len() / STALL_EVERY);
    assert_eq!(told.len() as u32, calls);
    assert!(counts[0] as u32 > calls / 2, "most calls get through: {counts:?}");
    let Faults { lost, duplicated, reordered, paused, cut, reset } = &*faults;
    for (fault, happened) in [("lost", lost), ("duplicated", duplicated), ("reordered", reordered)] {
        assert!(happened.load(Ordering::Relaxed) > 0, "{fault}");
    }
    for (fault, happened) in [("cut", cut), ("reset", reset)] {
        assert!(happened.load(Ordering::Relaxed) > 0, "{fault}");
    }
    if calls >= MANY {
        assert!(paused.load(Ordering::Relaxed) > 0 && restarts > 0);
        for doubt in [Doubt::TimedOut, Doubt::ConnectionLost, Doubt::SessionLost, Doubt::AnswerEvicted] {
            assert!(doubts.contains_key(&format!("{doubt:?}")), "{doubt:?} never came up");
        }
    }
}

fn impatient_client() -> Client {
    let retry = RetryPolicy { first_us: 5_000, ..RetryPolicy::default() };
    Client::new(ClientOptions { retry, ..ClientOptions::default() })
}

/// Makes the call `tag`.
fn tell(client: &Client, (transport, callee): (Transport, SocketAddr), tag: u32) -> Told {
    let tag = tag.to_be_bytes();
    let options = CallOptions { timeout: Some(Duration::from_millis(400)), ..CallOptions::default() };
    let outcome = client
        .handle(callee, transport)
        .and_then(|mut handle| handle.call_with(procedure(COUNT_SLOWLY), &[&tag], &options));
    match outcome {
        Ok(result) => {
            assert_eq!(result[..], tag, "another call's result");
            Told::Executed
        }
        Err(CallError::NotExecuted(_)) => Told::NotExecuted,
        Err(CallError::Unknown(doubt)) => Told::Unknown(doubt),
        Err(CallError::Fault(fault)) => panic!("{fault}"),
    }
}

/// How often each call was executed.
fn count(log: Vec<Vec<u8>>) -> HashMap<Vec<u8>, usize> {
    let mut executions = HashMap::new();
    log.into_iter().for_each(|tag| *executions.entry(tag).or_default() += 1);
    executions
}

#[test]
fn the_outcome_of_each_callee_of_a_chain_agrees_with_its_own_log() {
    let calls = calls() / CALLS_PER_CHAIN / CALLERS + 1;
    let faults = Arc::new(Faults::default());
    let services: Vec<_> = (0..3).map(|_| Arc::new(Service::default())).collect();
    let options =
        |listen| ServerOptions { listen, drain: Duration::from_millis(20), ..ServerOptions::default() };
    let free = "127.0.0.1:0".parse().unwrap();
    let mut servers: Vec<Option<Server>> =
        services.iter().map(|service| Some(common::start(options(free), service))).collect();
    let addresses: Vec<_> = servers.iter().flatten().map(Server::address).collect();
    // Proxies between the caller and each callee, and between each callee and the next.
    let callees: Vec<_> = addresses.iter().map(|address| tcp_proxy(*address, &faults)).collect();
    let told: Mutex<Vec<(Vec<u8>, Vec<Outcome>)>> = Mutex::default();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (told, callees) = (&told, &callees);
                scope.spawn(move || {
                    let client = Client::default();
                    let timeout = Some(Duration::from_millis(500));
                    let call = CallOptions { timeout, ..CallOptions::default() };
                    for call_number in 0..calls {
                        let tag = [caller.to_be_bytes(), call_number.to_be_bytes()].concat();
                        let options = MulticastOptions {
                            call: call.clone(),
                            store_and_forward: call_number % 3 == 0,
                            ..MulticastOptions::default()
                        };
                        // In one direction and in the other.
                        let mut route = callees.clone();
                        if caller % 2 == 1 {
                            route.reverse();
                        }
                        let args = [Bytes::from(tag.clone())];
                        let mut outcomes =
                            client.call_chain(&route, procedure(COUNT_SLOWLY), &args, &options);
                        if caller % 2 == 1 {
                            outcomes.reverse();
                        }
                        told.lock().unwrap().push((tag, outcomes));
                    }
                })
            })
            .collect();
        let mut victim = 0;
        while !callers.iter().all(|caller| caller.is_finished()) {
            pause("a server's life", Duration::from_millis(400));
            victim = (victim + 1) % servers.len();
            drop(servers[victim].take());
            common::eventually("the port is free again", || {
                servers[victim] = common::try_start(options(addresses[victim]), &services[victim]);
                servers[victim].is_some()
            });
        }
    });
    let logs: Vec<HashMap<Vec<u8>, usize>> = services.iter().map(|service| count(service.log())).collect();
    let mut counts = [0; 3];
    for (tag, outcomes) in told.into_inner().unwrap() {
        for (callee, outcome) in outcomes.iter().enumerate() {
            let times = logs[callee].get(&tag).copied().unwrap_or(0);
            let (kind, holds) = match outcome {
                Outcome::Value(value) => (0, times == 1 && value[..] == tag),
                Outcome::NotExecuted(_) => (1, times == 0),
                Outcome::Unknown(_) => (2, times <= 1),
                Outcome::Error(fault) => panic!("{fault}"),
            };
            assert!(holds, "{tag:?} at callee {callee}: executed {times} times, told {outcomes:?}");
            counts[kind] += 1;
        }
    }
    println!("executed, not executed, unknown: {counts:?}");
    assert_eq!(counts.iter().sum::<u32>(), CALLERS * calls * 3);
    assert!(counts[0] > CALLERS * calls, "most calls get through: {counts:?}");
}
