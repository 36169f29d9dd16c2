//! Decides whether a request is executed, by its session and by the response cache of section IV.D.
//!
//! A request is executed if its session is known, its transaction id is higher than all earlier ones of its handle,
//! and there is room to remember it. A request with the handle's latest transaction id is a duplicate: its call is
//! running or was revoked, or the cache has its answer, or has evicted it (then the outcome is in doubt). The server
//! refuses older ids and unknown sessions. While a session lives, the server forgets nothing that reveals a duplicate.
//! After a session ends, the server refuses all its calls. So no eviction makes a call execute twice.

mod table;
#[cfg(test)]
mod tests;

use self::table::{Requests, Session, Sessions, Shard, Slot, State, place};
use crate::proto::Micros;
use crate::proto::bond::Bond;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

/// Limits of the memory for sessions and results.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionLimits {
    /// Most sessions at a time.
    pub sessions: usize,
    /// Most handles, over all sessions.
    pub handles: usize,
    /// Most bytes of kept results, over all sessions.
    pub result_bytes: usize,
    /// Lifetime of a result.
    pub result_us: Micros,
    /// Lifetime of an unused session.
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

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Execute it, then [`Admission::complete`] it.
    Execute,
    /// A duplicate of a call that is still executing. Over UDP the server ignores it, since it will
    /// answer the first copy. Over TCP the first copy's connection may be gone, so the server asks
    /// the caller to ask again.
    Running,
    /// A duplicate of an answered call: the server sends this frame again.
    Answered(Bytes),
    /// Not executed.
    Refused(Refusal),
    /// Executed, but the answer was evicted.
    Doubtful(Doubt),
    /// There is no room to remember the request, so it isn't executed. The server can't remember
    /// the refusal either, so it may execute a duplicate that finds room. Over UDP, where the
    /// network makes duplicates, the server therefore doesn't answer.
    NoRoom,
}

/// Sessions and recent results. A call touches only its own handle's data. So concurrent calls,
/// even of one client, write to no common cache line.
pub struct Admission {
    sessions: Box<[Shard<Sessions>]>,
    /// By session and handle.
    requests: Box<[Shard<Requests>]>,
    limits: AdmissionLimits,
    session_count: AtomicUsize,
    handles: AtomicUsize,
    /// Whether the table still has handles of a session that was evicted.
    leaves_handles: AtomicBool,
    /// Bytes of results in all shards, except for each shard's `drift`.
    result_bytes: AtomicUsize,
}

/// The lifetime of an unused session, divided by this, is the shortest time between two records of
/// its use.
const NOTE: Micros = 1024;

/// Results sampled in each shard to estimate which are the oldest.
const SAMPLE: usize = 64;

/// The drift of all shards together is at most the room for results, divided by this.
const DRIFT: usize = 16;

impl Admission {
    /// Without any session yet.
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            sessions: (0..limits::CACHE_SHARDS).map(|_| Shard::default()).collect(),
            requests: (0..limits::CACHE_SHARDS).map(|_| Shard::default()).collect(),
            limits,
            session_count: AtomicUsize::new(0),
            handles: AtomicUsize::new(0),
            leaves_handles: AtomicBool::new(false),
            result_bytes: AtomicUsize::new(0),
        }
    }

    /// Opens a session under an id that the driver drew at random. At the limit of sessions it
    /// evicts a session that never had a call, or one without a key. A handshake costs its sender
    /// nothing, not even a key, since it can be replayed. So handshakes mustn't keep out clients
    /// that have calls to make.
    ///
    /// # Errors
    /// [`Refusal::Overloaded`]: there are as many sessions as allowed, and none may be evicted.
    pub fn open_session(&self, id: SessionId, now: Micros) -> Result<(), Refusal> {
        self.open_bound_session(id, None, now)
    }

    /// The same, with the bond of a caller that doesn't use the cluster's key.
    ///
    /// # Errors
    /// As [`Admission::open_session`].
    pub fn open_bound_session(
        &self,
        id: SessionId,
        bond: Option<Arc<Bond>>,
        now: Micros,
    ) -> Result<(), Refusal> {
        if self.session_count.fetch_add(1, Ordering::Relaxed) >= self.limits.sessions && !self.make_room(id) {
            self.session_count.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::Overloaded);
        }
        let mut sessions = self.sessions(id);
        if let Some(before) = sessions.by_id.insert(id, Arc::new(Session::new(now, bond))) {
            before.forgotten.store(true, Ordering::Release);
            self.session_count.fetch_sub(1, Ordering::Relaxed);
        }
        sessions.unused.push_back(id);
        Ok(())
    }

    fn make_room(&self, for_session: SessionId) -> bool {
        let first = self.shard_of(for_session);
        let mut nearest =
            (0..self.sessions.len()).map(|step| &self.sessions[(first + step) % self.sessions.len()]);
        let Some(forgotten) = nearest.find_map(|shard| shard.lock().forget_expendable()) else {
            return false;
        };
        self.session_count.fetch_sub(1, Ordering::Relaxed);
        if !forgotten.is_unused() {
            self.leaves_handles.store(true, Ordering::Relaxed);
        }
        true
    }

    /// Decides about a whole request. `None` means that it is damaged, and the client must send it
    /// again.
    pub fn judge(&self, id: CallId, intact: bool, now: Micros) -> Option<Verdict> {
        (intact || planted(Planted::NoChecksum)).then(|| self.begin(id, now))
    }

    /// Decides before the execution whether the request is a duplicate (Figure 3).
    pub fn begin(&self, id: CallId, now: Micros) -> Verdict {
        // Usually the handle has made calls before, and its slot holds the session.
        if let Some(verdict) = self.begin_on_known_handle(id, now) {
            return verdict;
        }
        let mut sessions = self.sessions(id.session);
        let Some(session) = sessions.find(id.session, now) else {
            return Verdict::Refused(Refusal::UnknownSession);
        };
        // Check again, since another copy of the request may have been faster. The session's lock
        // excludes further copies.
        if let Some(verdict) = self.begin_on_known_handle(id, now) {
            return verdict;
        }
        if id.handle >= limits::HANDLES_PER_SESSION {
            return Verdict::Refused(Refusal::Malformed);
        }
        if self.begin_handle(&session, id, State::Running) { Verdict::Execute } else { Verdict::NoRoom }
    }

    fn begin_on_known_handle(&self, id: CallId, now: Micros) -> Option<Verdict> {
        let mut requests = self.requests(id);
        let Requests { slots, drift } = &mut *requests;
        let slot = slots.get_mut(&place(id)).filter(|slot| slot.session.is_known())?;
        self.note_use(&slot.session, now);
        if id.transaction > slot.transaction || planted(Planted::NoDuplicateCheck) {
            self.retire(slot, drift);
            slot.transaction = id.transaction;
            slot.state = State::Running;
            return Some(Verdict::Execute);
        }
        if id.transaction < slot.transaction {
            if planted(Planted::OlderTransactionExecutes) {
                return Some(Verdict::Execute);
            }
            return Some(Verdict::Refused(Refusal::Superseded));
        }
        Some(slot.verdict_on_duplicate())
    }

    /// Adds a handle; `false` if there is no room.
    fn begin_handle(&self, session: &Arc<Session>, id: CallId, state: State) -> bool {
        if self.handles.fetch_add(1, Ordering::Relaxed) >= self.limits.handles {
            self.handles.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        session.used.store(true, Ordering::Relaxed);
        let mut requests = self.requests(id);
        let slot = Slot { session: Arc::clone(session), transaction: id.transaction, state };
        if let Some(mut forgotten) = requests.slots.insert(place(id), slot) {
            self.retire(&mut forgotten, &mut requests.drift);
            self.handles.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Whether the request is new, so that the server would execute it. A chain's callee asks this
    /// before it passes on the first bytes, when the decision isn't made yet.
    pub fn is_new(&self, id: CallId) -> bool {
        let known = {
            let requests = self.requests(id);
            let slot = requests.slots.get(&place(id)).filter(|slot| slot.session.is_known());
            slot.map(|slot| slot.transaction)
        };
        match known {
            Some(transaction) => transaction < id.transaction,
            None => self.knows(id.session),
        }
    }

    /// The bond of a session; `None` if it uses the cluster's key, or the server doesn't know it.
    pub fn bond(&self, session: SessionId) -> Option<Arc<Bond>> {
        self.sessions(session).by_id.get(&session)?.bond.clone()
    }

    /// Whether the server knows the session.
    pub fn knows(&self, session: SessionId) -> bool {
        self.sessions(session).by_id.contains_key(&session)
    }

    /// Keeps the answer of a request that was begun. It also keeps refusals, so that duplicates get
    /// the same answer. Does nothing if the handle has a later call, or the session is gone.
    pub fn complete(&self, id: CallId, answer: Bytes, now: Micros) {
        {
            let mut requests = self.requests(id);
            let Requests { slots, drift } = &mut *requests;
            let Some(slot) = slots.get_mut(&place(id)) else { return };
            self.note_use(&slot.session, now);
            if slot.transaction != id.transaction {
                return;
            }
            self.retire(slot, drift);
            self.account(drift, answer.len().cast_signed());
            slot.state = State::Done { answer, at: now };
        }
        let most = self.limits.result_bytes - self.limits.result_bytes / DRIFT;
        if self.result_bytes.load(Ordering::Relaxed) > most {
            self.evict(id);
        }
    }

    /// Revokes a request that hasn't begun, if there is room to remember that. Returns the request's
    /// outcome, if known. After [`Refusal::Revoked`], the request certainly never executes.
    pub fn revoke(&self, id: CallId, now: Micros) -> Verdict {
        let mut sessions = self.sessions(id.session);
        let Some(session) = sessions.find(id.session, now) else {
            // Another incarnation may have executed it.
            return Verdict::Doubtful(Doubt::SessionLost);
        };
        if let Some(verdict) = self.revoke_on_known_handle(id) {
            return verdict;
        }
        let room = id.handle < limits::HANDLES_PER_SESSION
            && (planted(Planted::RevokeForgets) || self.begin_handle(&session, id, State::Revoked));
        if room { Verdict::Refused(Refusal::Revoked) } else { Verdict::NoRoom }
    }

    fn revoke_on_known_handle(&self, id: CallId) -> Option<Verdict> {
        let mut requests = self.requests(id);
        let Requests { slots, drift } = &mut *requests;
        let slot = slots.get_mut(&place(id)).filter(|slot| slot.session.is_known())?;
        if id.transaction > slot.transaction {
            self.retire(slot, drift);
            if !planted(Planted::RevokeForgets) {
                slot.transaction = id.transaction;
                slot.state = State::Revoked;
            }
            return Some(Verdict::Refused(Refusal::Revoked));
        }
        if id.transaction < slot.transaction {
            return Some(Verdict::Doubtful(Doubt::AnswerEvicted));
        }
        Some(slot.verdict_on_duplicate())
    }

    /// Removes expired sessions and results. Call it every few seconds (section IV.D: "the lifetime
    /// of each cache entry is checked periodically").
    pub fn sweep(&self, now: Micros) {
        self.sweep_results(now);
        let mut any_forgotten = self.leaves_handles.swap(false, Ordering::Relaxed);
        for shard in &self.sessions {
            let Sessions { by_id, unused } = &mut *shard.lock();
            by_id.retain(|_, session| {
                let most =
                    if session.is_expendable() { limits::SESSION_UNUSED_MS * 1000 } else { Micros::MAX };
                let most = most.min(self.limits.session_idle_us);
                let over = now.saturating_sub(session.used_at.load(Ordering::Relaxed)) > most;
                if over {
                    session.forgotten.store(true, Ordering::Release);
                    self.session_count.fetch_sub(1, Ordering::Relaxed);
                    any_forgotten = true;
                }
                !over
            });
            unused.retain(|id| by_id.get(id).is_some_and(|session| session.is_expendable()));
        }
        if any_forgotten {
            self.sweep_handles();
        }
    }

    /// Removes expired results. A session with a running call counts as used.
    fn sweep_results(&self, now: Micros) {
        for shard in &self.requests {
            let Requests { slots, drift } = &mut *shard.lock();
            for slot in slots.values_mut() {
                match slot.state {
                    State::Running => self.note_use(&slot.session, now),
                    State::Done { at, .. } if now.saturating_sub(at) > self.limits.result_us => {
                        self.retire(slot, drift);
                    }
                    _ => {}
                }
            }
            if planted(Planted::SweepForgetsHandles) {
                slots.retain(|_, slot| !matches!(slot.state, State::Evicted));
            }
        }
    }

    /// Removes the handles of forgotten sessions, except those with running calls.
    fn sweep_handles(&self) {
        for shard in &self.requests {
            let Requests { slots, drift } = &mut *shard.lock();
            slots.retain(|_, slot| {
                let stays = slot.session.is_known() || matches!(slot.state, State::Running);
                if !stays {
                    self.retire(slot, drift);
                    self.handles.fetch_sub(1, Ordering::Relaxed);
                }
                stays
            });
        }
    }

    /// The numbers of remembered sessions and handles, and the bytes of results.
    pub fn usage(&self) -> (usize, usize, usize) {
        let load = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let drift: isize = self.requests.iter().map(|shard| shard.lock().drift).sum();
        let results = load(&self.result_bytes).wrapping_add_signed(drift);
        (load(&self.session_count), load(&self.handles), results)
    }

    /// Evicts the oldest results until an eighth of the room is free, so that the next results
    /// don't evict again at once.
    #[cold]
    fn evict(&self, grown: CallId) {
        let enough = self.limits.result_bytes - self.limits.result_bytes / 8;
        let first = self.shard_of_place(grown);
        while let Some(oldest) = self.oldest_beyond(enough) {
            for index in (0..self.requests.len()).map(|step| (first + step) % self.requests.len()) {
                let Requests { slots, drift } = &mut *self.requests[index].lock();
                self.tell(drift);
                for slot in slots.values_mut() {
                    if self.result_bytes.load(Ordering::Relaxed) <= enough {
                        return;
                    }
                    if matches!(slot.state, State::Done { at, .. } if at <= oldest) {
                        self.retire(slot, drift);
                        self.tell(drift);
                    }
                }
            }
        }
    }

    /// Completion time of the newest result to evict, so that about `enough` bytes stay. It is
    /// estimated from a sample of each large shard. `None` if at most `enough` bytes are kept.
    fn oldest_beyond(&self, enough: usize) -> Option<Micros> {
        let all = self.result_bytes.load(Ordering::Relaxed);
        let beyond = all.checked_sub(enough).filter(|beyond| *beyond > 0)?;
        let mut sample: Vec<(Micros, usize)> = Vec::new();
        for shard in &self.requests {
            let requests = shard.lock();
            let done = requests.slots.values().filter_map(|slot| match &slot.state {
                State::Done { answer, at } => Some((*at, answer.len())),
                _ => None,
            });
            sample.extend(done.take(SAMPLE));
        }
        sample.sort_unstable();
        let sampled: usize = sample.iter().map(|(_, len)| len).sum();
        let wanted = (sampled as u128 * beyond as u128 / all as u128) as usize;
        let mut older = 0;
        let mut ages = sample.iter().skip_while(|(_, len)| {
            older += len;
            older < wanted
        });
        ages.next().map(|(at, _)| *at)
    }

    /// Frees a slot's result; its transaction id stays.
    fn retire(&self, slot: &mut Slot, drift: &mut isize) {
        if let State::Done { answer, .. } = &slot.state {
            self.account(drift, -answer.len().cast_signed());
            slot.state = State::Evicted;
        }
    }

    /// Counts a shard's bytes of results in its drift, since a single sum would be written by every
    /// call.
    fn account(&self, drift: &mut isize, bytes: isize) {
        *drift += bytes;
        if drift.unsigned_abs() > self.limits.result_bytes / DRIFT / self.requests.len() {
            self.tell(drift);
        }
    }

    #[cold]
    fn tell(&self, drift: &mut isize) {
        // The sum never falls below zero: a shard's part of it was its true size at some time.
        self.result_bytes.fetch_add(std::mem::take(drift).cast_unsigned(), Ordering::Relaxed);
    }

    /// Records the use of a session, but rarely, since all its calls share the record.
    fn note_use(&self, session: &Session, now: Micros) {
        let noted = session.used_at.load(Ordering::Relaxed);
        if now.saturating_sub(noted) > self.limits.session_idle_us / NOTE {
            session.used_at.store(now, Ordering::Relaxed);
        }
    }

    fn shard_of(&self, session: SessionId) -> usize {
        session.spread() as usize % self.sessions.len()
    }

    /// Handles of a session are numbered consecutively, so they spread over the shards.
    fn shard_of_place(&self, id: CallId) -> usize {
        let (session, handle) = place(id);
        session.spread().wrapping_add(handle.into()) as usize % self.requests.len()
    }

    fn sessions(&self, session: SessionId) -> MutexGuard<'_, Sessions> {
        self.sessions[self.shard_of(session)].lock()
    }

    fn requests(&self, id: CallId) -> MutexGuard<'_, Requests> {
        self.requests[self.shard_of_place(id)].lock()
    }
}
