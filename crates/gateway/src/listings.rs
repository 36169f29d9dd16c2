//! Listings between two pages, of all sessions.
//!
//! Each holds entries in memory, so there is a limit for all of them. A client may leave a listing
//! early without a word, as most iterators do. So once there are too many, the user with the most of
//! them loses the one that was not used for the longest time.

use crate::config::Limits;
use crate::fair::Key;
use crate::handles::Listing;
use crate::session::Session;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use strait_store::{ErrorKind, Result, fail};

/// Listings between two pages.
pub struct Listings {
    most: usize,
    in_use: Duration,
    /// The least recently used first.
    unfinished: Mutex<Vec<Unfinished>>,
}

/// A listing that has more pages.
pub struct Unfinished {
    /// Its user.
    pub key: Key,
    /// Its session.
    pub session: Weak<Session>,
    /// Its handle there.
    pub cursor: i64,
    /// The end of its last page.
    pub used: Instant,
    /// The listing. It is gone once it was read to its end, closed, or its session has ended.
    pub listing: Weak<tokio::sync::Mutex<Listing>>,
}

impl Listings {
    /// None so far.
    pub fn new(limits: &Limits) -> Self {
        let (most, in_use) = (limits.unfinished_listings, limits.listing_in_use);
        Self { most, in_use, unfinished: Mutex::default() }
    }

    /// Records that a page of this listing was read, and that there are more.
    ///
    /// # Errors
    /// Busy if there are too many, and all of them are in use.
    pub fn has_more(&self, listing: Unfinished) -> Result<()> {
        // Every critical section here leaves the list whole.
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|other| {
            other.listing.strong_count() > 0 && !Weak::ptr_eq(&other.listing, &listing.listing)
        });
        if unfinished.len() >= self.most && !end_one(&mut unfinished, self.in_use) {
            return fail(ErrorKind::Busy, "too many clients list large directories; try again later");
        }
        unfinished.push(listing);
        Ok(())
    }
}

/// Ends a listing of the user with the most, unless all are in use.
fn end_one(unfinished: &mut Vec<Unfinished>, in_use: Duration) -> bool {
    let mut counts = HashMap::new();
    unfinished.iter().for_each(|listing| *counts.entry(listing.key.clone()).or_insert(0) += 1);
    let mut order: Vec<usize> = (0..unfinished.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(counts.get(&unfinished[index].key)));
    let ended = order.into_iter().find(|&index| {
        let listing = &unfinished[index];
        listing.used.elapsed() >= in_use && listing.end()
    });
    ended.map(|index| unfinished.remove(index)).is_some()
}

impl Unfinished {
    /// Ends it, unless a page of it is being read.
    fn end(&self) -> bool {
        let (Some(listing), Some(session)) = (self.listing.upgrade(), self.session.upgrade()) else {
            return true;
        };
        let Ok(mut listing) = listing.try_lock() else { return false };
        // A call may have it in hand already.
        listing.end();
        session.handles.end_listing(self.cursor);
        true
    }
}
