//! The clock, as the state machines want it. A look at it is some hundredth of a small
//! call: what was seen is handed on where it still holds.

use crate::proto::Micros;
use crate::sync;
use std::time::Duration;

/// Microseconds of the system's monotonic clock; never backwards.
pub(crate) fn now() -> Micros {
    sync::now()
}

/// How long ago that was.
pub(crate) fn since(start: Micros) -> Duration {
    Duration::from_micros(now().saturating_sub(start))
}

pub(crate) fn after(now: Micros, wait: Duration) -> Micros {
    now.saturating_add(micros(wait))
}

/// Whole ones; what is too long for them is as good as for ever.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// The same point in time by the standard library's clock.
pub(crate) fn instant(at: Micros) -> Option<std::time::Instant> {
    sync::instant(at)
}
