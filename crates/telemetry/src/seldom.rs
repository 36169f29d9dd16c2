//! Limits the number of warnings that clients can cause, so that the log doesn't fill a disk.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings of each kind that are written in a second: enough to identify the sender.
const A_SECOND: u32 = 10;

/// Logs at a level, but at most ten lines per second from each place in the code. The next line tells how many lines
/// were left out. So clients can't fill a disk with the lines that they cause. The caller's crate needs `tracing`.
#[macro_export]
macro_rules! seldom {
    ($level:ident, $($text:tt)+) => {{
        static LINES: $crate::Seldom = $crate::Seldom::new();
        if let Some(left_out) = LINES.may_write() {
            tracing::$level!(left_out, $($text)+);
        }
    }};
}

/// One kind of warning.
#[derive(Debug)]
pub struct Seldom(Mutex<Second>);

/// Counts of the current second.
#[derive(Debug)]
struct Second {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Default for Seldom {
    fn default() -> Self {
        Self::new()
    }
}

impl Seldom {
    /// A limit without warnings so far.
    pub const fn new() -> Self {
        Self(Mutex::new(Second { began: None, written: 0, left_out: 0 }))
    }

    /// If a warning may be written now: the number of warnings that were left out since the previous one.
    pub fn may_write(&self) -> Option<u64> {
        self.may_write_at(Instant::now())
    }

    fn may_write_at(&self, now: Instant) -> Option<u64> {
        // A poisoned lock is harmless: the counts are valid after each statement.
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if second.began.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            second.began = Some(now);
            second.written = 0;
        }
        if second.written == A_SECOND {
            second.left_out += 1;
            return None;
        }
        second.written += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_short_and_counted() {
        let (kind, start) = (Seldom::new(), Instant::now());
        let written = (0..1_000).filter(|_| kind.may_write_at(start).is_some()).count();
        assert_eq!(written, 10);
        let next_second = start + Duration::from_secs(1);
        assert_eq!(kind.may_write_at(next_second), Some(990), "the next one tells how many were left out");
        assert_eq!(kind.may_write_at(next_second), Some(0));
    }
}
