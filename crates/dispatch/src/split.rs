//! Parts of large files, each the input of one command, and the records that belong to each part.
//!
//! ```text
//!   file    │ block on a, b      │ block on b, c      │ block on c, a      │
//!   pieces  │ 0                  │ 1                  │ 2                  │
//!   records │ r r r r r r r r r r r│ r r r r r r r r r r│ r r r r r r r r r r│
//! ```
//!
//! As in Hadoop's TextInputFormat, each piece but the file's first skips the bytes up to the first end of a
//! record at or after its offset. Each piece continues beyond its end, to the next end of a record. So every
//! record belongs to exactly one piece, wherever the file is cut.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// Divisor: the last piece may exceed the others by a tenth of their size, as in Hadoop. A separate command
/// for the few remaining bytes would cost more than it saves.
const SLACK: u64 = 10;

/// How a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Records {
    /// With this byte, which belongs to the record.
    Ended(u8),
    /// After this many bytes, at least 1.
    Sized(u64),
}

impl Default for Records {
    fn default() -> Self {
        Self::Ended(b'\n')
    }
}

/// A part of a file. Its offsets aren't yet aligned with the file's records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Its first byte, before the alignment.
    pub start: u64,
    /// The byte after its last byte, before the alignment.
    pub end: u64,
    /// The file's length when it was split. Bytes appended later belong to no slice.
    pub length: u64,
    /// How its records end.
    pub records: Records,
    /// The store's identity of the file's contents, if it has one. A command fails if another file has the
    /// name.
    pub identity: Option<String>,
}

/// Where a slice's bytes begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// At this offset.
    At(u64),
    /// After the first `byte` in this range; nowhere if the range has none.
    After {
        /// The record's last byte.
        byte: u8,
        /// The start of the range.
        from: u64,
        /// The end of the range.
        until: u64,
    },
}

impl Slice {
    /// Where its first record begins. A slice in which no record ends has no first record, unless it is the
    /// file's first slice.
    pub fn first(&self) -> Edge {
        self.edge(self.start, self.end)
    }

    /// Where its last record ends: after the first end of a record at or beyond the slice's end, else at the
    /// end of the file.
    pub fn last(&self) -> Edge {
        self.edge(self.end, self.length)
    }

    fn edge(&self, at: u64, until: u64) -> Edge {
        match self.records {
            _ if at == 0 || at >= self.length => Edge::At(at.min(self.length)),
            Records::Sized(bytes) => {
                Edge::At(at.div_ceil(bytes.max(1)).saturating_mul(bytes.max(1)).min(self.length))
            }
            Records::Ended(byte) => Edge::After { byte, from: at, until: until.min(self.length) },
        }
    }
}

/// A block of a file, as its store reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its first byte's offset in the file.
    pub offset: u64,
    /// Its size.
    pub length: u64,
    /// The hosts that hold it.
    pub hosts: Vec<String>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes.
    pub range: Range<u64>,
    /// The hosts that hold bytes of it, first the host with the most bytes.
    pub hosts: Vec<String>,
}

/// Cuts a file of `length` bytes into its blocks or, with a `size`, into pieces of that size. An empty file
/// is one piece.
pub fn pieces(length: u64, blocks: &[Block], size: Option<u64>) -> Vec<Piece> {
    let mut cuts: Vec<u64> = match size {
        Some(size) => even(length, size.max(1)),
        None => blocks.iter().map(|block| block.offset).filter(|at| (1..length).contains(at)).collect(),
    };
    cuts.push(length);
    cuts.sort_unstable();
    cuts.dedup();
    // In one sweep over the blocks: a file may have many of both.
    let mut later: Vec<&Block> = blocks.iter().collect();
    later.sort_by_key(|block| std::cmp::Reverse(block.offset));
    let mut near: Vec<&Block> = Vec::new();
    let mut start = 0;
    let piece = |end: u64| {
        let range = std::mem::replace(&mut start, end)..end;
        near.retain(|block| block.offset.saturating_add(block.length) > range.start);
        while let Some(block) = later.pop_if(|block| block.offset < range.end) {
            near.push(block);
        }
        Piece { hosts: hosts_among(&range, near.iter().copied()), range }
    };
    cuts.into_iter().map(piece).collect()
}

/// An upper bound for the number of pieces that [`pieces`] makes.
pub fn most_pieces(length: u64, blocks: &[Block], size: Option<u64>) -> u64 {
    1 + size.map_or(blocks.len() as u64, |size| length / size.max(1))
}

fn even(length: u64, size: u64) -> Vec<u64> {
    let mut cuts: Vec<u64> = (1..length.div_ceil(size)).map(|piece| piece * size).collect();
    if cuts.last().is_some_and(|last| length - last <= size / SLACK) {
        cuts.pop();
    }
    cuts
}

/// The hosts that hold bytes of a range, first the host with the most bytes.
pub fn hosts_of(range: &Range<u64>, blocks: &[Block]) -> Vec<String> {
    hosts_among(range, blocks)
}

fn hosts_among<'a>(range: &Range<u64>, blocks: impl IntoIterator<Item = &'a Block>) -> Vec<String> {
    let mut held: HashMap<&str, u64> = HashMap::new();
    for block in blocks {
        let end = block.offset.saturating_add(block.length).min(range.end);
        let bytes = end.saturating_sub(block.offset.max(range.start));
        if bytes > 0 {
            block.hosts.iter().for_each(|host| *held.entry(host).or_default() += bytes);
        }
    }
    let mut hosts: Vec<(&str, u64)> = held.into_iter().collect();
    hosts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    hosts.into_iter().map(|(host, _)| host.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(offset: u64, length: u64, hosts: &[&str]) -> Block {
        Block { offset, length, hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }
    }

    fn found(edge: Edge, file: &[u8]) -> Option<u64> {
        match edge {
            Edge::At(at) => Some(at),
            Edge::After { byte, from, until } => {
                let looked = &file[from as usize..until as usize];
                looked.iter().position(|other| *other == byte).map(|at| from + at as u64 + 1)
            }
        }
    }

    #[test]
    fn pieces_are_blocks_with_their_hosts_or_have_a_size() {
        let blocks = [block(0, 10, &["a", "b"]), block(10, 10, &["b"]), block(20, 3, &["c"])];
        let ranges = |size| pieces(23, &blocks, size).into_iter().map(|p| p.range).collect::<Vec<_>>();
        assert_eq!(ranges(None), [0..10, 10..20, 20..23]);
        assert_eq!(ranges(Some(7)), [0..7, 7..14, 14..21, 21..23]);
        for size in [21, u64::MAX] {
            let whole = 0..23;
            assert_eq!(ranges(Some(size)), [whole], "the rest is too little for a command");
        }
        assert_eq!(pieces(23, &blocks, Some(12))[0].hosts, ["b", "a"]);
        assert_eq!(pieces(0, &[], None), [Piece { range: 0..0, hosts: vec![] }]);
        // A store's wrong answers must do no harm.
        let wild = [block(u64::MAX, u64::MAX, &["a"]), block(5, u64::MAX, &["b"]), block(5, 0, &["c"])];
        let odd = pieces(9, &wild, None);
        assert_eq!(odd.iter().map(|piece| piece.range.clone()).collect::<Vec<_>>(), [0..5, 5..9]);
        assert_eq!(odd[1].hosts, ["b"]);
    }

    proptest! {
        #[test]
        fn each_record_belongs_to_one_piece(
            file in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'b')], 0..200),
            size in 1u64..60,
            fixed in proptest::option::of(1u64..20),
        ) {
            let length = file.len() as u64;
            let records = fixed.map_or(Records::default(), Records::Sized);
            let mut behind = 0;
            for piece in pieces(length, &[], Some(size)) {
                prop_assert!(piece.range.end - piece.range.start <= size + size / SLACK);
                let Range { start, end } = piece.range;
                let slice = Slice { start, end, length, records, identity: None };
                let Some(first) = found(slice.first(), &file) else { continue };
                let last = found(slice.last(), &file).unwrap_or(length);
                prop_assert_eq!(first, behind);
                behind = last;
                match fixed {
                    Some(bytes) => prop_assert!(behind % bytes == 0 || behind == length),
                    None => prop_assert!(behind == length || file[behind as usize - 1] == b'\n'),
                }
            }
            prop_assert_eq!(behind, length);
        }
    }
}
