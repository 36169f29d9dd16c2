//! Calling workers (section IV.A): threads that issue the subcalls of parallel multicasts. Their
//! number follows the demand, and dormant ones end.

use crate::client::gather::Gather;
use crate::client::handle::Handle;
use crate::client::message::{Message, Sum};
use crate::client::turn::Turn;
use crate::net::clock;
use crate::proto::Micros;
use crate::proto::call::{Call, Step};
use crate::proto::frame::Kind;
use crate::proto::ids::Procedure;
use crate::proto::status::{Outcome, Refusal};
use crate::sync::{Condvar, Mutex, MutexGuard, thread};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The parts that all subcalls of a multicast share.
pub(crate) struct Multicast {
    pub(crate) procedure: Procedure,
    pub(crate) args: Vec<Bytes>,
    pub(crate) turn: Option<Turn>,
    pub(crate) extension: Vec<u8>,
    pub(crate) sum: Sum,
    pub(crate) deadline: Option<Micros>,
    pub(crate) gather: Gather,
}

impl Multicast {
    /// Calls `body` with the multicast's message, which borrows from `self`.
    pub(crate) fn with_message<T>(&self, body: impl FnOnce(&Message<'_>) -> T) -> T {
        let args: Vec<&[u8]> = self.args.iter().map(|slice| &slice[..]).collect();
        let (procedure, extension, sum) = (self.procedure, &self.extension[..], self.sum);
        let turn = self.turn.as_ref();
        body(&Message { kind: Kind::Call, procedure, args: &args, extension, flags: 0, sum, turn })
    }
}

/// One callee's part of a multicast.
pub(crate) struct Subcall {
    pub(crate) multicast: Arc<Multicast>,
    /// The callee's index in the multicast.
    pub(crate) index: usize,
    pub(crate) handle: Handle,
    /// A call that has begun, and its next step.
    pub(crate) begun: Option<(Call, Step)>,
}

impl Work for Subcall {
    /// Makes the call as a normal single call, blocking.
    fn run(self) {
        let Self { multicast, index, mut handle, begun } = self;
        let deadline = multicast.deadline;
        let outcome = multicast.with_message(|message| match begun {
            None => handle.exchange(message, deadline),
            Some((call, step)) => handle.drive(call, step, message, deadline),
        });
        let outcome = handle.of_one_callee(outcome);
        // The handle returns to the pool before the caller can ask for it again.
        drop(handle);
        multicast.gather.put(index, outcome);
    }

    fn refuse(self) {
        let Self { multicast, index, begun, mut handle } = self;
        let outcome = match begun {
            Some((call, _)) => handle.end(call.abandon(), &call),
            None => Outcome::NotExecuted(Refusal::NotSent),
        };
        drop(handle);
        multicast.gather.put(index, outcome);
    }
}

/// A unit of work.
pub(crate) trait Work: Send + 'static {
    /// Executes it.
    fn run(self);

    /// Refuses it, since no worker will execute it.
    fn refuse(self);
}

/// An entry of the call request queue.
struct Request<W> {
    degree: usize,
    issued: usize,
    subcalls: Vec<W>,
}

/// The call request queue, and the threads behind it.
pub(crate) struct CallingWorkers<W>(Arc<Inner<W>>);

struct Inner<W> {
    queue: Mutex<Queue<W>>,
    filled: Condvar,
    most: usize,
    dormant_for: Duration,
}

struct Queue<W> {
    requests: VecDeque<Request<W>>,
    workers: usize,
    dormant: usize,
    /// Whether the client is gone. The threads then empty the queue, and end.
    closed: bool,
}

impl<W: Work> CallingWorkers<W> {
    /// At most `most` threads. A thread ends after it has been dormant for `dormant_for`.
    pub(crate) fn new(most: usize, dormant_for: Duration) -> Self {
        let queue = Queue { requests: VecDeque::new(), workers: 0, dormant: 0, closed: false };
        let inner =
            Inner { queue: Mutex::new(queue), filled: Condvar::new(), most: most.max(1), dormant_for };
        Self(Arc::new(inner))
    }

    /// Queues the subcalls of one request, and starts workers if too few are dormant.
    pub(crate) fn submit(&self, subcalls: Vec<W>) {
        let degree = subcalls.len();
        if degree == 0 {
            return;
        }
        let mut queue = self.queue();
        queue.requests.push_back(Request { degree, issued: 0, subcalls });
        // Some dormant workers may already have been woken for earlier requests.
        let waiting: usize = queue.requests.iter().map(|request| request.degree - request.issued).sum();
        let lacking = waiting.saturating_sub(queue.dormant);
        for _ in 0..lacking.min(self.0.most - queue.workers.min(self.0.most)) {
            let inner = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("flexrpc-calling".to_owned());
            if thread.spawn(move || inner.work()).is_ok() {
                queue.workers += 1;
            }
        }
        let orphaned = if queue.workers == 0 { queue.requests.pop_back() } else { None };
        drop(queue);
        self.0.filled.notify_all();
        // No thread could be started, so nothing was sent.
        orphaned.into_iter().flat_map(|request| request.subcalls).for_each(W::refuse);
    }

    /// Withdraws the queued work that `which` selects and no worker has begun.
    pub(crate) fn withdraw(&self, which: impl Fn(&W) -> bool) -> Vec<W> {
        let mut queue = self.queue();
        let mut withdrawn = Vec::new();
        queue.requests.retain_mut(|request| {
            withdrawn.extend(request.subcalls.extract_if(.., |work| which(work)));
            request.degree = request.issued + request.subcalls.len();
            !request.subcalls.is_empty()
        });
        withdrawn
    }

    /// The number of calling workers.
    pub(crate) fn count(&self) -> usize {
        self.queue().workers
    }

    /// Lets the threads end after the queue is empty.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.0.filled.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Work> Inner<W> {
    fn work(&self) {
        while let Some(subcall) = self.next() {
            subcall.run();
        }
    }

    /// Waits for the next subcall; `None` if the worker must end.
    fn next(&self) -> Option<W> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let dormant_since = clock::now();
        loop {
            if let Some(subcall) = queue.issue() {
                return Some(subcall);
            }
            let left = self.dormant_for.saturating_sub(clock::since(dormant_since));
            if queue.closed || left.is_zero() {
                queue.workers -= 1;
                return None;
            }
            queue.dormant += 1;
            queue = self.filled.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
            queue.dormant -= 1;
        }
    }
}

impl<W> Queue<W> {
    /// Takes a subcall of the oldest request. The worker that takes the last one dequeues the
    /// request.
    fn issue(&mut self) -> Option<W> {
        let request = self.requests.front_mut()?;
        request.issued += 1;
        let subcall = request.subcalls.pop();
        if request.subcalls.is_empty() {
            self.requests.pop_front();
        }
        subcall
    }
}
