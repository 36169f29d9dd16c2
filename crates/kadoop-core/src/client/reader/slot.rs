//! Requested ranges of a file, and ranges read ahead.

use crate::{Error, Millis, NodeId, client::memory::Taken};
use std::collections::BTreeSet;

/// A range of the file. The reader keeps it under its offset.
#[derive(Debug)]
pub(super) struct Slot<P> {
    /// Length of the range, shortened to the existing bytes once their number is known.
    pub length: u32,
    pub state: State<P>,
    /// Datanodes asked since the latest request of locations, and the reason why each gave no bytes.
    pub tried: Vec<(NodeId, Error)>,
    /// All datanodes whose replica was found damaged.
    pub damaged: BTreeSet<NodeId>,
    /// Version of the chunks' locations when the slot was made, or when all replicas had failed.
    pub asked_at: u64,
    pub since: Millis,
    /// Whether a caller waits for it. Otherwise it is read ahead.
    pub wanted: bool,
    /// Memory for the part that no caller has requested yet.
    _memory: Option<Taken>,
}

#[derive(Debug)]
pub(super) enum State<P> {
    /// The slot waits for the chunks' locations, or until this time for another attempt.
    Waiting(Millis),
    Fetching,
    Ready(P),
    /// The file has no bytes here, as of now.
    End,
    Failed(Error),
}

impl<P> Slot<P> {
    pub fn new(length: u32, asked_at: u64, now: Millis, wanted: bool, memory: Option<Taken>) -> Self {
        let (state, tried) = (State::Waiting(now), Vec::new());
        Self { length, state, tried, damaged: BTreeSet::new(), asked_at, since: now, wanted, _memory: memory }
    }

    pub fn is_waiting(&self, now: Millis) -> bool {
        matches!(self.state, State::Waiting(from) if now >= from)
    }
}
