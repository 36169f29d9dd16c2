//! Receive buffers, pooled and bounded.
//!
//! A buffer is zeroed once and then reused. So receiving needs no `unsafe`, and a message of a
//! megabyte doesn't fault its pages in each time.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// The smallest buffer: room for a first read of 128 KiB and for a head with its extension. A
/// smaller first read costs another system call at 64 KiB.
pub(crate) const FIRST_READ_BYTES: usize = (128 << 10) + SLACK;

/// Room beyond a power of two, for the head, extension and tag of a payload of that size.
pub(crate) const SLACK: usize = 4 << 10;

/// Most bytes of idle buffers in the pool: enough for some hundred concurrent small calls, or for
/// the largest message.
const POOLED_BYTES: usize = 64 << 20;

/// Sizes: 128 KiB << 0 ..= 128 KiB << 10, each plus [`SLACK`].
const CLASSES: usize = 11;

/// The largest buffer that a thread keeps for itself. With the default number of threads, the kept
/// buffers take as much as the pool.
const KEPT_BYTES: usize = (1 << 20) + SLACK;

thread_local! {
    /// On a thread that serves calls: the buffer that the thread released last.
    static KEPT: Cell<Kept> = const { Cell::new(Kept::Nothing) };
}

#[derive(Default)]
enum Kept {
    /// The thread keeps no buffer, now or later.
    #[default]
    Nothing,
    Room,
    One(Vec<u8>),
}

/// Makes this thread keep the buffer that it releases, so that its next call takes the same one.
/// That buffer is in the CPU's cache. The pool might hand out another thread's buffer, and every
/// line of it would come from another CPU's cache.
pub(crate) fn keep_one() {
    KEPT.set(Kept::Room);
}

/// Gives this thread's kept buffer to the pool, for other threads. Call this before a long sleep.
pub(crate) fn give_up_kept() {
    match KEPT.take() {
        Kept::Nothing => {}
        Kept::Room => KEPT.set(Kept::Room),
        Kept::One(bytes) => {
            drop(Buffer { bytes, share: None });
            KEPT.set(Kept::Room);
        }
    }
}

/// Takes the kept buffer if it has that size.
fn take_kept(size: usize) -> Option<Vec<u8>> {
    match KEPT.take() {
        Kept::One(bytes) if bytes.len() == size => {
            KEPT.set(Kept::Room);
            Some(bytes)
        }
        other => {
            KEPT.set(other);
            None
        }
    }
}

/// Keeps a buffer. Returns it if there is no room or the thread is ending.
fn keep(bytes: Vec<u8>) -> Option<Vec<u8>> {
    if bytes.len() > KEPT_BYTES {
        return Some(bytes);
    }
    let kept = KEPT.try_with(Cell::take).unwrap_or_default();
    let (kept, rest) = match kept {
        Kept::Room => (Kept::One(bytes), None),
        other => (other, Some(bytes)),
    };
    let _ = KEPT.try_with(|place| place.set(kept));
    rest
}

struct Pool {
    idle: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: [const { Vec::new() }; CLASSES], bytes: 0 });

/// How often a thread that finds the pool's lock taken yields, before it continues without the
/// pool. Threads hold the lock for a short time only.
const POOL_TRIES: usize = 100;

/// The pool; `None` if its lock stays taken. In a forked child it may stay taken for ever, by a
/// thread of the parent.
fn pool() -> Option<MutexGuard<'static, Pool>> {
    (0..POOL_TRIES).find_map(|_| match POOL.try_lock() {
        Ok(pool) => Some(pool),
        Err(TryLockError::Poisoned(pool)) => Some(pool.into_inner()),
        Err(TryLockError::WouldBlock) => {
            std::thread::yield_now();
            None
        }
    })
}

/// The memory that large messages can take at a time, in bytes over all connections.
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }

    /// Takes a share of `bytes`; `None` if less is left. Dropping the share returns it.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |left| left.checked_sub(bytes)).ok()?;
        Some(Share { budget: Arc::clone(self), bytes })
    }
}

/// Part of a budget. Dropping it returns it to the budget.
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// A buffer that returns to the pool when dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    share: Option<Share>,
}

impl Buffer {
    /// Takes a buffer of at least `len` bytes, with any content.
    pub(crate) fn take(len: usize) -> Self {
        let size = (len.max(FIRST_READ_BYTES) - SLACK).next_power_of_two() + SLACK;
        let Some(class) = class_of(size) else { return Self { bytes: vec![0; len], share: None } };
        if let Some(bytes) = take_kept(size) {
            return Self { bytes, share: None };
        }
        let pooled = pool().and_then(|mut pool| {
            let pooled = pool.idle[class].pop();
            pool.bytes -= pooled.as_ref().map_or(0, Vec::len);
            pooled
        });
        Self { bytes: pooled.unwrap_or_else(|| vec![0; size]), share: None }
    }

    /// The same, from a budget; `None` if the budget is used up.
    pub(crate) fn take_from(budget: &Arc<Budget>, len: usize) -> Option<Self> {
        let share = budget.take(len)?;
        let mut buffer = Self::take(len);
        buffer.share = Some(share);
        Some(buffer)
    }

    /// Takes a buffer with the part of the next message that has arrived. `None` if the part is
    /// larger than a first read and the budget can't cover it.
    pub(crate) fn of_surplus(surplus: &[u8], budget: Option<&Arc<Budget>>) -> Option<Self> {
        let mut buffer = match budget {
            Some(budget) if surplus.len() > FIRST_READ_BYTES => Self::take_from(budget, surplus.len())?,
            _ => Self::take(surplus.len()),
        };
        buffer.as_mut()[..surplus.len()].copy_from_slice(surplus);
        Some(buffer)
    }

    /// Enlarges the buffer to `len` bytes and keeps the first `used`. The budget pays only for the
    /// growth; `false` if it can't.
    pub(crate) fn enlarge(&mut self, budget: &Arc<Budget>, len: usize, used: usize) -> bool {
        let held = self.share.as_ref().map_or(0, |share| share.bytes);
        let Some(mut share) = budget.take(len.saturating_sub(held)) else { return false };
        let mut larger = Self::take(len);
        larger.as_mut()[..used].copy_from_slice(&self.as_ref()[..used]);
        if let Some(before) = &mut self.share {
            share.bytes += std::mem::take(&mut before.bytes);
        }
        larger.share = Some(share);
        *self = larger;
        true
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let vec = std::mem::take(&mut self.bytes);
        let Some(class) = class_of(vec.len()) else { return };
        let Some(vec) = keep(vec) else { return };
        let Some(mut pool) = pool() else { return };
        if pool.bytes + vec.len() <= POOLED_BYTES {
            pool.bytes += vec.len();
            pool.idle[class].push(vec);
        }
    }
}

fn class_of(size: usize) -> Option<usize> {
    let whole = size.checked_sub(SLACK)?;
    let class = whole.checked_ilog2()?.checked_sub(FIRST_READ_BYTES.ilog2())? as usize;
    (whole.is_power_of_two() && class < CLASSES).then_some(class)
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_what_is_asked_and_come_in_few_sizes() {
        for len in [0, 1, FIRST_READ_BYTES, FIRST_READ_BYTES + 1, 1 << 20, (1 << 20) + SLACK, 64 << 20] {
            let buffer = Buffer::take(len);
            assert!(buffer.as_ref().len() >= len, "{len}");
            assert!(class_of(buffer.as_ref().len()).is_some(), "{len}");
        }
        assert_eq!(Buffer::take((1 << 20) + SLACK).as_ref().len(), (1 << 20) + SLACK);
        assert!(Buffer::take(200 << 20).as_ref().len() >= 200 << 20, "beyond all classes: not pooled");
    }

    #[test]
    fn a_budget_is_given_back_with_the_buffers() {
        let budget = Budget::new(1 << 20);
        let half = Buffer::take_from(&budget, 1 << 19).unwrap();
        assert!(Buffer::take_from(&budget, (1 << 19) + 1).is_none());
        drop(half);
        assert!(Buffer::take_from(&budget, 1 << 20).is_some());
    }

    #[test]
    fn a_buffer_that_grows_takes_from_the_budget_only_what_it_has_more() {
        let budget = Budget::new(3 << 19);
        let mut buffer = Buffer::take_from(&budget, 1 << 19).unwrap();
        buffer.as_mut()[..3].copy_from_slice(b"abc");
        assert!(buffer.enlarge(&budget, 3 << 19, 3));
        assert_eq!(buffer.as_ref()[..3], *b"abc");
        assert!(budget.take(1).is_none());
        assert!(!buffer.enlarge(&budget, (3 << 19) + 1, 3));
        drop(buffer);
        assert!(budget.take(3 << 19).is_some());
    }

    #[test]
    fn a_thread_that_keeps_one_gets_its_own_back_and_gives_it_up_when_it_sleeps() {
        keep_one();
        let mut first = Buffer::take(1);
        first.as_mut()[..8].copy_from_slice(b"the kept");
        let mut other = Buffer::take(1);
        other.as_mut()[..8].copy_from_slice(b"a pooled");
        drop(first);
        drop(other);
        let large = Buffer::take(1 << 20);
        let again = Buffer::take(1);
        assert_eq!(again.as_ref()[..8], *b"the kept", "kept over one of another size, and before the pool's");
        assert!(keep(vec![0; KEPT_BYTES + 1]).is_some(), "not the largest");
        drop((large, again));
        give_up_kept();
        assert!(matches!(KEPT.take(), Kept::Room), "and goes on");
        drop(Buffer::take(1));
        assert!(matches!(KEPT.take(), Kept::Nothing), "who doesn't ask for it keeps none");
    }

    #[test]
    fn the_pool_keeps_a_bounded_amount() {
        let many: Vec<_> = (0..5).map(|_| Buffer::take(32 << 20)).collect();
        drop(many);
        assert!(POOL.lock().unwrap().bytes <= POOLED_BYTES);
    }
}
