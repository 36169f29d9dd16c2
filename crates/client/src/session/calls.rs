//! Calls in a session: repeated after a broken connection, and bounded by a deadline.

use super::{Mutation, RETURN_WITHIN, Session, Subject, callers_deadline, lock, outcome, time_left_ms};
use crate::attached::Attached;
use crate::connection::{Answered, Broken};
use crate::lanes::Turn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use strait_store::{Error, ErrorKind, Result};
use strait_wire::{DfsError, Method, ServerInfoRequest, Timed, methods};
use tokio::time::{Instant, sleep, timeout};

/// Pauses before each further attempt after a connection broke. Together they outlast a gateway's restart,
/// and are short enough for people who wait for the error. No attempt begins later than [`Options::timeout`]
/// after the first failure. The upper half of each is random.
const RETRY_DELAYS: [Duration; 9] = [
    Duration::from_millis(0),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
];

/// Methods whose work grows with the data: the gateway answers when it is done.
const LONG_WORK: [&str; 4] = [
    methods::GetChecksum::NAME,
    methods::RemovePath::NAME,
    methods::FlushFile::NAME,
    methods::CloseFile::NAME,
];

/// Changes that do no harm if they are executed twice: `AppendFile` opens a file as it is, `CloseFile` ends a
/// handle. If the gateway refuses one, the caller can repeat it, even if earlier attempts were executed.
const HARMLESS_TWICE: [&str; 2] = [methods::AppendFile::NAME, methods::CloseFile::NAME];

impl Session {
    /// Calls a method that can be repeated without harm.
    pub(crate) async fn ask<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        args: impl Fn() -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        self.call::<M>(subject, payload_bytes, |_| args()).await.map_err(|(error, _)| error)
    }

    /// Calls a method that must be executed once. A repetition is marked as such.
    pub(crate) async fn change<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        args: impl Fn(&Mutation) -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let mut mutation = Mutation::new()?;
        let called = self.call::<M>(subject, 0, |is_retry| {
            mutation.is_retry = is_retry;
            args(&mutation)
        });
        called.await.map_err(|(error, unanswered)| if unanswered { unknown(error, subject) } else { error })
    }

    /// As [`Self::repeat`], but fails at the [`Self::deadline`].
    async fn call<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        mut args: impl FnMut(bool) -> M::Args,
    ) -> std::result::Result<M::Success, (Error, bool)>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let deadline = self.deadline();
        // Without our limit in requests that the gateway runs beside others: of a stream of them, each has its
        // own time.
        let told = if turn::<M>() == Turn::InOrder { deadline } else { callers_deadline() };
        let sent = AtomicBool::new(false);
        let answered = self.repeat::<M>(subject, payload_bytes, |is_retry| {
            sent.store(true, Ordering::Relaxed);
            let mut args = args(is_retry);
            args.set_deadline_ms(time_left_ms(told));
            args
        });
        let answered = self.by(deadline, subject, answered).await;
        answered.unwrap_or_else(|late| Err((late, sent.load(Ordering::Relaxed))))
    }

    /// Repeats a call after each broken connection, and once if the session has ended. With an error it
    /// returns whether a call went unanswered.
    async fn repeat<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        mut args: impl FnMut(bool) -> M::Args,
    ) -> std::result::Result<M::Success, (Error, bool)>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let mut retries = Retries::default();
        let mut unanswered = false;
        let mut logged_in_again = false;
        loop {
            let failure = match self.attached(turn::<M>()).await {
                Ok(attached) => match self.answer::<M>(&attached, args(unanswered), payload_bytes).await {
                    Ok(reply) => match outcome::<M>(reply, subject) {
                        Err(error) if self.session_ended(&error, &attached) && !logged_in_again => {
                            logged_in_again = true;
                            continue;
                        }
                        // The call may have been executed before the session ended.
                        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
                            return Err((error, unanswered));
                        }
                        // The refusal says nothing about an earlier attempt, which this gateway may not know.
                        Err(error) => {
                            let unknown =
                                unanswered && error.retry_safe() && !HARMLESS_TWICE.contains(&M::NAME);
                            return Err((error, unknown));
                        }
                        Ok(success) => return Ok(success),
                    },
                    Err(broken) if broken.is_silence() => return Err((self.lost(&broken, subject), true)),
                    Err(broken) => {
                        unanswered = true;
                        self.lost(&broken, subject)
                    }
                },
                Err(error) => match self.not_attached(error, subject) {
                    error if error.kind() == ErrorKind::Unavailable => error,
                    error => return Err((error, unanswered)),
                },
            };
            match retries.next(self) {
                Some(delay) => sleep(delay).await,
                None => return Err((failure, unanswered)),
            }
        }
    }

    /// The error of an operation that got no connection or login. Its path is the operation's, and its message names
    /// the gateway.
    fn not_attached(&self, error: Error, subject: Subject<'_>) -> Error {
        let message = match error.message().contains(&self.address) {
            true => error.message().to_owned(),
            false => format!("{}: {}", self.address, error.message()),
        };
        Error::new(error.kind(), message)
            .with_retry_safe(error.retry_safe())
            .at(subject.operation, subject.path)
            .caused_by(error)
    }

    /// One call on one connection.
    async fn answer<M: Method>(&self, on: &Attached, args: M::Args, payload_bytes: usize) -> Answered<M> {
        match LONG_WORK.contains(&M::NAME) {
            true => on.connection.call_until_done::<M, _>(&args, || self.is_there()).await,
            false => on.connection.call::<M>(&args, payload_bytes).await,
        }
    }

    /// Whether the gateway answers on another connection. If it closes that one, it is alive, too.
    async fn is_there(&self) -> bool {
        let asked = async {
            let connection = self.connect().await.map_err(drop)?;
            let asked = ServerInfoRequest::default().into();
            match connection.call::<methods::ServerInfo>(&asked, 0).await {
                Err(broken) if broken.is_silence() => Err(()),
                _ => Ok(()),
            }
        };
        timeout(self.timeout, asked).await.is_ok_and(|answered| answered.is_ok())
    }

    /// Whether the gateway reports that the session is no longer logged in. If so, drops its
    /// connections.
    fn session_ended(&self, error: &Error, used: &Attached) -> bool {
        let ended = error.kind() == ErrorKind::Unauthenticated;
        if ended {
            lock(&self.lanes).give_up(used);
        }
        ended
    }

    /// A broken connection as an error.
    pub(crate) fn lost(&self, broken: &Broken, subject: Subject<'_>) -> Error {
        if broken.is_silence() {
            let error = Error::new(ErrorKind::TimedOut, format!("{}: {broken}", self.address));
            lock(&self.outage).silent_for(self.timeout, &error);
            return error.at(subject.operation, subject.path);
        }
        tracing::debug!(gateway = self.address, operation = subject.operation, %broken, "connection lost");
        let message = format!("the connection to {} broke: {broken}", self.address);
        Error::new(ErrorKind::Unavailable, message).at(subject.operation, subject.path)
    }
}

/// How the gateway runs this method beside others on one connection.
fn turn<M: Method>() -> Turn {
    if M::NAME == methods::ReadRange::NAME { Turn::Beside } else { Turn::InOrder }
}

/// Counts the further attempts of one operation.
#[derive(Default)]
pub(crate) struct Retries {
    made: usize,
    failed_at: Option<Instant>,
}

impl Retries {
    /// The pause before the next attempt; none if there is no further attempt.
    pub(crate) fn next(&mut self, session: &Session) -> Option<Duration> {
        let failed_at = *self.failed_at.get_or_insert_with(Instant::now);
        let delay = jittered(*RETRY_DELAYS.get(self.made)?);
        self.made += 1;
        let in_time = failed_at.elapsed() + delay <= session.timeout;
        let long = session.timeout.min(RETURN_WITHIN);
        (in_time && !lock(&session.outage).for_long(long)).then_some(delay)
    }
}

/// A pause between half of `longest` and all of it, so that the clients of one gateway don't return all at
/// the same time.
fn jittered(longest: Duration) -> Duration {
    let mut random = [0];
    // Without random bytes, the pause is the shortest one.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    longest / 2 + longest / 2 * u32::from(random[0]) / u32::from(u8::MAX)
}

/// The error for a mutation with an unknown outcome.
pub(crate) fn unknown(cause: Error, subject: Subject<'_>) -> Error {
    let message = format!("the operation may have been executed, or not: {}", cause.message());
    Error::new(ErrorKind::OutcomeUnknown, message).caused_by(cause).at(subject.operation, subject.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_differ_and_keep_their_bounds() {
        let longest = Duration::from_secs(1);
        let pauses: Vec<Duration> = (0..64).map(|_| jittered(longest)).collect();
        assert!(pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
