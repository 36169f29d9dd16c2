//! Waiting for an unreachable store, and the errors that callers see.

use std::time::Duration;
use strait_store::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

/// Pauses between attempts: the first one, doubled each time up to the longest. So a restarted store is soon
/// found, and a store that stays unreachable isn't flooded with requests.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long operations wait for an unreachable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// An operation fails with ETIMEDOUT, or the store's error, after this time.
    Soft(Duration),
    /// An operation waits until the store is reachable again.
    Hard,
}

impl Patience {
    /// Pauses between the attempts of an operation that begins now.
    pub fn pauses(self) -> Pauses {
        let deadline = match self {
            Self::Soft(limit) => Some(Instant::now() + limit),
            Self::Hard => None,
        };
        Pauses { deadline, next: FIRST_PAUSE }
    }

    /// Repeats an operation until it succeeds, fails although the store is reachable, or runs out of time.
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

/// Pauses between the attempts of one operation.
pub struct Pauses {
    deadline: Option<Instant>,
    next: Duration,
}

impl Pauses {
    /// Waits after `error` until the next attempt.
    ///
    /// # Errors
    /// The same error, if no time is left for another attempt.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if self.deadline.is_some_and(|deadline| Instant::now() + self.next >= deadline) {
            return Err(error);
        }
        tracing::debug!(%error, "retrying");
        sleep(self.next).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

/// Whether the store couldn't be reached, or the connection broke.
pub fn is_away(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut)
}

/// Whether a restarted server may have lost an open file, so that opening it again may help.
pub fn may_be_reopened(error: &Error) -> bool {
    is_away(error)
        || matches!(
            error.kind(),
            ErrorKind::OutcomeUnknown | ErrorKind::InvalidArgument | ErrorKind::NotFound
        )
}
