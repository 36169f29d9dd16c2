//! Shares the threads that execute calls among the clients.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use strait_flexrpc::Origin;
use strait_flexrpc::stub::Request;

/// The client that made a call: a user of this host, or another host.
fn client(call: &Request) -> Origin {
    Origin::of(call.local_user, call.peer.ip())
}

/// The running calls, by client.
pub struct Turns {
    most: usize,
    running: Mutex<HashMap<Origin, usize>>,
}

/// A running call's turn, until it is dropped.
pub struct Turn<'t> {
    turns: &'t Turns,
    origin: Origin,
}

impl Turns {
    /// Allows up to `most` calls at once.
    pub fn new(most: usize) -> Self {
        Self { most, running: Mutex::default() }
    }

    /// Takes a turn for this call. `None` if its origin already has at least as many turns as are free. It
    /// doesn't wait for a turn, since waiting would occupy a thread.
    pub fn take(&self, call: &Request) -> Option<Turn<'_>> {
        let origin = client(call);
        let mut running = self.running();
        let free = self.most.saturating_sub(running.values().sum());
        let own = running.entry(origin).or_default();
        if *own >= free {
            if *own == 0 {
                running.remove(&origin);
            }
            return None;
        }
        *own += 1;
        Some(Turn { turns: self, origin })
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Origin, usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut running = self.turns.running();
        if let Some(own) = running.get_mut(&self.origin) {
            *own -= 1;
            if *own == 0 {
                running.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::tests::call;

    #[test]
    fn nobody_gets_more_turns_than_are_left_to_others() {
        let turns = Turns::new(8);
        let (ada, eve) = (call(Some(1), Some(1)), call(Some(1), Some(2)));
        let eves: Vec<_> = std::iter::from_fn(|| turns.take(&eve)).collect();
        let adas: Vec<_> = std::iter::from_fn(|| turns.take(&ada)).collect();
        assert_eq!((eves.len(), adas.len()), (4, 2));
        drop((eves, adas));
        assert_eq!(turns.running().len(), 0);
    }
}
