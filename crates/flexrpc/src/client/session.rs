//! The caller's side of sessions. All handles to a callee share a session.

use crate::net::clock;
use crate::net::pool::Callee;
use crate::proto::Micros;
use crate::proto::auth::SessionKey;
use crate::proto::extension::Terms;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits;
use crate::proto::status::Refusal;
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Longest sleep without a look at the clock; correctness doesn't depend on it.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Transaction ids that a handle takes at a time, since all callers share the counter.
const TRANSACTIONS: u64 = 64;

/// Shortest time between two records of a session's use, since all callers share the record.
const NOTE: Micros = 1_000;

/// How long to trust a session in which the server has executed nothing yet: half of the time after
/// which the server forgets it. Over UDP, a call that is refused for its session has an unknown
/// outcome.
const UNUSED_TRUSTED: Micros = limits::SESSION_UNUSED_MS * 1000 / 2;

/// A session with one incarnation of a server.
pub(crate) struct Session {
    id: SessionId,
    pub(crate) key: Option<SessionKey>,
    pub(crate) terms: Terms,
    next_transaction: AtomicU64,
    handles: Mutex<HandleIds>,
    made_at: Micros,
    used_at: AtomicU64,
    /// Whether the server has executed a call in this session.
    executed: AtomicBool,
    lost: AtomicBool,
}

#[derive(Default)]
struct HandleIds {
    /// Ids below this are in use or free.
    next: u32,
    free: BinaryHeap<Reverse<u32>>,
}

impl Session {
    pub(crate) fn new(id: SessionId, key: Option<SessionKey>, terms: Terms) -> Self {
        let made_at = clock::now();
        Self {
            id,
            key,
            terms,
            next_transaction: AtomicU64::new(1),
            handles: Mutex::default(),
            made_at,
            used_at: AtomicU64::new(made_at),
            executed: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    /// Takes a handle id that no other handle has now. It may be the id of a closed handle. The new
    /// handle's transaction ids are higher than all earlier ones of the session, so the server
    /// can't take its call for an old one.
    pub(crate) fn lease(self: &Arc<Self>) -> Lease {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let id = match handles.free.pop() {
            Some(Reverse(id)) => id,
            None => {
                handles.next += 1;
                handles.next - 1
            }
        };
        Lease { session: Arc::clone(self), handle: id, transactions: 0..0 }
    }

    /// Records that the server doesn't know the session any more.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Records that the server has executed a call. Every answer reports it, so this writes only
    /// once.
    #[inline]
    pub(crate) fn executed(&self) {
        if !self.executed.load(Ordering::Relaxed) {
            self.executed.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the session can carry calls: it isn't lost, and it was used recently enough that the
    /// server won't soon forget it.
    #[inline]
    pub(crate) fn is_usable(&self, now: Micros) -> bool {
        let trusted = Micros::from(self.terms.session_idle_ms) * 1000 / 2;
        let (since, trusted) = if self.executed.load(Ordering::Relaxed) {
            (self.used_at.load(Ordering::Relaxed), trusted)
        } else {
            // Count from the start: calls that were made may not have reached the server.
            (self.made_at, trusted.min(UNUSED_TRUSTED))
        };
        !self.lost.load(Ordering::Acquire) && now.saturating_sub(since) < trusted
    }
}

/// A handle's place in a session.
pub(crate) struct Lease {
    pub(crate) session: Arc<Session>,
    handle: u32,
    /// Ids that no other handle has, higher than all earlier ones of this handle.
    transactions: Range<u64>,
}

impl Lease {
    /// The identifier of the handle's next call.
    #[inline]
    pub(crate) fn next_call(&mut self, now: Micros) -> CallId {
        let Session { id, used_at, next_transaction, .. } = &*self.session;
        if now.saturating_sub(used_at.load(Ordering::Relaxed)) > NOTE {
            used_at.store(now, Ordering::Relaxed);
        }
        let transaction = self.transactions.next().unwrap_or_else(|| {
            let first = next_transaction.fetch_add(TRANSACTIONS, Ordering::Relaxed);
            self.transactions = first + 1..first + TRANSACTIONS;
            first
        });
        CallId { session: *id, handle: self.handle, transaction }
    }

    /// Forgets the lease in a forked child. Returning it takes a lock, which a thread of the parent
    /// may have held at the fork.
    pub(crate) fn leave_to_parent(self) {
        std::mem::forget(self);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut handles = self.session.handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.free.push(Reverse(self.handle));
    }
}

/// Most callees whose sessions the client remembers, 200 bytes each. Beyond this, it evicts unused
/// ones, and their next caller makes a new handshake.
const PLACES: usize = 4096;

/// A callee's session, absent before the handshake. Concurrent callers share one handshake: the
/// first makes it, and each of the others waits for it until its own deadline.
#[derive(Default)]
pub(crate) struct Place {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    session: Option<Arc<Session>>,
    making: bool,
}

impl Place {
    /// The callee's session. Makes one by `make` if there is none and no other caller makes one.
    pub(crate) fn session(
        &self,
        until: Option<Micros>,
        make: impl FnOnce() -> Result<Session, Refusal>,
    ) -> Result<Arc<Session>, Refusal> {
        let mut state = self.state();
        loop {
            if let Some(session) = state.usable() {
                return Ok(session);
            }
            if !state.making {
                break;
            }
            let left = until.map_or(LONGEST_WAIT, |until| {
                Duration::from_micros(until.saturating_sub(clock::now())).min(LONGEST_WAIT)
            });
            if left.is_zero() {
                return Err(Refusal::DeadlinePassed);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.making = true;
        drop(state);
        let made = make().map(Arc::new);
        let mut state = self.state();
        state.making = false;
        state.session = made.as_ref().ok().map(Arc::clone);
        drop(state);
        // If the handshake failed, a waiting caller makes the next one.
        self.changed.notify_all();
        made
    }

    fn is_usable(&self) -> bool {
        self.state().usable().is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn usable(&self) -> Option<Arc<Session>> {
        self.session.as_ref().filter(|session| session.is_usable(clock::now())).map(Arc::clone)
    }
}

/// The sessions of a client.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<Callee, Arc<Place>>>);

impl Sessions {
    pub(crate) fn place(&self, callee: Callee) -> Arc<Place> {
        let mut places = self.places();
        if places.len() >= PLACES && !places.contains_key(&callee) {
            let in_use = |place: &Arc<Place>| Arc::strong_count(place) > 1;
            places.retain(|_, place| in_use(place) || place.is_usable());
            if places.len() >= PLACES {
                // All are usable: keep half of them, and those in use.
                let mut stay = PLACES / 2;
                places.retain(|_, place| {
                    let stays = in_use(place) || stay > 0;
                    stay = stay.saturating_sub(1);
                    stays
                });
            }
        }
        Arc::clone(places.entry(callee).or_default())
    }

    fn places(&self) -> MutexGuard<'_, HashMap<Callee, Arc<Place>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::call::Transport;
    use std::net::Ipv4Addr;

    #[test]
    fn handle_ids_are_used_again_and_transaction_ids_never() {
        let terms = Terms { payload_bytes: 1, session_idle_ms: 1000 };
        let session = Arc::new(Session::new(SessionId([1; 16]), None, terms));
        let (mut a, mut b) = (session.lease(), session.lease());
        let (first, second) = (a.next_call(1), b.next_call(2));
        assert_eq!((first.handle, second.handle), (0, 1));
        let mut before: Vec<u64> = (0..3 * TRANSACTIONS).map(|_| a.next_call(3).transaction).collect();
        assert!(before.is_sorted_by(|one, next| one < next), "a handle's own rise");
        drop(a);
        let again = session.lease().next_call(3);
        assert_eq!(again.handle, 0);
        before.extend([first.transaction, second.transaction]);
        assert!(before.iter().all(|transaction| again.transaction > *transaction));
    }

    #[test]
    fn a_session_is_not_trusted_when_the_server_may_soon_forget_it() {
        let terms = Terms { payload_bytes: 1, session_idle_ms: 1000 };
        let session = Arc::new(Session::new(SessionId([1; 16]), None, terms));
        session.executed();
        let used = session.made_at + 5_000_000;
        session.lease().next_call(used);
        assert!(session.is_usable(used + 499_999));
        assert!(!session.is_usable(used + 500_000));
        session.lose();
        assert!(!session.is_usable(used));
    }

    #[test]
    fn a_session_without_calls_is_not_trusted_when_the_server_may_soon_forget_it() {
        let terms = Terms { payload_bytes: 1, session_idle_ms: 30 * 60 * 1000 };
        let session = Arc::new(Session::new(SessionId([1; 16]), None, terms));
        let after = |seconds: u64| session.made_at + seconds * 1_000_000;
        assert!(session.is_usable(after(29)) && !session.is_usable(after(30)));
        // The call may be lost on its way to the callee.
        session.lease().next_call(after(29));
        assert!(!session.is_usable(after(30)));
        session.executed();
        assert!(session.is_usable(after(900)));
    }

    #[test]
    fn the_sessions_of_however_many_callees_take_bounded_memory() {
        let sessions = Sessions::default();
        let callee = |n: usize| ((Ipv4Addr::from(n as u32), 1).into(), Transport::Tcp);
        let terms = Terms { payload_bytes: 1, session_idle_ms: 1_000_000 };
        let make = || Ok(Session::new(SessionId([1; 16]), None, terms));
        let used = sessions.place(callee(0));
        for n in 1..3 * PLACES {
            sessions.place(callee(n)).session(None, make).map(drop).unwrap();
            assert!(sessions.places().len() <= PLACES);
        }
        let id = SessionId([2; 16]);
        used.session(None, || Ok(Session::new(id, None, terms))).map(drop).unwrap();
        let known = sessions.place(callee(0)).session(None, make).map(|session| session.id);
        assert_eq!(known.unwrap(), id, "in use: kept");
        assert!(sessions.places().len() > PLACES / 4, "not all at once");
    }
}
