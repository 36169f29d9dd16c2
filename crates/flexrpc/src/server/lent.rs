//! Chain calls that their own workers execute: while a service runs, nobody else
//! would notice that the caller gives up on it. The forwarder looks after their
//! time, and answers for them when it is over.

use crate::proto::Micros;
use crate::server::core::Core;
use crate::server::passing::Passing;
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::PoisonError;

pub(crate) struct Lent(Mutex<State>);

struct State {
    calls: HashMap<u64, Box<Passing>>,
    /// When the forwarder looks at them next.
    look_at: Micros,
}

impl Default for Lent {
    fn default() -> Self {
        Self(Mutex::new(State { calls: HashMap::new(), look_at: Micros::MAX }))
    }
}

impl Lent {
    /// Leaves a call until it was executed; `true` if the forwarder must be told,
    /// since it would look too late.
    pub(crate) fn lend(&self, call: Box<Passing>, core: &Core) -> bool {
        let mut state = self.state();
        let by = call.due(core).unwrap_or(Micros::MAX);
        state.calls.insert(call.id, call);
        // Mostly a call before it had less time: one look is for many calls.
        let sooner = by < state.look_at;
        state.look_at = state.look_at.min(by);
        sooner
    }

    /// The call, unless its time was over first.
    pub(crate) fn take_back(&self, id: u64) -> Option<Box<Passing>> {
        self.state().calls.remove(&id)
    }

    /// One whose time is over.
    pub(crate) fn take_late(&self, now: Micros, core: &Core) -> Option<Box<Passing>> {
        let mut state = self.state();
        if now < state.look_at {
            return None;
        }
        let due = state.calls.values().filter_map(|call| Some((call.due(core)?, call.id)));
        let (first, id) = due.min().unwrap_or((Micros::MAX, 0));
        state.look_at = first;
        if now < first { None } else { state.calls.remove(&id) }
    }

    /// The server's shutdown gives up on all then.
    pub(crate) fn end_by(&self, at: Micros) {
        let mut state = self.state();
        state.calls.values_mut().for_each(|call| call.end_by(at, at));
        state.look_at = state.look_at.min(at);
    }

    /// When to look for late ones.
    pub(crate) fn look_at(&self) -> Micros {
        self.state().look_at
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
