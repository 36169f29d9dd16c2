//! Decides when to renew a session's token. With an expired token, a client that loses its connection
//! couldn't return to its session and its open files.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// The next renewal.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// Expiry of the latest token, in milliseconds since 1970-01-01 UTC.
    expires_ms: i64,
    /// None before the first token, and after the latest token has expired.
    due: Option<Instant>,
}

impl Renewal {
    /// Records the latest token's expiry. Its renewal is due after half of its remaining time, even if it
    /// expires no later than the previous token: connections that were opened in the same millisecond get the
    /// same expiry. If the gateway no longer prolongs the login, each attempt halves the remaining time: 26
    /// attempts in 12 hours.
    pub(super) fn got(&mut self, expires_ms: i64) {
        self.expires_ms = expires_ms;
        self.due = self.half_of_rest();
    }

    /// Whether a renewal is due now. If so, schedules the next one after half of the remaining time, in
    /// case this one fails.
    pub(super) fn take_due(&mut self) -> bool {
        let is_due = self.due.is_some_and(|due| Instant::now() >= due);
        if is_due {
            self.due = self.half_of_rest();
        }
        is_due
    }

    /// The time at which half of the token's remaining time has passed. None if the token has expired, or
    /// if the clock can't represent that time.
    fn half_of_rest(&self) -> Option<Instant> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let rest_ms = u64::try_from(i128::from(self.expires_ms) - now_ms as i128).ok()?;
        Instant::now().checked_add(Duration::from_millis(rest_ms / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_ms(rest: i64) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_millis() as i64 + rest
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_after_half_of_its_time_and_tried_again() {
        let mut renewal = Renewal::default();
        renewal.got(in_ms(100_000));
        assert!(!renewal.take_due());
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(renewal.take_due());
        assert!(!renewal.take_due(), "under way");
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(renewal.take_due(), "the wall clock of this test stands still");
    }

    #[tokio::test(start_paused = true)]
    async fn two_tokens_of_the_same_moment_are_renewed() {
        let mut renewal = Renewal::default();
        let end = in_ms(100_000);
        renewal.got(end);
        renewal.got(end);
        tokio::time::advance(Duration::from_secs(50)).await;
        assert!(renewal.take_due());
    }

    #[tokio::test(start_paused = true)]
    async fn no_expiry_is_too_large_or_too_small() {
        let mut renewal = Renewal::default();
        for expires_ms in [i64::MAX, i64::MIN, 0] {
            renewal.got(expires_ms);
        }
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(!renewal.take_due(), "its time is over");
    }
}
