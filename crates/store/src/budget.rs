//! Memory for bytes read ahead, and for written bytes that aren't acknowledged yet. All open files
//! of the process share one limit. The files of one user get at most half of it.

use crate::process::PerProcess;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Limit of all open files together: two thirds of the memory for a gateway's requests and answers.
const PROCESS_BYTES: u64 = 64 << 20;
/// One user's files get at most the limit divided by this. Half of the limit serves ten readers of HDFS
/// at full read-ahead depth, or four of Kadoop. With more readers, each gets less.
const USERS: u64 = 2;
/// If other files lack memory, a file that was idle for this long drops the bytes that it read ahead.
/// This is also the shortest time between two searches for such files.
const IDLE: Duration = Duration::from_secs(1);

/// Asks an open file to drop the bytes that it read ahead, if its last read was at least that long ago.
/// Without a time, drops nothing. Returns whether the file is still open.
type Holder = Box<dyn Fn(Option<Duration>) -> bool + Send>;

/// The memory that all files share.
#[derive(Debug)]
pub struct Pool {
    bytes: u64,
    taken: AtomicU64,
    holders: Mutex<Holders>,
    users: Mutex<HashMap<Box<str>, Weak<Share>>>,
}

#[derive(Default)]
struct Holders {
    all: Vec<Holder>,
    /// Number of holders at which the closed files' holders are removed.
    full_at: usize,
    last_look: Option<Instant>,
}

impl std::fmt::Debug for Holders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} holders", self.all.len())
    }
}

/// The memory that one user's files share.
#[derive(Debug)]
pub struct Share {
    pool: Arc<Pool>,
    user: Box<str>,
    taken: AtomicU64,
}

/// Reserved memory; released when dropped.
#[derive(Debug)]
pub struct Reserved {
    share: Arc<Share>,
    bytes: u64,
}

impl Pool {
    /// The pool that all stores of this process share. A forked child has its own pool: in a copy of its
    /// parent's, the parent's files would never return their memory.
    pub fn of_process() -> Arc<Self> {
        static SHARED: PerProcess<Arc<Pool>> = PerProcess::new();
        let Ok(shared) = SHARED.get_or_make(|| Ok::<_, Infallible>(Pool::new(PROCESS_BYTES)));
        Arc::clone(shared)
    }

    /// A pool with room for `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { bytes, taken: AtomicU64::new(0), holders: Mutex::default(), users: Mutex::default() })
    }

    /// A user's share, which all of the user's files use.
    pub fn share(self: &Arc<Self>, user: &str) -> Arc<Share> {
        let mut users = self.users();
        if let Some(share) = users.get(user).and_then(Weak::upgrade) {
            return share;
        }
        let share = Arc::new(Share { pool: Arc::clone(self), user: user.into(), taken: AtomicU64::new(0) });
        users.insert(user.into(), Arc::downgrade(&share));
        share
    }

    fn ask_the_idle(&self) {
        // Another thread is asking already.
        let Ok(mut holders) = self.holders.try_lock() else { return };
        if holders.last_look.is_some_and(|at| at.elapsed() < IDLE) {
            return;
        }
        holders.last_look = Some(Instant::now());
        holders.all.retain(|holder| holder(Some(IDLE)));
    }

    fn users(&self) -> MutexGuard<'_, HashMap<Box<str>, Weak<Share>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Registers an open file whose unused memory others may need. `give_up` drops the bytes read ahead
    /// if the last read was at least as long ago as its argument says. It must not block.
    pub fn register<F: ?Sized + Send + Sync + 'static>(
        &self,
        file: Weak<F>,
        give_up: impl Fn(&F, Duration) + Send + 'static,
    ) {
        let mut holders = self.pool.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if holders.all.len() >= holders.full_at {
            holders.all.retain(|holder| holder(None));
            holders.full_at = (2 * holders.all.len()).max(64);
        }
        holders.all.push(Box::new(move |idle| {
            let file = file.upgrade();
            file.iter().zip(idle).for_each(|(file, idle)| give_up(file, idle));
            file.is_some()
        }));
    }

    /// Takes memory for `bytes`, if some is free or idle files release enough. Never blocks.
    pub fn take(&self, bytes: u64) -> bool {
        self.try_take(bytes) || {
            self.pool.ask_the_idle();
            self.try_take(bytes)
        }
    }

    fn try_take(&self, bytes: u64) -> bool {
        if !add(&self.taken, bytes, self.pool.bytes / USERS) {
            return false;
        }
        let taken = add(&self.pool.taken, bytes, self.pool.bytes);
        if !taken {
            self.taken.fetch_sub(bytes, Ordering::AcqRel);
        }
        taken
    }

    /// Returns taken bytes.
    pub fn give_back(&self, bytes: u64) {
        self.pool.taken.fetch_sub(bytes, Ordering::AcqRel);
        self.taken.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Takes as [`Share::take`] does, until the returned value is dropped.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        self.take(bytes).then(|| Reserved { share: Arc::clone(self), bytes })
    }
}

/// Adds `more`, unless the sum is beyond `most`.
fn add(to: &AtomicU64, more: u64, most: u64) -> bool {
    let sum = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= most);
    to.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum).is_ok()
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut users = self.pool.users();
        // Another thread may have made a new share of the user.
        if users.get(&self.user).is_some_and(|share| share.strong_count() == 0) {
            users.remove(&self.user);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.share.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds memory until it is asked to release it.
    struct Reader {
        idle: bool,
        held: Mutex<Vec<Reserved>>,
    }

    impl Reader {
        fn give_up(&self, _: Duration) {
            if self.idle {
                self.held.lock().unwrap().clear();
            }
        }
    }

    fn reader(share: &Arc<Share>, idle: bool) -> Arc<Reader> {
        let reader = Arc::new(Reader { idle, held: Mutex::default() });
        share.register(Arc::downgrade(&reader), Reader::give_up);
        reader
    }

    #[test]
    fn no_more_is_given_than_there_is_and_what_comes_back_is_given_again() {
        let pool = Pool::new(100);
        let [ada, bob, eve] = ["ada", "bob", "eve"].map(|user| pool.share(user));
        let first = ada.reserve(50).unwrap();
        let second = bob.reserve(40).unwrap();
        assert!(eve.reserve(11).is_none());
        assert!(eve.reserve(10).is_some());
        drop(first);
        assert!(eve.reserve(50).is_some());
        drop(second);
        assert_eq!(pool.taken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_user_gets_more_than_half_by_however_many_files() {
        let pool = Pool::new(100);
        let held: Vec<_> = std::iter::from_fn(|| pool.share("ada").reserve(1)).collect();
        assert_eq!(held.len(), 50);
        assert!(pool.share("bob").reserve(50).is_some());
        drop(held);
        assert!(pool.share("ada").reserve(50).is_some());
        assert!(pool.users().is_empty(), "a user without files is forgotten");
    }

    #[test]
    fn the_idle_give_up_for_those_who_read_and_the_busy_do_not() {
        let pool = Pool::new(200);
        let share = pool.share("ada");
        let (idle, busy) = (reader(&share, true), reader(&share, false));
        for reader in [&idle, &busy] {
            reader.held.lock().unwrap().push(share.reserve(50).unwrap());
        }
        assert!(share.reserve(51).is_none());
        assert!(idle.held.lock().unwrap().is_empty() && !busy.held.lock().unwrap().is_empty());
        assert!(share.reserve(50).is_some());
    }

    #[test]
    fn holders_that_are_gone_are_forgotten() {
        let pool = Pool::new(100);
        for _ in 0..10_000 {
            reader(&pool.share("ada"), true);
        }
        assert!(pool.holders.lock().unwrap().all.len() <= 64);
    }
}
