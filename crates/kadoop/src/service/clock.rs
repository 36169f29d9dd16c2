//! The two clocks of the cores.

use crate::Millis;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A clock that never runs backwards, counting from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Millis {
        millis(self.0.elapsed().as_millis())
    }
}

/// Milliseconds since 1970 by the wall clock.
pub(crate) fn wall() -> Millis {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| millis(since.as_millis()))
}

fn millis(of: u128) -> Millis {
    u64::try_from(of).unwrap_or(u64::MAX)
}
