//! A callee's session (section IV.D), which several callers need at once.

use super::in_any_order;
use crate::client::session::{Place, Session};
use crate::proto::extension::Terms;
use crate::proto::ids::SessionId;
use crate::proto::status::{Obstacle, Refusal};
use crate::sync::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A session that stays trusted for longer than all waits in the model together, of which each
/// takes a minute.
fn made() -> Session {
    let terms = Terms { payload_bytes: 1, session_idle_ms: u32::MAX };
    let session = Session::new(SessionId([1; 16]), None, terms);
    session.executed();
    session
}

/// Runs `count` callers, whose first `failing` handshakes fail. Returns the numbers of callers with
/// a session and of handshakes.
fn callers(count: usize, failing: usize) -> (usize, usize) {
    let (place, handshakes) = (Arc::new(Place::default()), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..count)
        .map(|_| {
            let (place, handshakes) = (Arc::clone(&place), Arc::clone(&handshakes));
            thread::spawn(move || {
                let session = place.session(None, || {
                    let number = handshakes.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                    if number < failing { Err(Refusal::Unreachable(Obstacle::Unknown)) } else { Ok(made()) }
                });
                session.is_ok()
            })
        })
        .collect();
    let got = callers.into_iter().map(|caller| caller.join().unwrap());
    let got = got.filter(|got| *got).count();
    (got, handshakes.load(Ordering::Relaxed))
}

#[test]
fn callers_who_come_together_shake_hands_once() {
    in_any_order(|| assert_eq!(callers(3, 0), (3, 1)));
}

#[test]
fn if_a_handshake_fails_another_caller_tries_and_nobody_waits_for_ever() {
    in_any_order(|| assert_eq!(callers(3, 1), (2, 2)));
}
