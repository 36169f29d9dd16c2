//! A child that was forked from a process which calls. Alone in its binary: what
//! other tests' threads hold at the fork the child would wait for in vain.

mod common;

use bytes::Bytes;
use common::{ECHO, client, procedure, server};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::time::{Duration, Instant};
use strait_flexrpc::{CallOptions, MulticastOptions, Outcome, Server, Transport};

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(code: i32) -> !;
}

/// Of the child, which otherwise needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_forked_child_makes_calls_and_multicasts_of_its_own() {
    let servers: Vec<_> = (0..4).map(|_| server().0).collect();
    let callees: Vec<_> = servers.iter().map(Server::address).collect();
    let client = client();
    let call = CallOptions { timeout: Some(PATIENCE / 2), ..CallOptions::default() };
    let options = MulticastOptions { call, ..MulticastOptions::default() };
    let multicast = |size: usize| {
        let args = [Bytes::from(vec![1; size])];
        let outcomes = client.call_parallel(&callees, Transport::Tcp, procedure(ECHO), &args, &options);
        outcomes.iter().all(Outcome::is_value)
    };
    assert!(multicast(1 << 20), "by calling workers, which are dormant then");
    assert!(client.calling_workers() > 0);
    // SAFETY: the child calls nothing that waits for the parent's other threads (the
    // servers' and the client's workers), and ends without running anybody's destructors.
    let child = match unsafe { fork() } {
        0 => {
            let single = client.call(callees[0], Transport::Tcp, procedure(ECHO), &[b"x"]).is_ok();
            // The first shakes hands, which workers see to.
            let well = single && multicast(1) && multicast(1 << 20);
            // SAFETY: ends this process alone.
            unsafe { _exit(if well { 0 } else { 1 }) }
        }
        child => Pid::from_raw(child).expect("forked"),
    };
    let begun = Instant::now();
    let status = loop {
        if let Some((_, status)) = waitpid(Some(child), WaitOptions::NOHANG).unwrap() {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            kill_process(child, Signal::KILL).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
    assert!(multicast(1 << 20), "the parent's go on");
}
