//! The service workers (section IV.C), and the forwarder's jobs for them.

use super::in_any_order;
use crate::net::clock;
use crate::net::wire::Security;
use crate::proto::call::Transport;
use crate::proto::extension::Caller;
use crate::proto::frame::{Head, Kind};
use crate::proto::ids::{CallId, Procedure};
use crate::server::chain::{Adopted, Job};
use crate::server::core::{Core, Origin};
use crate::server::service::{Reply, Request};
use crate::server::threads::Threads;
use crate::server::workers::Workers;
use crate::sync::{Condvar, Mutex, thread};
use crate::{ServerOptions, WorkerLimits};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

const ECHO: Procedure = Procedure::new(1, 1, 1);

/// A procedure that waits until another call of it is running, too.
const MEET: Procedure = Procedure::new(1, 1, 2);

#[derive(Default)]
struct Service {
    executed: Mutex<Vec<u64>>,
    met: Condvar,
}

fn start(least: usize, most: usize) -> (Arc<Workers>, Arc<Service>) {
    let limits = WorkerLimits { least, most, dormant: Duration::from_secs(1) };
    let options = ServerOptions { workers: limits, spin: Duration::ZERO, ..ServerOptions::default() };
    let core = Arc::new(Core::new(options));
    let service = Arc::new(Service::default());
    let served = Arc::clone(&service);
    let execute = move |request: &Request, _: &mut Reply| {
        let mut executed = served.executed.lock().unwrap();
        executed.push(request.id.transaction);
        served.met.notify_all();
        while request.procedure == MEET && executed.len() < 2 {
            executed = served.met.wait(executed).unwrap();
        }
        Ok(())
    };
    core.registry.register(1, 1, Arc::new(execute));
    let workers = Arc::new(Workers::new(core, None, Threads::default()).unwrap());
    workers.start().unwrap();
    (workers, service)
}

fn job(number: u64, procedure: Procedure) -> Job {
    let id = CallId { transaction: number, ..CallId::default() };
    Job {
        call: number,
        head: Head { procedure, ..Head::new(Kind::Call, id) },
        args: Bytes::new(),
        caller: Caller::default(),
        origin: Origin {
            peer: ([127, 0, 0, 1], 1).into(),
            transport: Transport::Tcp,
            security: Security::Plain,
            user: None,
            connection: 0,
        },
        arrived: clock::now(),
    }
}

/// The numbers of the next `count` calls that workers report as executed; waits for ever if one is
/// lost.
fn told(workers: &Workers, count: usize) -> Vec<u64> {
    let mut told = Vec::new();
    while told.len() < count {
        match workers.chains.adopted.take_one() {
            Some(Adopted::Ran(number, ended)) => {
                assert!(ended.is_ok());
                told.push(number);
            }
            Some(_) => panic!("only jobs were handed over"),
            None => thread::yield_now(),
        }
    }
    told.sort_unstable();
    told
}

/// Stops the workers, and waits until they have ended.
fn stop(workers: &Workers) {
    workers.stop();
    while workers.count() > 0 {
        thread::yield_now();
    }
    while !workers.threads.wait(Duration::from_secs(1)) {}
}

#[test]
fn what_is_handed_over_is_executed_once_while_workers_come_and_go_dormant() {
    in_any_order(|| {
        let (workers, service) = start(1, 3);
        let forwarders: Vec<_> = [0..2, 2..4]
            .map(|numbers| {
                let workers = Arc::clone(&workers);
                thread::spawn(move || numbers.for_each(|number| workers.chains.jobs.put(job(number, ECHO))))
            })
            .into();
        assert_eq!(told(&workers, 4), [0, 1, 2, 3]);
        forwarders.into_iter().for_each(|forwarder| forwarder.join().unwrap());
        let count = workers.count();
        assert!((1..=3).contains(&count), "{count} workers");
        stop(&workers);
        let mut executed = service.executed.lock().unwrap().clone();
        executed.sort_unstable();
        assert_eq!(executed, [0, 1, 2, 3]);
        assert!(workers.chains.adopted.take_one().is_none(), "told twice");
    });
}

#[test]
fn a_call_never_waits_behind_a_running_one_while_there_may_be_more_workers() {
    in_any_order(|| {
        let (workers, _) = start(1, 2);
        // Each ends only while both run.
        for number in 0..2 {
            workers.chains.jobs.put(job(number, MEET));
        }
        assert_eq!(told(&workers, 2), [0, 1]);
        stop(&workers);
    });
}

#[test]
fn a_stop_ends_all_workers_and_loses_nothing_that_was_begun() {
    in_any_order(|| {
        let (workers, service) = start(2, 2);
        for number in 0..2 {
            workers.chains.jobs.put(job(number, ECHO));
        }
        stop(&workers);
        let executed = service.executed.lock().unwrap().len();
        assert_eq!(told(&workers, executed).len(), executed, "of each the forwarder is told");
    });
}
