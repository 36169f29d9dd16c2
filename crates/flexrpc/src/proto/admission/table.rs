//! Storage of sessions and requests.

use super::Verdict;
use crate::proto::Micros;
use crate::proto::bond::Bond;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A lock on cache lines of its own.
#[derive(Default)]
#[repr(align(64))]
pub(super) struct Shard<T>(Mutex<T>);

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) by_id: HashMap<SessionId, Arc<Session>, BuildHasherDefault<RandomIdHasher>>,
    /// Sessions that were expendable when they were last checked, the oldest first.
    pub(super) unused: VecDeque<SessionId>,
}

#[derive(Default)]
pub(super) struct Requests {
    pub(super) slots: HashMap<Place, Slot, BuildHasherDefault<RandomIdHasher>>,
    /// Bytes of results that the sum over all shards doesn't include yet.
    pub(super) drift: isize,
}

/// A handle of a session. To lock both, lock the session's shard before the handle's.
pub(super) type Place = (SessionId, u32);

pub(super) struct Session {
    pub(super) used_at: AtomicU64,
    /// Whether a call was ever made in it.
    pub(super) used: AtomicBool,
    /// Whether the server forgot the session. It then refuses new requests of the session, but
    /// running ones may end.
    pub(super) forgotten: AtomicBool,
    /// The bond of the session, unless it is the cluster's key.
    pub(super) bond: Option<Arc<Bond>>,
}

/// The latest request of a handle.
pub(super) struct Slot {
    pub(super) session: Arc<Session>,
    pub(super) transaction: u64,
    pub(super) state: State,
}

pub(super) enum State {
    Running,
    Done { answer: Bytes, at: Micros },
    Evicted,
    Revoked,
}

/// The key of a call's slot.
pub(super) fn place(id: CallId) -> Place {
    let anyone = planted(Planted::CacheWithoutSession);
    (if anyone { SessionId::NONE } else { id.session }, id.handle)
}

impl<T> Shard<T> {
    /// Ignores poisoning: no operation under the lock panics half-way, so counters and maps stay
    /// consistent.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    /// Removes and returns the oldest expendable session, if there is one. No further call will be
    /// executed in it.
    pub(super) fn forget_expendable(&mut self) -> Option<Arc<Session>> {
        while let Some(id) = self.unused.pop_front() {
            if self.by_id.get(&id).is_some_and(|session| session.is_expendable()) {
                let session = self.by_id.remove(&id)?;
                session.forgotten.store(true, Ordering::Release);
                return Some(session);
            }
        }
        None
    }

    /// Finds a session. This counts as a use of it.
    pub(super) fn find(&mut self, id: SessionId, now: Micros) -> Option<Arc<Session>> {
        if planted(Planted::NoIncarnationCheck) || planted(Planted::CacheWithoutSession) {
            let session = self.by_id.entry(id).or_insert_with(|| Arc::new(Session::new(now, None)));
            return Some(Arc::clone(session));
        }
        let session = self.by_id.get(&id)?;
        session.used_at.store(now, Ordering::Relaxed);
        Some(Arc::clone(session))
    }
}

impl Session {
    pub(super) fn new(now: Micros, bond: Option<Arc<Bond>>) -> Self {
        let (used, forgotten) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { used_at: AtomicU64::new(now), used, forgotten, bond }
    }

    /// Whether it has never had a call. This changes only under the lock of the session's shard.
    pub(super) fn is_unused(&self) -> bool {
        !self.used.load(Ordering::Relaxed)
    }

    /// Whether it may be evicted: it never had a call, or its caller has no key and so could open
    /// any number of sessions.
    pub(super) fn is_expendable(&self) -> bool {
        self.is_unused() || matches!(self.bond.as_deref(), Some(Bond::Keyless))
    }

    pub(super) fn is_known(&self) -> bool {
        !self.forgotten.load(Ordering::Acquire)
    }
}

impl Slot {
    pub(super) fn verdict_on_duplicate(&self) -> Verdict {
        match &self.state {
            State::Running => Verdict::Running,
            State::Done { answer, .. } => Verdict::Answered(answer.clone()),
            State::Evicted if planted(Planted::EvictedExecutesAgain) => Verdict::Execute,
            State::Evicted => Verdict::Doubtful(Doubt::AnswerEvicted),
            State::Revoked => Verdict::Refused(Refusal::Revoked),
        }
    }
}

/// Hashes a session id and a handle id. The server draws session ids at random, so they need no
/// further mixing. Handle ids are small, dense, and bounded for each session.
#[derive(Default)]
pub(super) struct RandomIdHasher(u64);

impl Hasher for RandomIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The low bits of the first half choose the shard, so take the second half.
        if let Some(word) = bytes.last_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*word);
        }
    }

    fn write_u32(&mut self, handle: u32) {
        // Fibonacci hashing, since the map also uses the top bits.
        self.0 ^= u64::from(handle).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, _length_prefix: usize) {}
}
