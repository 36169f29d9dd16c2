//! The history of the log: which start of a namenode wrote which records and issued which numbers.
//!
//! A log can lose its end, or an operator can restore an older copy of it. The next records then get
//! the numbers of lost ones, so they form another history. To distinguish histories, each start of a
//! namenode draws a random number and logs it. Each stamp and each id of a chunk, file or client that
//! this start issues contains some of the random bits. Datanodes remember the random number with the
//! last record that they know of. So a namenode recognizes points and numbers of other histories.

use super::record::Record;
use crate::{ChunkId, Identity, Stamp, messages::Point};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The lowest bits of each number that are random, and the same for all numbers of one kind of one
/// start. They only identify the start; the bits above count.
pub(super) const RANDOM_BITS: u32 = 20;
/// Most starts remembered. Numbers from before the first remembered start can't be checked.
const MAX_STARTS: usize = 10_000;
/// No start issues this number or a higher one.
const END: u64 = 1 << 62;

/// A start of a namenode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The first record that it wrote.
    pub record: u64,
    /// Its random number, never 0.
    pub random: u64,
    /// Lower bound of the chunk ids that it issues.
    pub chunk: ChunkId,
    /// Lower bound of the stamps that it issues.
    pub stamp: Stamp,
}

/// The starts that wrote the log, and what operators have decided about other histories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    pub(super) starts: Vec<Start>,
    /// The last record that isn't a start, join or sweep.
    changed: u64,
    /// An operator has given up all lost records up to this number.
    given_up: u64,
    /// Datanodes of another history that an operator has admitted, and that may still hold replicas
    /// of that history.
    admitted: BTreeSet<Identity>,
}

/// A number that is at least `from`, and whose lowest bits are the lowest of `bits`: `from` is rounded up
/// to a multiple of 2^20 before. Without `bits`, the number is `from`.
pub(super) fn number(from: u64, bits: Option<u64>) -> u64 {
    let Some(bits) = bits else { return from };
    let count = from.div_ceil(1 << RANDOM_BITS);
    match count >> (u64::BITS - RANDOM_BITS) {
        0 => count << RANDOM_BITS | low(bits),
        _ => u64::MAX,
    }
}

pub(super) fn low(bits: u64) -> u64 {
    bits & ((1 << RANDOM_BITS) - 1)
}

impl Start {
    pub(super) fn chunk_bits(&self) -> u64 {
        self.random
    }

    pub(super) fn stamp_bits(&self) -> u64 {
        self.random >> RANDOM_BITS
    }

    pub(super) fn other_bits(&self) -> u64 {
        self.random >> (2 * RANDOM_BITS)
    }
}

impl History {
    /// The start that wrote the record. None if that start isn't remembered.
    fn start_of(&self, record: u64) -> Option<&Start> {
        let after = self.starts.partition_point(|start| start.record <= record);
        self.starts.get(after.checked_sub(1)?)
    }

    /// True if the point belongs to this history, whose last record is `last`.
    pub(super) fn has(&self, point: Point, last: u64) -> bool {
        point.record <= last && self.start_of(point.record).is_none_or(|start| start.random == point.start)
    }

    /// Whether the log's changes end before `point`, which belongs to another history: then the log has
    /// lost records. False if an operator has given up these records, or if the log has since grown
    /// beyond the point.
    pub(super) fn ends_before(&self, point: Point) -> bool {
        point.record > self.changed.max(self.given_up)
    }

    pub(super) fn note(&mut self, record: u64, changes: &[Record]) {
        // The namenode writes these by itself, even on an older copy of its directory, so they must not
        // hide lost records.
        let counts = |change: &Record| {
            use Record::{ClientJoined, NodeJoined, Started, Swept};
            !matches!(change, Started { .. } | ClientJoined { .. } | NodeJoined { .. } | Swept { .. })
        };
        if changes.iter().any(counts) {
            self.changed = record;
        }
    }

    pub(super) fn begin(&mut self, start: Start) {
        if self.starts.len() >= MAX_STARTS {
            self.starts.remove(0);
        }
        self.starts.push(start);
    }

    pub(super) fn admit(&mut self, identity: Identity, record: u64) {
        self.admitted.insert(identity);
        self.given_up = self.given_up.max(record);
    }

    pub(super) fn settle(&mut self, identity: Identity) {
        self.admitted.remove(&identity);
    }

    /// Whether the datanode was admitted, and may still hold replicas of another history.
    pub(super) fn has_admitted(&self, identity: Identity) -> bool {
        self.admitted.contains(&identity)
    }
}

/// Whether some namenode can have issued the numbers.
pub(super) fn is_possible(chunk: ChunkId, stamp: Stamp) -> bool {
    chunk.0 < END && stamp.0 < END
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientId, FileId};

    #[test]
    fn numbers_rise_and_have_the_bits_of_their_start() {
        assert_eq!(number(7, None), 7);
        let mut from = 1;
        for (turn, bits) in [5, 5, 9, 1, u64::MAX].into_iter().enumerate() {
            let next = number(from, Some(bits));
            assert!(next >= from);
            assert_eq!((next >> RANDOM_BITS, low(next)), (turn as u64 + 1, low(bits)));
            from = next + 1;
        }
        assert_eq!(number(u64::MAX, Some(5)), u64::MAX, "the end is no beginning");
    }

    #[test]
    fn a_point_is_of_the_history_whose_start_wrote_it() {
        let mut history = History::default();
        let point = |record, start| Point { record, start };
        assert!(history.has(point(3, 9), 5), "no start is remembered that could contradict");
        let start = |record, random| Start { record, random, chunk: ChunkId(1), stamp: Stamp(1) };
        history.begin(start(10, 70));
        history.begin(start(20, 80));
        for (point, is_of) in [
            (point(9, 1), true),
            (point(10, 70), true),
            (point(19, 70), true),
            (point(19, 80), false),
            (point(20, 80), true),
            (point(20, 70), false),
            (point(30, 80), true),
            (point(31, 80), false),
        ] {
            assert_eq!(history.has(point, 30), is_of, "{point:?}");
        }
        history.note(25, &[Record::Closed { file: FileId(1), time_ms: 0 }]);
        history.note(26, &[Record::ClientJoined { client: ClientId(1) }]);
        assert!(history.ends_before(point(26, 1)) && !history.ends_before(point(25, 1)));
        history.admit(Identity(1), 26);
        assert!(!history.ends_before(point(26, 1)), "it was given up");
    }
}
