//! The handle pool (section IV.B), shared by callers.

use super::in_any_order;
use crate::net::pool::{Callee, Handles};
use crate::proto::call::Transport;
use crate::sync::thread;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn callee(port: u16) -> Callee {
    (([127, 0, 0, 1], port).into(), Transport::Tcp)
}

/// The state of all handles. It has locks of the standard library, which shuttle doesn't schedule.
#[derive(Default)]
struct Ledger {
    made: AtomicUsize,
    held: Mutex<HashSet<usize>>,
    closed: Mutex<HashSet<usize>>,
}

/// A handle that is closed when dropped, as a socket is.
struct Socket {
    number: usize,
    callee: Callee,
    ledger: Arc<Ledger>,
}

impl Socket {
    fn new(callee: Callee, ledger: &Arc<Ledger>) -> Self {
        let number = ledger.made.fetch_add(1, Ordering::Relaxed);
        Self { number, callee, ledger: Arc::clone(ledger) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        assert!(self.ledger.closed.lock().unwrap().insert(self.number), "closed twice");
    }
}

/// Makes one call with a pooled handle, or a new one.
fn call(handles: &Handles<Socket>, ledger: &Arc<Ledger>, callee: Callee, broke: bool) {
    let socket = handles.check_out(callee).unwrap_or_else(|| Socket::new(callee, ledger));
    assert_eq!(socket.callee, callee, "a handle of another callee");
    assert!(ledger.held.lock().unwrap().insert(socket.number), "given to two callers");
    assert!(!ledger.closed.lock().unwrap().contains(&socket.number), "closed while in use");
    thread::yield_now();
    ledger.held.lock().unwrap().remove(&socket.number);
    let number = socket.number;
    if broke {
        // No other caller has it, or will.
        drop(socket);
        handles.give_back(callee, None, true);
    } else {
        handles.give_back(callee, Some(socket), false);
    }
    assert!(!(broke && ledger.held.lock().unwrap().contains(&number)));
}

#[test]
fn a_handle_is_never_given_to_two_callers_and_the_limit_holds() {
    const MOST: usize = 2;
    in_any_order(|| {
        let (handles, ledger) = (Arc::new(Handles::new(MOST)), Arc::new(Ledger::default()));
        let callers: Vec<_> = (0..3u16)
            .map(|caller| {
                let (handles, ledger) = (Arc::clone(&handles), Arc::clone(&ledger));
                thread::spawn(move || {
                    for step in 0..3 {
                        call(&handles, &ledger, callee((caller + step) % 2), false);
                        assert!(handles.len() <= MOST);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        let made = ledger.made.load(Ordering::Relaxed);
        let closed = ledger.closed.lock().unwrap().len();
        assert_eq!(closed + handles.len(), made, "each is closed, or in the pool");
        drop(handles.try_drain());
        assert_eq!(ledger.closed.lock().unwrap().len(), made);
    });
}

#[test]
fn at_the_limit_the_least_recently_used_handle_goes_whoever_comes_first() {
    in_any_order(|| {
        let (handles, ledger) = (Arc::new(Handles::new(2)), Arc::new(Ledger::default()));
        let old = Socket::new(callee(0), &ledger);
        let number = old.number;
        handles.give_back(callee(0), Some(old), false);
        let callers: Vec<_> = (1..3)
            .map(|port| {
                let (handles, ledger) = (Arc::clone(&handles), Arc::clone(&ledger));
                thread::spawn(move || call(&handles, &ledger, callee(port), false))
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(*ledger.closed.lock().unwrap(), HashSet::from([number]));
        assert_eq!(handles.len(), 2);
    });
}

#[test]
fn a_broken_handle_takes_all_idle_ones_of_its_callee_and_no_others() {
    in_any_order(|| {
        let (handles, ledger) = (Arc::new(Handles::new(10)), Arc::new(Ledger::default()));
        for port in [1, 1, 1, 2] {
            handles.give_back(callee(port), Some(Socket::new(callee(port), &ledger)), false);
        }
        // One breaks before, during or after another's use.
        let callers: Vec<_> = [true, false]
            .map(|broke| {
                let (handles, ledger) = (Arc::clone(&handles), Arc::clone(&ledger));
                thread::spawn(move || call(&handles, &ledger, callee(1), broke))
            })
            .into();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        // Only the other caller's handle can be left, if it was returned after the break.
        let left: Vec<_> = std::iter::from_fn(|| handles.check_out(callee(1))).collect();
        assert!(left.len() <= 1, "{} are left", left.len());
        assert!(handles.check_out(callee(2)).is_some(), "another callee's");
    });
}
