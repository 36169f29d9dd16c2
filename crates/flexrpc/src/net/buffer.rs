//! Receive buffers, pooled and bounded.
//!
//! A buffer is zeroed once and then reused, so that receiving needs no `unsafe`
//! and a message of a megabyte doesn't fault its pages in each time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The smallest buffer: 128 KiB is read at first (a smaller first read costs
/// another system call at 64 KiB), plus room for a head with its extension.
pub(crate) const FIRST_READ_BYTES: usize = (128 << 10) + SLACK;

/// Beyond powers of two: head, extension and tag of a payload that is one.
pub(crate) const SLACK: usize = 4 << 10;

/// Idle buffers that are kept, in bytes: some hundred concurrent small calls, or
/// the largest message.
const POOLED_BYTES: usize = 64 << 20;

/// Sizes: 128 KiB << 0 ..= 128 KiB << 10, each plus [`SLACK`].
const CLASSES: usize = 11;

struct Pool {
    idle: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { idle: [const { Vec::new() }; CLASSES], bytes: 0 });

/// Bytes that large messages may take at a time, over all connections.
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(bytes)))
    }

    /// A share of `bytes`, given back when dropped; `None` if there isn't as much.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |left| left.checked_sub(bytes)).ok()?;
        Some(Share { budget: Arc::clone(self), bytes })
    }
}

/// Given back when dropped.
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// A buffer that goes back to the pool when dropped.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    share: Option<Share>,
}

impl Buffer {
    /// At least `len` bytes, of any content.
    pub(crate) fn take(len: usize) -> Self {
        let size = (len.max(FIRST_READ_BYTES) - SLACK).next_power_of_two() + SLACK;
        let Some(class) = class_of(size) else { return Self { bytes: vec![0; len], share: None } };
        let pooled = {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let pooled = pool.idle[class].pop();
            pool.bytes -= pooled.as_ref().map_or(0, Vec::len);
            pooled
        };
        Self { bytes: pooled.unwrap_or_else(|| vec![0; size]), share: None }
    }

    /// The same out of a budget; `None` if it is used up.
    pub(crate) fn take_from(budget: &Arc<Budget>, len: usize) -> Option<Self> {
        let share = budget.take(len)?;
        let mut buffer = Self::take(len);
        buffer.share = Some(share);
        Some(buffer)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let vec = std::mem::take(&mut self.bytes);
        let Some(class) = class_of(vec.len()) else { return };
        let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
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
    fn the_pool_keeps_a_bounded_amount() {
        let many: Vec<_> = (0..5).map(|_| Buffer::take(32 << 20)).collect();
        drop(many);
        assert!(POOL.lock().unwrap().bytes <= POOLED_BYTES);
    }
}
