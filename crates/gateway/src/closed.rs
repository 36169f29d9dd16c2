//! Sessions that were closed while their tokens had time to run: such a token
//! opens nothing any more.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

/// The numbers of closed sessions, until their tokens have expired.
pub struct Closed {
    known: HashSet<u128>,
    /// Oldest first; all are kept for the same time.
    order: VecDeque<(Instant, u128)>,
    keep: Duration,
    limit: usize,
}

impl Closed {
    /// Remembers each for `keep`, and the latest `limit`.
    pub fn new(keep: Duration, limit: usize) -> Self {
        Self { known: HashSet::new(), order: VecDeque::new(), keep, limit }
    }

    /// Whether this one was closed.
    pub fn contains(&self, id: u128) -> bool {
        self.known.contains(&id)
    }

    /// Remembers one.
    pub fn add(&mut self, id: u128, now: Instant) {
        if self.known.insert(id) {
            self.order.push_back((now, id));
        }
        while self.order.len() > self.limit || self.oldest_expired(now) {
            if let Some((_, oldest)) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    fn oldest_expired(&self, now: Instant) -> bool {
        self.order.front().is_some_and(|(since, _)| now.duration_since(*since) > self.keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_remembered_as_long_as_its_token_runs_and_no_more_than_the_limit() {
        let mut closed = Closed::new(Duration::from_secs(10), 2);
        let start = Instant::now();
        closed.add(1, start);
        closed.add(2, start + Duration::from_secs(9));
        assert!(closed.contains(1) && closed.contains(2));
        closed.add(3, start + Duration::from_secs(11));
        assert!(!closed.contains(1) && closed.contains(2) && closed.contains(3));
        closed.add(4, start + Duration::from_secs(12));
        assert!(!closed.contains(2), "the oldest makes room");
    }
}
