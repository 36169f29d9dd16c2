//! Compares sealed replicas with their checksums: slowly, one after another. Replicas about which readers
//! complained come first.

use super::{Datanode, Kept, Sealed, disk_of, is_of_one_file};
use crate::{
    ChunkId, Millis, Stamp,
    disk::Disk,
    error::{Error, Result},
    messages::Change,
};
use std::collections::VecDeque;

/// Most replicas that wait for a comparison before their turn. Further complaints are dropped: these
/// replicas are compared when it is their turn.
const MAX_FIRST: usize = 1_000;
/// Average number of replicas whose lengths a tick adds up. All are added up at once, every few ticks.
const SUMMED_PER_TICK: usize = 10_000;
/// If ticks come late, the scrub catches up on at most this time, in milliseconds.
const MOST_SAVED_MS: Millis = 1_000;

/// Position of the scrub.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// The chunk whose replica is being compared. They are compared in the order of chunks.
    chunk: ChunkId,
    /// Offset in that replica.
    offset: u32,
    first: VecDeque<(ChunkId, Stamp)>,
    first_offset: u32,
    ticked: Option<Millis>,
    /// Number of bytes that the scrub may read now, times 1,000.
    saved: u64,
    /// Number of bytes of all sealed replicas, when they were last added up.
    bytes: u64,
    /// Number of ticks since then.
    ticks: usize,
}

impl Scrub {
    /// Queues the replica for a comparison before its turn.
    pub fn first(&mut self, chunk: ChunkId, stamp: Stamp) {
        if self.first.len() < MAX_FIRST && !self.first.contains(&(chunk, stamp)) {
            self.first.push_back((chunk, stamp));
        }
    }
}

impl<D: Disk + Clone> Datanode<D> {
    pub(super) fn scrub(&mut self, now: Millis) {
        let passed = now.saturating_sub(self.scrub.ticked.replace(now).unwrap_or(now)).min(MOST_SAVED_MS);
        self.scrub_first(passed);
        let most = u64::from(self.config.scrub_bytes);
        self.scrub.ticks += 1;
        if self.scrub.ticks > self.replicas.len() / SUMMED_PER_TICK {
            self.scrub.ticks = 0;
            let sealed = self.replicas.values().map(|kept| match kept {
                Kept::Sealed(sealed) => u64::from(sealed.length),
                Kept::Live(_) => 0,
            });
            self.scrub.bytes = sealed.sum();
        }
        let bytes = self.scrub.bytes;
        let rate = (bytes * 1_000).div_ceil(self.config.scrub_ms.max(1)).min(most);
        self.scrub.saved = (self.scrub.saved + rate * passed).min(most * MOST_SAVED_MS);
        let mut rounds = self.replicas.len();
        while self.scrub.saved / 1_000 >= u64::from(self.config.unit_bytes) && rounds > 0 {
            let next = self.replicas.range(self.scrub.chunk..).next();
            let Some((chunk, Kept::Sealed(sealed))) = next else {
                // Skip a replica that isn't sealed. After the last one, begin again with the first.
                let after = next.map(|(chunk, _)| ChunkId(chunk.0 + 1));
                (self.scrub.chunk, self.scrub.offset) = (after.unwrap_or_default(), 0);
                rounds -= 1;
                continue;
            };
            if *chunk != self.scrub.chunk {
                (self.scrub.chunk, self.scrub.offset) = (*chunk, 0);
            }
            let (chunk, sealed, from) = (*chunk, *sealed, self.scrub.offset);
            let most = u32::try_from(self.scrub.saved / 1_000).unwrap_or(u32::MAX);
            let came = self.compare(chunk, &sealed, from, most);
            let read = came.map_or(self.config.unit_bytes, |to| to - from.min(to));
            self.scrub.saved = self.scrub.saved.saturating_sub(u64::from(read) * 1_000);
            match came {
                Ok(to) if to < sealed.length => self.scrub.offset = to,
                Ok(_) => {
                    (self.scrub.chunk, self.scrub.offset, rounds) = (ChunkId(chunk.0 + 1), 0, rounds - 1);
                    if sealed.split {
                        self.join_files(chunk);
                    }
                }
                Err(_) => {
                    (self.scrub.chunk, self.scrub.offset, rounds) = (ChunkId(chunk.0 + 1), 0, rounds - 1);
                    self.found_damaged(chunk);
                }
            }
        }
    }

    /// Compares the queued replicas, at up to `scrub_bytes` a second.
    fn scrub_first(&mut self, passed: Millis) {
        let mut bytes = u64::from(self.config.scrub_bytes) * passed / 1_000;
        while let Some((chunk, stamp)) = self.scrub.first.front().copied()
            && bytes > 0
        {
            let from = self.scrub.first_offset;
            let sealed = match self.replicas.get(&chunk) {
                Some(Kept::Sealed(sealed)) if sealed.stamp == stamp => Some(*sealed),
                _ => None,
            };
            let came = sealed.map(|sealed| {
                let to = self.compare(chunk, &sealed, from, u32::try_from(bytes).unwrap_or(u32::MAX));
                (to, sealed.length)
            });
            if let Some((Ok(to), length)) = came
                && to < length
            {
                self.scrub.first_offset = to;
                return;
            }
            bytes = bytes.saturating_sub(came.map_or(0, |(_, length)| u64::from(length - from.min(length))));
            self.scrub.first.pop_front();
            self.scrub.first_offset = 0;
            if let Some((Err(_), _)) = came {
                self.found_damaged(chunk);
            }
        }
    }

    /// As [`super::content::Content::verify`]. A file that can't be opened counts as damaged. If the error
    /// isn't this file's alone, the replica is skipped.
    fn compare(&self, chunk: ChunkId, sealed: &Sealed, from: u32, bytes: u32) -> Result<u32> {
        let directory = disk_of(&self.directories, sealed.directory.into())?;
        match sealed.open(directory, self.claim(chunk, sealed.stamp), &self.config) {
            Ok(Ok(opened)) => opened.content().verify(from, bytes, &self.config),
            Ok(Err(_)) => Err(Error::Corrupt),
            Err(error) if is_of_one_file(&error) => Err(Error::Corrupt),
            Err(_) => Ok(sealed.length),
        }
    }

    fn found_damaged(&mut self, chunk: ChunkId) {
        if let Some(Kept::Sealed(sealed)) = self.replicas.get_mut(&chunk)
            && !std::mem::replace(&mut sealed.damaged, true)
        {
            self.changes.push(Change::Corrupt { chunk, stamp: sealed.stamp });
        }
    }

    /// Adds changes that report all damaged replicas, since a full report doesn't mark damage.
    pub(super) fn tell_damaged(&mut self) {
        for (chunk, kept) in &self.replicas {
            let Kept::Sealed(Sealed { stamp, damaged: true, .. }) = kept else { continue };
            let change = Change::Corrupt { chunk: *chunk, stamp: *stamp };
            self.changes.retain(|other| *other != change);
            self.changes.push(change);
        }
    }
}
