//! Listings between two pages, of all sessions.
//!
//! Each holds entries in memory, so there is a limit for all of them. A client may stop in the middle of
//! a listing without notice, as most iterators do. So once there are too many, the user with the most
//! of them loses the least recently used one. If that user itself begins another listing, it loses only
//! one that is not in use; if all are in use, the gateway refuses the new one.

use crate::config::Limits;
use crate::handles::Listing;
use crate::pool::Key;
use crate::session::{Session, Sessions};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
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
    /// The time at which its latest page was complete.
    pub used: Instant,
    /// The sessions, if its session was opened for this listing, and ends with it.
    pub alone: Option<Weak<Sessions>>,
    /// The listing. It is gone once it was read to its end, closed, or its session has ended.
    pub listing: Weak<tokio::sync::Mutex<Listing>>,
}

/// A page that a call reads. If the call is dropped meanwhile, the page is lost, and no cursor names the rest of
/// the listing. So this ends the listing: its stream would keep a turn at the store.
pub struct MidPage(Option<(Arc<Session>, i64)>);

impl MidPage {
    /// Begins a page. A listing at its first page has no cursor, and ends with its call.
    pub fn begin(session: &Arc<Session>, cursor: Option<i64>) -> Self {
        Self(cursor.map(|cursor| (session.clone(), cursor)))
    }

    /// Ends the page, which was read or failed.
    pub fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for MidPage {
    fn drop(&mut self) {
        if let Some((session, cursor)) = &self.0 {
            // The listing may have been ended already.
            let _ = session.handles.remove(*cursor);
        }
    }
}

impl Listings {
    /// No listings so far.
    pub fn new(limits: &Limits) -> Self {
        let (most, in_use) = (limits.unfinished_listings, limits.listing_in_use);
        Self { most, in_use, unfinished: Mutex::default() }
    }

    /// Records that a page of this listing was read, and that there are more.
    ///
    /// # Errors
    /// Busy: there are too many listings, and this user has the most of them, all in use.
    pub fn has_more(&self, listing: Unfinished) -> Result<()> {
        // A poisoned lock is harmless: every critical section leaves the list consistent.
        let mut unfinished = self.unfinished.lock().unwrap_or_else(PoisonError::into_inner);
        unfinished.retain(|other| {
            other.listing.strong_count() > 0 && !Weak::ptr_eq(&other.listing, &listing.listing)
        });
        // The listing may have been ended while this page was read. The next page's request reports that.
        if !listing.is_open() {
            return Ok(());
        }
        if unfinished.len() >= self.most && !end_one(&mut unfinished, &listing.key, self.in_use) {
            let message = "this user lists too many large directories at once; try again later";
            return fail(ErrorKind::Busy, message);
        }
        unfinished.push(listing);
        Ok(())
    }
}

/// Ends a listing to make room for one of `user`, and returns whether it could. If `user` has the most
/// listings, it loses one that is not in use. Otherwise the user with the most loses one, in use or
/// not: else that user could keep others out by using all of its listings.
fn end_one(unfinished: &mut Vec<Unfinished>, user: &Key, in_use: Duration) -> bool {
    let chosen = {
        let mut counts: HashMap<&Key, usize> = HashMap::new();
        unfinished.iter().for_each(|listing| *counts.entry(&listing.key).or_insert(0) += 1);
        let largest = counts.values().max().copied().unwrap_or(0);
        let has_most = |key: &Key| counts.get(key).is_some_and(|count| *count == largest);
        match has_most(user) {
            true => unfinished.iter().position(|listing| listing.key == *user && listing.is_idle(in_use)),
            false => unfinished.iter().position(|listing| has_most(&listing.key)),
        }
    };
    chosen.map(|index| unfinished.remove(index).end()).is_some()
}

impl Unfinished {
    fn is_open(&self) -> bool {
        self.session.upgrade().is_some_and(|session| session.handles.listing(self.cursor).is_ok())
    }

    /// Whether no page of it is being read, or was read within `in_use`.
    fn is_idle(&self, in_use: Duration) -> bool {
        let is_read = self.listing.upgrade().is_some_and(|listing| listing.try_lock().is_err());
        !is_read && self.used.elapsed() >= in_use
    }

    /// Ends the listing. If a page of it is being read, that page is the last.
    fn end(&self) {
        let (Some(listing), Some(session)) = (self.listing.upgrade(), self.session.upgrade()) else { return };
        session.handles.end_listing(self.cursor);
        if let Some(sessions) = self.alone.as_ref().and_then(Weak::upgrade) {
            sessions.end(session.id);
        }
        // If this fails, a call is reading a page of it.
        if let Ok(mut listing) = listing.try_lock() {
            listing.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Access, Config, ConfiguredStore};
    use crate::handles::Handle;
    use crate::peer::Origin;
    use crate::session::{Identity, Sessions};
    use futures::{FutureExt, StreamExt};
    use strait_store::{MemoryStore, Principal};

    /// A client with a session of its own; the number stands for its user.
    struct Client {
        key: Key,
        session: Arc<Session>,
    }

    /// Room for four listings. All listings are in use, however old they are.
    fn with_clients<const N: usize>() -> (Listings, [Client; N]) {
        let limits = Limits {
            unfinished_listings: 4,
            listing_in_use: Duration::from_secs(3_600),
            ..Limits::default()
        };
        let fs = Arc::new(MemoryStore::new("tester"));
        let store = ConfiguredStore { name: "main".into(), uri: "memory:///".into(), fs };
        let listings = Listings::new(&limits);
        let sessions = Sessions::new(Config {
            stores: vec![store.clone()],
            access: Access::default(),
            local_root: None,
            tls: None,
            token_key: [0; 32],
            service_2009: Default::default(),
            http: Default::default(),
            slow_call: Duration::MAX,
            limits,
        });
        let client = |user: usize| {
            let from = Origin::LocalUser(user as u32);
            let identity = Identity::Anonymous(Principal::new("tester"));
            let session = sessions.open(store.clone(), identity, from).unwrap();
            Client { key: Key::Origin(from), session }
        };
        (listings, std::array::from_fn(client))
    }

    impl Client {
        /// Reads the first page of a large directory.
        fn begin(&self, listings: &Listings) -> Result<i64> {
            let place = self.session.handles.place().unwrap();
            let listing =
                Arc::new(tokio::sync::Mutex::new(Listing::new(futures::stream::pending().boxed(), place)));
            let cursor = self.session.handles.add(Handle::Listing(listing));
            self.turn_page(listings, cursor)
        }

        /// Reads another page.
        fn turn_page(&self, listings: &Listings, cursor: i64) -> Result<i64> {
            let listing = Arc::downgrade(&self.session.handles.listing(cursor)?);
            let (key, session) = (self.key.clone(), Arc::downgrade(&self.session));
            listings.has_more(Unfinished {
                key,
                session,
                cursor,
                used: Instant::now(),
                alone: None,
                listing,
            })?;
            Ok(cursor)
        }
    }

    #[test]
    fn a_user_who_uses_all_listings_keeps_nobody_from_listing() {
        let (listings, [eve, alice]) = with_clients();
        let of_eve: Vec<i64> = (0..4).map(|_| eve.begin(&listings).unwrap()).collect();
        let of_alice = alice.begin(&listings).unwrap();
        let error = eve.turn_page(&listings, of_eve[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "the oldest is ended: {error}");
        for cursor in &of_eve[1..] {
            eve.turn_page(&listings, *cursor).unwrap();
        }
        assert_eq!(eve.begin(&listings).unwrap_err().kind(), ErrorKind::Busy, "she has most herself");
        alice.turn_page(&listings, of_alice).unwrap();
    }

    #[test]
    fn a_page_that_is_being_read_protects_no_listing_of_the_user_with_the_most() {
        let (listings, [eve, alice]) = with_clients();
        let of_eve: Vec<i64> = (0..4).map(|_| eve.begin(&listings).unwrap()).collect();
        let read: Vec<_> =
            of_eve.iter().map(|cursor| eve.session.handles.listing(*cursor).unwrap()).collect();
        let _reading: Vec<_> = read.iter().map(|listing| listing.try_lock().unwrap()).collect();
        alice.begin(&listings).unwrap();
        // The end of the page that was being read.
        let (key, session) = (eve.key.clone(), Arc::downgrade(&eve.session));
        let (used, listing) = (Instant::now(), Arc::downgrade(&read[0]));
        listings
            .has_more(Unfinished { key, session, cursor: of_eve[0], used, alone: None, listing })
            .unwrap();
        assert_eq!(eve.turn_page(&listings, of_eve[0]).unwrap_err().kind(), ErrorKind::Busy);
        eve.turn_page(&listings, of_eve[1]).unwrap();
    }

    #[test]
    fn a_call_that_has_an_ended_listing_in_hand_gets_no_more_of_it() {
        let (listings, [eve, alice]) = with_clients();
        let of_eve: Vec<i64> = (0..4).map(|_| eve.begin(&listings).unwrap()).collect();
        let in_hand = eve.session.handles.listing(of_eve[0]).unwrap();
        alice.begin(&listings).unwrap();
        let next = in_hand.try_lock().unwrap().entries.next().now_or_never();
        assert_eq!(next.flatten().unwrap().unwrap_err().kind(), ErrorKind::Busy);
    }

    #[test]
    fn users_with_fewer_listings_lose_none_to_one_with_more() {
        let (listings, [eve, alice, bob]) = with_clients();
        let of_alice = alice.begin(&listings).unwrap();
        for _ in 0..3 {
            eve.begin(&listings).unwrap();
        }
        assert!(eve.begin(&listings).is_err());
        let of_bob = bob.begin(&listings).unwrap();
        alice.turn_page(&listings, of_alice).unwrap();
        bob.turn_page(&listings, of_bob).unwrap();
    }
}
