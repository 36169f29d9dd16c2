//! Receive buffers, pooled and bounded.
//!
//! A buffer is zeroed once and then reused, so that receiving needs no `unsafe`
//! and a message of a megabyte doesn't fault its pages in each time.

use std::sync::{Mutex, PoisonError};

/// The smallest buffer: 128 KiB is read at first (a smaller first read costs
/// another system call at 64 KiB), plus room for a head with its extension.
pub(crate) const FIRST_READ_BYTES: usize = (128 << 10) + SLACK;

/// Beyond powers of two: head, extension and tag of a payload that is one.
const SLACK: usize = 4 << 10;

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

/// A buffer that goes back to the pool when dropped.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    /// At least `len` bytes, of any content.
    pub(crate) fn take(len: usize) -> Self {
        let size = (len.max(FIRST_READ_BYTES) - SLACK).next_power_of_two() + SLACK;
        let Some(class) = class_of(size) else { return Self(vec![0; len]) };
        let pooled = {
            let mut pool = POOL.lock().unwrap_or_else(PoisonError::into_inner);
            let pooled = pool.idle[class].pop();
            pool.bytes -= pooled.as_ref().map_or(0, Vec::len);
            pooled
        };
        Self(pooled.unwrap_or_else(|| vec![0; size]))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let vec = std::mem::take(&mut self.0);
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
        &self.0
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
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
    fn the_pool_keeps_a_bounded_amount() {
        let many: Vec<_> = (0..5).map(|_| Buffer::take(32 << 20)).collect();
        drop(many);
        assert!(POOL.lock().unwrap().bytes <= POOLED_BYTES);
    }
}
