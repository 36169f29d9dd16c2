//! The outcomes of a writer's calls.

use super::{Ask, Goal, Pending, Phase, WriteCall, WriterCore, open::Open};
use crate::{
    ChunkId, Member, Millis, NodeId,
    client::CallId,
    error::{Error, Result},
    faults::Fault,
    messages::{Answer, Continue, End, Mutation, NewChunk, Outcome},
};

impl WriterCore {
    /// The open chunk, if it is still the one with that id.
    fn open_chunk(&mut self, chunk: ChunkId) -> Option<&mut Open> {
        self.open.as_mut().filter(|open| open.new.chunk == chunk)
    }

    /// Handles a write's outcomes at the members, in the pipeline's order.
    pub fn on_write(&mut self, id: CallId, outcomes: &[Outcome], now: Millis) {
        let Some(Pending::Write { chunk, end }) = self.calls.remove(&id) else { return };
        let hasty = self.config.faults.has(Fault::FirstAnswerEnough);
        let Some(open) = self.open_chunk(chunk) else { return };
        open.calls = open.calls.saturating_sub(1);
        let everywhere = outcomes.len() == open.new.pipeline.len();
        let all = everywhere && outcomes.iter().all(|outcome| *outcome == Outcome::Value);
        if all || hasty && outcomes.contains(&Outcome::Value) {
            if open.acknowledge(end) {
                (self.progress, self.broken, self.full_since) = (now, 0, None);
            }
        } else {
            self.break_up(chunk, outcomes, now);
        }
        self.advance(now);
    }

    /// Handles the outcome of a call to one datanode.
    pub fn on_member(&mut self, id: CallId, outcome: Outcome, now: Millis) {
        let Some(pending) = self.calls.remove(&id) else { return };
        match pending {
            Pending::Ask | Pending::Write { .. } => return,
            Pending::Continue { chunk, to } => self.on_continued(chunk, to, outcome, now),
            Pending::Tell { chunk, to } => self.on_told(chunk, to, outcome, now),
            Pending::Probe { chunk, to } => self.on_probed(chunk, to, outcome),
            Pending::Seal { chunk, to } => {
                let Some(ended) = self.ended.iter_mut().find(|ended| ended.new.chunk == chunk) else {
                    return;
                };
                ended.on_sealed(to, outcome);
                match outcome {
                    Outcome::Value => self.progress = now,
                    // Only the namenode's recovery issues a higher stamp, and it revokes the lease
                    // before.
                    Outcome::Error(Error::StaleStamp) => return self.fail(Error::LeaseLost),
                    Outcome::Error(_) | Outcome::NotExecuted | Outcome::Unknown => {}
                }
            }
        }
        self.advance(now);
    }

    /// Notes that the open chunk's pipeline is broken. Of the calls that fail after the first one, only
    /// a lack of space matters.
    fn break_up(&mut self, chunk: ChunkId, outcomes: &[Outcome], now: Millis) {
        let Some(open) = self.open_chunk(chunk) else { return };
        let is_first = matches!(open.phase, Phase::Copying | Phase::Writing);
        open.break_up(outcomes);
        let for_space = outcomes.contains(&Outcome::Error(Error::NoSpace));
        if is_first || for_space {
            self.note_failure(for_space, now);
        }
    }

    /// As [`Self::break_up`], after a call to the single member `node` has failed.
    fn break_at(&mut self, chunk: ChunkId, node: NodeId, outcome: Outcome, now: Millis) {
        let Some(open) = self.open_chunk(chunk) else { return };
        let of = |member: &Member| if member.node == node { outcome } else { Outcome::Value };
        let outcomes: Vec<Outcome> = open.new.pipeline.iter().map(of).collect();
        self.break_up(chunk, &outcomes, now);
    }

    fn on_continued(&mut self, chunk: ChunkId, to: NodeId, outcome: Outcome, now: Millis) {
        let Some(open) = self.open_chunk(chunk) else { return };
        open.calls = open.calls.saturating_sub(1);
        match outcome {
            Outcome::Value if open.phase == Phase::Copying && open.calls == 0 => open.phase = Phase::Writing,
            Outcome::Value => {}
            other => self.break_at(chunk, to, other, now),
        }
    }

    fn on_told(&mut self, chunk: ChunkId, to: NodeId, outcome: Outcome, now: Millis) {
        let Some(open) = self.open_chunk(chunk) else { return };
        open.calls = open.calls.saturating_sub(1);
        if outcome != Outcome::Value {
            return self.break_at(chunk, to, outcome, now);
        }
        let Some(telling) = &mut open.telling else { return };
        telling.left = telling.left.saturating_sub(1);
        if telling.left == 0 {
            open.published = telling.length;
            if telling.sync {
                open.synced = telling.length;
            }
            open.telling = None;
            self.confirmed = true;
            self.progress = now;
        }
    }

    /// Handles a probe's outcome. A member that refuses the probe is reachable, too.
    fn on_probed(&mut self, chunk: ChunkId, to: NodeId, outcome: Outcome) {
        let Some(open) = self.open_chunk(chunk) else { return };
        open.probes = open.probes.saturating_sub(1);
        if matches!(outcome, Outcome::Value | Outcome::Error(_)) {
            open.there.push(to);
        }
        if open.phase == Phase::Examining && outcome != Outcome::Value {
            open.suspects.push(to);
        }
    }

    /// Handles the namenode's answer. Pass Unavailable if there was no answer.
    pub fn on_answer(&mut self, id: CallId, answer: Result<Answer>, now: Millis) {
        if self.calls.remove(&id).is_none() {
            return;
        }
        let Some(Ask { mutation, .. }) = self.ask.take_if(|ask| ask.id == id) else { return };
        match answer {
            Ok(answer) => self.on_granted(&mutation, answer, now),
            // Retry it as the same request, since it may have been executed.
            Err(Error::Unavailable | Error::NoDatanodes | Error::NoSpace | Error::Limit(_)) => {
                self.note_failure(answer == Err(Error::NoSpace), now);
                self.ask = Some(Ask { id, mutation, again_at: Some(now + self.config.retry_ms) });
            }
            Err(error) => return self.fail(error),
        }
        self.advance(now);
    }

    fn on_granted(&mut self, mutation: &Mutation, answer: Answer, now: Millis) {
        match mutation {
            Mutation::AddChunk { ends, .. } | Mutation::Complete { ends, .. } => self.on_logged(ends, now),
            Mutation::EndChunk { chunk, length, .. } => {
                self.ended.retain(|ended| ended.new.chunk != *chunk);
                if *length > 0 {
                    // At least one member has the chunk.
                    (self.progress, self.logged) = (now, Some(1));
                }
                return;
            }
            _ => return,
        }
        match answer {
            Answer::Chunk { next, durable } => {
                self.durable = durable && self.ended.iter().all(|ended| ended.logged);
                if self.durable {
                    self.on_durable();
                }
                if next.is_none() && matches!(self.goal, Some(Goal::Sync | Goal::Flush)) && !self.durable {
                    self.ask_at = now + self.config.retry_ms;
                }
                if let Some(new) = next {
                    self.begin_chunk(new);
                }
            }
            Answer::Completed(true) => {
                self.closed = true;
                self.on_durable();
            }
            Answer::Completed(false) => self.ask_at = now + self.config.retry_ms,
            Answer::Done | Answer::Changed(_) | Answer::Opened { .. } | Answer::Begun { .. } => {
                self.fail(Error::Invalid("the namenode's answer is of another kind than the request"));
            }
        }
    }

    /// Notes that each ended chunk has its minimum of replicas, according to the datanodes' reports.
    fn on_durable(&mut self) {
        let least = self.config.min_replicas;
        self.ended.iter_mut().for_each(|ended| ended.assured = least);
        self.retire_ended();
        self.logged = self.logged.map(|logged| logged.max(least));
    }

    fn on_logged(&mut self, ends: &[End], now: Millis) {
        for end in ends {
            let Some(at) = self.ended.iter().position(|ended| ended.new.chunk == end.chunk) else { continue };
            // To end an empty chunk is no progress.
            if end.length > 0 {
                self.progress = now;
            }
            if end.length == 0 {
                self.ended.remove(at);
            } else {
                (self.ended[at].claimed, self.ended[at].logged) = (true, !end.durable.is_empty());
            }
        }
    }

    pub(super) fn begin_chunk(&mut self, new: NewChunk) {
        let mut open = Open::new(new);
        let (chunk, stamp, pipeline) = (open.new.chunk, open.new.stamp, open.new.pipeline.clone());
        if let Some(source) = open.new.continues.clone() {
            open.calls = pipeline.len();
            for member in &pipeline {
                let (to, pipeline, source) = (member.node, pipeline.clone(), source.clone());
                let begin = Continue { chunk, stamp, pipeline, source };
                self.issue(
                    Pending::Continue { chunk, to },
                    self.config.disk_ms,
                    WriteCall::Continue { to, begin },
                );
            }
        }
        self.open = Some(open);
    }
}
