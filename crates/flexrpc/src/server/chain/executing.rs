//! Chain calls that their own workers execute. While a service runs, its worker can't notice that
//! the call times out. So the forwarder checks the deadlines of these calls, and answers the late
//! ones.

use super::call::ChainCall;
use crate::proto::Micros;
use crate::server::core::Core;
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::PoisonError;

pub(crate) struct Executing(Mutex<State>);

struct State {
    calls: HashMap<u64, Box<ChainCall>>,
    /// The time of the forwarder's next check.
    look_at: Micros,
}

impl Default for Executing {
    fn default() -> Self {
        Self(Mutex::new(State { calls: HashMap::new(), look_at: Micros::MAX }))
    }
}

impl Executing {
    /// Keeps a call while its worker executes it. `true` if the forwarder must be woken, because
    /// its next check would come too late.
    pub(crate) fn lend(&self, call: Box<ChainCall>, core: &Core) -> bool {
        let mut state = self.state();
        let by = call.due(core).unwrap_or(Micros::MAX);
        state.calls.insert(call.id, call);
        // Usually an earlier call is due sooner, so one check serves many calls.
        let sooner = by < state.look_at;
        state.look_at = state.look_at.min(by);
        sooner
    }

    /// Takes the call back, unless it timed out first.
    pub(crate) fn take_back(&self, id: u64) -> Option<Box<ChainCall>> {
        self.state().calls.remove(&id)
    }

    /// Takes a call that has timed out.
    pub(crate) fn take_late(&self, now: Micros, core: &Core) -> Option<Box<ChainCall>> {
        let mut state = self.state();
        if now < state.look_at {
            return None;
        }
        let due = state.calls.values().filter_map(|call| Some((call.due(core)?, call.id)));
        let (first, id) = due.min().unwrap_or((Micros::MAX, 0));
        state.look_at = first;
        if now < first { None } else { state.calls.remove(&id) }
    }

    /// Makes all calls time out at `at`, for a shutdown.
    pub(crate) fn end_by(&self, at: Micros) {
        let mut state = self.state();
        state.calls.values_mut().for_each(|call| call.end_by(at, at));
        state.look_at = state.look_at.min(at);
    }

    /// The time of the next check for late calls.
    pub(crate) fn look_at(&self) -> Micros {
        self.state().look_at
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
