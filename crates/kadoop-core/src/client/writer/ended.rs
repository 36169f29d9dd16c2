//! This writer's chunks that have their end, until the namenode has logged it with a member that
//! sealed it.

use crate::{
    Error, Millis, NodeId,
    messages::{End, NewChunk, Outcome},
};
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Ended {
    pub new: NewChunk,
    /// 0 abandons the chunk.
    pub length: u32,
    /// Its pipeline broke: nothing continues before a member has sealed it.
    pub broken: bool,
    /// Members to ask for the next seal.
    pub ask: Vec<NodeId>,
    pub durable: Vec<NodeId>,
    /// Seals under way.
    pub calls: usize,
    pub next_try: Millis,
    /// When it ended.
    pub since: Millis,
    /// Members whose last answer was that they can never seal it.
    pub refused: BTreeSet<NodeId>,
    /// Its members are left to the namenode.
    pub handed_over: bool,
    /// The namenode has the end, at least as a claim.
    pub claimed: bool,
    /// The namenode has the end, and a member that sealed it.
    pub logged: bool,
    /// Replicas that it has at least, by the namenode's answer.
    pub assured: usize,
}

impl Ended {
    pub fn end(&self) -> End {
        End { chunk: self.new.chunk, length: self.length, durable: self.durable.clone() }
    }

    /// Members that have all of it: on disk, or in memory until they have sealed it.
    pub fn replicas(&self) -> usize {
        let in_memory = !self.broken && (self.calls > 0 || self.durable.is_empty());
        if in_memory { self.new.pipeline.len() } else { self.durable.len().max(self.assured) }
    }

    /// Whether a member has sealed it, or there is nothing to seal.
    pub fn is_durable(&self) -> bool {
        self.length == 0 || !self.durable.is_empty()
    }

    /// Whether waiting can't bring any further answer.
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

    /// Takes a member's answer to a seal.
    pub fn on_sealed(&mut self, node: NodeId, outcome: Outcome) {
        self.calls = self.calls.saturating_sub(1);
        self.refused.remove(&node);
        match outcome {
            Outcome::Value => self.durable.push(node),
            // It has restarted, and the bytes that it still has never become more.
            Outcome::Error(Error::NoReplica | Error::NotOpen | Error::BeyondEnd | Error::Corrupt) => {
                self.refused.insert(node);
            }
            Outcome::Error(_) | Outcome::NotExecuted | Outcome::Unknown => {}
        }
    }

    /// Whether to leave it to the namenode, which reaches members that have moved and knows when
    /// waiting is useless. A member that merely restarts gets `grace_ms`.
    pub fn is_hopeless(&self, now: Millis, grace_ms: Millis) -> bool {
        let refused = self.refused.len() == self.new.pipeline.len();
        self.waits() && (refused || now.saturating_sub(self.since) >= grace_ms)
    }

    /// All members, for the next try.
    pub fn everyone(&self) -> Vec<NodeId> {
        self.new.pipeline.iter().map(|member| member.node).collect()
    }
}
