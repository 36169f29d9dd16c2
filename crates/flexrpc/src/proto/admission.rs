//! Whether a request is executed: sessions, and the response cache of section
//! IV.D behind them.
//!
//! A request is executed when its session is known, and its transaction id is
//! higher than any that its handle has had. Else it is a duplicate: still
//! running, answered from the cache, or refused. Nothing that could tell a
//! duplicate is forgotten while its session lives; when a session goes, all its
//! calls are refused. So whatever is evicted, nothing is executed twice.

use crate::proto::Micros;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bounds of what is remembered.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    /// Sessions at a time.
    pub sessions: usize,
    /// Handles over all sessions.
    pub handles: usize,
    /// Bytes of kept results over all sessions.
    pub result_bytes: usize,
    /// How long a result is kept.
    pub result_us: Micros,
    /// How long an unused session is kept.
    pub session_idle_us: Micros,
}

impl Default for AdmissionLimits {
    fn default() -> Self {
        Self {
            sessions: limits::SESSIONS,
            handles: limits::HANDLES,
            result_bytes: limits::CACHED_RESULT_BYTES,
            result_us: limits::CACHED_RESULT_MS * 1000,
            session_idle_us: limits::SESSION_IDLE_MS * 1000,
        }
    }
}

/// What to do with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Execute it, then [`Admission::complete`] it.
    Execute,
    /// A duplicate of one that is still executing. Over UDP it is ignored (the
    /// first will be answered); over TCP the first's connection may be gone, so
    /// the caller is told to ask again.
    Running,
    /// A duplicate of one that has been answered: this frame again.
    Answered(Bytes),
    /// Not executed.
    Refused(Refusal),
    /// Executed, but the answer is gone.
    Doubtful(Doubt),
    /// There is no room to remember the request, so it isn't executed, but nor
    /// can the refusal be remembered: a duplicate may find room. Not answered
    /// where the network duplicates.
    NoRoom,
}

/// Sessions and recent results, in shards by session, so that the requests of
/// one client lie together and those of different clients rarely meet.
pub struct Admission {
    shards: Box<[Mutex<Shard>]>,
    limits: AdmissionLimits,
    sessions: AtomicUsize,
    handles: AtomicUsize,
    result_bytes: AtomicUsize,
}

type Sessions = HashMap<SessionId, Session, BuildHasherDefault<RandomIdHasher>>;

#[derive(Default)]
struct Shard {
    sessions: Sessions,
    /// Sessions in which no call was made when this was looked at, the oldest first.
    unused: VecDeque<SessionId>,
}

struct Session {
    used_at: Micros,
    handles: HashMap<u32, Slot, BuildHasherDefault<HandleHasher>>,
}

/// The latest request of a handle.
struct Slot {
    transaction: u64,
    state: State,
}

enum State {
    Running,
    Done { answer: Bytes, at: Micros },
    Evicted,
    Revoked,
}

impl Admission {
    /// Knows no session yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            shards: (0..limits::CACHE_SHARDS).map(|_| Mutex::default()).collect(),
            limits,
            sessions: AtomicUsize::new(0),
            handles: AtomicUsize::new(0),
            result_bytes: AtomicUsize::new(0),
        }
    }

    /// Begins a session under an id that the driver drew at random. At the limit of
    /// sessions one goes in which no call was made: greetings cost nothing, not even
    /// a key (they can be replayed), and mustn't keep out who has calls to make.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`] if there are calls in all of them.
    pub fn open_session(&self, id: SessionId, now: Micros) -> Result<(), Refusal> {
        if self.sessions.fetch_add(1, Ordering::Relaxed) >= self.limits.sessions && !self.make_room(id) {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Overloaded);
        }
        let session = Session { used_at: now, handles: HashMap::default() };
        let mut shard = self.shard(id);
        if shard.sessions.insert(id, session).is_some() {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        shard.unused.push_back(id);
        Ok(())
    }

    fn make_room(&self, for_session: SessionId) -> bool {
        let first = self.shard_index(for_session);
        let mut nearest = (0..self.shards.len()).map(|step| &self.shards[(first + step) % self.shards.len()]);
        let made = nearest.any(|shard| lock(shard).forget_unused());
        if made {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
        }
        made
    }

    /// Whether a request that has arrived is to be executed: whole, undamaged,
    /// and no duplicate. `None` asks for it to be sent again.
    pub fn judge(&self, id: CallId, intact: bool, now: Micros) -> Option<Verdict> {
        (intact || planted(Planted::NoChecksum)).then(|| self.begin(id, now))
    }

    /// Asks prior to execution whether the request is a duplicate (Figure 3).
    pub fn begin(&self, id: CallId, now: Micros) -> Verdict {
        let mut shard = self.shard(id.session);
        let Some(session) = shard.session(id.session, now) else {
            return Verdict::Refused(Refusal::UnknownSession);
        };
        let Some(slot) = session.handles.get_mut(&id.handle) else {
            return self.begin_on_new_handle(session, id);
        };
        if id.transaction > slot.transaction || planted(Planted::NoDuplicateCheck) {
            self.retire(slot);
            *slot = Slot { transaction: id.transaction, state: State::Running };
            return Verdict::Execute;
        }
        if id.transaction < slot.transaction {
            if planted(Planted::OlderTransactionExecutes) {
                return Verdict::Execute;
            }
            return Verdict::Refused(Refusal::Superseded);
        }
        slot.verdict_on_duplicate()
    }

    fn begin_on_new_handle(&self, session: &mut Session, id: CallId) -> Verdict {
        if id.handle >= limits::HANDLES_PER_SESSION {
            return Verdict::Refused(Refusal::Malformed);
        }
        if !self.take_handle() {
            return Verdict::NoRoom;
        }
        session.handles.insert(id.handle, Slot { transaction: id.transaction, state: State::Running });
        Verdict::Execute
    }

    /// Whether the request would be executed, as things stand. A chain's callee
    /// passes bytes on before it knows whether it will.
    pub fn is_new(&self, id: CallId) -> bool {
        let shard = self.shard(id.session);
        let slot = shard.sessions.get(&id.session).map(|session| session.handles.get(&id.handle));
        matches!(slot, Some(None)) || matches!(slot, Some(Some(slot)) if slot.transaction < id.transaction)
    }

    /// Whether the session is one of this server.
    pub fn knows(&self, session: SessionId) -> bool {
        self.shard(session).sessions.contains_key(&session)
    }

    /// Keeps the answer of a request that was begun, refusals included: a
    /// duplicate must not be told otherwise. Does nothing if its handle has moved
    /// on, or its session is gone.
    pub fn complete(&self, id: CallId, answer: Bytes, now: Micros) {
        {
            let mut shard = self.shard(id.session);
            let Some(session) = shard.sessions.get_mut(&id.session) else { return };
            session.used_at = now;
            let Some(slot) = session.handles.get_mut(&id.handle) else { return };
            if slot.transaction != id.transaction {
                return;
            }
            self.result_bytes.fetch_add(answer.len(), Ordering::Relaxed);
            self.retire(slot);
            slot.state = State::Done { answer, at: now };
        }
        if self.result_bytes.load(Ordering::Relaxed) > self.limits.result_bytes {
            self.evict(id.session);
        }
    }

    /// Makes sure that the request won't begin if it hasn't, and says what is
    /// known of it. [`Refusal::Revoked`] is the certainty that it never executes.
    pub fn revoke(&self, id: CallId, now: Micros) -> Verdict {
        let mut shard = self.shard(id.session);
        let Some(session) = shard.session(id.session, now) else {
            // Another incarnation may have executed it.
            return Verdict::Doubtful(Doubt::SessionLost);
        };
        let revoked = Verdict::Refused(Refusal::Revoked);
        let Some(slot) = session.handles.get_mut(&id.handle) else {
            if id.handle >= limits::HANDLES_PER_SESSION || !self.take_handle() {
                return Verdict::NoRoom;
            }
            if !planted(Planted::RevokeForgets) {
                let slot = Slot { transaction: id.transaction, state: State::Revoked };
                session.handles.insert(id.handle, slot);
            }
            return revoked;
        };
        if id.transaction > slot.transaction {
            self.retire(slot);
            if !planted(Planted::RevokeForgets) {
                *slot = Slot { transaction: id.transaction, state: State::Revoked };
            }
            return revoked;
        }
        if id.transaction < slot.transaction {
            return Verdict::Doubtful(Doubt::AnswerEvicted);
        }
        slot.verdict_on_duplicate()
    }

    /// Removes what has outlived its time; to be called every few seconds
    /// ("the lifetime of each cache entry is checked periodically").
    pub fn sweep(&self, now: Micros) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.sessions.retain(|_, session| {
                let most = if session.is_unused() { limits::SESSION_UNUSED_MS * 1000 } else { Micros::MAX };
                let most = most.min(self.limits.session_idle_us);
                if now.saturating_sub(session.used_at) > most && !session.is_running() {
                    self.forget(session);
                    return false;
                }
                for slot in session.handles.values_mut() {
                    let old = matches!(slot.state, State::Done { at, .. }
                        if now.saturating_sub(at) > self.limits.result_us);
                    if old {
                        self.retire(slot);
                    }
                }
                if planted(Planted::SweepForgetsHandles) {
                    session.handles.retain(|_, slot| !matches!(slot.state, State::Evicted));
                }
                true
            });
            let Shard { sessions, unused } = &mut *shard;
            unused.retain(|id| sessions.get(id).is_some_and(Session::is_unused));
        }
    }

    /// Sessions, handles and bytes of results that are remembered.
    pub fn usage(&self) -> (usize, usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (load(&self.sessions), load(&self.handles), load(&self.result_bytes))
    }

    /// Drops the oldest results until an eighth of the room is free, beginning
    /// with the shard that grew, so that the next ones don't evict again at once.
    fn evict(&self, grown: SessionId) {
        let enough = self.limits.result_bytes - self.limits.result_bytes / 8;
        let first = self.shard_index(grown);
        for index in (0..self.shards.len()).map(|step| (first + step) % self.shards.len()) {
            let mut shard = lock(&self.shards[index]);
            let slots = shard.sessions.values_mut().flat_map(|session| session.handles.values_mut());
            let mut done: Vec<(Micros, &mut Slot)> = slots
                .filter_map(|slot| match slot.state {
                    State::Done { at, .. } => Some((at, slot)),
                    _ => None,
                })
                .collect();
            done.sort_unstable_by_key(|(at, _)| *at);
            for (_, slot) in done {
                if self.result_bytes.load(Ordering::Relaxed) <= enough {
                    return;
                }
                self.retire(slot);
            }
        }
    }

    /// Frees a slot's result; its transaction stays known.
    fn retire(&self, slot: &mut Slot) {
        if let State::Done { answer, .. } = &slot.state {
            self.result_bytes.fetch_sub(answer.len(), Ordering::Relaxed);
            slot.state = State::Evicted;
        }
    }

    fn forget(&self, session: &mut Session) {
        session.handles.values_mut().for_each(|slot| self.retire(slot));
        self.handles.fetch_sub(session.handles.len(), Ordering::Relaxed);
        self.sessions.fetch_sub(1, Ordering::Relaxed);
    }

    fn take_handle(&self) -> bool {
        let taken = self.handles.fetch_add(1, Ordering::Relaxed) < self.limits.handles;
        if !taken {
            self.handles.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    fn shard_index(&self, session: SessionId) -> usize {
        session.spread() as usize % self.shards.len()
    }

    fn shard(&self, session: SessionId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.shard_index(session)])
    }
}

impl Shard {
    /// Removes the oldest session without a call, if there is one. Nothing was
    /// executed in it, and nothing will be.
    fn forget_unused(&mut self) -> bool {
        while let Some(id) = self.unused.pop_front() {
            if self.sessions.get(&id).is_some_and(Session::is_unused) {
                self.sessions.remove(&id);
                return true;
            }
        }
        false
    }

    fn session(&mut self, id: SessionId, now: Micros) -> Option<&mut Session> {
        if planted(Planted::NoIncarnationCheck) || planted(Planted::CacheWithoutSession) {
            let any = if planted(Planted::CacheWithoutSession) { SessionId::NONE } else { id };
            return Some(
                self.sessions.entry(any).or_insert(Session { used_at: now, handles: HashMap::default() }),
            );
        }
        let session = self.sessions.get_mut(&id)?;
        session.used_at = now;
        Some(session)
    }
}

impl Session {
    /// Whether no call was ever made in it.
    fn is_unused(&self) -> bool {
        self.handles.is_empty()
    }

    fn is_running(&self) -> bool {
        self.handles.values().any(|slot| matches!(slot.state, State::Running))
    }
}

impl Slot {
    fn verdict_on_duplicate(&self) -> Verdict {
        match &self.state {
            State::Running => Verdict::Running,
            State::Done { answer, .. } => Verdict::Answered(answer.clone()),
            State::Evicted if planted(Planted::EvictedExecutesAgain) => Verdict::Execute,
            State::Evicted => Verdict::Doubtful(Doubt::AnswerEvicted),
            State::Revoked => Verdict::Refused(Refusal::Revoked),
        }
    }
}

/// A panic elsewhere leaves counters and maps whole: no operation here panics
/// half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Session ids in the table were drawn by the server: they spread by themselves.
#[derive(Default)]
struct RandomIdHasher(u64);

impl Hasher for RandomIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // The shard took the low bits of the first half: take the second half.
        if let Some(word) = bytes.last_chunk::<8>() {
            self.0 ^= u64::from_le_bytes(*word);
        }
    }

    fn write_usize(&mut self, _length_prefix: usize) {}
}

/// Handle ids are small and dense, and bounded by session.
#[derive(Default)]
struct HandleHasher(u64);

impl Hasher for HandleHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u32(&mut self, handle: u32) {
        // Fibonacci hashing: the map uses the top bits too.
        self.0 = u64::from(handle).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId([1; 16]);
    const B: SessionId = SessionId([2; 16]);

    fn id(session: SessionId, handle: u32, transaction: u64) -> CallId {
        CallId { session, handle, transaction }
    }

    fn admission(limits: AdmissionLimits) -> Admission {
        let admission = Admission::new(limits);
        admission.open_session(A, 0).unwrap();
        admission.open_session(B, 0).unwrap();
        admission
    }

    fn answer(len: usize) -> Bytes {
        Bytes::from(vec![7; len])
    }

    #[test]
    fn a_duplicate_gets_the_kept_answer() {
        let admission = admission(AdmissionLimits::default());
        let call = id(A, 1, 10);
        assert_eq!(admission.begin(call, 1), Verdict::Execute);
        assert_eq!(admission.begin(call, 2), Verdict::Running);
        admission.complete(call, answer(3), 3);
        assert_eq!(admission.begin(call, 4), Verdict::Answered(answer(3)));
        assert_eq!(admission.begin(id(B, 1, 10), 5), Verdict::Execute, "another session's call");
        assert_eq!(admission.begin(id(A, 2, 10), 5), Verdict::Execute, "another handle's call");
    }

    #[test]
    fn a_new_transaction_retires_the_old_one() {
        let admission = admission(AdmissionLimits::default());
        assert_eq!(admission.begin(id(A, 1, 10), 1), Verdict::Execute);
        admission.complete(id(A, 1, 10), answer(100), 2);
        assert_eq!(admission.usage().2, 100);
        assert_eq!(admission.begin(id(A, 1, 11), 3), Verdict::Execute);
        assert_eq!(admission.usage().2, 0, "the old result is gone");
        assert_eq!(admission.begin(id(A, 1, 10), 4), Verdict::Refused(Refusal::Superseded));
        admission.complete(id(A, 1, 10), answer(100), 5);
        assert_eq!(admission.begin(id(A, 1, 11), 6), Verdict::Running, "a late end changes nothing");
    }

    #[test]
    fn an_unknown_session_is_refused() {
        let admission = admission(AdmissionLimits::default());
        let refused = Verdict::Refused(Refusal::UnknownSession);
        assert_eq!(admission.begin(id(SessionId([3; 16]), 1, 1), 1), refused);
        assert_eq!(admission.begin(id(SessionId::NONE, 1, 1), 1), refused);
    }

    #[test]
    fn an_evicted_answer_is_an_explicit_error() {
        let limits = AdmissionLimits { result_bytes: 1000, ..AdmissionLimits::default() };
        let admission = admission(limits);
        for handle in 0..20 {
            assert_eq!(admission.begin(id(A, handle, 1), u64::from(handle)), Verdict::Execute);
            admission.complete(id(A, handle, 1), answer(100), u64::from(handle));
            assert!(admission.usage().2 <= 1000);
        }
        let gone = Verdict::Doubtful(Doubt::AnswerEvicted);
        assert_eq!(admission.begin(id(A, 0, 1), 50), gone, "the oldest went first");
        assert_eq!(admission.begin(id(A, 19, 1), 50), Verdict::Answered(answer(100)));
        admission.complete(id(A, 19, 1), answer(5000), 60);
        assert_eq!(admission.begin(id(A, 19, 1), 61), gone, "larger than all the room");
    }

    #[test]
    fn results_and_sessions_end_when_their_time_is_over() {
        let limits = AdmissionLimits { result_us: 100, session_idle_us: 1000, ..AdmissionLimits::default() };
        let admission = admission(limits);
        admission.begin(id(A, 1, 1), 0);
        admission.complete(id(A, 1, 1), answer(10), 0);
        admission.begin(id(B, 1, 1), 0);
        admission.sweep(100);
        assert_eq!(admission.begin(id(A, 1, 1), 100), Verdict::Answered(answer(10)));
        admission.sweep(101);
        assert_eq!(admission.begin(id(A, 1, 1), 101), Verdict::Doubtful(Doubt::AnswerEvicted));
        admission.sweep(1200);
        assert_eq!(admission.begin(id(A, 1, 1), 1200), Verdict::Refused(Refusal::UnknownSession));
        assert_eq!(admission.begin(id(B, 1, 1), 1200), Verdict::Running, "a running call keeps its session");
        assert_eq!(admission.usage(), (1, 1, 0));
    }

    #[test]
    fn handshakes_without_calls_are_soon_forgotten() {
        let admission = admission(AdmissionLimits::default());
        admission.begin(id(A, 1, 1), 0);
        admission.complete(id(A, 1, 1), answer(1), 0);
        admission.sweep(limits::SESSION_UNUSED_MS * 1000 + 1);
        assert_eq!(admission.usage().0, 1, "only the session with a call is left");
    }

    #[test]
    fn a_revoked_call_never_begins() {
        let admission = admission(AdmissionLimits::default());
        let revoked = Verdict::Refused(Refusal::Revoked);
        assert_eq!(admission.revoke(id(A, 1, 5), 1), revoked);
        assert_eq!(admission.begin(id(A, 1, 5), 2), revoked);
        assert_eq!(admission.begin(id(A, 1, 6), 3), Verdict::Execute);
        assert_eq!(admission.revoke(id(A, 1, 6), 4), Verdict::Running, "too late to revoke");
        assert_eq!(admission.revoke(id(A, 1, 7), 4), revoked);
        assert_eq!(admission.begin(id(A, 1, 7), 5), revoked);
        let lost = Verdict::Doubtful(Doubt::SessionLost);
        assert_eq!(admission.revoke(id(SessionId([9; 16]), 1, 7), 6), lost);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let limits = AdmissionLimits { sessions: 3, handles: 2, ..AdmissionLimits::default() };
        let admission = admission(limits);
        for id in 3..20 {
            admission.open_session(SessionId([id; 16]), 0).unwrap();
            assert_eq!(admission.usage().0, 3);
        }
        assert_eq!(admission.begin(id(A, 0, 1), 0), Verdict::Refused(Refusal::UnknownSession));
        admission.open_session(A, 0).unwrap();
        assert_eq!(admission.begin(id(A, 0, 1), 0), Verdict::Execute);
        admission.open_session(SessionId([3; 16]), 0).unwrap();
        admission.open_session(SessionId([4; 16]), 0).unwrap();
        assert!(admission.knows(A), "one with a call stays");
        assert_eq!(admission.begin(id(A, 1, 1), 0), Verdict::Execute);
        assert_eq!(admission.begin(id(A, 2, 1), 0), Verdict::NoRoom);
        assert_eq!(admission.begin(id(A, 1, 2), 0), Verdict::Execute, "a known handle needs no room");
        let forged = id(A, limits::HANDLES_PER_SESSION, 1);
        assert_eq!(admission.begin(forged, 0), Verdict::Refused(Refusal::Malformed));
    }
}
