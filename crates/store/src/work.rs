//! The work of a store for one call. It stops if the call's caller leaves.
//!
//! A caller (a gateway) runs each call in a [`Work`] of its own. Dropping the call stops its
//! work: blocking steps that haven't begun don't begin, and a long step ends at its next
//! [`check`]. The caller may lend something to the work (a turn in a queue). It gets this back when
//! no thread works on the call any more. Mutations run in a task of their own, whose work is never
//! stopped.

use crate::error::{Error, ErrorKind, Result};
use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Instant;
use strait_telemetry::RequestId;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Sleep, sleep_until};

/// See the module.
pub struct Work {
    stopped: AtomicBool,
    deadline: Option<Instant>,
}

/// A loan to a part of a call.
type Lent = Arc<dyn Any + Send + Sync>;

tokio::task_local! {
    static CURRENT: Arc<Work>;
    static LENT: Lent;
}

/// Runs a part of a call, and lends `what` to it until the part ends. If the part's future is dropped,
/// `what` stays lent until no thread works on the part any more.
pub async fn lend<F: Future>(what: Lent, part: F) -> F::Output {
    LENT.scope(what, part).await
}

impl Work {
    /// Runs `call` as a separate work. Stops the work if the future is dropped before the call ends.
    /// After the call has ended, work that it began in advance (the next entries of a listing) continues.
    /// The caller doesn't wait beyond `deadline`, if there is one.
    pub async fn scope<F: Future>(deadline: Option<Instant>, call: F) -> F::Output {
        struct Stop(Option<Arc<Work>>);
        impl Drop for Stop {
            fn drop(&mut self) {
                if let Some(work) = &self.0 {
                    work.stopped.store(true, Ordering::Release);
                }
            }
        }
        let work = Arc::new(Work { stopped: AtomicBool::new(false), deadline });
        let mut stop = Stop(Some(work.clone()));
        let outcome = CURRENT.scope(work, call).await;
        stop.0 = None;
        outcome
    }

    /// The work of this task or thread, if it has one.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// The time until which the caller of this task or thread waits, if it is known. A store that calls
    /// another server passes it on.
    pub fn deadline() -> Option<Instant> {
        CURRENT.try_with(|work| work.deadline).ok().flatten()
    }

    /// Whether the caller has left.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// Runs a query, which ends at its caller's deadline, if there is one. One call may begin a query in advance
/// (the next entries of a listing), and a later call wait for it. Then the deadline is that of the later call.
///
/// # Errors
/// Those of `query`; TimedOut at the deadline.
pub async fn query<T>(query: impl Future<Output = Result<T>>) -> Result<T> {
    let mut query = pin!(query);
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    let late = || Error::new(ErrorKind::TimedOut, "the caller's deadline passed before the store answered");
    poll_fn(|context| {
        if let Poll::Ready(outcome) = query.as_mut().poll(context) {
            return Poll::Ready(outcome);
        }
        let Some(deadline) = Work::deadline().map(tokio::time::Instant::from) else { return Poll::Pending };
        let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(context).map(|()| Err(late()))
    })
    .await
}

/// The error of a call that stopped at its caller's deadline: Unavailable becomes TimedOut.
#[must_use]
pub fn late(error: Error) -> Error {
    let is_late = Work::deadline().is_some_and(|deadline| deadline <= Instant::now());
    if !is_late || error.kind() != ErrorKind::Unavailable {
        return error;
    }
    let message = format!("the caller's deadline passed: {}", error.message());
    Error::new(ErrorKind::TimedOut, message).with_retry_safe(error.retry_safe()).caused_by(error)
}

/// Call this before a change that may have waited.
///
/// # Errors
/// TimedOut if the caller's deadline has passed.
pub fn in_time() -> Result<()> {
    match Work::deadline() {
        Some(deadline) if deadline <= Instant::now() => {
            let message = "the caller's deadline passed before the change began; nothing was done";
            Err(Error::new(ErrorKind::TimedOut, message))
        }
        _ => Ok(()),
    }
}

/// Call this between the steps of long work.
///
/// # Errors
/// Unavailable if the caller has left. So no caller gets this error.
pub fn check() -> Result<()> {
    match Work::current() {
        Some(work) if work.is_stopped() => {
            Err(Error::new(ErrorKind::Unavailable, "the caller has left; its work was stopped"))
        }
        _ => Ok(()),
    }
}

/// Added to the nice value of [`long`] work: other threads get ten times its processor time.
const LONG_WORK_NICE: i32 = 10;

/// Wraps `step` for another thread, as a part of the current work and request.
fn part_of_call<T>(step: impl FnOnce() -> Result<T>) -> impl FnOnce() -> Result<T> {
    // A step without a request's id gets a new one.
    let request = RequestId::current().unwrap_or_else(RequestId::next);
    let work = Work::current();
    let lent = LENT.try_with(Arc::clone);
    move || {
        let _lent = lent;
        let _working = RequestId::enter(Some(request));
        match work {
            Some(work) => CURRENT.sync_scope(work, || check().and_then(|()| step())),
            None => step(),
        }
    }
}

/// Runs `step` on tokio's blocking pool, as a part of the current work and request.
///
/// # Errors
/// Those of `step`; `Unavailable` if the process is ending, `Internal` if `step` panicked.
pub async fn blocking<T: Send + 'static>(step: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    outcome_of(tokio::task::spawn_blocking(part_of_call(step))).await
}

/// Runs `step` on tokio's blocking pool, in parallel with the current call, which may end first. The
/// step keeps what was lent to the call, and isn't stopped.
pub(crate) fn beside<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let lent = LENT.try_with(Arc::clone);
    let request = RequestId::current();
    tokio::task::spawn_blocking(move || {
        let _lent = lent;
        let _working = RequestId::enter(request);
        step()
    })
}

/// Waits for a step.
///
/// # Errors
/// Those of the step; `Unavailable` if the process is ending, `Internal` if the step panicked.
pub(crate) async fn outcome_of<T>(
    step: impl Future<Output = std::result::Result<Result<T>, JoinError>>,
) -> Result<T> {
    match step.await {
        Ok(outcome) => outcome,
        Err(error) if error.is_cancelled() => {
            Err(Error::new(ErrorKind::Unavailable, "interrupted: the process is ending"))
        }
        Err(error) => Err(Error::new(ErrorKind::Internal, "a store's thread panicked").caused_by(error)),
    }
}

/// As [`blocking`], for a step that keeps a processor busy for long. It runs in a thread of its own, with a
/// low priority.
pub(crate) async fn long<T: Send + 'static>(step: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let step = part_of_call(step);
    let (done, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name("long-work".to_owned()).spawn(move || {
        // On Linux, nice(2) applies to one thread. If it fails, the work keeps the usual priority.
        let _ = rustix::process::nice(LONG_WORK_NICE);
        // A caller that has left needs no outcome.
        let _ = done.send(step());
    });
    thread.map_err(|error| Error::new(ErrorKind::Busy, "the process has no thread left").caused_by(error))?;
    let panicked = |_| Error::new(ErrorKind::Internal, "a store's thread panicked");
    outcome.await.map_err(panicked)?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;
    use strait_testkit::wait::{eventually_task, pause};
    use tokio::sync::Semaphore;

    const DEADLINE: Duration = Duration::from_secs(30);

    /// Whether the only turn is free again.
    fn is_back(turns: &Semaphore) -> bool {
        turns.available_permits() == 1
    }

    /// A queue with a single turn, and that turn.
    fn one_turn() -> (Arc<Semaphore>, Lent) {
        let turns = Arc::new(Semaphore::new(1));
        let turn = turns.clone().try_acquire_owned().unwrap();
        (turns, Arc::new(turn))
    }

    #[tokio::test]
    async fn a_thread_learns_that_its_caller_left_and_keeps_what_was_lent_until_it_ends() {
        let (begun, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let (told, outcome) = mpsc::channel();
        let (turns, turn) = one_turn();
        let part = blocking(move || {
            begun.send(()).unwrap();
            may_go_on.recv().unwrap();
            told.send(check().is_err()).unwrap();
            Ok(())
        });
        let call = tokio::spawn(Work::scope(None, lend(turn, part)));
        tokio::task::spawn_blocking(move || has_begun.recv_timeout(DEADLINE).unwrap()).await.unwrap();
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert!(!is_back(&turns), "the thread has it");
        go_on.send(()).unwrap();
        let stopped = tokio::task::spawn_blocking(move || outcome.recv_timeout(DEADLINE).unwrap());
        assert!(stopped.await.unwrap(), "and was told");
        eventually_task("it gives the turn back", async || is_back(&turns)).await;
    }

    #[tokio::test]
    async fn what_a_call_began_ahead_goes_on_after_its_end() {
        let (go_on, may_go_on) = mpsc::channel::<()>();
        #[allow(clippy::async_yields_async, reason = "the call leaves work under way")]
        let ahead = Work::scope(None, async {
            let mut ahead = Box::pin(blocking(move || {
                may_go_on.recv().unwrap();
                check()
            }));
            // The next entries are requested, and left for the next call.
            assert!(futures::FutureExt::now_or_never(&mut ahead).is_none());
            ahead
        })
        .await;
        go_on.send(()).unwrap();
        Work::scope(None, ahead).await.unwrap();
    }

    #[tokio::test]
    async fn a_step_beside_a_call_keeps_what_was_lent_until_it_ends() {
        let (go_on, may_go_on) = mpsc::channel();
        let (turns, turn) = one_turn();
        let mut step = None;
        lend(turn, async { step = Some(beside(move || may_go_on.recv().unwrap())) }).await;
        assert!(!is_back(&turns), "the call has ended, and the step has the turn");
        go_on.send(()).unwrap();
        step.unwrap().await.unwrap();
        assert!(is_back(&turns));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_ends_at_its_callers_deadline() {
        let due = Some(Instant::now() + DEADLINE);
        let late = Work::scope(due, query(std::future::pending::<Result<()>>())).await.unwrap_err();
        assert_eq!((late.kind(), late.retry_safe()), (ErrorKind::TimedOut, true));
        assert_eq!(Work::scope(due, query(async { Ok(7) })).await.unwrap(), 7);
        assert_eq!(query(async { Ok(7) }).await.unwrap(), 7);
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_that_an_earlier_call_began_has_the_time_of_the_call_that_waits_for_it() {
        let (answer, answered) = oneshot::channel();
        let mut ahead = Box::pin(query(async { Ok(answered.await.unwrap()) }));
        let soon = Some(Instant::now() + DEADLINE);
        Work::scope(soon, async { assert!(futures::FutureExt::now_or_never(&mut ahead).is_none()) }).await;
        tokio::time::advance(2 * DEADLINE).await;
        // The pause is in tokio's time only.
        let later = Some(tokio::time::Instant::now().into_std() + DEADLINE);
        let waiting = tokio::spawn(Work::scope(later, ahead));
        tokio::time::advance(DEADLINE / 2).await;
        answer.send(7).unwrap();
        assert_eq!(waiting.await.unwrap().unwrap(), 7);
    }

    #[tokio::test]
    async fn only_a_failure_to_reach_a_server_becomes_a_timeout_and_only_after_the_deadline() {
        let (passed, far) = (Some(Instant::now()), Some(Instant::now() + DEADLINE));
        for (due, kind, told) in [
            (passed, ErrorKind::Unavailable, ErrorKind::TimedOut),
            (passed, ErrorKind::OutcomeUnknown, ErrorKind::OutcomeUnknown),
            (far, ErrorKind::Unavailable, ErrorKind::Unavailable),
            (None, ErrorKind::Unavailable, ErrorKind::Unavailable),
        ] {
            let error = Work::scope(due, async { late(Error::new(kind, "no answer")) }).await;
            assert_eq!(error.kind(), told);
            assert_eq!(error.retry_safe(), kind != ErrorKind::OutcomeUnknown);
        }
    }

    #[tokio::test]
    async fn work_that_goes_on_is_not_stopped() {
        let outcome = Work::scope(None, async { blocking(check).await }).await;
        outcome.unwrap();
        blocking(check).await.unwrap();
        assert!(Work::current().is_none());
    }

    #[tokio::test]
    async fn long_work_is_nice_to_other_threads_and_ends_with_its_caller() {
        /// The kernel's bound (setpriority(2)).
        const NICEST: i32 = 19;
        let own = rustix::process::getpriority_process(None).unwrap();
        let (turns, turn) = one_turn();
        let (told, nice) = mpsc::channel();
        let step = move || {
            told.send(rustix::process::getpriority_process(None).unwrap()).unwrap();
            loop {
                check()?;
                pause("a step of the work", Duration::from_millis(1));
            }
        };
        let call = Work::scope(None, lend(turn, long::<()>(step)));
        // The caller waits until the work has begun, and leaves.
        let begun = tokio::task::spawn_blocking(move || nice.recv_timeout(DEADLINE).unwrap());
        tokio::select! {
            _ = call => panic!("it has no end"),
            nice = begun => assert_eq!(nice.unwrap(), (own + LONG_WORK_NICE).min(NICEST)),
        }
        eventually_task("the thread stops", async || is_back(&turns)).await;
        assert_eq!(long(|| Ok(7)).await.unwrap(), 7);
    }
}
