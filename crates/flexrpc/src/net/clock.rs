//! The process's clock, as the state machines want it.

use crate::proto::Micros;
use crate::sync::{self, Instant};
use std::time::Duration;

/// Microseconds since the process first asked; never backwards.
pub(crate) fn now() -> Micros {
    Instant::now().saturating_duration_since(sync::origin()).as_micros() as Micros
}

pub(crate) fn after(now: Micros, wait: Duration) -> Micros {
    now.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(Micros::MAX))
}

pub(crate) fn instant(at: Micros) -> Option<std::time::Instant> {
    sync::since_origin(Duration::from_micros(at))
}
