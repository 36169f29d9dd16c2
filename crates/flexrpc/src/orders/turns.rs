//! The turn of calls that leave one after another.

use super::in_any_order;
use crate::client::turn::Turn;
use crate::net::clock;
use crate::sync::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn one_has_the_turn_at_a_time_and_nobody_waits_for_ever_though_some_give_up() {
    in_any_order(|| {
        let turn = Turn::default();
        let (holders, served) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        // A caller without a deadline must notice when the caller before it gives up.
        let callers: Vec<_> = [None, Some(1_000), None, Some(1_000)]
            .into_iter()
            .map(|patience| {
                let (turn, holders, served) = (turn.clone(), Arc::clone(&holders), Arc::clone(&served));
                thread::spawn(move || {
                    let deadline = patience.map(|patience| clock::now() + patience);
                    let taken = turn.take(deadline);
                    assert!(taken.is_some() || deadline.is_some_and(|deadline| clock::now() >= deadline));
                    if taken.is_some() {
                        assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0);
                        thread::yield_now();
                        holders.fetch_sub(1, Ordering::Relaxed);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        assert!(served.load(Ordering::Relaxed) >= 2);
    });
}
