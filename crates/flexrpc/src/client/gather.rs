//! Collects the outcomes of a multicast.

use crate::net::clock;
use crate::proto::Micros;
use crate::proto::status::{Doubt, Outcome};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The outcomes of one multicast's subcalls.
pub(crate) struct Gather {
    state: Mutex<State>,
    changed: Condvar,
    required: usize,
}

struct State {
    outcomes: Vec<Option<Outcome>>,
    completed: usize,
    values: usize,
}

impl Gather {
    /// For `degree` callees, of which `required` must return a value.
    pub(crate) fn new(degree: usize, required: Option<usize>) -> Self {
        let state = State { outcomes: vec![None; degree], completed: 0, values: 0 };
        // With `None` the caller waits for every outcome: no number of values reaches the maximum.
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            required: required.map_or(usize::MAX, |required| required.max(1)),
        }
    }

    /// Stores a subcall's outcome. If it was the last one that the caller waits for, wakes the
    /// caller.
    pub(crate) fn put(&self, index: usize, outcome: Outcome) {
        let mut state = self.state();
        if let Some(place @ None) = state.outcomes.get_mut(index) {
            let value = outcome.is_value();
            *place = Some(outcome);
            state.completed += 1;
            state.values += usize::from(value);
        }
        if self.is_over(&state) {
            self.changed.notify_all();
        }
    }

    /// Whether all callees, or enough of them, have answered.
    pub(crate) fn is_done(&self) -> bool {
        self.is_over(&self.state())
    }

    /// Whether no number of values ends the multicast early.
    pub(crate) fn waits_for_all(&self) -> bool {
        self.required == usize::MAX
    }

    /// Waits until all callees, or enough of them, have answered, but at most until `until`.
    pub(crate) fn wait(&self, until: Option<Micros>) {
        let mut state = self.state();
        while !self.is_over(&state) {
            let left = until.map(|until| Duration::from_micros(until.saturating_sub(clock::now())));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            state = match left {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The outcomes so far. A missing one is unknown, since the caller stopped waiting for it.
    pub(crate) fn take(&self) -> Vec<Outcome> {
        let mut state = self.state();
        let outcomes = state.outcomes.iter_mut();
        outcomes.map(|outcome| outcome.take().unwrap_or(Outcome::Unknown(Doubt::Abandoned))).collect()
    }

    fn is_over(&self, state: &State) -> bool {
        state.completed == state.outcomes.len() || state.values >= self.required
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::status::{Obstacle, Refusal};
    use bytes::Bytes;

    #[test]
    fn it_is_over_when_all_or_the_required_number_of_values_are_there() {
        let value = || Outcome::Value(Bytes::from_static(b"v"));
        let refused = || Outcome::NotExecuted(Refusal::Unreachable(Obstacle::Unknown));
        let all = Gather::new(2, None);
        all.put(0, value());
        assert!(!all.is_done());
        all.put(1, refused());
        assert!(all.is_done());
        let two_of_three = Gather::new(3, Some(2));
        two_of_three.put(2, value());
        two_of_three.put(0, refused());
        assert!(!two_of_three.is_done(), "an error is no success");
        two_of_three.put(1, value());
        assert!(two_of_three.is_done());
        let outcomes = Gather::new(2, Some(1));
        outcomes.put(1, value());
        assert_eq!(outcomes.take(), [Outcome::Unknown(Doubt::Abandoned), value()]);
    }
}
