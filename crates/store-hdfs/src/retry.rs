//! Time for which a namenode may be unreachable before its callers get an error.

use super::errors::{Effect, from_library};
use hdfs_native::HdfsError;
use std::time::Duration;
use strait_store::work::{Work, late};
use strait_store::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// Callers get an error after this time. Most outages are shorter: a restart or a failover takes seconds to
/// tens of seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// First pause between two attempts; doubles up to [`LONGEST_PAUSE`].
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause. Short enough to notice soon that a namenode is back.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Pauses that grow, up to a deadline. They also end at the caller's deadline, if the current task works for a
/// caller.
#[derive(Debug)]
pub(super) struct Backoff {
    /// Number of attempts that follow without a pause.
    at_once: u32,
    pause: Duration,
    deadline: Instant,
    callers: Option<Instant>,
}

impl Backoff {
    /// Pauses that end after `patience` from now.
    pub fn within(patience: Duration) -> Self {
        Self::starting_at(FIRST_PAUSE, patience)
    }

    /// The same, with another first pause.
    pub fn starting_at(pause: Duration, patience: Duration) -> Self {
        let callers = Work::deadline().map(Instant::from);
        Self { at_once: 0, pause, deadline: Instant::now() + patience, callers }
    }

    /// The same, but the first `tries` attempts need no pause before them.
    pub fn at_once(self, tries: u32) -> Self {
        Self { at_once: tries, ..self }
    }

    /// The time after which no attempt begins.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Pauses, and returns whether there is time for another attempt.
    pub async fn pause(&mut self) -> bool {
        if self.at_once > 0 {
            self.at_once -= 1;
            return true;
        }
        let until = Instant::now() + self.pause;
        if until >= self.deadline {
            return false;
        }
        sleep_until(self.callers.map_or(until, |callers| callers.min(until))).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.callers.is_none_or(|callers| Instant::now() < callers)
    }
}

/// Runs a call of the library to the namenode. Repeats it while the namenode answers that it
/// isn't ready yet, but for no longer than [`PATIENCE`]. (The library itself retries failed
/// connections.)
pub(super) async fn with_patience<T, F>(
    namenodes: &str,
    effect: Effect,
    mut attempt: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = std::result::Result<T, HdfsError>>,
{
    let mut backoff = Backoff::within(PATIENCE);
    loop {
        let Ok(outcome) = timeout_at(backoff.deadline(), attempt()).await else {
            return Err(no_answer(namenodes, effect));
        };
        match outcome {
            Ok(value) => return Ok(value),
            Err(error) if refuses_for_now(&error) && backoff.pause().await => {}
            Err(error) => return Err(late(naming(namenodes, from_library(error, effect)))),
        }
    }
}

/// As [`with_patience`], for a call that can't be repeated.
pub(super) async fn once<T>(
    namenodes: &str,
    effect: Effect,
    call: impl Future<Output = std::result::Result<T, HdfsError>>,
) -> Result<T> {
    match timeout(PATIENCE, call).await {
        Ok(outcome) => outcome.map_err(|error| naming(namenodes, from_library(error, effect))),
        Err(_) => Err(no_answer(namenodes, effect)),
    }
}

/// Whether the namenode was reached, but temporarily refused the call without executing it.
fn refuses_for_now(error: &HdfsError) -> bool {
    matches!(error, HdfsError::RPCError(class, _) if is_passing(class))
}

/// Whether a Java exception means a temporary condition.
pub(super) fn is_passing(class: &str) -> bool {
    ["RetriableException", "SafeModeException"].iter().any(|name| class.ends_with(name))
}

fn no_answer(namenodes: &str, effect: Effect) -> Error {
    let kind = match effect {
        Effect::Read => ErrorKind::Unavailable,
        Effect::Mutation | Effect::Remembered => ErrorKind::OutcomeUnknown,
    };
    Error::new(kind, format!("namenode {namenodes} doesn't answer within {} s", PATIENCE.as_secs()))
}

/// Adds the namenode's name to errors of connections.
fn naming(namenodes: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::TimedOut => {
            let message = format!("namenode {namenodes}: {}", error.message());
            Error::new(error.kind(), message).with_retry_safe(error.retry_safe()).caused_by(error)
        }
        _ => error,
    }
}
