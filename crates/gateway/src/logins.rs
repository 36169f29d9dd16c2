//! Limits on checks of passwords.
//!
//! Wrong passwords cost their sender time. A user and an origin (an address, or on
//! loopback a local user) make a pair. After [`FREE_FAILURES`] failures, a pair waits
//! twice as long for each further attempt. Other origins of the same user don't wait.
//! Origins share the places for checks that run or wait. Some places are reserved for
//! pairs that have logged in before. The memory for all of this is bounded.

use crate::peer::Origin;
use crate::places::{self, Places};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_telemetry::{Kind, Page, Seldom};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Number of failures, such as typing errors, after which a pair doesn't have to wait.
const FREE_FAILURES: u32 = 3;
/// The wait after the first failure beyond these. Each further failure doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait. It allows some 1,300 guesses a day, and a user who returns waits a minute at
/// most.
const LONGEST_WAIT: Duration = Duration::from_secs(64);
/// The gateway forgets a pair's failures after this long without another.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// Remembered pairs that failed, and as many that logged in: 1 MiB each. Beyond it, the gateway
/// forgets the least recently seen pair. Each new failed pair costs an argon2 run, so an attacker
/// needs two minutes to displace a pair.
const PAIRS: usize = 16_384;
/// One in this many places for logins is kept for pairs that have logged in before.
const KEPT_PART: usize = 4;
/// Characters of a user name in the log. Real names are never longer.
const LOGGED_USER: usize = 64;

/// A user, as a number, and the origin of the login. Strangers may send names of any length; a hash
/// under a random key keeps them small.
type Pair = (u64, Origin);

/// Limits on password checks, and the pairs that they remember.
pub struct Logins {
    hasher: RandomState,
    failing: Mutex<Recent<Failures>>,
    known: Mutex<Recent<()>>,
    places: Arc<Places>,
    kept: Arc<Places>,
    turns: Turns,
    counts: Counts,
    failures_logged: Seldom,
}

#[derive(Default)]
struct Counts {
    succeeded: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    /// Until then the gateway checks no password of the pair.
    until: Instant,
}

/// The reason why a password isn't checked now.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The pair had too many failures; it may try again after this time.
    BackedOff(Duration),
    /// Too many logins are in progress.
    NoPlace,
}

/// A place among the logins in progress, released when dropped.
pub struct Place(#[expect(dead_code, reason = "held for its Drop")] places::Place);

impl Logins {
    /// For at most `places` logins at once. At most `checks` of them run a check; the others wait.
    pub fn new(places: usize, checks: usize) -> Self {
        Self {
            hasher: RandomState::new(),
            failing: Mutex::new(Recent::new(PAIRS)),
            known: Mutex::new(Recent::new(PAIRS)),
            kept: Places::new(places / KEPT_PART),
            places: Places::new(places - places / KEPT_PART),
            turns: Turns::new(checks),
            counts: Counts::default(),
            failures_logged: Seldom::new(),
        }
    }

    fn pair(&self, user: &str, from: Origin) -> Pair {
        (self.hasher.hash_one(user), from)
    }

    /// Refuses a pair that must wait.
    ///
    /// # Errors
    /// BackedOff: the pair has failed too often, and must wait.
    pub fn check_backoff(&self, user: &str, from: Origin, now: Instant) -> Result<(), Refusal> {
        let failures = lock(&self.failing).get(&self.pair(user, from), now, FORGET_AFTER);
        match failures.map(|failures| failures.until.saturating_duration_since(now)) {
            Some(wait) if !wait.is_zero() => Err(Refusal::BackedOff(wait)),
            _ => Ok(()),
        }
    }

    /// A place for a login.
    ///
    /// # Errors
    /// NoPlace: too many logins wait or run.
    pub fn place(&self, user: &str, from: Origin) -> Result<Place, Refusal> {
        let is_known = || lock(&self.known).contains(&self.pair(user, from));
        let place = self.places.take(from).or_else(|| is_known().then(|| self.kept.take(from)).flatten());
        place.map(Place).ok_or(Refusal::NoPlace)
    }

    /// Waits for a turn to check a password. None if the gateway is ending.
    pub async fn turn(&self, from: Origin) -> Option<Turn> {
        self.turns.take(from).await
    }

    /// Records a correct password, and forgets the pair's failures.
    pub fn succeeded(&self, user: &str, from: Origin, now: Instant) {
        self.counts.succeeded.fetch_add(1, Ordering::Relaxed);
        let pair = self.pair(user, from);
        lock(&self.failing).remove(&pair);
        lock(&self.known).put(pair, (), now);
    }

    /// Records a wrong password, or an unknown user.
    pub fn failed(&self, user: &str, from: Origin, now: Instant) {
        let pair = self.pair(user, from);
        let mut failing = lock(&self.failing);
        let count = failing.get(&pair, now, FORGET_AFTER).map_or(0, |failures| failures.count) + 1;
        failing.put(pair, Failures { count, until: now + wait_after(count) }, now);
        drop(failing);
        self.note_failed(user, from);
    }

    /// Counts and logs a login that failed.
    pub fn note_failed(&self, user: &str, from: Origin) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = self.failures_logged.may_write() {
            let user: String = user.chars().take(LOGGED_USER).collect();
            tracing::warn!(%from, user, left_out, "a login failed");
        }
    }

    /// Counts and logs a login whose password wasn't checked.
    pub fn note_refused(&self, user: &str, from: Origin, why: &str) {
        static LOGGED: Seldom = Seldom::new();
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = LOGGED.may_write() {
            let user: String = user.chars().take(LOGGED_USER).collect();
            tracing::warn!(%from, user, why, left_out, "a login was refused");
        }
    }

    /// Writes the counts to a page.
    pub fn write(&self, page: &mut Page) {
        let Counts { succeeded, failed, refused } = &self.counts;
        for (outcome, count) in [("succeeded", succeeded), ("failed", failed), ("refused", refused)] {
            const HELP: &str = "Logins by password. failed: a wrong password or an unknown user. \
                                refused: the password wasn't checked.";
            let of = [("role", "gateway"), ("outcome", outcome)];
            page.number("strait_logins_total", Kind::Counter, HELP, &of, count.load(Ordering::Relaxed));
        }
    }
}

/// The pair's wait after its `count`th failure.
fn wait_after(count: u32) -> Duration {
    match count.checked_sub(FREE_FAILURES + 1) {
        None => Duration::ZERO,
        Some(doublings) => FIRST_WAIT.saturating_mul(1 << doublings.min(16)).min(LONGEST_WAIT),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: every critical section leaves the table consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records about the pairs that were seen most recently.
struct Recent<V> {
    by_pair: HashMap<Pair, (Instant, V)>,
    limit: usize,
}

impl<V: Copy> Recent<V> {
    fn new(limit: usize) -> Self {
        Self { by_pair: HashMap::new(), limit }
    }

    fn get(&self, pair: &Pair, now: Instant, keep: Duration) -> Option<V> {
        let (seen, value) = self.by_pair.get(pair)?;
        (now.saturating_duration_since(*seen) < keep).then_some(*value)
    }

    fn contains(&self, pair: &Pair) -> bool {
        self.by_pair.contains_key(pair)
    }

    fn put(&mut self, pair: Pair, value: V, now: Instant) {
        if self.by_pair.len() >= self.limit && !self.by_pair.contains_key(&pair) {
            // A walk over all takes 0.1 ms; an argon2 run of 20 ms comes before each new failed pair.
            let oldest = self.by_pair.iter().min_by_key(|(_, (seen, _))| *seen).map(|(pair, _)| *pair);
            oldest.map(|oldest| self.by_pair.remove(&oldest));
        }
        self.by_pair.insert(pair, (now, value));
    }

    fn remove(&mut self, pair: &Pair) {
        self.by_pair.remove(pair);
    }
}

/// Turns for password checks, shared by origin. An origin's checks that run or wait in the common
/// queue are at most half of the turns; its others wait in a queue of its own. So a check's wait grows
/// with the number of other origins, not with the number of their attempts.
struct Turns {
    all: Arc<Semaphore>,
    by_origin: Mutex<HashMap<Origin, Arc<Semaphore>>>,
    an_origin: usize,
}

/// A turn. Dropping it gives it to the next check.
pub struct Turn {
    // Dropped first, so that this origin's next check can already take its place in the common queue.
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Turns {
    /// With this many remembered origins, the unused ones are forgotten.
    const IDLE_ORIGINS: usize = 1_024;

    fn new(turns: usize) -> Self {
        let an_origin = (turns / 2).max(1);
        Self { all: Arc::new(Semaphore::new(turns)), by_origin: Mutex::default(), an_origin }
    }

    async fn take(&self, from: Origin) -> Option<Turn> {
        let own = {
            let mut by_origin = lock(&self.by_origin);
            if by_origin.len() >= Self::IDLE_ORIGINS {
                by_origin.retain(|_, turns| Arc::strong_count(turns) > 1);
            }
            let new = || Arc::new(Semaphore::new(self.an_origin));
            by_origin.entry(from).or_insert_with(new).clone()
        };
        let own = own.acquire_owned().await.ok()?;
        let all = self.all.clone().acquire_owned().await.ok()?;
        Some(Turn { _all: all, _own: own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const HERE: Origin = Origin::LocalUser(1_000);
    const ELSEWHERE: Origin = Origin::LocalUser(1_001);

    #[test]
    fn a_pair_waits_twice_as_long_after_each_failure_up_to_a_minute() {
        let logins = Logins::new(8, 2);
        let mut now = Instant::now();
        let waits: Vec<u64> = std::iter::from_fn(|| {
            logins.failed("alice", HERE, now);
            let wait = match logins.check_backoff("alice", HERE, now) {
                Ok(()) => Duration::ZERO,
                Err(Refusal::BackedOff(wait)) => wait,
                Err(other) => panic!("{other:?}"),
            };
            now += wait;
            assert_eq!(logins.check_backoff("alice", HERE, now), Ok(()), "after {wait:?}");
            Some(wait.as_secs())
        })
        .take(12)
        .collect();
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
    }

    #[test]
    fn neither_another_origin_nor_another_user_waits() {
        let (logins, now) = (Logins::new(8, 2), Instant::now());
        (0..9).for_each(|_| logins.failed("alice", HERE, now));
        assert!(logins.check_backoff("alice", HERE, now).is_err());
        assert_eq!(logins.check_backoff("alice", ELSEWHERE, now), Ok(()));
        assert_eq!(logins.check_backoff("bob", HERE, now), Ok(()));
    }

    #[test]
    fn a_right_password_and_a_quarter_of_an_hour_forget_failures() {
        let (logins, now) = (Logins::new(8, 2), Instant::now());
        (0..4).for_each(|_| logins.failed("alice", HERE, now));
        logins.succeeded("alice", HERE, now);
        logins.failed("alice", HERE, now);
        assert_eq!(logins.check_backoff("alice", HERE, now), Ok(()));
        (0..20).for_each(|_| logins.failed("bob", HERE, now));
        logins.failed("bob", HERE, now + FORGET_AFTER);
        assert_eq!(logins.check_backoff("bob", HERE, now + FORGET_AFTER), Ok(()));
    }

    #[test]
    fn a_returning_user_finds_a_place_that_others_cannot_take() {
        let logins = Logins::new(8, 2);
        logins.succeeded("alice", HERE, Instant::now());
        // Many addresses, so that the share of one doesn't stop them.
        let others: Vec<Place> = (0..100u32)
            .filter_map(|user| logins.place("alice", Origin::LocalUser(2_000 + user)).ok())
            .collect();
        assert!(others.len() < 8, "{}", others.len());
        assert!(logins.place("bob", HERE).is_err(), "another user of the same host");
        assert!(logins.place("alice", HERE).is_ok());
    }

    #[test]
    fn remembered_pairs_are_bounded_and_the_oldest_goes() {
        let mut recent = Recent::new(2);
        let now = Instant::now();
        for (at, pair) in [(0, (1, HERE)), (1, (2, HERE)), (2, (1, HERE)), (3, (3, HERE))] {
            recent.put(pair, (), now + Duration::from_secs(at));
        }
        assert!(recent.contains(&(1, HERE)) && !recent.contains(&(2, HERE)) && recent.contains(&(3, HERE)));
        assert_eq!(recent.by_pair.len(), 2);
    }

    #[test]
    fn one_origin_leaves_a_turn_to_others_however_much_it_asks() {
        let turns = Turns::new(2);
        let first = turns.take(HERE).now_or_never().flatten().expect("a turn");
        let queue: Vec<_> = (0..9).map(|_| Box::pin(turns.take(HERE))).collect();
        for mut waiting in queue {
            assert!((&mut waiting).now_or_never().is_none());
        }
        assert!(turns.take(ELSEWHERE).now_or_never().flatten().is_some());
        drop(first);
        assert!(turns.take(HERE).now_or_never().flatten().is_some(), "turns come back");
    }
}
