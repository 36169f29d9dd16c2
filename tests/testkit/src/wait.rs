use std::thread;
use std::time::{Duration, Instant};

/// Pause between two checks of a condition: short beside any start-up, and long enough to leave the
/// cores free.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Checks `condition` until it holds or `deadline` has passed, and returns whether it holds.
pub fn wait_until(deadline: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// [`wait_until`] for conditions that must become true.
///
/// # Panics
/// After `deadline`, with `what` as the name of the condition.
#[track_caller]
pub fn eventually(what: &str, deadline: Duration, condition: impl FnMut() -> bool) {
    assert!(wait_until(deadline, condition), "not within {deadline:?}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_never_holds_ends_at_the_deadline() {
        let begin = Instant::now();
        assert!(!wait_until(Duration::from_millis(60), || false));
        assert!(begin.elapsed() >= Duration::from_millis(60));
        assert!(wait_until(Duration::ZERO, || true));
    }
}
