//! Places for connections, sessions and waiting logins. An origin gets a place only while it has fewer
//! places than are free, so at most half. But several origins together can take all: each newcomer gets half
//! of the rest, so thirteen take 4,096.

use crate::peer::Origin;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Places that clients take.
pub struct Places {
    places: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    in_all: usize,
    by_origin: HashMap<Origin, usize>,
}

/// A place, given back when dropped.
pub struct Place {
    of: Arc<Places>,
    origin: Origin,
}

impl Places {
    /// Places that are all free.
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, taken: Mutex::default() })
    }

    /// A place for a client. None if all are taken, or if its origin has as many places as are free. So
    /// an origin without others gets half of all.
    pub fn take(self: &Arc<Self>, origin: Origin) -> Option<Place> {
        let mut taken = self.lock();
        let free = self.places.saturating_sub(taken.in_all);
        let had = taken.by_origin.get(&origin).copied().unwrap_or(0);
        if had >= free {
            return None;
        }
        taken.in_all += 1;
        taken.by_origin.insert(origin, had + 1);
        Some(Place { of: self.clone(), origin })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // A poisoned lock is harmless: every critical section leaves the counts consistent.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.of.lock();
        taken.in_all -= 1;
        if let Some(had) = taken.by_origin.get_mut(&self.origin) {
            *had -= 1;
            if *had == 0 {
                taken.by_origin.remove(&self.origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_for(places: &Arc<Places>, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| places.take(Origin::of_address(address.parse().unwrap()))).collect()
    }

    #[test]
    fn one_origin_leaves_as_much_to_others_as_it_has() {
        let places = Places::new(16);
        let first = all_for(&places, "192.0.2.1");
        assert_eq!(first.len(), 8);
        let second = all_for(&places, "192.0.2.2");
        assert_eq!(second.len(), 4);
        drop(first);
        assert_eq!(all_for(&places, "192.0.2.3").len(), 6, "places come back");
        drop(second);
        assert!(places.lock().by_origin.is_empty(), "nobody who has left is remembered");
    }

    #[test]
    fn a_local_user_leaves_places_to_the_other_users_of_its_host() {
        let places = Places::new(16);
        let first = std::iter::from_fn(|| places.take(Origin::LocalUser(1_000))).collect::<Vec<_>>();
        assert_eq!(first.len(), 8);
        assert!(places.take(Origin::LocalUser(1_001)).is_some());
    }
}
