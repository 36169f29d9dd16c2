//! What passes between service workers and the forwarder.

use crate::net::reader::Frame;
use crate::proto::Micros;
use crate::proto::auth::Credentials;
use crate::proto::frame::Head;
use crate::server::connection::Connection;
use crate::server::core::Origin;
use crate::server::service::{Ended, Reply};
use bytes::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The two ways between workers and forwarder.
pub(crate) struct Chains {
    /// To the workers: calls to execute.
    pub(crate) jobs: Inbox<Job>,
    /// To the forwarder.
    pub(crate) adopted: Inbox<Adopted>,
    closed: AtomicBool,
}

/// What the forwarder takes over.
pub(crate) enum Adopted {
    /// A connection on which a chain call arrives, or has arrived.
    Connection(Arc<Connection>, Option<Frame>),
    /// A call was executed.
    Ran(u64, Result<Reply, Ended>),
}

/// A chain's call to execute at this callee.
pub(crate) struct Job {
    /// Which of the forwarder's calls it is.
    pub(crate) passing: u64,
    pub(crate) head: Head,
    pub(crate) args: Bytes,
    pub(crate) credentials: Credentials,
    pub(crate) origin: Origin,
    pub(crate) arrived: Micros,
}

impl Chains {
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, adopted) = (Inbox::new()?, Inbox::new()?);
        Ok(Self { jobs, adopted, closed: AtomicBool::new(false) })
    }

    pub(crate) fn adopt(&self, adopted: Adopted) {
        self.adopted.put(adopted);
    }

    /// The forwarder ends once it has nothing to do.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.adopted.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// A queue that epoll can watch.
pub(crate) struct Inbox<T> {
    queue: Mutex<VecDeque<T>>,
    filled: OwnedFd,
}

impl<T> Inbox<T> {
    fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE;
        Ok(Self { queue: Mutex::default(), filled: eventfd(0, flags)? })
    }

    pub(crate) fn put(&self, item: T) {
        self.queue().push_back(item);
        self.wake();
    }

    fn wake(&self) {
        // It fails only at 2^64 items.
        let _ = rustix::io::write(&self.filled, &1u64.to_ne_bytes());
    }

    /// An item, if there is one and nobody was faster.
    pub(crate) fn take_one(&self) -> Option<T> {
        rustix::io::read(&self.filled, &mut [0; 8]).ok()?;
        self.queue().pop_front()
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
