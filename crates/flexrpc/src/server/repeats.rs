//! Calls of plain ONC RPC that a client repeats over another connection, because the first
//! connection broke before the client got the answer. The client then sends the same message, with
//! the same transaction id.
//!
//! The server remembers the answers to clients' latest calls, and sends them again. It does so only
//! for the procedures of [`OncOptions::repeated`](crate::OncOptions). A message that repeats over a
//! connection which already got the answer is a new call: some clients use one transaction id for
//! many calls.

use crate::net::origin::Origin;
use crate::proto::Micros;
use crate::proto::ids::Procedure;
use bytes::Bytes;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Memory that a remembered call takes, beside its answer.
const CALL_BYTES: usize = 512;

/// Memory for all remembered calls, in bytes: some 25,000 with small answers. If it is used up, the
/// server forgets the oldest call of the origin that uses most of it.
const BYTES: usize = 16 << 20;

/// How many connections that got a call's answer are remembered. A client that opens more has
/// abandoned the older ones.
const CONNECTIONS: usize = 8;

/// How long a call is remembered after its end. Linux's client waits for an answer for 60 s before
/// it reconnects.
const KEPT: Micros = 120_000_000;

/// How long a repeated call waits for the end of the first execution. After that the server closes
/// the connection, and the client reconnects and repeats the call.
const WAIT: Duration = Duration::from_secs(10);

/// The properties by which the server recognises a repeated call. They are the same as in the first
/// call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The client; no other client gets the answer.
    pub(crate) from: Origin,
    /// The client's exact address, unless it is a user of this host.
    pub(crate) address: Option<IpAddr>,
    /// The user id that the client claims.
    pub(crate) uid: Option<u32>,
    pub(crate) xid: u32,
    pub(crate) procedure: Procedure,
    /// Length and checksum of the whole message.
    pub(crate) message: (usize, u32),
}

/// The calls of all clients.
pub(crate) struct Repeats {
    state: Mutex<State>,
    /// Signals that a call has ended, since repetitions of it may wait.
    ended: Condvar,
    bytes: usize,
    /// Most threads that wait.
    waiting: usize,
    wait: Duration,
}

#[derive(Default)]
struct State {
    calls: HashMap<Key, Entry>,
    done: HashMap<Origin, Done>,
    /// Bytes of all calls in `done`.
    bytes: usize,
    waiting: HashMap<Origin, usize>,
    last: u64,
}

struct Entry {
    number: u64,
    /// The latest connections over which it came.
    connections: VecDeque<u64>,
    /// `None` while the call runs.
    answer: Option<Bytes>,
}

/// The ended calls of an origin, the oldest first.
#[derive(Default)]
struct Done {
    calls: VecDeque<Ended>,
    bytes: usize,
}

struct Ended {
    key: Key,
    number: u64,
    bytes: usize,
    at: Micros,
}

/// The server's knowledge of a call.
pub(crate) enum Known<'r> {
    /// The call is new: execute it, then give the answer to the claim.
    New(Claim<'r>),
    /// The call's answer.
    Answered(Bytes),
    /// The call has been running for long, or too many repetitions already wait. The client can
    /// repeat it later.
    Runs,
}

/// A call that is being executed. The server forgets the call if this is dropped without an answer.
pub(crate) struct Claim<'r> {
    repeats: &'r Repeats,
    key: Key,
    number: u64,
}

impl Repeats {
    /// Without any call. `workers` is the number of threads that execute calls. At most a quarter
    /// of them wait for calls that run.
    pub(crate) fn new(workers: usize) -> Self {
        let waiting = (workers / 4).max(1);
        Self { state: Mutex::default(), ended: Condvar::new(), bytes: BYTES, waiting, wait: WAIT }
    }

    /// Finds out before the execution whether the call came before, over another connection. Waits
    /// while the first one runs.
    pub(crate) fn ask(&self, key: Key, connection: u64) -> Known<'_> {
        let until = Instant::now() + self.wait;
        let mut state = self.state();
        // Whether the call came while the first one ran. Then it gets the answer, over whatever
        // connection.
        let mut waited = false;
        loop {
            match state.calls.get_mut(&key) {
                Some(Entry { answer: Some(answer), connections, .. })
                    if waited || !connections.contains(&connection) =>
                {
                    if !connections.contains(&connection) {
                        connections.push_back(connection);
                    }
                    if connections.len() > CONNECTIONS {
                        connections.pop_front();
                    }
                    return Known::Answered(answer.clone());
                }
                Some(Entry { answer: None, .. }) => {}
                _ => {
                    state.last += 1;
                    let number = state.last;
                    state.calls.insert(key, Entry { number, connections: [connection].into(), answer: None });
                    return Known::New(Claim { repeats: self, key, number });
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !state.begin_to_wait(key.from, self.waiting) {
                return Known::Runs;
            }
            let (woken, _) = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.end_to_wait(key.from);
            waited = true;
        }
    }

    /// Forgets the calls that ended long ago; call it every few seconds.
    pub(crate) fn sweep(&self, now: Micros) {
        let mut state = self.state();
        let State { calls, done, bytes, .. } = &mut *state;
        for of_origin in done.values_mut() {
            while of_origin.calls.front().is_some_and(|call| now.saturating_sub(call.at) > KEPT) {
                *bytes -= of_origin.forget_oldest(calls);
            }
        }
        done.retain(|_, of_origin| !of_origin.calls.is_empty());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim<'_> {
    /// Keeps the answer.
    pub(crate) fn answer(self, answer: Bytes, now: Micros) {
        let mut state = self.repeats.state();
        let bytes = CALL_BYTES + answer.len();
        if let Some(entry) = state.calls.get_mut(&self.key) {
            entry.answer = Some(answer);
        }
        state.bytes += bytes;
        let of_origin = state.done.entry(self.key.from).or_default();
        of_origin.bytes += bytes;
        of_origin.calls.push_back(Ended { key: self.key, number: self.number, bytes, at: now });
        while state.bytes > self.repeats.bytes {
            let State { calls, done, bytes, .. } = &mut *state;
            let Some(largest) = done.values_mut().max_by_key(|of_origin| of_origin.bytes) else { break };
            *bytes -= largest.forget_oldest(calls);
        }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.repeats.state();
        if state.calls.get(&self.key).is_some_and(|entry| entry.answer.is_none()) {
            state.calls.remove(&self.key);
        }
        self.repeats.ended.notify_all();
    }
}

impl State {
    /// Counts a waiting thread. `false` if the origin already has as many waiting threads as are
    /// free.
    fn begin_to_wait(&mut self, from: Origin, most: usize) -> bool {
        let free = most.saturating_sub(self.waiting.values().sum());
        let own = self.waiting.get(&from).copied().unwrap_or_default();
        let may = own < free;
        if may {
            self.waiting.insert(from, own + 1);
        }
        may
    }

    fn end_to_wait(&mut self, from: Origin) {
        if let Some(own) = self.waiting.get_mut(&from) {
            *own -= 1;
            if *own == 0 {
                self.waiting.remove(&from);
            }
        }
    }
}

impl Done {
    /// Forgets the oldest call, and returns the bytes that this frees.
    fn forget_oldest(&mut self, calls: &mut HashMap<Key, Entry>) -> usize {
        let Some(oldest) = self.calls.pop_front() else { return 0 };
        // A later call with the same key may have replaced it.
        if calls.get(&oldest.key).is_some_and(|entry| entry.number == oldest.number) {
            calls.remove(&oldest.key);
        }
        self.bytes -= oldest.bytes;
        oldest.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(from: Origin, xid: u32) -> Key {
        let procedure = Procedure::new(100_003, 3, 12);
        Key { from, address: None, uid: Some(1), xid, procedure, message: (100, 5) }
    }

    const ADA: Origin = Origin::LocalUser(1);
    const EVE: Origin = Origin::LocalUser(2);

    impl Repeats {
        /// Makes a call over a connection. Returns its answer if it is known.
        fn call(&self, key: Key, connection: u64, answer: &'static [u8]) -> Option<Bytes> {
            match self.ask(key, connection) {
                Known::New(claim) => claim.answer(answer.into(), 0),
                Known::Answered(answer) => return Some(answer),
                Known::Runs => panic!("it runs"),
            }
            None
        }
    }

    #[test]
    fn a_call_over_another_connection_gets_the_answer_of_the_first() {
        let repeats = Repeats::new(8);
        assert_eq!(repeats.call(key(ADA, 1), 1, b"one"), None);
        assert_eq!(repeats.call(key(ADA, 1), 2, b"two").unwrap(), "one");
        assert_eq!(repeats.call(key(ADA, 1), 1, b"three"), None, "another call with the same number");
        assert_eq!(repeats.call(key(ADA, 1), 2, b"four").unwrap(), "three");
        assert_eq!(repeats.call(key(ADA, 1), 2, b"five"), None, "this one has the answer, too");
    }

    #[test]
    fn few_connections_are_remembered_for_an_answer() {
        let repeats = Repeats::new(8);
        for connection in 0..=100 {
            assert_eq!(repeats.call(key(ADA, 1), connection, b"one").is_none(), connection == 0);
        }
        assert_eq!(repeats.state().calls[&key(ADA, 1)].connections.len(), CONNECTIONS);
        assert_eq!(repeats.call(key(ADA, 1), 100, b"two"), None);
    }

    #[test]
    fn whatever_differs_makes_another_call() {
        let repeats = Repeats::new(8);
        let first = Key { address: Some([192, 0, 2, 1].into()), ..key(ADA, 1) };
        let others = [
            Key { from: EVE, ..first },
            Key { address: Some([192, 0, 2, 2].into()), ..first },
            Key { uid: Some(2), ..first },
            Key { xid: 2, ..first },
            Key { procedure: Procedure::new(100_003, 3, 13), ..first },
            Key { message: (100, 6), ..first },
            Key { message: (101, 5), ..first },
        ];
        for (connection, key) in [first].into_iter().chain(others).enumerate() {
            assert_eq!(repeats.call(key, connection as u64, b""), None, "{key:?}");
        }
    }

    #[test]
    fn a_call_waits_for_the_end_of_its_first_execution() {
        let repeats = Repeats::new(32);
        let Known::New(claim) = repeats.ask(key(ADA, 1), 1) else { panic!("it is new") };
        std::thread::scope(|scope| {
            // It comes twice over the other connection.
            let again = [(); 2].map(|()| scope.spawn(|| repeats.call(key(ADA, 1), 2, b"two")));
            strait_testkit::wait::eventually("both wait", || repeats.state().waiting.get(&ADA) == Some(&2));
            claim.answer("one".into(), 0);
            again.into_iter().for_each(|again| assert_eq!(again.join().unwrap().unwrap(), "one"));
        });
        assert!(repeats.state().waiting.is_empty());
    }

    #[test]
    fn a_call_that_was_not_executed_is_executed_when_it_comes_again() {
        let repeats = Repeats::new(8);
        drop(repeats.ask(key(ADA, 1), 1));
        assert_eq!(repeats.call(key(ADA, 1), 2, b""), None);
    }

    #[test]
    fn few_threads_wait_and_not_for_ever() {
        let repeats = Repeats { wait: Duration::from_millis(20), ..Repeats::new(16) };
        let _claim = repeats.ask(key(ADA, 1), 1);
        assert!(matches!(repeats.ask(key(ADA, 1), 2), Known::Runs), "not for ever");
        let mut state = repeats.state();
        let begun = [ADA, ADA, ADA, EVE, EVE].map(|from| state.begin_to_wait(from, repeats.waiting));
        assert_eq!(begun, [true, true, false, true, false]);
    }

    #[test]
    fn memory_is_bounded_and_one_origin_does_not_make_another_forget() {
        let repeats = Repeats { bytes: 100 * (CALL_BYTES + 1), ..Repeats::new(8) };
        for xid in 0..30 {
            assert_eq!(repeats.call(key(ADA, xid), 1, b"a"), None);
        }
        for xid in 0..10_000 {
            assert_eq!(repeats.call(key(EVE, xid), 2, b"e"), None);
        }
        let kept = |state: &State| (state.calls.len(), state.bytes);
        assert_eq!(kept(&repeats.state()), (100, repeats.bytes));
        assert!((0..30).all(|xid| repeats.call(key(ADA, xid), 3, b"").is_some()));
        assert_eq!(repeats.call(key(EVE, 9_999), 3, b"").unwrap(), "e");
        assert_eq!(repeats.call(key(EVE, 0), 3, b"e"), None, "so long ago that it is forgotten");
    }

    #[test]
    fn calls_are_forgotten_when_their_time_is_over() {
        let repeats = Repeats::new(8);
        assert_eq!(repeats.call(key(ADA, 1), 1, b""), None);
        repeats.sweep(KEPT);
        assert_eq!(repeats.call(key(ADA, 1), 2, b""), Some(Bytes::new()));
        repeats.sweep(KEPT + 1);
        let state = repeats.state();
        assert!(state.calls.is_empty() && state.done.is_empty() && state.bytes == 0);
    }
}
