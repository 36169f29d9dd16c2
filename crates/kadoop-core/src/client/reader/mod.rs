//! Reads one file: `docs/kadoop-internals.md`, "Reading".
//!
//! A requested range is a *slot*, and so is a range that is read ahead. The reader fetches each slot's
//! bytes, or their digest, from the nearest replica, and if that fails, from the next ones. If all
//! fail, it asks the namenode for the current replicas.

mod content;
mod outcomes;
mod slot;

use super::{
    CallId, Core, Issue,
    memory::{Budget, Taken, Unbounded},
};
use crate::{
    ChunkId, Config, Millis, NodeId, Stamp,
    error::Result,
    messages::{Located, LocatedChunk, Read},
};
use bytes::Bytes;
pub use content::Content;
use slot::{Slot, State};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Number of bytes to locate at a time: those of 64 chunks. So a reader holds a few kilobytes of
/// locations, whatever the file's size.
pub const LOCATE_BYTES: u64 = 4 << 30;

/// Least number of bytes to read ahead. A small piece can keep a much larger page of the allocator in
/// use: with pieces of 64 KiB, a gateway with 900 open files took 100 MiB more.
const LEAST_AHEAD_BYTES: u32 = 512 << 10;

/// A call that a reader needs.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadCall {
    /// Call the namenode, then [`ReaderCore::on_located`].
    Locate { offset: u64, length: u64 },
    /// Call a datanode for the bytes or their digest, then [`ReaderCore::on_read`].
    Read { from: NodeId, read: Read },
    /// Report to the namenode that a replica seems damaged. The reader needs no answer.
    Suspect { node: NodeId, chunk: ChunkId, stamp: Stamp },
}

#[derive(Debug, Clone, Copy)]
enum Pending {
    Locate { offset: u64, length: u64 },
    Read { slot: u64, from: NodeId, read: Read, growing: bool, version: u64 },
}

/// Reads one file.
#[derive(Debug)]
pub struct ReaderCore<P = Bytes> {
    config: Config,
    budget: Arc<dyn Budget>,
    /// The namenode's latest answer.
    located: Option<Located>,
    /// Offset and length of the range for which that answer was requested.
    range: (u64, u64),
    /// Number of such answers so far.
    version: u64,
    locating: bool,
    /// Earliest time of the next request to the namenode.
    locate_at: Millis,
    slots: BTreeMap<u64, Slot<P>>,
    /// The highest acknowledged length of an open chunk that a member has reported. The reader passes it
    /// to the other members, which may not know it yet: bytes must not vanish for this reader.
    seen: (ChunkId, u32),
    /// Offset at which the caller's next read begins if it reads in sequence.
    position: u64,
    /// Number of bytes that the caller has read in sequence up to there.
    run: u64,
    /// Most bytes to read ahead. Halved if memory is short, and increased again if memory is free.
    depth: u64,
    /// Whether never to read ahead, since the caller does so itself.
    reads_as_asked: bool,
    /// Time of the latest request.
    used: Millis,
    /// Bytes per call: as many as a caller requests at once, so that callers needn't join parts.
    piece: u32,
    /// Datanodes that didn't answer, each with the time until which the reader prefers others.
    shunned: BTreeMap<NodeId, Millis>,
    /// See [`ReaderCore::damaged`].
    damaged: Option<(ChunkId, Vec<NodeId>)>,
    calls: BTreeMap<CallId, Pending>,
    last_call: u64,
    issues: VecDeque<Issue<ReadCall>>,
}

impl<P: Content> Core for ReaderCore<P> {
    type Call = ReadCall;

    fn next_call(&mut self) -> Option<Issue<ReadCall>> {
        self.issues.pop_front()
    }

    fn wake_at(&self) -> Option<Millis> {
        let full = self.is_full();
        let slots = self.slots.values().filter_map(|slot| match slot.state {
            State::Waiting(from) if !self.locating && (slot.wanted || !full) => {
                Some(from.max(self.locate_at))
            }
            _ => None,
        });
        slots.min()
    }

    fn tick(&mut self, now: Millis) {
        self.advance(now);
    }
}

impl<P: Content> ReaderCore<P> {
    /// A reader of one file, with the limits of `config` only. The caller, which makes the calls, knows
    /// the file's name.
    pub fn new(config: Config) -> Self {
        Self::within(config, Arc::new(Unbounded))
    }

    /// As [`ReaderCore::new`], with memory from `budget` for bytes read ahead.
    pub fn within(config: Config, budget: Arc<dyn Budget>) -> Self {
        Self {
            piece: config.write_bytes,
            depth: P::ahead_bytes(&config),
            reads_as_asked: false,
            used: 0,
            config,
            budget,
            located: None,
            range: (0, 0),
            version: 0,
            locating: false,
            locate_at: 0,
            slots: BTreeMap::new(),
            seen: (ChunkId(0), 0),
            position: 0,
            run: 0,
            shunned: BTreeMap::new(),
            damaged: None,
            calls: BTreeMap::new(),
            last_call: 0,
            issues: VecDeque::new(),
        }
    }

    /// Passes the namenode's answer for the file's first [`LOCATE_BYTES`] to the reader, if the caller has
    /// already requested it.
    pub fn begin(&mut self, located: Located) {
        self.version += 1;
        (self.located, self.range) = (Some(located), (0, LOCATE_BYTES));
    }

    /// Requests up to `length` bytes at `offset`. Returns some of them: at least one, unless the file
    /// ends at `offset`. Returns None while the bytes aren't there yet: call this again after each
    /// input.
    ///
    /// # Errors
    /// NotFound: another file has the name now. Corrupt: every replica that the namenode knows of is
    /// damaged. Unavailable: no replica gave the bytes within `give_up_ms`. The namenode's errors for
    /// a request of locations.
    pub fn read(&mut self, offset: u64, length: u32, now: Millis) -> Result<Option<P>> {
        if length == 0 {
            return Ok(Some(P::nothing()));
        }
        self.used = now;
        self.piece = P::call_bytes(length, &self.config);
        let covers = |(start, slot): &(&u64, &Slot<P>)| offset - **start < u64::from(slot.length);
        if self.slots.range(..=offset).next_back().filter(covers).is_none() {
            self.demand(offset, length, now);
        }
        let Some((start, slot)) = self.slots.range_mut(..=offset).next_back() else { return Ok(None) };
        let start = *start;
        let was_wanted = std::mem::replace(&mut slot.wanted, true);
        if !was_wanted {
            // `give_up_ms` is the patience of callers, and the range may have been requested long ago.
            slot.since = now;
        }
        match &mut slot.state {
            State::Waiting(_) | State::Fetching => Ok(None),
            State::End | State::Failed(_) if !was_wanted => {
                // No caller got this outcome when it was fresh.
                self.slots.remove(&start);
                self.read(offset, length, now)
            }
            State::End => {
                self.slots.remove(&start);
                Ok(Some(P::nothing()))
            }
            State::Failed(error) => {
                let error = *error;
                self.slots.remove(&start);
                Err(error)
            }
            State::Ready(content) => {
                let from = (offset - start) as u32;
                let to = content.length().min(from.saturating_add(length));
                let part = content.part(from, to);
                slot.wanted = false;
                if part.is_none() || to == content.length() {
                    self.slots.remove(&start);
                }
                match &part {
                    Some(part) => self.go_on(offset, part.length().into(), now),
                    None => self.demand(offset, length, now),
                }
                Ok(part)
            }
        }
    }

    /// A caller no longer waits for the bytes at `offset`. If a call for them is under way, they count as read
    /// ahead. Otherwise the reader forgets the request, so that requests of callers who left don't pile up.
    /// If another caller waits for the same bytes, its next [`ReaderCore::read`] requests them again.
    pub fn leave(&mut self, offset: u64) {
        let Some((start, slot)) = self.slots.range_mut(..=offset).next_back() else { return };
        slot.wanted = false;
        if matches!(slot.state, State::Waiting(_)) {
            let start = *start;
            self.slots.remove(&start);
        }
    }

    /// From now on, fetches only the bytes that the caller requests.
    pub fn stop_reading_ahead(&mut self) {
        self.reads_as_asked = true;
    }

    /// Drops bytes that no caller has requested, if the latest request is at least `idle_ms` ago. Calls
    /// under way continue.
    pub fn give_up(&mut self, idle_ms: Millis, now: Millis) {
        if now.saturating_sub(self.used) >= idle_ms {
            self.slots.retain(|_, slot| slot.wanted || matches!(slot.state, State::Fetching));
        }
    }

    /// The file's length according to the namenode; None before its first answer.
    pub fn length(&self) -> Option<u64> {
        self.located.as_ref().map(|located| located.length)
    }

    /// After the error Corrupt: the chunk, and the datanodes with its replicas, which are all damaged.
    pub fn damaged(&self) -> Option<&(ChunkId, Vec<NodeId>)> {
        self.damaged.as_ref()
    }

    /// Adds a slot for a range that is requested for the first time.
    fn demand(&mut self, offset: u64, length: u32, now: Millis) {
        if offset != self.position {
            (self.position, self.run) = (offset, 0);
        }
        let more = length.max(self.ahead().min(u64::from(u32::MAX)) as u32);
        let (asked, more) = (self.slot_length(offset, length), self.slot_length(offset, more));
        let memory = self.take(u64::from(more - asked));
        let length = if memory.is_some() { more } else { asked };
        self.add_slot(offset, Slot::new(length, self.version, now, true, memory));
        self.advance(now);
    }

    /// Number of bytes to read beyond the requested ones.
    fn ahead(&self) -> u64 {
        if self.reads_as_asked { 0 } else { (self.run * 2).min(self.depth) }
    }

    /// Takes memory for bytes that no caller has requested yet. If memory is short, reduces this reader's
    /// depth, so that the memory suffices for all readers.
    fn take(&mut self, bytes: u64) -> Option<Taken> {
        let mut taken = Taken::nothing(Arc::clone(&self.budget));
        let most = P::ahead_bytes(&self.config);
        if taken.grow_to(bytes) {
            self.depth = (self.depth + bytes).min(most);
            Some(taken)
        } else {
            self.depth = (self.depth / 2).max(LEAST_AHEAD_BYTES.into()).min(most);
            None
        }
    }

    /// Continues to read ahead, after a caller got `bytes` bytes at `offset`.
    fn go_on(&mut self, offset: u64, bytes: u64, now: Millis) {
        if offset != self.position {
            self.run = 0;
        }
        self.run += bytes;
        self.position = offset + bytes;
        if self.run <= bytes {
            return;
        }
        let to = self.position + self.ahead();
        let end = self.located.as_ref().map_or(0, |located| located.length).min(to);
        let mut at = self.position;
        while at < end {
            let covering = self.slots.range(..=at).next_back();
            let covering = covering.map(|(start, slot)| start + u64::from(slot.length));
            at = match covering.filter(|end| *end > at) {
                Some(end) => end,
                None => match self.add_ahead(at, (end - at).min(u64::from(u32::MAX)) as u32, now) {
                    Some(length) => at + u64::from(length),
                    None => break,
                },
            };
        }
        self.advance(now);
    }

    /// Adds a slot that no caller has requested, and returns its length. None if memory is short.
    fn add_ahead(&mut self, offset: u64, length: u32, now: Millis) -> Option<u32> {
        let mut length = self.slot_length(offset, length);
        let memory = loop {
            match self.take(length.into()) {
                Some(memory) => break memory,
                None if length <= LEAST_AHEAD_BYTES => return None,
                None => length = (length / 2).max(LEAST_AHEAD_BYTES),
            }
        };
        self.add_slot(offset, Slot::new(length, self.version, now, false, Some(memory)));
        Some(length)
    }

    fn add_slot(&mut self, offset: u64, slot: Slot<P>) {
        self.make_room();
        self.slots.insert(offset, slot);
    }

    /// The part of `length` that one slot at `offset` can cover: at most one call's bytes, up to the next
    /// slot, and within one chunk.
    fn slot_length(&self, offset: u64, length: u32) -> u32 {
        let mut length = length.min(self.piece);
        if let Some((next, _)) = self.slots.range(offset..).next() {
            length = length.min(u32::try_from(next - offset).unwrap_or(u32::MAX));
        }
        if let Some(chunk) = self.chunk_at(offset) {
            let rest = chunk.offset + u64::from(chunk.length);
            if rest > offset {
                length = length.min(u32::try_from(rest - offset).unwrap_or(u32::MAX));
            }
        }
        length.max(1)
    }

    /// Evicts slots that were read ahead, if all slots together take too much memory.
    fn make_room(&mut self) {
        let held =
            |slots: &BTreeMap<u64, Slot<P>>| slots.values().map(|slot| u64::from(slot.length)).sum::<u64>();
        while held(&self.slots) >= u64::from(self.config.ahead_bytes) * 2 {
            let idle =
                |slot: &Slot<P>| !slot.wanted && !matches!(slot.state, State::Fetching | State::Waiting(_));
            let idle = self.slots.iter().filter(|(_, slot)| idle(slot));
            let farthest =
                idle.max_by_key(|(start, _)| start.abs_diff(self.position)).map(|(start, _)| *start);
            let Some(start) = farthest else { return };
            self.slots.remove(&start);
        }
    }

    /// The chunk that holds the byte at `offset`, or that may grow to hold it.
    fn chunk_at(&self, offset: u64) -> Option<&LocatedChunk> {
        let chunks = &self.located.as_ref()?.chunks;
        chunks.iter().rev().find(|chunk| {
            chunk.offset <= offset && (chunk.growing || offset < chunk.offset + u64::from(chunk.length))
        })
    }

    fn advance(&mut self, now: Millis) {
        let waiting = self.slots.iter().filter(|(_, slot)| slot.is_waiting(now));
        let waiting: Vec<(u64, bool)> = waiting.map(|(offset, slot)| (*offset, slot.wanted)).collect();
        for (offset, wanted) in waiting {
            if wanted || !self.is_full() {
                self.fetch(offset, now);
            }
        }
    }

    /// Whether enough calls are under way to stop reading ahead. The next call then begins when one of
    /// them ends, not when the caller requests more bytes. So the calls don't all end at once, which
    /// would leave the link idle until the next ones have begun.
    fn is_full(&self) -> bool {
        let under_way = self.slots.values().filter(|slot| matches!(slot.state, State::Fetching));
        under_way.count() >= self.config.reads_at_once
    }

    /// Makes the next call for a waiting slot, or ends it.
    fn fetch(&mut self, offset: u64, now: Millis) {
        let Some(slot) = self.slots.get(&offset) else { return };
        let (from, length) = self.range;
        let Some(located) = self.located.as_ref().filter(|_| offset >= from && offset - from < length) else {
            return self.locate(offset, now);
        };
        let fresh = self.version > slot.asked_at;
        let Some(chunk) = self.chunk_at(offset) else {
            // A file that is being written may have grown since the locations were requested.
            if located.open && !fresh {
                return self.locate(offset, now);
            }
            return self.set(offset, State::End);
        };
        let beyond = offset >= chunk.offset + u64::from(chunk.length);
        if beyond && !fresh {
            return self.locate(offset, now);
        }
        let at = chunk.skip.saturating_add(u32::try_from(offset - chunk.offset).unwrap_or(u32::MAX));
        let known = chunk.skip.saturating_add(chunk.length);
        let length = if beyond { slot.length } else { slot.length.min(known.saturating_sub(at)) };
        let seen = if self.seen.0 == chunk.chunk { self.seen.1 } else { 0 };
        let acknowledged = known.max(seen);
        let read = Read { chunk: chunk.chunk, stamp: chunk.stamp, offset: at, length, acknowledged };
        let untried = |node: &&NodeId| !slot.tried.iter().any(|(tried, _)| tried == *node);
        let shunned = |node: &&NodeId| self.shunned.get(node).is_some_and(|until| *until > now);
        // The namenode lists the nearest datanodes first.
        let Some(from) = chunk.nodes.iter().filter(untried).min_by_key(shunned).copied() else {
            return self.exhausted(offset, now);
        };
        let pending = Pending::Read { slot: offset, from, read, growing: beyond, version: self.version };
        if let Some(slot) = self.slots.get_mut(&offset) {
            slot.length = length;
        }
        self.issue(Some(pending), self.config.read_ms, ReadCall::Read { from, read });
        self.set(offset, State::Fetching);
    }

    fn set(&mut self, offset: u64, state: State<P>) {
        if let Some(slot) = self.slots.get_mut(&offset) {
            slot.state = state;
        }
    }

    fn locate(&mut self, offset: u64, now: Millis) {
        if !self.locating && now >= self.locate_at {
            self.locating = true;
            let length = LOCATE_BYTES;
            let pending = Pending::Locate { offset, length };
            self.issue(Some(pending), self.config.write_ms, ReadCall::Locate { offset, length });
        }
    }

    fn issue(&mut self, pending: Option<Pending>, within_ms: Millis, call: ReadCall) {
        self.last_call += 1;
        let id = CallId(self.last_call);
        if let Some(pending) = pending {
            self.calls.insert(id, pending);
        }
        self.issues.push_back(Issue { id, within_ms, call });
    }
}
