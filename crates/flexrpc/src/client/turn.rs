//! Lets concurrent calls leave the host one after another.

use crate::net::clock;
use crate::proto::Micros;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Concurrent calls with the same turn leave this host one after another, in the order in which
/// they asked for it. Each has the whole link while it is sent, so they reach the callee in about
/// that order. While the last bytes of one call travel along a chain, the bytes of the next follow.
/// Calls that shared the link would all become complete at the same late moment. A call that its
/// callee doesn't receive keeps the turn until its deadline. A call that waits for the turn times
/// out at its own deadline, as not executed.
#[derive(Clone, Default)]
pub struct Turn(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    taken: bool,
    next_ticket: u64,
    /// The tickets of waiting callers; the first is next.
    waiting: VecDeque<u64>,
}

impl Turn {
    /// Waits for the turn. The caller has it until it drops the result. `None` if the turn doesn't
    /// come by `deadline`.
    pub(crate) fn take(&self, deadline: Option<Micros>) -> Option<Taken<'_>> {
        let Queue { changed, .. } = &*self.0;
        let mut state = self.0.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.waiting.push_back(ticket);
        while state.taken || state.waiting.front() != Some(&ticket) {
            let left = deadline.map(|deadline| deadline.saturating_sub(clock::now()));
            state = match left {
                Some(0) => {
                    // If this ticket was next, another caller has the turn and will wake the others
                    // when it ends.
                    state.waiting.retain(|waiting| *waiting != ticket);
                    return None;
                }
                Some(left) => {
                    let left = Duration::from_micros(left);
                    changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.waiting.pop_front();
        state.taken = true;
        Some(Taken(&self.0))
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Turn").finish_non_exhaustive()
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn, held by a caller.
pub(crate) struct Taken<'a>(&'a Queue);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.state().taken = false;
        // The condition variable can't choose the next caller, so wake all.
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_to_those_who_wait_in_their_order_and_not_to_who_gave_up() {
        let turn = Turn::default();
        let taken = turn.take(None);
        let order = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for number in 0..4u64 {
                let (turn, order) = (&turn, &order);
                // The second doesn't wait long.
                let deadline = (number == 1).then(|| clock::now() + 1_000);
                scope.spawn(move || {
                    let taken = turn.take(deadline);
                    if taken.is_some() {
                        order.lock().unwrap().push(number);
                    }
                });
                while turn.0.state().next_ticket < number + 2 {
                    std::thread::yield_now();
                }
            }
            while turn.0.state().waiting.len() == 4 {
                std::thread::yield_now();
            }
            drop(taken);
        });
        assert_eq!(order.into_inner().unwrap(), [0, 2, 3]);
    }
}
