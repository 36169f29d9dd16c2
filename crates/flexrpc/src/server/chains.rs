//! What service workers and the forwarder share of the chain calls under way.

use crate::net::pool::Pool;
use crate::proto::Micros;
use crate::proto::extension::Caller;
use crate::proto::frame::Head;
use crate::server::core::Origin;
use crate::server::lent::Lent;
use crate::server::passing::{Idle, Passing};
use crate::server::service::{Ended, Reply};
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use bytes::Bytes;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::io;
use std::sync::PoisonError;

/// Idle connections to next callees: a few for each of a rack's.
const POOLED: usize = 256;

/// Below are what the forwarder tells apart from calls.
pub(crate) const FIRST_CALL: u64 = 1;

pub(crate) struct Chains {
    /// To the workers: calls to execute.
    pub(crate) jobs: Inbox<Job>,
    /// To the forwarder.
    pub(crate) adopted: Inbox<Adopted>,
    /// Calls that their workers execute.
    pub(crate) lent: Lent,
    /// Connections to next callees.
    pub(crate) idle: Idle,
    next_id: AtomicU64,
    /// Calls that are with workers.
    carried: AtomicUsize,
    closed: AtomicBool,
    /// No more calls will come.
    ended: AtomicBool,
}

/// What the forwarder takes over.
pub(crate) enum Adopted {
    /// A call whose worker is needed elsewhere.
    Call(Box<Passing>),
    /// A call that it has was executed.
    Ran(u64, Result<Reply, Ended>),
}

/// A chain's call to execute at this callee.
pub(crate) struct Job {
    /// Which chain call it is.
    pub(crate) passing: u64,
    pub(crate) head: Head,
    pub(crate) args: Bytes,
    pub(crate) caller: Caller,
    pub(crate) origin: Origin,
    pub(crate) arrived: Micros,
}

impl Chains {
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, adopted) = (Inbox::new()?, Inbox::new()?);
        Ok(Self {
            jobs,
            adopted,
            lent: Lent::default(),
            idle: Mutex::new(Pool::new(POOLED)),
            next_id: AtomicU64::new(FIRST_CALL),
            carried: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// An id for a call, and its place in the count of those with workers.
    pub(crate) fn carry(&self) -> (u64, Counted<'_>) {
        self.carried.fetch_add(1, Ordering::AcqRel);
        (self.next_id.fetch_add(1, Ordering::Relaxed), Counted(self))
    }

    pub(crate) fn adopt(&self, adopted: Adopted) {
        self.adopted.put(adopted);
    }

    /// Closes the connections to next callees that no call is on.
    pub(crate) fn close_idle(&self) {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).drain();
        // Closed without the lock.
        drop(idle);
    }

    /// The server shuts down: the forwarder sees to all calls.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.adopted.wake();
    }

    /// The forwarder ends once there is nothing to do.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.adopted.wake();
    }

    /// Whether the server shuts down.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether no call is left, and none will come.
    pub(crate) fn are_over(&self) -> bool {
        // In this order: a worker gives a call to the forwarder before it uncounts it.
        self.ended.load(Ordering::Acquire)
            && self.carried.load(Ordering::Acquire) == 0
            && self.adopted.queue().is_empty()
    }
}

/// A call with a worker, until dropped.
pub(crate) struct Counted<'a>(&'a Chains);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.carried.fetch_sub(1, Ordering::AcqRel);
        if self.0.are_closed() {
            self.0.adopted.wake();
        }
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

    /// Has whoever watches look.
    pub(crate) fn wake(&self) {
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
