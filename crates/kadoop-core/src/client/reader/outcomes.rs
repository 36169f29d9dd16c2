//! The outcomes of a reader's calls.

use super::{Content, Pending, ReadCall, ReaderCore, State};
use crate::{
    Millis, NodeId,
    client::{CallId, Checked},
    error::{Error, Result},
    faults::Fault,
    messages::{Located, Read},
};

impl<P: Content> ReaderCore<P> {
    /// Handles the namenode's answer to a request of locations. Pass Unavailable if there was no answer.
    pub fn on_located(&mut self, id: CallId, answer: Result<Located>, now: Millis) {
        let Some(Pending::Locate { offset, length }) = self.calls.remove(&id) else { return };
        self.locating = false;
        match answer {
            Ok(located) => {
                let other = self.located.as_ref().is_some_and(|before| before.made != located.made);
                if other && !self.config.faults.has(Fault::ReplacementRead) {
                    self.fail_waiting(Error::NotFound);
                } else {
                    self.version += 1;
                    (self.located, self.range) = (Some(located), (offset, length));
                }
            }
            Err(Error::Unavailable) => {
                self.forget_unwanted();
                self.locate_at = now + self.config.retry_ms;
                let give_up = self.config.give_up_ms;
                for slot in self.slots.values_mut() {
                    if matches!(slot.state, State::Waiting(_)) && now.saturating_sub(slot.since) >= give_up {
                        slot.state = State::Failed(Error::Unavailable);
                    }
                }
            }
            Err(error) => self.fail_waiting(error),
        }
        self.advance(now);
    }

    /// Handles a datanode's answer to a read, after [`Checked::of`] has compared the bytes with their
    /// checksums. Pass Unavailable if there was no answer.
    pub fn on_read(&mut self, id: CallId, answer: Result<Checked<P>>, now: Millis) {
        let Some(Pending::Read { slot: at, from, read, growing, version }) = self.calls.remove(&id) else {
            return;
        };
        if let Ok(Checked { visible, .. }) = &answer
            && growing
        {
            let before = if self.seen.0 == read.chunk { self.seen.1 } else { 0 };
            self.seen = (read.chunk, before.max(*visible));
        }
        let Some(slot) = self.slots.get_mut(&at) else { return };
        match answer {
            Ok(Checked { content, .. }) if content.length() > 0 => {
                slot.length = content.length();
                slot.state = State::Ready(content);
                self.shunned.remove(&from);
            }
            // The locations are newer than the slot, and the open chunk has no bytes here: the file ends.
            Ok(_) if growing && version > slot.asked_at => slot.state = State::End,
            Ok(_) => self.next_replica(at, from, read, Error::BeyondEnd, now),
            Err(error) => self.next_replica(at, from, read, error, now),
        }
        self.advance(now);
    }

    fn next_replica(&mut self, at: u64, from: NodeId, read: Read, error: Error, now: Millis) {
        if matches!(error, Error::Corrupt) {
            let (node, chunk, stamp) = (from, read.chunk, read.stamp);
            self.issue(None, self.config.write_ms, ReadCall::Suspect { node, chunk, stamp });
        } else if matches!(error, Error::Unavailable) {
            self.shunned.insert(from, now + self.config.stale_ms);
        }
        if let Some(slot) = self.slots.get_mut(&at) {
            slot.tried.push((from, error));
            slot.state = State::Waiting(now);
        }
    }

    /// Handles a slot for which no known replica gave bytes: the namenode may know other replicas, or the
    /// file may end before the slot.
    pub(super) fn exhausted(&mut self, at: u64, now: Millis) {
        if self.slots.get(&at).is_some_and(|slot| !slot.wanted) {
            // No caller waits for it, so don't repeat it.
            self.slots.remove(&at);
            return;
        }
        let chunk = self.chunk_at(at);
        let known = chunk.map(|chunk| (chunk.offset + u64::from(chunk.length), chunk.nodes.len()));
        let listed = chunk.map(|chunk| (chunk.chunk, chunk.nodes.clone()));
        let Some(slot) = self.slots.get_mut(&at) else { return };
        let fresh = self.version > slot.asked_at;
        let hasty = self.config.faults.has(Fault::AbsenceRead);
        let absent = slot.tried.iter().filter(|(_, error)| *error == Error::NoReplica).count();
        // If every member reports that it never saw the chunk, none of its bytes is acknowledged.
        let nothing = known.is_some_and(|(end, nodes)| at >= end && absent == nodes && nodes > 0);
        let end = nothing || hasty && absent > 0;
        let corrupt = slot.tried.iter().filter(|(_, error)| *error == Error::Corrupt);
        slot.damaged.extend(corrupt.map(|(node, _)| *node));
        // The chunk, if every replica that the namenode now lists was found damaged.
        let damaged = listed.filter(|(_, nodes)| {
            !slot.damaged.is_empty() && nodes.iter().all(|node| slot.damaged.contains(node))
        });
        if end {
            slot.state = State::End;
        } else if fresh && let Some((chunk, _)) = damaged {
            self.damaged = Some((chunk, slot.damaged.iter().copied().collect()));
            slot.state = State::Failed(Error::Corrupt);
        } else if now.saturating_sub(slot.since) >= self.config.give_up_ms {
            let corrupt = !slot.damaged.is_empty();
            slot.state = State::Failed(if corrupt { Error::Corrupt } else { Error::Unavailable });
        } else {
            // Bytes may have been damaged on their way. So try each replica once more, without a pause.
            let pause = if damaged.is_some() { 0 } else { self.config.retry_ms };
            slot.tried.clear();
            slot.asked_at = self.version;
            slot.state = State::Waiting(now + pause);
            // The locations are outdated, so request them again.
            self.range = (0, 0);
        }
    }

    /// Forgets the ranges that no caller waits for, except those with a call under way.
    fn forget_unwanted(&mut self) {
        self.slots.retain(|_, slot| slot.wanted || !matches!(slot.state, State::Waiting(_)));
    }

    fn fail_waiting(&mut self, error: Error) {
        self.forget_unwanted();
        for slot in self.slots.values_mut().filter(|slot| matches!(slot.state, State::Waiting(_))) {
            slot.state = State::Failed(error);
        }
    }
}
