//! Remembers that a gateway has been unreachable for long. Then further operations fail at once, and
//! don't all wait for their time limit.

use std::time::Duration;
use strait_store::Error;
use tokio::time::Instant;

/// Pause between attempts to reach a gateway that has been away for long.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// The time since which a gateway has been unreachable; None while it isn't.
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Since>);

#[derive(Debug)]
struct Since {
    began: Instant,
    /// The latest failure, and its time.
    failed: (Instant, Error),
}

impl Outage {
    /// Records a failed attempt and its start.
    pub(super) fn failed(&mut self, attempt_began: Instant, why: &Error) {
        let began = self.0.as_ref().map_or(attempt_began, |since| since.began);
        self.0 = Some(Since { began, failed: (Instant::now(), why.again()) });
    }

    /// Records that a due reply didn't arrive within `patience`.
    pub(super) fn silent_for(&mut self, patience: Duration, why: &Error) {
        let now = Instant::now();
        self.failed(now.checked_sub(patience).unwrap_or(now), why);
    }

    /// Records that the gateway has accepted us.
    pub(super) fn is_back(&mut self) {
        self.0 = None;
    }

    /// Whether it has been away for at least `long`.
    pub(super) fn for_long(&self, long: Duration) -> bool {
        self.0.as_ref().is_some_and(|since| since.began.elapsed() >= long)
    }

    /// The reason to make no attempt now: the gateway has been away for long, and an attempt failed
    /// a moment ago.
    pub(super) fn refuses(&self, long: Duration) -> Option<Error> {
        let since = self.0.as_ref().filter(|_| self.for_long(long))?;
        let (at, why) = &since.failed;
        (at.elapsed() < TRY_EVERY).then(|| why.again())
    }
}
