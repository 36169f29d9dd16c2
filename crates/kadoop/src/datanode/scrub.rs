//! Sealed replicas are compared with their checksums: all of them in turn, slowly, and
//! first those that somebody complained about.

use super::Datanode;
use crate::{
    ChunkId, Millis, Stamp,
    disk::Disk,
    messages::{Change, ReplicaState},
};
use std::collections::VecDeque;

/// Replicas that wait to be compared out of turn; more complaints than that are dropped,
/// and their turn comes.
const MAX_FIRST: usize = 1_000;
/// Time that a pause in the ticks can save up, in milliseconds.
const MOST_SAVED_MS: Millis = 1_000;

/// Where the scrub is.
#[derive(Debug, Default)]
pub(super) struct Scrub {
    /// In the replicas' order: the one being compared, and how far.
    chunk: ChunkId,
    offset: u32,
    first: VecDeque<(ChunkId, Stamp)>,
    first_offset: u32,
    ticked: Option<Millis>,
    /// Bytes that may be read, times 1,000.
    saved: u64,
}

impl Scrub {
    /// Takes the replica before its turn.
    pub fn first(&mut self, chunk: ChunkId, stamp: Stamp) {
        if self.first.len() < MAX_FIRST && !self.first.contains(&(chunk, stamp)) {
            self.first.push_back((chunk, stamp));
        }
    }
}

impl<D: Disk> Datanode<D> {
    pub(super) fn scrub(&mut self, now: Millis) {
        let passed = now.saturating_sub(self.scrub.ticked.replace(now).unwrap_or(now)).min(MOST_SAVED_MS);
        self.scrub_first(passed);
        let most = u64::from(self.config.scrub_bytes);
        let bytes: u64 = self.replicas.values().map(|replica| u64::from(replica.sums.length)).sum();
        let rate = (bytes * 1_000).div_ceil(self.config.scrub_ms.max(1)).min(most);
        self.scrub.saved = (self.scrub.saved + rate * passed).min(most * MOST_SAVED_MS);
        let mut rounds = self.replicas.len();
        while self.scrub.saved / 1_000 >= u64::from(self.config.unit_bytes) && rounds > 0 {
            let next = self.replicas.range(self.scrub.chunk..).next();
            let Some((chunk, replica)) = next.filter(|(_, replica)| replica.state == ReplicaState::Sealed)
            else {
                // Another comes after it, or the first again.
                let after = next.map(|(chunk, _)| ChunkId(chunk.0 + 1));
                (self.scrub.chunk, self.scrub.offset) = (after.unwrap_or_default(), 0);
                rounds -= 1;
                continue;
            };
            if *chunk != self.scrub.chunk {
                (self.scrub.chunk, self.scrub.offset) = (*chunk, 0);
            }
            let (chunk, from) = (*chunk, self.scrub.offset);
            let most = u32::try_from(self.scrub.saved / 1_000).unwrap_or(u32::MAX);
            let came = replica.verify(from, most, &self.config);
            let read = came.map_or(self.config.unit_bytes, |to| to - from.min(to));
            self.scrub.saved = self.scrub.saved.saturating_sub(u64::from(read) * 1_000);
            match came {
                Ok(to) if to < replica.sums.length => self.scrub.offset = to,
                Ok(_) => {
                    (self.scrub.chunk, self.scrub.offset, rounds) = (ChunkId(chunk.0 + 1), 0, rounds - 1)
                }
                Err(_) => {
                    (self.scrub.chunk, self.scrub.offset, rounds) = (ChunkId(chunk.0 + 1), 0, rounds - 1);
                    self.found_damaged(chunk);
                }
            }
        }
    }

    /// At the highest rate that is allowed.
    fn scrub_first(&mut self, passed: Millis) {
        let mut bytes = u64::from(self.config.scrub_bytes) * passed / 1_000;
        while let Some((chunk, stamp)) = self.scrub.first.front().copied()
            && bytes > 0
        {
            let from = self.scrub.first_offset;
            let replica = self.replicas.get(&chunk);
            let replica =
                replica.filter(|replica| (replica.stamp, replica.state) == (stamp, ReplicaState::Sealed));
            let came = replica.map(|replica| {
                let to = replica.verify(from, u32::try_from(bytes).unwrap_or(u32::MAX), &self.config);
                (to, replica.sums.length)
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

    fn found_damaged(&mut self, chunk: ChunkId) {
        if let Some(replica) = self.replicas.get_mut(&chunk)
            && !std::mem::replace(&mut replica.damaged, true)
        {
            self.changes.push(Change::Corrupt { chunk, stamp: replica.stamp });
        }
    }

    /// A report of all replicas doesn't say which are damaged: that comes with it.
    pub(super) fn tell_damaged(&mut self) {
        for replica in self.replicas.values().filter(|replica| replica.damaged) {
            let change = Change::Corrupt { chunk: replica.chunk, stamp: replica.stamp };
            self.changes.retain(|other| *other != change);
            self.changes.push(change);
        }
    }
}
