//! One block of an open file.

use super::wire::{ExtendedBlock, Token};
use std::sync::Arc;

/// One block of a file.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    pub block: ExtendedBlock,
    pub token: Token,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Number of its bytes that can be read.
    pub length: u64,
    /// Addresses of its datanodes, in the namenode's order: the nearest first.
    pub replicas: Vec<Arc<str>>,
}

impl Block {
    /// Offset of the next block in the file.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}
