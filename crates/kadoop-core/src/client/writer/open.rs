//! The chunk being written: the bytes under way and the acknowledged length.

use crate::{
    NodeId,
    messages::{NewChunk, Outcome},
};
use bytes::Bytes;
use std::collections::VecDeque;

/// An open chunk.
#[derive(Debug)]
pub(super) struct Open {
    pub new: NewChunk,
    pub phase: Phase,
    /// Number of bytes that the members copy from the chunk which this one continues.
    pub start: u32,
    /// End of the sent bytes.
    pub sent_end: u32,
    /// Length that every member has applied.
    pub acknowledged: u32,
    /// Length that every member knows to be acknowledged.
    pub published: u32,
    /// Length that every member has on disk.
    pub synced: u32,
    /// Sent but unacknowledged pieces, in order. The first begins at `acknowledged`.
    pub sent: VecDeque<Bytes>,
    /// Calls under way, except probes.
    pub calls: usize,
    pub probes: usize,
    /// The flush or sync whose calls to the members are under way.
    pub telling: Option<Telling>,
    /// Members that seem to have broken the pipeline.
    pub suspects: Vec<NodeId>,
    /// Members that have answered the probe.
    pub there: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The members copy the bytes of the continued chunk.
    Copying,
    Writing,
    /// A call didn't succeed at every member.
    Broken,
    /// After that, the writer probes the members.
    Probing,
    /// The writer probes the members although every call so far has succeeded.
    Examining,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Telling {
    pub sync: bool,
    pub length: u32,
    pub left: usize,
}

impl Open {
    pub fn new(new: NewChunk) -> Self {
        let start = new.continues.as_ref().map_or(0, |source| source.length);
        Self {
            phase: if new.continues.is_some() { Phase::Copying } else { Phase::Writing },
            new,
            start,
            sent_end: start,
            acknowledged: start,
            published: start,
            synced: start,
            sent: VecDeque::new(),
            calls: 0,
            probes: 0,
            telling: None,
            suspects: Vec::new(),
            there: Vec::new(),
        }
    }

    /// Whether the chunk has no bytes.
    pub fn is_empty(&self) -> bool {
        self.sent_end == 0
    }

    /// Whether the pipeline works, all sent bytes are acknowledged, and no call is under way.
    pub fn settled(&self) -> bool {
        self.phase == Phase::Writing && self.acknowledged == self.sent_end && self.calls == 0
    }

    pub fn under_way(&self) -> usize {
        (self.sent_end - self.acknowledged) as usize
    }

    /// Notes that every member has applied all bytes up to `end`, and returns whether that is news.
    /// Members apply writes in order, so this also acknowledges earlier writes.
    pub fn acknowledge(&mut self, end: u32) -> bool {
        let more = end > self.acknowledged;
        while self.acknowledged < end
            && let Some(piece) = self.sent.pop_front()
        {
            self.acknowledged += piece.len() as u32;
        }
        more
    }

    /// Notes that the pipeline is broken, according to the `outcomes` of a call at its members. The
    /// suspects are the members that refused; if none did, the first member that didn't answer. Members
    /// after it may only be silent because of it.
    pub fn break_up(&mut self, outcomes: &[Outcome]) {
        if matches!(self.phase, Phase::Copying | Phase::Writing) {
            self.phase = Phase::Broken;
        }
        self.telling = None;
        let members = self.new.pipeline.iter().zip(outcomes);
        let refused = members.clone().filter(|(_, outcome)| matches!(outcome, Outcome::Error(_)));
        let mut suspects: Vec<NodeId> = refused.map(|(member, _)| member.node).collect();
        if suspects.is_empty() {
            let silent = members.clone().find(|(_, outcome)| **outcome != Outcome::Value);
            suspects.extend(silent.map(|(member, _)| member.node));
        }
        suspects.retain(|node| !self.suspects.contains(node));
        self.suspects.extend(suspects);
    }
}
