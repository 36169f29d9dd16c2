//! The chunk that is being written: what is under way, and how far it is acknowledged.

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
    /// Bytes that it began with.
    pub start: u32,
    /// Where what was sent ends.
    pub sent_end: u32,
    /// What every member has applied.
    pub acknowledged: u32,
    /// What every member was told to be acknowledged, and what it has on disk.
    pub published: u32,
    pub synced: u32,
    /// Sent and not acknowledged: in order, the first begins where that ends.
    pub sent: VecDeque<Bytes>,
    /// Calls under way, but for probes.
    pub calls: usize,
    pub probes: usize,
    /// The flush or sync under way.
    pub telling: Option<Telling>,
    /// Members whose fault a broken pipeline seems to be.
    pub suspects: Vec<NodeId>,
    /// Members that answered when they were asked whether they are there.
    pub there: Vec<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The members copy what it begins with.
    Copying,
    Writing,
    /// A call didn't succeed at every member.
    Broken,
    /// Each member was asked whether it is there.
    Probing,
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

    /// All that was sent is acknowledged, and nothing is wrong.
    pub fn settled(&self) -> bool {
        self.phase == Phase::Writing && self.acknowledged == self.sent_end && self.calls == 0
    }

    pub fn under_way(&self) -> usize {
        (self.sent_end - self.acknowledged) as usize
    }

    /// All up to `end` is applied by every member: they apply in order, so also what other
    /// calls before it carried.
    pub fn acknowledge(&mut self, end: u32) -> bool {
        let more = end > self.acknowledged;
        while self.acknowledged < end
            && let Some(piece) = self.sent.pop_front()
        {
            self.acknowledged += piece.len() as u32;
        }
        more
    }

    /// The pipeline is broken, as `outcomes` of its members show. Not in question are those
    /// that succeeded; a member's own refusal tells more than the silence of those behind it.
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
