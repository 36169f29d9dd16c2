//! A queue for threads that wait in epoll.

use crate::sync::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;

/// A queue that epoll can watch.
pub(crate) struct Inbox<T> {
    queue: Mutex<VecDeque<T>>,
    filled: OwnedFd,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self { queue: Mutex::default(), filled: eventfd(0, flags)? })
    }

    pub(crate) fn put(&self, item: T) {
        self.queue().push_back(item);
        self.wake();
    }

    /// Wakes the watching threads.
    pub(crate) fn wake(&self) {
        // Fails only at 2^64 items.
        let _ = rustix::io::write(&self.filled, &1u64.to_ne_bytes());
    }

    /// Takes an item, unless there is none or another thread was faster.
    pub(crate) fn take_one(&self) -> Option<T> {
        rustix::io::read(&self.filled, &mut [0; 8]).ok()?;
        self.queue().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue().is_empty()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AsFd for Inbox<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.filled.as_fd()
    }
}
