//! A child forked from a process that makes calls, while its other threads hold locks.

#[allow(dead_code)] // of what the other tests use
mod common;

use bytes::Bytes;
use common::{ECHO, client, eventually, procedure, server};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strait_flexrpc::{CallOptions, MulticastOptions, Outcome, Server, Transport};
use strait_testkit::{Forked, skip};

/// Number of children to fork while the process's threads make calls all the time. If parent and
/// child shared locks, one child in some dozens would hang.
const FORKS: usize = 100;

/// Timeout of a child's multicast, which otherwise needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// Number of calls that each of two concurrent processes makes.
const CALLS: u32 = 200;

#[test]
fn a_forked_child_makes_calls_and_multicasts_of_its_own() {
    let servers: Vec<_> = (0..4).map(|_| server().0).collect();
    let callees: Vec<_> = servers.iter().map(Server::address).collect();
    let client = client();
    let call = CallOptions { timeout: Some(PATIENCE), ..CallOptions::default() };
    let options = MulticastOptions { call, ..MulticastOptions::default() };
    let multicast = |size: usize| {
        let args = [Bytes::from(vec![1; size])];
        let outcomes = client.call_parallel(&callees, Transport::Tcp, procedure(ECHO), &args, &options);
        outcomes.iter().all(Outcome::is_value)
    };
    assert!(multicast(1 << 20), "by calling workers, which are dormant then");
    assert!(client.calling_workers() > 0);
    eventually("all are back", || client.pooled_handles() == callees.len());
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let child = Forked::start(|| {
        let copies = descriptors();
        let anew = client.pooled_handles() == 0 && client.calling_workers() == 0;
        // The child must have closed its copies, so that callees notice when the parent closes its
        // connections.
        let anew = anew && descriptors() + callees.len() == copies;
        let single = client.call(callees[0], Transport::Tcp, procedure(ECHO), &[b"x"]).is_ok();
        // In the first multicast, workers make handshakes.
        anew && single && multicast(1) && multicast(1 << 20)
    });
    assert!(child.ended_well());
    assert!(multicast(1 << 20), "the parent's go on");
}

#[test]
fn what_other_threads_hold_at_the_fork_a_child_doesnt_wait_for() {
    let (server, _) = server();
    let client = client();
    let call = || client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"x"]).is_ok();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    // A call without a pooled handle takes each of the locks.
                    let client = client.clone();
                    let held = client.handle(server.address(), Transport::Udp);
                    assert!(held.is_ok() && call());
                }
            });
        }
        let children: Vec<_> = (0..FORKS).map(|_| Forked::start(call)).collect();
        over.store(true, Ordering::Relaxed);
        children.into_iter().for_each(|child| assert!(child.ended_well()));
    });
}

#[test]
fn a_handle_that_a_child_drops_stays_its_parents_alone() {
    let (server, _) = server();
    let client = client();
    let mut handle = client.handle(server.address(), Transport::Tcp).unwrap();
    handle.call(procedure(ECHO), &[b"before"]).unwrap();
    let call = || client.call(server.address(), Transport::Tcp, procedure(ECHO), &[b"child's"]);
    let mut childs = Some(handle);
    let child = Forked::start(|| {
        // The child now has a pool of its own, to which the handle would return.
        let first = call();
        drop(childs.take());
        first.is_ok() && call().unwrap() == "child's" && client.pooled_handles() == 1
    });
    assert!(child.ended_well());
    let mut handle = childs.unwrap();
    assert_eq!(handle.call(procedure(ECHO), &[b"parent's"]).unwrap(), "parent's");
}

#[test]
fn a_child_with_its_parents_process_id_uses_none_of_its_connections() {
    if !Forked::can_be_first() {
        return skip("children with their parents' ids", "PID namespaces: root's rights, or user namespaces");
    }
    let (server, _) = server();
    let parent = || {
        let client = client();
        let echoes = |of: &str| {
            (0..CALLS).all(|number| {
                let args = format!("{of} {number}");
                let answer =
                    client.call(server.address(), Transport::Tcp, procedure(ECHO), &[args.as_bytes()]);
                answer.is_ok_and(|answer| answer == args)
            })
        };
        let handle = client.handle(server.address(), Transport::Tcp);
        let (id, first) = (std::process::id(), handle.is_ok() && echoes("before"));
        let child = Forked::start_as_first(|| {
            drop(handle);
            std::process::id() == id && client.pooled_handles() == 0 && echoes("child's")
        });
        first && echoes("parent's") && child.ended_well() && echoes("after")
    };
    let first = Forked::start(|| Forked::start_as_first(parent).ended_well());
    assert!(first.ended_well());
}
