//! The numbers of one client's requests.

use crate::{ClientId, config::MAX_REQUESTS_IN_FLIGHT, messages::RequestId};
use std::collections::BTreeSet;

/// Numbers a client's mutations. All files and threads of the client share this.
#[derive(Debug)]
pub struct RequestNumbers {
    client: ClientId,
    last: u64,
    open: BTreeSet<u64>,
}

impl RequestNumbers {
    /// Starts the numbers of a new client.
    pub fn new(client: ClientId) -> Self {
        Self { client, last: 0, open: BTreeSet::new() }
    }

    /// The client.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// A new request's number. None if the namenode would have to keep too many answers: it keeps those
    /// of all requests from the oldest one under way on.
    pub fn begin(&mut self) -> Option<u64> {
        if self.open.first().is_some_and(|oldest| self.last + 1 >= oldest + MAX_REQUESTS_IN_FLIGHT as u64) {
            return None;
        }
        self.last += 1;
        self.open.insert(self.last);
        Some(self.last)
    }

    /// The identity for an attempt at request `number`.
    pub fn id(&self, number: u64) -> RequestId {
        let done_below = self.open.first().copied().unwrap_or(self.last + 1).min(number);
        RequestId { client: self.client, number, done_below }
    }

    /// Ends a request: its answer has arrived, or no caller waits for it any more.
    pub fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_given_up_below_the_oldest_request_under_way() {
        let mut numbers = RequestNumbers::new(ClientId(1));
        let (one, two) = (numbers.begin().unwrap(), numbers.begin().unwrap());
        assert_eq!(numbers.id(two).done_below, one);
        numbers.end(one);
        assert_eq!(numbers.id(two).done_below, two);
        assert_eq!(numbers.id(one).done_below, one, "never above its own number");
    }

    #[test]
    fn no_more_requests_are_under_way_than_the_namenode_keeps_answers_of() {
        let mut numbers = RequestNumbers::new(ClientId(1));
        assert_eq!((0..100).filter_map(|_| numbers.begin()).count(), MAX_REQUESTS_IN_FLIGHT);
        // Answered requests count, too, until all older ones are answered.
        (2..=MAX_REQUESTS_IN_FLIGHT as u64).for_each(|number| numbers.end(number));
        assert_eq!(numbers.begin(), None);
        numbers.end(1);
        assert!(numbers.begin().is_some());
    }
}
