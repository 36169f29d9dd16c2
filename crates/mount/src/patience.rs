//! Waiting for a store that is away, and what callers see of its errors.

use std::time::Duration;
use strait_store::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

/// Pauses between tries, doubled up to the second one: a store that restarts is found soon, and one
/// that stays away isn't flooded.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long operations wait for a store that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// An operation fails with ETIMEDOUT, or the store's error, after this time.
    Soft(Duration),
    /// An operation waits until the store is back.
    Hard,
}

impl Patience {
    /// Pauses between tries of an operation that begins now.
    pub fn pauses(self) -> Pauses {
        let deadline = match self {
            Self::Soft(limit) => Some(Instant::now() + limit),
            Self::Hard => None,
        };
        Pauses { deadline, next: FIRST_PAUSE }
    }

    /// Repeats an operation until it succeeds, fails for another reason than the store's absence, or
    /// is out of time.
    pub async fn with<T, F: Future<Output = Result<T>>>(self, mut operation: impl FnMut() -> F) -> Result<T> {
        let mut pauses = self.pauses();
        loop {
            let outcome = match pauses.deadline {
                None => operation().await,
                Some(deadline) => match timeout_at(deadline, operation()).await {
                    Ok(outcome) => outcome,
                    Err(_) => return Err(Error::new(ErrorKind::TimedOut, "the store doesn't answer")),
                },
            };
            match outcome {
                Err(error) if is_away(&error) && error.retry_safe() => pauses.pause(error).await?,
                outcome => return outcome,
            }
        }
    }
}

/// Pauses between the tries of one operation.
pub struct Pauses {
    deadline: Option<Instant>,
    next: Duration,
}

impl Pauses {
    /// Waits after `error` for the next try.
    ///
    /// # Errors
    /// The same error, if there is no time for another try.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if self.deadline.is_some_and(|deadline| Instant::now() + self.next >= deadline) {
            return Err(error);
        }
        tracing::debug!(%error, "repeating");
        sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Whether the store couldn't be reached, or the connection broke.
pub fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
}

/// Whether an open file may be lost with a restarted server, so that opening it again helps.
pub fn may_be_reopened(error: &Error) -> bool {
    is_away(error)
        || matches!(
            error.kind(),
            ErrorKind::OutcomeUnknown | ErrorKind::InvalidArgument | ErrorKind::NotFound
        )
}
