//! Reads one file: `docs/kadoop-internals.md`, "Reading".
//!
//! Ranges that were asked for, and some ahead of a sequential reader, are *slots*. Each is
//! fetched from the nearest replica, from the next one if that fails, and from whoever the
//! namenode names anew if all did.

mod outcomes;
mod slot;

use super::{CallId, Issue};
use crate::{
    ChunkId, Config, Millis, NodeId, Stamp,
    error::Result,
    messages::{Located, LocatedChunk, Read},
};
use bytes::Bytes;
use slot::{Slot, State};
use std::collections::{BTreeMap, VecDeque};

/// Bytes whose chunks are located at a time: 64 chunks, so that of a file of any size
/// some kilobytes are held.
pub const LOCATE_BYTES: u64 = 4 << 30;

/// A call that a reader wants made.
#[allow(missing_docs)] // fields are named for what they hold
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadCall {
    /// To the namenode: [`Reader::on_located`].
    Locate { offset: u64, length: u64 },
    /// To a datanode: [`Reader::on_read`].
    Read { from: NodeId, read: Read },
    /// To the namenode: this replica seems to be damaged. Nobody waits for an answer.
    Suspect { node: NodeId, chunk: ChunkId, stamp: Stamp },
}

#[derive(Debug, Clone, Copy)]
enum Pending {
    Locate { offset: u64, length: u64 },
    Read { slot: u64, from: NodeId, read: Read, growing: bool, version: u64 },
}

/// Reads one file.
#[derive(Debug)]
pub struct Reader {
    config: Config,
    /// What the namenode said last, for which range, and how often it was asked.
    located: Option<Located>,
    range: (u64, u64),
    version: u64,
    locating: bool,
    /// The namenode isn't asked again before.
    locate_at: Millis,
    slots: BTreeMap<u64, Slot>,
    /// Of an open chunk, what some member told to be acknowledged: the others may not have
    /// heard of it yet, and what was there once must not vanish for this reader.
    seen: (ChunkId, u32),
    /// Where a sequential reader goes on, and how much it has read so.
    position: u64,
    run: u64,
    /// Bytes of a call: as many as are asked for at once, so that nobody has to join parts.
    piece: u32,
    /// Datanodes that didn't answer, and until when others are asked first.
    shunned: BTreeMap<NodeId, Millis>,
    calls: BTreeMap<CallId, Pending>,
    last_call: u64,
    issues: VecDeque<Issue<ReadCall>>,
}

impl Reader {
    /// Of a file that whoever makes the calls knows the name of.
    pub fn new(config: Config) -> Self {
        Self {
            piece: config.write_bytes,
            config,
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
            calls: BTreeMap::new(),
            last_call: 0,
            issues: VecDeque::new(),
        }
    }

    /// What the namenode says of the first [`LOCATE_BYTES`], if it was asked before there
    /// was a reader.
    pub fn begin(&mut self, located: Located) {
        self.version += 1;
        (self.located, self.range) = (Some(located), (0, LOCATE_BYTES));
    }

    /// Asks for up to `length` bytes at `offset`: some of them, at least one unless the file
    /// ends there; none while they are on their way. To be asked again then, after each input.
    ///
    /// # Errors
    /// NotFound: another file has the name now. Corrupt: every replica is damaged.
    /// Unavailable: no replica could be had for long. The namenode's, of locating.
    pub fn read(&mut self, offset: u64, length: u32, now: Millis) -> Result<Option<Bytes>> {
        if length == 0 {
            return Ok(Some(Bytes::new()));
        }
        self.piece = length.max(self.config.read_bytes).min(self.config.write_bytes);
        let covers = |(start, slot): &(&u64, &Slot)| offset - **start < u64::from(slot.length);
        if self.slots.range(..=offset).next_back().filter(covers).is_none() {
            self.demand(offset, length, now);
        }
        let Some((start, slot)) = self.slots.range_mut(..=offset).next_back() else { return Ok(None) };
        let start = *start;
        slot.wanted = true;
        match &mut slot.state {
            State::Waiting(_) | State::Fetching => Ok(None),
            State::End => {
                self.slots.remove(&start);
                Ok(Some(Bytes::new()))
            }
            State::Failed(error) => {
                let error = *error;
                self.slots.remove(&start);
                Err(error)
            }
            State::Ready(bytes) => {
                let from = (offset - start) as usize;
                let to = bytes.len().min(from + length as usize);
                let part = bytes.slice(from..to);
                slot.wanted = false;
                if to == bytes.len() {
                    self.slots.remove(&start);
                }
                self.go_on(offset, part.len() as u64, now);
                Ok(Some(part))
            }
        }
    }

    /// The file's length, as far as the namenode has told; nothing before it was asked.
    pub fn length(&self) -> Option<u64> {
        self.located.as_ref().map(|located| located.length)
    }

    /// The next call to make.
    pub fn next_call(&mut self) -> Option<Issue<ReadCall>> {
        self.issues.pop_front()
    }

    /// When [`Reader::tick`] is due, if nothing happens before.
    pub fn wake_at(&self) -> Option<Millis> {
        let full = self.is_full();
        let slots = self.slots.values().filter_map(|slot| match slot.state {
            State::Waiting(from) if !self.locating && (slot.wanted || !full) => {
                Some(from.max(self.locate_at))
            }
            _ => None,
        });
        slots.min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis) {
        self.advance(now);
    }

    /// A slot for what nobody has asked for yet.
    fn demand(&mut self, offset: u64, length: u32, now: Millis) {
        if offset != self.position {
            (self.position, self.run) = (offset, 0);
        }
        let length = length.max(self.ahead().min(u64::from(u32::MAX)) as u32);
        self.add_slot(offset, length, now, true);
        self.advance(now);
    }

    /// How far beyond what was asked for is read.
    fn ahead(&self) -> u64 {
        (self.run * 2).min(self.config.ahead_bytes.into())
    }

    /// A sequential reader has got `bytes` at `offset`.
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
                None => {
                    at + u64::from(self.add_slot(at, (end - at).min(u64::from(u32::MAX)) as u32, now, false))
                }
            };
        }
        self.advance(now);
    }

    /// A slot of at most one call, before the next slot, within one chunk; how long it is.
    fn add_slot(&mut self, offset: u64, length: u32, now: Millis, wanted: bool) -> u32 {
        self.make_room();
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
        let length = length.max(1);
        self.slots.insert(offset, Slot::new(length, self.version, now, wanted));
        length
    }

    /// What was read ahead for nobody goes when it takes too much.
    fn make_room(&mut self) {
        let held =
            |slots: &BTreeMap<u64, Slot>| slots.values().map(|slot| u64::from(slot.length)).sum::<u64>();
        while held(&self.slots) >= u64::from(self.config.ahead_bytes) * 2 {
            let idle =
                |slot: &Slot| !slot.wanted && !matches!(slot.state, State::Fetching | State::Waiting(_));
            let idle = self.slots.iter().filter(|(_, slot)| idle(slot));
            let farthest =
                idle.max_by_key(|(start, _)| start.abs_diff(self.position)).map(|(start, _)| *start);
            let Some(start) = farthest else { return };
            self.slots.remove(&start);
        }
    }

    /// The chunk that holds the byte at `offset`, or may come to hold it.
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

    /// Whether enough calls are under way to read ahead: the next is made when any of them is
    /// answered, not when what was read is asked for. So they don't all end at once, with
    /// nothing on the link until the next ones have begun.
    fn is_full(&self) -> bool {
        let under_way = self.slots.values().filter(|slot| matches!(slot.state, State::Fetching));
        under_way.count() >= self.config.reads_at_once
    }

    /// Takes a waiting slot further.
    fn fetch(&mut self, offset: u64, now: Millis) {
        let Some(slot) = self.slots.get(&offset) else { return };
        let (from, length) = self.range;
        let Some(located) = self.located.as_ref().filter(|_| offset >= from && offset - from < length) else {
            return self.locate(offset, now);
        };
        let fresh = self.version > slot.asked_at;
        let Some(chunk) = self.chunk_at(offset) else {
            // A file that is being written may have grown since.
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
        // The namenode names the nearest first.
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

    fn set(&mut self, offset: u64, state: State) {
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
