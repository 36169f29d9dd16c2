//! Ranges of a file that were asked for, or soon will be.

use crate::{Error, Millis, NodeId, client::memory::Taken};

/// A range, by the offset in the file that it begins at.
#[derive(Debug)]
pub(super) struct Slot<P> {
    /// Cut to what is there, once that is known.
    pub length: u32,
    pub state: State<P>,
    /// Replicas that were asked in this round, and why each has nothing for us.
    pub tried: Vec<(NodeId, Error)>,
    /// What was known of the file's chunks when it was asked for.
    pub asked_at: u64,
    pub since: Millis,
    /// Somebody waits for it; otherwise it is read ahead.
    pub wanted: bool,
    /// For the part of it that nobody has asked for yet.
    _memory: Option<Taken>,
}

#[derive(Debug)]
pub(super) enum State<P> {
    /// For the chunks' locations, or from this time on for another try.
    Waiting(Millis),
    Fetching,
    Ready(P),
    /// Nothing is there, as of now.
    End,
    Failed(Error),
}

impl<P> Slot<P> {
    pub fn new(length: u32, asked_at: u64, now: Millis, wanted: bool, memory: Option<Taken>) -> Self {
        let (state, tried) = (State::Waiting(now), Vec::new());
        Self { length, state, tried, asked_at, since: now, wanted, _memory: memory }
    }

    pub fn is_waiting(&self, now: Millis) -> bool {
        matches!(self.state, State::Waiting(from) if now >= from)
    }
}
