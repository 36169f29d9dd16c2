//! Duplicate requests of plain ONC RPC over UDP.
//!
//! The protocol has neither sessions nor ordered transaction ids, so the [response
//! cache](crate::proto::admission) doesn't fit. Instead the server recognises a retransmission by
//! the fields that it shares with the first transmission ([`Key`]). It remembers executed calls for
//! a limited time, and fewer if memory is short. If a duplicate comes later, the server executes it
//! again. Clients that can't accept this must use TCP, or FlexRPC.

use crate::proto::Micros;
use crate::proto::admission::Verdict;
use crate::proto::ids::Procedure;
use crate::proto::status::Doubt;
use bytes::Bytes;
use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of shards: enough that concurrent calls rarely share one.
const SHARDS: usize = 16;

/// Limits of the memory for calls and replies.
#[derive(Clone, Copy, Debug)]
pub struct DuplicateLimits {
    /// Remembered calls; each takes some 100 bytes. SunRPC clients retransmit after seconds, so the
    /// server must remember the calls of several seconds.
    pub calls: usize,
    /// Bytes of the replies of remembered calls. The server answers a duplicate of a call whose
    /// reply was evicted with an error, and doesn't execute it.
    pub reply_bytes: usize,
    /// How long a call is remembered after its end.
    pub kept_us: Micros,
}

impl Default for DuplicateLimits {
    fn default() -> Self {
        // 262,144 calls: five seconds at 50,000 calls a second. 120 s: longer than libtirpc's total
        // timeout of 25 s.
        Self { calls: 1 << 18, reply_bytes: 64 << 20, kept_us: 120_000_000 }
    }
}

/// The fields that a retransmission shares with the first transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The caller's address.
    pub caller: SocketAddr,
    /// The caller's transaction id.
    pub xid: u32,
    /// The called procedure.
    pub procedure: Procedure,
    /// Checksum of the whole message: a restarted client may reuse an address and transaction ids.
    pub checksum: u32,
}

/// Recent calls, and their replies.
pub struct Duplicates {
    shards: [Mutex<Shard>; SHARDS],
    /// Randomly seeded: otherwise callers, which choose their keys, could fill a single shard.
    hasher: RandomState,
    limits: DuplicateLimits,
}

#[derive(Default)]
struct Shard {
    calls: HashMap<Key, Entry>,
    /// All keys of `calls`, in the order in which they began.
    order: VecDeque<Key>,
    /// The number of the first call in `order`.
    first: u64,
    /// Calls with lower numbers have lost their replies, or won't keep them.
    bare: u64,
    reply_bytes: usize,
}

struct Entry {
    number: u64,
    state: State,
}

enum State {
    Running,
    Done { reply: Option<Bytes>, at: Micros },
}

impl Duplicates {
    /// Without any call yet.
    pub fn new(limits: DuplicateLimits) -> Self {
        Self { shards: Default::default(), hasher: RandomState::new(), limits }
    }

    /// Decides before the execution whether the call is a duplicate. A call to execute counts as
    /// running until [`Duplicates::complete`].
    pub fn begin(&self, key: Key) -> Verdict {
        let mut shard = self.shard(&key);
        match shard.calls.get(&key).map(|entry| &entry.state) {
            Some(State::Running) => return Verdict::Running,
            Some(State::Done { reply: Some(reply), .. }) => return Verdict::Answered(reply.clone()),
            Some(State::Done { reply: None, .. }) => return Verdict::Doubtful(Doubt::AnswerEvicted),
            None => {}
        }
        if shard.calls.len() >= (self.limits.calls / SHARDS).max(1) && !shard.forget_oldest() {
            return Verdict::NoRoom;
        }
        shard.insert(key);
        Verdict::Execute
    }

    /// Keeps the reply of a call that was executed.
    pub fn complete(&self, key: Key, reply: Bytes, now: Micros) {
        let mut shard = self.shard(&key);
        let bare = shard.bare;
        let Some(entry) = shard.calls.get_mut(&key) else { return };
        let reply = Some(reply).filter(|_| entry.number >= bare);
        let len = reply.as_ref().map_or(0, Bytes::len);
        entry.state = State::Done { reply, at: now };
        shard.reply_bytes += len;
        while shard.reply_bytes > self.limits.reply_bytes / SHARDS && shard.strip_oldest() {}
    }

    /// Removes expired calls; call it every few seconds.
    pub fn sweep(&self, now: Micros) {
        let old = |at| now.saturating_sub(at) > self.limits.kept_us;
        self.shards.iter().for_each(|shard| lock(shard).forget(old));
    }

    /// The number of remembered calls, and the bytes of their replies.
    pub fn usage(&self) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(calls, bytes), shard| {
            let shard = lock(shard);
            (calls + shard.calls.len(), bytes + shard.reply_bytes)
        })
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

impl Shard {
    fn insert(&mut self, key: Key) {
        let number = self.first + self.order.len() as u64;
        self.order.push_back(key);
        self.calls.insert(key, Entry { number, state: State::Running });
    }

    /// Forgets the oldest call that isn't running; `false` if all are running.
    fn forget_oldest(&mut self) -> bool {
        for _ in 0..self.order.len() {
            let Some(key) = self.pop_oldest() else { return false };
            match self.calls.remove(&key).map(|entry| entry.state) {
                Some(State::Running) => self.insert(key),
                Some(State::Done { reply, .. }) => {
                    self.reply_bytes -= reply.map_or(0, |reply| reply.len());
                    return true;
                }
                None => {}
            }
        }
        false
    }

    /// Drops the oldest reply; `false` if there is none.
    fn strip_oldest(&mut self) -> bool {
        self.bare = self.bare.max(self.first);
        while let Some(key) = self.order.get((self.bare - self.first) as usize) {
            self.bare += 1;
            if let Some(Entry { state: State::Done { reply, .. }, .. }) = self.calls.get_mut(key)
                && let Some(reply) = reply.take()
            {
                self.reply_bytes -= reply.len();
                return true;
            }
        }
        false
    }

    /// Forgets the oldest call, and then the next one, while `old` holds for the time at which it
    /// ended.
    fn forget(&mut self, old: impl Fn(Micros) -> bool) {
        let done_long_ago = |shard: &Self| {
            let entry = shard.order.front().and_then(|key| shard.calls.get(key));
            matches!(entry, Some(Entry { state: State::Done { at, .. }, .. }) if old(*at))
        };
        while done_long_ago(self) && self.forget_oldest() {}
    }

    fn pop_oldest(&mut self) -> Option<Key> {
        let key = self.order.pop_front()?;
        self.first += 1;
        Some(key)
    }
}

/// Ignores poisoning: no operation under the lock panics half-way, so a shard stays consistent.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(xid: u32) -> Key {
        let caller = ([127, 0, 0, 1], 700).into();
        Key { caller, xid, procedure: Procedure::new(7, 1, 1), checksum: 5 }
    }

    fn reply(len: usize) -> Bytes {
        Bytes::from(vec![7; len])
    }

    #[test]
    fn a_duplicate_gets_the_kept_reply() {
        let duplicates = Duplicates::new(DuplicateLimits::default());
        assert_eq!(duplicates.begin(key(1)), Verdict::Execute);
        assert_eq!(duplicates.begin(key(1)), Verdict::Running);
        duplicates.complete(key(1), reply(3), 1);
        assert_eq!(duplicates.begin(key(1)), Verdict::Answered(reply(3)));
    }

    #[test]
    fn whatever_differs_makes_another_call() {
        let duplicates = Duplicates::new(DuplicateLimits::default());
        let first = key(1);
        let others = [
            Key { xid: 2, ..first },
            Key { caller: ([127, 0, 0, 1], 701).into(), ..first },
            Key { caller: ([127, 0, 0, 2], 700).into(), ..first },
            Key { procedure: Procedure::new(8, 1, 1), ..first },
            Key { procedure: Procedure::new(7, 2, 1), ..first },
            Key { procedure: Procedure::new(7, 1, 2), ..first },
            Key { checksum: 6, ..first },
        ];
        for key in [first].into_iter().chain(others) {
            assert_eq!(duplicates.begin(key), Verdict::Execute, "{key:?}");
            duplicates.complete(key, reply(1), 1);
        }
    }

    #[test]
    fn calls_are_bounded_and_the_oldest_goes_first_unless_it_runs() {
        let limits = DuplicateLimits { calls: 4 * SHARDS, ..DuplicateLimits::default() };
        let duplicates = Duplicates::new(limits);
        assert_eq!(duplicates.begin(key(0)), Verdict::Execute);
        for xid in 1..1000 {
            assert_eq!(duplicates.begin(key(xid)), Verdict::Execute);
            duplicates.complete(key(xid), reply(10), 1);
        }
        assert!(duplicates.usage().0 <= 4 * SHARDS && duplicates.usage().1 <= 40 * SHARDS);
        assert_eq!(duplicates.begin(key(0)), Verdict::Running, "it isn't executed twice at once");
        assert_eq!(duplicates.begin(key(999)), Verdict::Answered(reply(10)));
        assert_eq!(duplicates.begin(key(1)), Verdict::Execute, "so long ago that it is forgotten");
    }

    #[test]
    fn where_all_calls_run_there_is_no_room_for_more() {
        let duplicates = Duplicates::new(DuplicateLimits { calls: 1, ..DuplicateLimits::default() });
        let verdicts: Vec<Verdict> = (0..1000).map(|xid| duplicates.begin(key(xid))).collect();
        assert_eq!(verdicts.iter().filter(|verdict| **verdict == Verdict::Execute).count(), SHARDS);
        assert!(verdicts.contains(&Verdict::NoRoom));
    }

    #[test]
    fn a_call_whose_reply_had_to_go_is_not_executed_again() {
        let limits = DuplicateLimits { reply_bytes: 100 * SHARDS, ..DuplicateLimits::default() };
        let duplicates = Duplicates::new(limits);
        for xid in 0..1000 {
            assert_eq!(duplicates.begin(key(xid)), Verdict::Execute);
            duplicates.complete(key(xid), reply(30), 1);
            assert!(duplicates.usage().1 <= 100 * SHARDS);
        }
        assert_eq!(duplicates.begin(key(0)), Verdict::Doubtful(Doubt::AnswerEvicted));
        assert_eq!(duplicates.begin(key(999)), Verdict::Answered(reply(30)));
        assert_eq!(duplicates.begin(key(5000)), Verdict::Execute);
        duplicates.complete(key(5000), reply(101), 1);
        assert_eq!(duplicates.begin(key(5000)), Verdict::Doubtful(Doubt::AnswerEvicted));
    }

    #[test]
    fn calls_are_forgotten_when_their_time_is_over() {
        let duplicates = Duplicates::new(DuplicateLimits { kept_us: 100, ..DuplicateLimits::default() });
        for xid in 0..50 {
            duplicates.begin(key(xid));
            duplicates.complete(key(xid), reply(1), 10);
        }
        duplicates.begin(key(99));
        duplicates.sweep(110);
        assert_eq!(duplicates.usage(), (51, 50));
        duplicates.sweep(111);
        assert_eq!(duplicates.usage(), (1, 0), "the one that runs stays");
        assert_eq!(duplicates.begin(key(3)), Verdict::Execute);
    }
}
