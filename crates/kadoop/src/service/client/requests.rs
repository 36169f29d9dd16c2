//! The numbers of one client's mutations, which all its threads share.

use crate::{ClientId, config::MAX_REQUESTS_IN_FLIGHT, messages::RequestId};
use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// Hands out numbers, no more at a time than the namenode keeps answers for.
pub(super) struct Requests {
    client: ClientId,
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    last: u64,
    open: BTreeSet<u64>,
}

/// One mutation, through all its repetitions.
pub(super) struct Begun {
    requests: Arc<Requests>,
    number: u64,
}

impl Requests {
    pub(super) fn new(client: ClientId) -> Self {
        let state = Mutex::new(State { last: 0, open: BTreeSet::new() });
        Self { client, state, ended: Condvar::new() }
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Waits while the oldest one under way is so old that the namenode would have to
    /// keep too many answers.
    pub(super) fn begin(self: &Arc<Self>) -> Begun {
        let mut state = self.state();
        while state
            .open
            .first()
            .is_some_and(|oldest| state.last + 1 >= oldest + MAX_REQUESTS_IN_FLIGHT as u64)
        {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.last += 1;
        let number = state.last;
        state.open.insert(number);
        drop(state);
        Begun { requests: Arc::clone(self), number }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    /// Whose mutation it is.
    pub(super) fn client(&self) -> ClientId {
        self.requests.client
    }

    /// What goes with an attempt.
    pub(super) fn id(&self) -> RequestId {
        let oldest = self.requests.state().open.first().copied().unwrap_or(self.number);
        RequestId { client: self.requests.client, number: self.number, done_below: oldest }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.requests.state().open.remove(&self.number);
        self.requests.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_given_up_below_the_oldest_mutation_under_way() {
        let requests = Arc::new(Requests::new(ClientId(1)));
        let (one, two) = (requests.begin(), requests.begin());
        assert_eq!(two.id(), RequestId { client: ClientId(1), number: 2, done_below: 1 });
        drop(one);
        assert_eq!(two.id().done_below, 2);
    }

    #[test]
    fn a_mutation_waits_while_the_namenode_would_have_to_keep_too_many_answers() {
        let requests = Arc::new(Requests::new(ClientId(1)));
        let stuck = requests.begin();
        for _ in 1..MAX_REQUESTS_IN_FLIGHT {
            drop(requests.begin());
        }
        std::thread::scope(|scope| {
            let late = scope.spawn(|| requests.begin().id().number);
            std::thread::yield_now();
            assert!(!late.is_finished());
            drop(stuck);
            assert_eq!(late.join().unwrap(), MAX_REQUESTS_IN_FLIGHT as u64 + 1);
        });
    }
}
