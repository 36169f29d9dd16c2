//! Chunks of this writer that have their end, until the namenode has it logged with a
//! member that sealed it.

use crate::{
    Millis, NodeId,
    messages::{End, NewChunk},
};

#[derive(Debug)]
pub(super) struct Ended {
    pub new: NewChunk,
    /// 0 gives the chunk up.
    pub length: u32,
    /// Its pipeline broke: nothing goes on before a member has sealed it.
    pub broken: bool,
    /// Who is asked to seal it next.
    pub ask: Vec<NodeId>,
    pub durable: Vec<NodeId>,
    /// Seals under way.
    pub calls: usize,
    pub next_try: Millis,
    /// The namenode has the end, at least as a claim.
    pub claimed: bool,
}

impl Ended {
    pub fn end(&self) -> End {
        End { chunk: self.new.chunk, length: self.length, durable: self.durable.clone() }
    }

    /// A member has sealed it, or there is nothing to seal.
    pub fn is_durable(&self) -> bool {
        self.length == 0 || !self.durable.is_empty()
    }

    /// Nothing more can be learned by waiting.
    pub fn is_settled(&self) -> bool {
        self.is_durable() && self.calls == 0
    }

    pub fn needs_seal(&self, now: Millis) -> bool {
        !self.is_durable() && self.calls == 0 && now >= self.next_try
    }

    /// All members, for the next try.
    pub fn everyone(&self) -> Vec<NodeId> {
        self.new.pipeline.iter().map(|member| member.node).collect()
    }
}
