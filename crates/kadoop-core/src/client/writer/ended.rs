//! Chunks that this writer has ended. The writer keeps each chunk until the namenode has logged its end,
//! with a member that sealed it.

use crate::{
    Error, Millis, NodeId,
    messages::{End, NewChunk, Outcome},
};
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Ended {
    pub new: NewChunk,
    /// The chunk's length; 0 abandons the chunk.
    pub length: u32,
    /// Whether its pipeline broke. If so, the writer requests no further chunk until a member has sealed
    /// this one. A chunk of length 0 needs no seal.
    pub broken: bool,
    /// Members to ask for the next seal.
    pub ask: Vec<NodeId>,
    /// Members that have sealed it.
    pub durable: Vec<NodeId>,
    /// Number of seals under way.
    pub calls: usize,
    /// Earliest time of the next seals.
    pub next_try: Millis,
    /// Time when it ended.
    pub since: Millis,
    /// Members whose latest answer was that they can never seal it.
    pub refused: BTreeSet<NodeId>,
    /// Whether the writer has left it to the namenode to get the chunk sealed.
    pub handed_over: bool,
    /// Whether the namenode has logged the end, at least as a claim.
    pub claimed: bool,
    /// Whether the namenode has logged the end, with a member that sealed it.
    pub logged: bool,
    /// Least number of replicas according to the namenode's answer.
    pub assured: usize,
}

impl Ended {
    pub fn end(&self) -> End {
        End { chunk: self.new.chunk, length: self.length, durable: self.durable.clone() }
    }

    /// Number of members that have the whole chunk: on disk, or in memory until they have sealed it.
    pub fn replicas(&self) -> usize {
        let in_memory = !self.broken && (self.calls > 0 || self.durable.is_empty());
        if in_memory { self.new.pipeline.len() } else { self.durable.len().max(self.assured) }
    }

    /// Whether a member has sealed it, or there is nothing to seal.
    pub fn is_durable(&self) -> bool {
        self.length == 0 || !self.durable.is_empty()
    }

    /// Whether a member has sealed it, and no answer is still to come.
    pub fn is_settled(&self) -> bool {
        self.is_durable() && self.calls == 0
    }

    pub fn needs_seal(&self, now: Millis) -> bool {
        self.waits() && now >= self.next_try
    }

    /// Whether no member has sealed it, and none is being asked.
    pub fn waits(&self) -> bool {
        !self.is_durable() && self.calls == 0 && !self.handed_over
    }

    /// Handles a member's answer to a seal.
    pub fn on_sealed(&mut self, node: NodeId, outcome: Outcome) {
        self.calls = self.calls.saturating_sub(1);
        self.refused.remove(&node);
        match outcome {
            Outcome::Value => self.durable.push(node),
            // The member has restarted, and will never have more bytes than it has now.
            Outcome::Error(Error::NoReplica | Error::NotOpen | Error::BeyondEnd | Error::Corrupt) => {
                self.refused.insert(node);
            }
            Outcome::Error(_) | Outcome::NotExecuted | Outcome::Unknown => {}
        }
    }

    /// Whether to leave the chunk to the namenode, which reaches members that have another address now,
    /// and knows when waiting is useless. True if every member has refused, or after `grace_ms`, in
    /// which a restarting member returns.
    pub fn is_hopeless(&self, now: Millis, grace_ms: Millis) -> bool {
        let refused = self.refused.len() == self.new.pipeline.len();
        self.waits() && (refused || now.saturating_sub(self.since) >= grace_ms)
    }

    /// All members, to be asked at the next attempt.
    pub fn everyone(&self) -> Vec<NodeId> {
        self.new.pipeline.iter().map(|member| member.node).collect()
    }
}
