//! The pace of requests from clients that haven't logged in.
//!
//! Such a client needs a few requests to log in. Without a limit, the requests of one origin would
//! keep the processors from serving users. Requests of an origin beyond the pace wait.

use crate::config::Limits;
use crate::pool::Key;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait. Requests whose clients left while they waited would otherwise delay later ones
/// without a limit.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// From this number of origins on, the table forgets those whose requests so far are done.
const FIRST_CLEANING: usize = 4_096;

/// The times of the next requests, by origin: a virtual scheduler (GCRA; ITU-T I.371, annex A).
#[derive(Debug)]
pub struct Pace {
    /// The time for each request.
    interval: Duration,
    /// The time for all requests that may come at once.
    burst: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// For each origin, the time when its requests so far would be done at the even pace.
    done: HashMap<Key, Instant>,
    clean_at: usize,
}

impl Pace {
    /// Without requests so far.
    pub fn new(limits: &Limits) -> Self {
        let interval = limits.stranger_interval;
        let state = Mutex::new(State { done: HashMap::new(), clean_at: FIRST_CLEANING });
        Self { interval, burst: limits.stranger_burst * interval, state }
    }

    /// Counts a request of the origin, and gives the time at which the caller has to execute it.
    pub fn next(&self, origin: &Key, now: Instant) -> Instant {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.done.len() >= state.clean_at {
            state.done.retain(|_, done| *done > now);
            state.clean_at = (2 * state.done.len()).max(FIRST_CLEANING);
        }
        let done = state.done.entry(origin.clone()).or_insert(now);
        *done = ((*done).max(now) + self.interval).min(now + self.burst + LONGEST_WAIT);
        (*done - self.burst).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Origin;

    #[test]
    fn requests_beyond_the_burst_of_their_origin_wait() {
        let limits = Limits::default();
        let (pace, now) = (Pace::new(&limits), Instant::now());
        let [here, there] = [1, 2].map(|user| Key::Origin(Origin::LocalUser(user)));
        for _ in 0..limits.stranger_burst {
            assert_eq!(pace.next(&here, now), now);
        }
        assert_eq!(pace.next(&here, now), now + limits.stranger_interval);
        assert_eq!(pace.next(&here, now), now + 2 * limits.stranger_interval);
        assert_eq!(pace.next(&there, now), now);
        let later = now + Duration::from_secs(1);
        assert_eq!(pace.next(&here, later), later);
        let last = (0..100_000).map(|_| pace.next(&here, later)).last();
        assert_eq!(last, Some(later + LONGEST_WAIT));
    }
}
