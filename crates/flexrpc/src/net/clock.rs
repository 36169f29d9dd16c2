//! The clock in the state machines' unit. Reading it takes about a hundredth of a small call's
//! time, so callers use a reading again while it is recent enough.

use crate::proto::Micros;
use crate::sync;
use std::time::Duration;

/// Microseconds of the system's monotonic clock, which never goes backwards.
pub(crate) fn now() -> Micros {
    sync::now()
}

/// The time elapsed since `start`.
pub(crate) fn since(start: Micros) -> Duration {
    Duration::from_micros(now().saturating_sub(start))
}

pub(crate) fn after(now: Micros, wait: Duration) -> Micros {
    now.saturating_add(micros(wait))
}

/// Whole microseconds. A duration too long for them counts as infinite.
pub(crate) fn micros(duration: Duration) -> Micros {
    Micros::try_from(duration.as_micros()).unwrap_or(Micros::MAX)
}

/// The time `at` in the standard library's clock.
pub(crate) fn instant(at: Micros) -> Option<std::time::Instant> {
    sync::instant(at)
}
