//! Buffers of reads, kept for later reads.
//!
//! One thread fills a buffer and another frees it. With a hundred threads, an allocator then holds several
//! times the memory in use. The buffer that came back most recently is used first: it may still be in the
//! processor's cache.

use bytes::Bytes;
use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

/// Most bytes of all kept buffers together.
const KEPT_BYTES: usize = 32 << 20;
/// Length of the smallest buffers that are kept.
const LEAST_BYTES: usize = 64 << 10;

/// The kept buffers.
#[derive(Debug, Default, Clone)]
pub(super) struct Buffers(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// A buffer that returns to its [`Buffers`] when its last reader drops it.
#[derive(Debug)]
pub(super) struct Buffer {
    /// At least as many bytes as were requested, with arbitrary content.
    pub bytes: Vec<u8>,
    filled: usize,
    home: Buffers,
}

impl Buffers {
    /// A buffer for `length` bytes.
    pub fn take(&self, length: usize) -> Buffer {
        let kept = if length < LEAST_BYTES { None } else { self.change(Kept::pop) };
        // Don't use a much longer buffer: it would hold more memory than its reader accounts for.
        let bytes = kept.filter(|bytes| (length..=2 * length).contains(&bytes.len()));
        Buffer { bytes: bytes.unwrap_or_else(|| vec![0; length]), filled: 0, home: self.clone() }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn pop(&mut self) -> Option<Vec<u8>> {
        let bytes = self.buffers.pop()?;
        self.bytes -= bytes.len();
        Some(bytes)
    }

    /// Keeps a buffer. Returns it instead if the kept buffers would then have too many bytes.
    fn push(&mut self, bytes: Vec<u8>) -> Option<Vec<u8>> {
        if self.bytes + bytes.len() > KEPT_BYTES {
            return Some(bytes);
        }
        self.bytes += bytes.len();
        self.buffers.push(bytes);
        None
    }
}

impl Buffer {
    /// The buffer's first `filled` bytes, for readers.
    pub fn freeze(mut self, filled: usize) -> Bytes {
        self.filled = filled;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = mem::take(&mut self.bytes);
        if bytes.len() >= LEAST_BYTES {
            // A buffer that isn't kept is freed here, outside the lock.
            let _freed = self.home.change(|kept| kept.push(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_its_last_reader_is_done() {
        let buffers = Buffers::default();
        let mut first = buffers.take(LEAST_BYTES);
        first.bytes[..10].fill(1);
        let bytes = first.freeze(10);
        let part = bytes.slice(2..);
        drop(bytes);
        assert_eq!(buffers.take(LEAST_BYTES).bytes[..10], [0; 10], "the first is being read");
        assert_eq!(part, [1; 8][..]);
        drop(part);
        assert_eq!(buffers.take(LEAST_BYTES).bytes[..10], [1; 10]);
    }

    #[test]
    fn as_many_bytes_are_kept_as_stated_in_buffers_of_a_fitting_size() {
        let buffers = Buffers::default();
        let many: Vec<_> = (0..40).map(|_| buffers.take(1 << 20)).collect();
        drop(many);
        drop(buffers.take(LEAST_BYTES - 1));
        let kept = || buffers.change(|kept| (kept.buffers.len(), kept.bytes));
        assert_eq!(kept(), (32, KEPT_BYTES));
        let large = buffers.take(2 << 20);
        let small = buffers.take(LEAST_BYTES);
        assert_eq!((large.bytes.len(), small.bytes.len()), (2 << 20, LEAST_BYTES));
        assert_eq!(kept(), (30, 30 << 20), "two of another size gave way");
    }
}
