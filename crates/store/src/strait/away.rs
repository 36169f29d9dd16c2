//! A gateway that is away for long: each further operation fails at once, in place
//! of waiting as long as the one before.

use super::session::Failed;
use std::time::Duration;
use tokio::time::Instant;

/// How often a gateway that has been away for long is tried again.
const TRY_EVERY: Duration = Duration::from_secs(5);

/// Since when a gateway is away, if it is.
#[derive(Debug, Default)]
pub(super) struct Away(Option<Since>);

#[derive(Debug)]
struct Since {
    began: Instant,
    /// The latest failure, and when.
    failed: (Instant, Failed),
}

impl Away {
    /// An attempt that began then came to nothing.
    pub(super) fn failed(&mut self, attempt_began: Instant, why: Failed) {
        let began = self.0.as_ref().map_or(attempt_began, |since| since.began);
        self.0 = Some(Since { began, failed: (Instant::now(), why) });
    }

    /// A reply that was due didn't come.
    pub(super) fn silent_for(&mut self, patience: Duration, why: Failed) {
        let now = Instant::now();
        self.failed(now.checked_sub(patience).unwrap_or(now), why);
    }

    /// It has let us in.
    pub(super) fn is_back(&mut self) {
        self.0 = None;
    }

    /// Whether it has been away for so long.
    pub(super) fn for_long(&self, long: Duration) -> bool {
        self.0.as_ref().is_some_and(|since| since.began.elapsed() >= long)
    }

    /// Why no attempt is made now: it has been away for so long, and was tried a
    /// moment ago.
    pub(super) fn refuses(&self, long: Duration) -> Option<Failed> {
        let since = self.0.as_ref().filter(|_| self.for_long(long))?;
        let (at, why) = &since.failed;
        (at.elapsed() < TRY_EVERY).then(|| why.clone())
    }
}
