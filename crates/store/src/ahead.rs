//! Memory for reading ahead: one bound for all open files of the process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Of all open files together: ten readers in full swing; more of them make do
/// with less each. Half of what a gateway's requests may take.
const PROCESS_BYTES: u64 = 32 << 20;
/// Who hasn't read for so long gives up what was read ahead, where others lack
/// the memory; also the least time between two looks for such readers.
const IDLE: Duration = Duration::from_secs(1);

/// An open file that may hold bytes read ahead.
pub(crate) trait AheadHolder: Send + Sync {
    /// Drops what was read ahead, if the last read was at least `idle` ago.
    /// Never waits.
    fn give_up(&self, idle: Duration);
}

/// See the module.
pub(crate) struct AheadMemory {
    free_bytes: AtomicU64,
    holders: Mutex<Holders>,
}

#[derive(Default)]
struct Holders {
    all: Vec<Weak<dyn AheadHolder>>,
    /// When to look for holders that are gone.
    full_at: usize,
    last_look: Option<Instant>,
}

/// Memory taken; free again when dropped.
pub(crate) struct ReservedAhead {
    memory: Arc<AheadMemory>,
    bytes: u64,
}

impl AheadMemory {
    /// The one that all stores of this process share.
    pub fn of_process() -> Arc<Self> {
        static SHARED: LazyLock<Arc<AheadMemory>> = LazyLock::new(|| AheadMemory::new(PROCESS_BYTES));
        Arc::clone(&SHARED)
    }

    /// With room for `bytes`.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self { free_bytes: AtomicU64::new(bytes), holders: Mutex::default() })
    }

    /// Has `holder` asked to give up what it doesn't use.
    pub fn register(&self, holder: Weak<dyn AheadHolder>) {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if holders.all.len() >= holders.full_at {
            holders.all.retain(|holder| holder.strong_count() > 0);
            holders.full_at = (2 * holders.all.len()).max(64);
        }
        holders.all.push(holder);
    }

    /// Room for `bytes`, if there is any or idle holders leave it. Never waits.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<ReservedAhead> {
        self.take(bytes).or_else(|| {
            self.ask_the_idle();
            self.take(bytes)
        })
    }

    fn take(self: &Arc<Self>, bytes: u64) -> Option<ReservedAhead> {
        let less = |free: u64| free.checked_sub(bytes);
        let taken = self.free_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        taken.ok().map(|_| ReservedAhead { memory: Arc::clone(self), bytes })
    }

    fn ask_the_idle(&self) {
        // Somebody else is asking already.
        let Ok(mut holders) = self.holders.try_lock() else { return };
        if holders.last_look.is_some_and(|at| at.elapsed() < IDLE) {
            return;
        }
        holders.last_look = Some(Instant::now());
        holders.all.retain(|holder| match holder.upgrade() {
            Some(holder) => {
                holder.give_up(IDLE);
                true
            }
            None => false,
        });
    }
}

impl Drop for ReservedAhead {
    fn drop(&mut self) {
        self.memory.free_bytes.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds memory until it is asked to give it up.
    struct Reader {
        idle: bool,
        held: Mutex<Vec<ReservedAhead>>,
    }

    impl AheadHolder for Reader {
        fn give_up(&self, _: Duration) {
            if self.idle {
                self.held.lock().unwrap().clear();
            }
        }
    }

    fn reader(memory: &Arc<AheadMemory>, idle: bool) -> Arc<Reader> {
        let reader = Arc::new(Reader { idle, held: Mutex::default() });
        let holder: Weak<dyn AheadHolder> = Arc::<Reader>::downgrade(&reader);
        memory.register(holder);
        reader
    }

    #[test]
    fn no_more_is_given_than_there_is_and_what_comes_back_is_given_again() {
        let memory = AheadMemory::new(100);
        let first = memory.reserve(60).unwrap();
        assert!(memory.reserve(41).is_none());
        let second = memory.reserve(40).unwrap();
        assert!(memory.reserve(1).is_none());
        drop(first);
        assert!(memory.reserve(60).is_some());
        drop(second);
    }

    #[test]
    fn the_idle_give_up_for_those_who_read_and_the_busy_do_not() {
        let memory = AheadMemory::new(100);
        let (idle, busy) = (reader(&memory, true), reader(&memory, false));
        for reader in [&idle, &busy] {
            reader.held.lock().unwrap().push(memory.reserve(50).unwrap());
        }
        assert!(memory.reserve(51).is_none());
        assert!(idle.held.lock().unwrap().is_empty() && !busy.held.lock().unwrap().is_empty());
        assert!(memory.reserve(50).is_some());
    }

    #[test]
    fn holders_that_are_gone_are_forgotten() {
        let memory = AheadMemory::new(100);
        for _ in 0..10_000 {
            reader(&memory, true);
        }
        assert!(memory.holders.lock().unwrap().all.len() <= 64);
    }
}
