//! The process's clock, as the state machines want it.

use crate::proto::Micros;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Microseconds since the process first asked; never backwards.
pub(crate) fn now() -> Micros {
    micros(Instant::now())
}

pub(crate) fn micros(instant: Instant) -> Micros {
    instant.saturating_duration_since(origin()).as_micros() as Micros
}

pub(crate) fn after(now: Micros, wait: Duration) -> Micros {
    now.saturating_add(u64::try_from(wait.as_micros()).unwrap_or(Micros::MAX))
}

pub(crate) fn instant(at: Micros) -> Option<Instant> {
    origin().checked_add(Duration::from_micros(at))
}
