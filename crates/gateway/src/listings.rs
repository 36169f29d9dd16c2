//! Listings between two pages, of all sessions.
//!
//! Each holds entries in memory, so a user has a share of them. A client may leave a listing early
//! without a word, as most iterators do. So a user's new listing that finds the share taken ends the
//! one that the user has used least recently.

use crate::fair::{Grant, Key, Pool};
use crate::handles::Listing;
use crate::session::Session;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use strait_store::{ErrorKind, Result, fail};

/// Listings between two pages, of all users. Each may hold some hundred KiB of entries.
const MOST: usize = 256;

/// Listings between two pages.
pub struct Listings {
    shares: Arc<Pool>,
    /// Least recently used first.
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
    /// The listing. It is gone once it was read to its end, closed, or its session has ended.
    pub listing: Weak<tokio::sync::Mutex<Listing>>,
}

impl Default for Listings {
    fn default() -> Self {
        Self { shares: Pool::new(MOST), unfinished: Mutex::default() }
    }
}

impl Listings {
    fn lock(&self) -> MutexGuard<'_, Vec<Unfinished>> {
        // Every critical section here leaves the list whole.
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more of this user's listings. It may end others of the user.
    ///
    /// # Errors
    /// Busy if other users have all places, or if pages of all of the user's are being read.
    pub fn place(&self, key: &Key) -> Result<Grant> {
        let holder = self.shares.holder(key);
        loop {
            if let Some(place) = holder.try_take(1) {
                return Ok(place);
            }
            let Some((session, cursor)) = self.take_oldest(key) else {
                let message = "too many listings are unfinished; read them to their ends, or close them \
                               (`closeFile` with the cursor)";
                return fail(ErrorKind::Busy, message);
            };
            // It may have ended by itself.
            let _ = session.handles.remove(cursor);
        }
    }

    /// The user's least recently used listing, which leaves the list.
    fn take_oldest(&self, key: &Key) -> Option<(Arc<Session>, i64)> {
        let mut unfinished = self.lock();
        loop {
            let oldest = unfinished.iter().position(|listing| listing.key == *key)?;
            let oldest = unfinished.remove(oldest);
            if let (Some(session), Some(_)) = (oldest.session.upgrade(), oldest.listing.upgrade()) {
                return Some((session, oldest.cursor));
            }
        }
    }

    /// Records that a page of this listing was read, and that there are more.
    pub fn has_more(&self, listing: Unfinished) {
        let mut unfinished = self.lock();
        unfinished.retain(|other| {
            other.listing.strong_count() > 0 && !Weak::ptr_eq(&other.listing, &listing.listing)
        });
        unfinished.push(listing);
    }
}
