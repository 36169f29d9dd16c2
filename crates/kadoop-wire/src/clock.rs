//! The two clocks of the cores.

use std::time::{Instant, SystemTime, UNIX_EPOCH};
use strait_kadoop_core::Millis;

/// A monotonic clock that counts from its start.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that begins at zero.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since its start.
    pub fn now(self) -> Millis {
        millis(self.0.elapsed().as_millis())
    }
}

/// Milliseconds since 1970 by the wall clock.
pub fn wall() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| millis(since.as_millis()))
}

fn millis(of: u128) -> Millis {
    u64::try_from(of).unwrap_or(u64::MAX)
}
