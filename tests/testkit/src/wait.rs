use std::thread;
use std::time::{Duration, Instant};

/// Pause between two looks at a condition: short beside any start-up, long
/// enough not to take a core.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Looks at `condition` until it holds or `deadline` has passed; says which.
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

/// [`wait_until`] for what must come true.
///
/// # Panics
/// After `deadline`, naming `what` was waited for.
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
