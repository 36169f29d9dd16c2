//! Locations of an open file's bytes.

use super::block::Block;
use super::datanode::Datanodes;
use super::wire::{LocatedBlock, LocatedBlocks};
use std::collections::HashSet;
use std::sync::Arc;

/// The blocks of one file, in order. Each begins where the previous one ends.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Blocks {
    list: Vec<Arc<Block>>,
    /// Whether the file has a writer, or is being recovered from one.
    is_open: bool,
}

impl Blocks {
    /// The blocks that the namenode lists. A last block under construction counts with
    /// `tail_length` bytes. If a block doesn't begin at the end of the previous one, this leaves out the
    /// block and all later ones.
    pub fn new(located: LocatedBlocks, tail_length: u64, datanodes: &Datanodes) -> Self {
        let mut addresses = HashSet::new();
        let last = located.last_block.filter(|_| !located.is_last_block_complete);
        let finished = located.blocks.into_iter().map(|block| (block.block.num_bytes, block));
        let finished =
            finished.filter(|(_, block)| last.as_ref().is_none_or(|last| block.offset < last.offset));
        let finished: Vec<_> = finished.collect();
        let mut blocks = Self { list: Vec::new(), is_open: located.under_construction };
        for (length, block) in finished.into_iter().chain(last.map(|last| (tail_length, last))) {
            if block.offset == blocks.length() && length > 0 {
                blocks.list.push(Arc::new(of_located(block, length, datanodes, &mut addresses)));
            }
        }
        blocks
    }

    /// Bytes of all these blocks.
    pub fn length(&self) -> u64 {
        self.list.last().map_or(0, |block| block.end())
    }

    /// The block that contains the byte at `offset`.
    pub fn at(&self, offset: u64) -> Option<&Arc<Block>> {
        let index = self.list.partition_point(|block| block.end() <= offset);
        self.list.get(index)
    }

    /// Whether the file has a writer, or is being recovered from one. During that time, datanodes may show
    /// fewer bytes than before.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether these are the blocks of the same file as `earlier`, perhaps after it grew. Blocks
    /// keep their ids when they are finished, moved and appended to.
    pub fn are_of_the_same_file(&self, earlier: &Self) -> bool {
        let id = |block: &Arc<Block>| (block.block.block_id, block.offset);
        self.list.iter().zip(&earlier.list).all(|(now, before)| id(now) == id(before))
    }
}

/// Converts the namenode's list. Stores each address once, since a large file names few datanodes many times.
fn of_located(
    located: LocatedBlock,
    length: u64,
    datanodes: &Datanodes,
    addresses: &mut HashSet<Arc<str>>,
) -> Block {
    let mut address = |text: String| match addresses.get(&*text) {
        Some(known) => Arc::clone(known),
        None => {
            let new: Arc<str> = text.into();
            addresses.insert(Arc::clone(&new));
            new
        }
    };
    let replicas = located.locations.iter().map(|at| address(datanodes.address(&at.id))).collect();
    Block { block: located.block, token: located.token, offset: located.offset, length, replicas }
}

/// A single block, from the namenode's list.
pub(super) fn block_of(located: LocatedBlock, datanodes: &Datanodes) -> Block {
    let length = located.block.num_bytes;
    of_located(located, length, datanodes, &mut HashSet::new())
}
