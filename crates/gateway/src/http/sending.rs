//! Bytes of an answer that a client has to take, with their memory.

use crate::memory::{Account, Permit};
use crate::pool::Holder;
use crate::slow::{Flow, Way};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest head of a request, and most bytes of an answer that wait in the connection's own buffer. A
/// token has some hundred bytes; with [`crate::Limits::connections`] they bound this memory to 208 MiB.
pub const HEAD_BYTES: usize = 16 << 10;

/// Bytes that the client has to take now.
pub struct Sending {
    unsent: Arc<AtomicUsize>,
    flow: Arc<Flow>,
    holder: Arc<Holder>,
    _memory: Option<Permit>,
}

impl Sending {
    /// Counts these bytes as unsent, and holds their memory, until dropped.
    pub fn new(memory: Option<Permit>, unsent: Arc<AtomicUsize>, account: &Account) -> Self {
        unsent.fetch_add(1, Ordering::Relaxed);
        let (flow, holder) = (account.flow().clone(), account.holder().clone());
        flow.holds(Way::Out, &holder, memory.as_ref().map_or(0, Permit::shared_units));
        Self { unsent, flow, holder, _memory: memory }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.unsent.fetch_sub(1, Ordering::Relaxed);
        self.flow.holds(Way::Out, &self.holder, 0);
    }
}

/// Splits off at most [`HEAD_BYTES`]. hyper takes a piece only when it has sent most of the previous one,
/// so its buffer stays small.
pub fn piece(of: &mut Bytes) -> Bytes {
    of.split_to(of.len().min(HEAD_BYTES))
}
