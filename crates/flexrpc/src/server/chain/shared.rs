//! State of the chain calls in progress, shared by service workers and the forwarder.

use super::call::{ChainCall, Idle};
use super::executing::Executing;
use super::inbox::Inbox;
use super::job::Job;
use crate::net::pool::Pool;
use crate::server::service::{Ended, Reply};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::io;
use std::sync::PoisonError;

/// Most idle connections to next callees: a few for each host of a rack.
const POOLED: usize = 256;

/// The first call's id; the forwarder uses lower ids for other events.
pub(crate) const FIRST_CALL: u64 = 1;

pub(crate) struct Chains {
    /// Calls of the forwarder that workers must execute.
    pub(crate) jobs: Inbox<Job>,
    /// Messages to the forwarder.
    pub(crate) adopted: Inbox<Adopted>,
    /// Calls that their own workers are executing.
    pub(crate) executing: Executing,
    /// Connections to next callees.
    pub(crate) idle: Idle,
    next_id: AtomicU64,
    /// Number of calls that workers carry.
    carried: AtomicUsize,
    closed: AtomicBool,
    /// Whether no more calls will come.
    ended: AtomicBool,
}

/// A message to the forwarder.
pub(crate) enum Adopted {
    /// A call to take over, since its worker is needed for other connections.
    Call(Box<ChainCall>),
    /// The result of a call that the forwarder owns.
    Ran(u64, Result<Reply, Ended>),
}

impl Chains {
    pub(crate) fn new() -> io::Result<Self> {
        let (jobs, adopted) = (Inbox::new()?, Inbox::new()?);
        Ok(Self {
            jobs,
            adopted,
            executing: Executing::default(),
            idle: Mutex::new(Pool::new(POOLED)),
            next_id: AtomicU64::new(FIRST_CALL),
            carried: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        })
    }

    /// Assigns an id to a call, and counts it as carried by a worker.
    pub(crate) fn carry(&self) -> (u64, Counted<'_>) {
        self.carried.fetch_add(1, Ordering::AcqRel);
        (self.next_id.fetch_add(1, Ordering::Relaxed), Counted(self))
    }

    pub(crate) fn adopt(&self, adopted: Adopted) {
        self.adopted.put(adopted);
    }

    /// Closes the idle connections to next callees.
    pub(crate) fn close_idle(&self) {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).drain();
        // Dropping outside the lock closes them.
        drop(idle);
    }

    /// Shuts down: the forwarder takes over all calls.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.adopted.wake();
    }

    /// Lets the forwarder end after its last call.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.adopted.wake();
    }

    /// Whether the server is shutting down.
    pub(crate) fn are_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether no call is left with a worker or in the queue, and none will come.
    pub(crate) fn are_over(&self) -> bool {
        // The order matters: a worker gives a call to the forwarder before it uncounts it.
        self.ended.load(Ordering::Acquire)
            && self.carried.load(Ordering::Acquire) == 0
            && self.adopted.is_empty()
    }
}

/// Counts a call as carried by a worker, until dropped.
pub(crate) struct Counted<'a>(&'a Chains);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.carried.fetch_sub(1, Ordering::AcqRel);
        if self.0.are_closed() {
            self.0.adopted.wake();
        }
    }
}
