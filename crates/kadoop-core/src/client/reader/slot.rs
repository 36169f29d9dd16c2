//! Requested ranges of a file, and ranges read ahead.

use crate::{Error, Millis, NodeId, client::memory::Taken};
use std::collections::BTreeSet;

/// A range. Its key is its offset in the file.
#[derive(Debug)]
pub(super) struct Slot<P> {
    /// Shortened to the existing bytes, once known.
    pub length: u32,
    pub state: State<P>,
    /// Replicas asked in this round, and the reason why each gave no bytes.
    pub tried: Vec<(NodeId, Error)>,
    /// Datanodes whose replica was damaged, in any round.
    pub damaged: BTreeSet<NodeId>,
    /// Version of the chunks' locations at the time of the request.
    pub asked_at: u64,
    pub since: Millis,
    /// A caller waits for it; otherwise it is read ahead.
    pub wanted: bool,
    /// Memory for the part that no caller has requested yet.
    _memory: Option<Taken>,
}

#[derive(Debug)]
pub(super) enum State<P> {
    /// For the chunks' locations or, from this time on, for another try.
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
