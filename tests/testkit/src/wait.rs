//! Waits for events, and pauses that name their reason: the only sleeps of tests.
//!
//! A test that waits for an event polls for it, with a deadline that even a loaded host doesn't reach. A test
//! that something doesn't happen names the time for which it checks that. All other pauses belong to the
//! tested scenario, such as the pace of a load or a slow store. `scripts/sleeps.py` rejects other sleeps in
//! tests.
//!
//! The functions that end in `_task` pause a task of tokio, not its thread.

use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for an event. Only a failing test waits this long.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// First pause between two checks: short in comparison with events within one process.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// Longest pause between two checks: short in comparison with the start of any process, and long enough not
/// to keep a core busy.
const LONGEST_PAUSE: Duration = Duration::from_millis(25);

/// Waits until `condition` holds.
///
/// # Panics
/// After [`DEADLINE`], with `what` as the name of the condition.
#[track_caller]
pub fn eventually(what: &str, condition: impl FnMut() -> bool) {
    within(what, DEADLINE, condition);
}

/// As [`eventually`], for a test that claims that the event happens within `limit`.
///
/// # Panics
/// After `limit`, with `what` as the name of the condition.
#[track_caller]
pub fn within(what: &str, limit: Duration, condition: impl FnMut() -> bool) {
    assert!(wait_until(limit, condition), "not within {limit:?}: {what}");
}

/// Waits for a value.
///
/// # Panics
/// After [`DEADLINE`], with `what` as the value's name.
#[track_caller]
pub fn obtained<T>(what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    let mut obtained = None;
    eventually(what, || {
        obtained = value();
        obtained.is_some()
    });
    obtained.expect("eventually there")
}

/// Checks `condition` until it holds or `limit` has passed, and returns whether it holds.
pub fn wait_until(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    for pause in pauses() {
        // Always check once after the limit, however long the checks before it took.
        let is_last = Instant::now() >= end;
        if condition() {
            return true;
        }
        if is_last {
            break;
        }
        thread::sleep(pause);
    }
    false
}

/// Checks repeatedly for `duration` that `condition` holds. Choose `duration` long enough for a violation to
/// show.
///
/// # Panics
/// If the condition is false in any check. The message names it by `what`.
#[track_caller]
pub fn stays(what: &str, duration: Duration, mut condition: impl FnMut() -> bool) {
    let violated = wait_until(duration, || !condition());
    assert!(!violated, "not for {duration:?}: {what}");
}

/// Pauses this thread. `_why` tells the reader the reason. If there is an event to wait for, wait for it
/// instead.
pub fn pause(_why: &str, duration: Duration) {
    thread::sleep(duration);
}

/// As [`eventually`], in a task.
///
/// # Panics
/// As [`eventually`].
pub async fn eventually_task(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    obtained_task(what, async || condition().await.then_some(())).await;
}

/// As [`obtained`], in a task.
///
/// # Panics
/// As [`obtained`].
pub async fn obtained_task<T>(what: &str, mut value: impl AsyncFnMut() -> Option<T>) -> T {
    // Use the host's clock: tokio's may be paused, and then runs ahead of other threads.
    let begun = Instant::now();
    for pause in pauses() {
        if let Some(value) = value().await {
            return value;
        }
        assert!(begun.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        tokio::time::sleep(pause).await;
    }
    unreachable!("pauses don't end")
}

/// As [`stays`], in a task.
///
/// # Panics
/// As [`stays`].
pub async fn stays_task(what: &str, duration: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    for pause in pauses() {
        let is_last = begun.elapsed() >= duration;
        assert!(condition().await, "not for {duration:?}: {what}");
        if is_last {
            break;
        }
        tokio::time::sleep(pause).await;
    }
}

/// As [`pause`], in a task. It uses tokio's clock, which may be paused.
pub async fn pause_task(_why: &str, duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The pauses between two checks, without end.
fn pauses() -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(LONGEST_PAUSE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_condition_that_never_holds_ends_at_the_limit() {
        let begin = Instant::now();
        assert!(!wait_until(Duration::from_millis(60), || false));
        assert!(begin.elapsed() >= Duration::from_millis(60));
        assert!(wait_until(Duration::ZERO, || true));
        assert!(catch_unwind(|| within("never", Duration::ZERO, || false)).is_err());
    }

    #[test]
    fn a_value_is_returned_once_it_is_there() {
        let mut looks = 0;
        let value = obtained("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(value, 3);
    }

    #[test]
    fn a_violation_during_the_named_time_fails() {
        stays("it holds", Duration::from_millis(20), || true);
        let mut looks = 0;
        let violated = catch_unwind(move || {
            stays("until the third look", Duration::from_secs(60), || {
                looks += 1;
                looks < 3
            });
        });
        assert!(violated.is_err());
    }
}
