//! Real calls through a bad network: datagrams lost, duplicated, reordered;
//! connections reset in mid-message; servers restarted, slow, forgetful. Whatever
//! a caller is told must agree with what the service's own log says.
//!
//! `FLEXRPC_CALLS=…` sets how many calls each of the callers makes.

mod common;
#[path = "common/proxy.rs"]
mod proxy;

use bytes::Bytes;
use common::{COUNT_SLOWLY, Service, procedure};
use proxy::{tcp_proxy, udp_proxy};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use strait_flexrpc::{
    AdmissionLimits, CallError, CallOptions, Client, ClientOptions, MulticastOptions, Outcome, RetryPolicy,
    Server, ServerOptions, Transport,
};

const CALLERS: u32 = 4;

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

#[test]
fn what_is_told_of_each_callee_of_a_chain_agrees_with_its_own_log() {
    let calls: u32 = std::env::var("FLEXRPC_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(250);
    let services: Vec<_> = (0..3).map(|_| Arc::new(Service::default())).collect();
    let options =
        |listen| ServerOptions { listen, drain: Duration::from_millis(20), ..ServerOptions::default() };
    let free = "127.0.0.1:0".parse().unwrap();
    let mut servers: Vec<Option<Server>> =
        services.iter().map(|service| Some(common::start(options(free), service))).collect();
    let addresses: Vec<_> = servers.iter().flatten().map(Server::address).collect();
    // Between the caller and each, and between each and the next.
    let callees: Vec<_> = addresses.iter().map(|address| tcp_proxy(*address)).collect();
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
                        // In the one direction and in the other.
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
            std::thread::sleep(Duration::from_millis(400));
            victim = (victim + 1) % servers.len();
            drop(servers[victim].take());
            common::eventually("the port is free again", || {
                servers[victim] = common::try_start(options(addresses[victim]), &services[victim]);
                servers[victim].is_some()
            });
        }
    });
    let logs: Vec<HashMap<Vec<u8>, usize>> = services
        .iter()
        .map(|service| {
            let mut executions = HashMap::new();
            service.log().into_iter().for_each(|tag| *executions.entry(tag).or_default() += 1);
            executions
        })
        .collect();
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
