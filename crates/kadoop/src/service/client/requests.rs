//! The numbers of one client's mutations, which all its threads share.

use crate::{ClientId, client::Requests as Numbers, messages::RequestId};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Hands out numbers, no more at a time than the namenode keeps answers for.
pub(super) struct Requests {
    client: ClientId,
    numbers: Mutex<Numbers>,
    ended: Condvar,
}

/// One mutation, through all its repetitions.
pub(super) struct Begun {
    requests: Arc<Requests>,
    number: u64,
}

impl Requests {
    pub(super) fn new(client: ClientId) -> Self {
        Self { client, numbers: Mutex::new(Numbers::new(client)), ended: Condvar::new() }
    }

    pub(super) fn client(&self) -> ClientId {
        self.client
    }

    /// Waits while too many are under way.
    pub(super) fn begin(self: &Arc<Self>) -> Begun {
        let mut numbers = self.numbers();
        loop {
            if let Some(number) = numbers.begin() {
                drop(numbers);
                return Begun { requests: Arc::clone(self), number };
            }
            numbers = self.ended.wait(numbers).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Begun {
    /// Whose mutation it is.
    pub(super) fn client(&self) -> ClientId {
        self.requests.client
    }

    /// What goes with an attempt.
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
    use crate::config::MAX_REQUESTS_IN_FLIGHT;

    #[test]
    fn a_mutation_waits_while_the_namenode_would_have_to_keep_too_many_answers() {
        let requests = Arc::new(Requests::new(ClientId(1)));
        let stuck = requests.begin();
        for _ in 1..MAX_REQUESTS_IN_FLIGHT {
            drop(requests.begin());
        }
        std::thread::scope(|scope| {
            let late = scope.spawn(|| requests.begin().id().number);
            std::thread::yield_now();
            assert!(!late.is_finished());
            drop(stuck);
            assert_eq!(late.join().unwrap(), MAX_REQUESTS_IN_FLIGHT as u64 + 1);
        });
    }
}
