//! The numbers of one client's mutations. All threads of the client share them.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use strait_kadoop_core::{ClientId, client::RequestNumbers, error::Error, messages::RequestId};
use strait_kadoop_wire::failure::Failure;

/// Issues numbers for mutations. Limits the mutations under way to those for which the namenode keeps
/// answers.
pub(super) struct Requests {
    client: ClientId,
    numbers: Mutex<RequestNumbers>,
    ended: Condvar,
}

/// One mutation, including its retries.
pub(super) struct Begun {
    requests: Arc<Requests>,
    number: u64,
}

impl Requests {
    pub(super) fn new(client: ClientId) -> Self {
        Self { client, numbers: Mutex::new(RequestNumbers::new(client)), ended: Condvar::new() }
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Begins a mutation. The namenode keeps the answers of `MAX_REQUESTS_IN_FLIGHT` (64) mutations, counted
    /// from the oldest unfinished one. If that many have begun, waits until the oldest ends.
    ///
    /// # Errors
    /// Unavailable: it hasn't ended at `until`.
    pub(super) fn begin(self: &Arc<Self>, until: Instant) -> Result<Begun, Failure> {
        let mut numbers = self.numbers();
        loop {
            if let Some(number) = numbers.begin() {
                drop(numbers);
                return Ok(Begun { requests: Arc::clone(self), number });
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why =
                    "a mutation of this client still has no answer, and no more may begin before it has";
                return Err(Failure::new(Error::Unavailable, why));
            }
            (numbers, _) = self.ended.wait_timeout(numbers, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn numbers(&self) -> MutexGuard<'_, RequestNumbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    /// The mutation's client.
    pub(super) fn client(&self) -> ClientId {
        self.requests.client
    }

    /// The request's id, to be sent with each attempt.
    pub(super) fn id(&self) -> RequestId {
        self.requests.numbers().id(self.number)
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.requests.numbers().end(self.number);
        self.requests.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use strait_kadoop_core::config::MAX_REQUESTS_IN_FLIGHT;

    /// Uses up all numbers: the oldest request stays under way, and all later ones have ended.
    fn exhausted(requests: &Arc<Requests>) -> Begun {
        let stuck = requests.begin(Instant::now()).unwrap();
        for _ in 1..MAX_REQUESTS_IN_FLIGHT {
            drop(requests.begin(Instant::now()).unwrap());
        }
        stuck
    }

    #[test]
    fn a_mutation_that_would_wait_for_longer_than_its_caller_is_refused() {
        let requests = Arc::new(Requests::new(ClientId(1)));
        let stuck = exhausted(&requests);
        let refused = requests.begin(Instant::now() + Duration::from_millis(10)).err().unwrap();
        assert_eq!(refused.error, Error::Unavailable);
        drop(stuck);
        assert!(requests.begin(Instant::now()).is_ok());
    }

    #[test]
    fn a_mutation_waits_while_the_namenode_would_have_to_keep_too_many_answers() {
        let requests = Arc::new(Requests::new(ClientId(1)));
        let stuck = exhausted(&requests);
        let until = Instant::now() + Duration::from_secs(30);
        std::thread::scope(|scope| {
            let late = scope.spawn(|| requests.begin(until).unwrap().id().number);
            std::thread::yield_now();
            assert!(!late.is_finished());
            drop(stuck);
            assert_eq!(late.join().unwrap(), MAX_REQUESTS_IN_FLIGHT as u64 + 1);
        });
    }
}
