//! Reusable buffers for reads of a chunk.
//!
//! A read of 1 MiB from the page cache into recently used memory finds that memory in the
//! processor's caches, and so does the send that follows. Bare sockets move 4.4 GB/s that way and
//! 3.0 from memory outside the caches. An allocator is slow to reuse memory that another thread has
//! freed, so the file store keeps a few buffers itself.

use crate::process::PerProcess;
use bytes::Bytes;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Size of a buffer: our clients' usual read. Reads of other lengths use no buffer, because its
/// unused rest would be memory that no limit counts.
pub(super) const BUFFER_BYTES: usize = 1 << 20;
/// Buffers kept for the next reads: as many as one client has in flight, and no more memory than
/// the process can spare permanently.
const KEPT_BUFFERS: usize = 8;

/// A stack: the buffer that was used last is still in the processor's caches. A forked child has its own
/// stack, because a thread of its parent may have held the lock at the fork.
static KEPT: PerProcess<Mutex<Vec<Vec<u8>>>> = PerProcess::new();

/// An empty buffer of [`BUFFER_BYTES`].
pub(super) fn take() -> Vec<u8> {
    let kept = lock().pop();
    kept.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// The bytes of a buffer. When the last reference is dropped, the buffer is kept for further reads.
pub(super) fn into_bytes(filled: Vec<u8>) -> Bytes {
    if filled.capacity() == BUFFER_BYTES { Bytes::from_owner(Kept(filled)) } else { Bytes::from(filled) }
}

fn lock() -> MutexGuard<'static, Vec<Vec<u8>>> {
    let Ok(kept) = KEPT.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Kept(Vec<u8>);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut kept = lock();
        if kept.len() < KEPT_BUFFERS {
            let mut buffer = std::mem::take(&mut self.0);
            buffer.clear();
            kept.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_empty_when_it_comes_again_and_few_are_kept() {
        let all: Vec<Bytes> = (0..2 * KEPT_BUFFERS)
            .map(|n| {
                let mut buffer = take();
                assert!(buffer.is_empty() && buffer.capacity() == BUFFER_BYTES);
                buffer.extend_from_slice(&n.to_le_bytes());
                into_bytes(buffer)
            })
            .collect();
        let second = all[1].slice(..);
        assert_eq!(second, 1usize.to_le_bytes()[..]);
        drop(all);
        assert_eq!(second, 1usize.to_le_bytes()[..], "a buffer in use isn't given out");
        drop(second);
        assert!(lock().len() <= KEPT_BUFFERS);
        assert!(take().is_empty());
    }
}
