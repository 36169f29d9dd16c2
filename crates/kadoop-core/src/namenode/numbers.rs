//! The numbers that the namenode issues next, and whether it has issued the numbers in a request.

use super::{
    history::{RANDOM_BITS, Start, low, number},
    state::State,
};
use crate::{ChunkId, ClientId, FileId, Stamp, messages::Point};

impl State {
    fn start(&self) -> Option<&Start> {
        self.history.starts.last()
    }

    /// The point at which the log ends.
    pub(super) fn point(&self) -> Point {
        Point { record: self.next.sequence, start: self.start().map_or(0, |start| start.random) }
    }

    /// The number for the next chunk.
    pub(super) fn next_chunk(&self) -> ChunkId {
        ChunkId(number(self.next.chunk.0, self.start().map(Start::chunk_bits)))
    }

    /// The next stamp.
    pub(super) fn next_stamp(&self) -> Stamp {
        Stamp(number(self.next.stamp.0, self.start().map(Start::stamp_bits)))
    }

    /// The number for the next opening of a file.
    pub(super) fn next_file(&self) -> FileId {
        FileId(number(self.next.file.0, self.start().map(Start::other_bits)))
    }

    /// The number for the next client.
    pub(super) fn next_client(&self) -> ClientId {
        ClientId(number(self.next.client.0, self.start().map(Start::other_bits)))
    }

    /// The number `made` of a file that the current transaction makes.
    pub(super) fn made(&self) -> u64 {
        match self.start() {
            Some(start) => self.next.sequence << RANDOM_BITS | low(start.other_bits()),
            None => self.next.sequence,
        }
    }

    /// Whether the point belongs to this log's history.
    pub(super) fn has_point(&self, point: Point) -> bool {
        point.start == 0 || self.history.has(point, self.next.sequence)
    }

    /// Whether this history has issued the chunk and the stamp. Numbers from before the first remembered
    /// start count as issued, if they are below the next ones.
    pub(super) fn has_given(&self, chunk: ChunkId, stamp: Stamp) -> bool {
        let starts = &self.history.starts;
        let of = |from: fn(&Start) -> u64, number: u64, bits: fn(&Start) -> u64| {
            let after = starts.partition_point(|start| from(start) <= number);
            let start = after.checked_sub(1).and_then(|at| starts.get(at));
            start.is_none_or(|start| low(number) == low(bits(start)))
        };
        (chunk.0 < self.next.chunk.0 && of(|start| start.chunk.0, chunk.0, Start::chunk_bits))
            && (stamp.0 < self.next.stamp.0 && of(|start| start.stamp.0, stamp.0, Start::stamp_bits))
    }
}
