//! Written bytes that the store may lack, in a file in memory that survives the process.
//!
//! Each open file has a ring, at a fixed position in the sparse memory file. In a plain file, a byte's
//! position in the ring follows from its offset, so a byte that is written twice has one position. A PLFS
//! file's runs lie one after the other. The memory of flushed bytes is freed.

use super::record::punch;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Length of a ring, 32 MiB: more than the unflushed bytes of any open plain file, and as much as the
/// unpublished bytes of a PLFS file.
pub const RING: u64 = 32 << 20;
const PAGE: u64 = 4_096;

/// The written range of a file that the store may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The store has all bytes before this offset.
    pub safe: u64,
    /// The file's length.
    pub end: u64,
    /// Time of the last write, in milliseconds since 1970.
    pub at_ms: i64,
    /// The last request that wrote to the file.
    pub last: u64,
}

/// The rings of all files.
#[derive(Debug)]
pub struct Bytes {
    memory: File,
}

impl Bytes {
    /// Rings in this memory file.
    pub fn new(memory: File) -> Self {
        Self { memory }
    }

    /// Splits a range where the ring wraps around: position and length of each piece.
    fn pieces(file: u64, range: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let place = at % RING;
            let length = range.end.saturating_sub(at).min(RING - place);
            at += length;
            (length > 0).then_some((file * RING + place, length))
        })
    }

    /// Writes a file's bytes at their offset.
    pub fn write(&self, file: u64, offset: u64, mut data: &[u8]) -> io::Result<()> {
        for (place, length) in Self::pieces(file, offset..offset + data.len() as u64) {
            let (piece, rest) = data.split_at(length as usize);
            self.memory.write_all_at(piece, place)?;
            data = rest;
        }
        Ok(())
    }

    /// Reads a file's bytes.
    pub fn read(&self, file: u64, range: Range<u64>) -> io::Result<Vec<u8>> {
        let length = range.end.saturating_sub(range.start);
        if length > RING {
            return Err(io::Error::other("more unflushed bytes than a ring has"));
        }
        let mut bytes = Vec::with_capacity(length as usize);
        for (place, length) in Self::pieces(file, range) {
            let from = bytes.len();
            bytes.resize(from + length as usize, 0);
            self.memory.read_exact_at(&mut bytes[from..], place)?;
        }
        Ok(bytes)
    }

    /// Frees the memory of flushed bytes, except pages that also hold other bytes.
    pub fn free(&self, file: u64, flushed: Range<u64>) {
        let pages = flushed.start / PAGE * PAGE..flushed.end / PAGE * PAGE;
        for (place, length) in Self::pieces(file, pages) {
            self.punch(place, length);
        }
    }

    /// Frees all memory of a file.
    pub fn free_all(&self, file: u64) {
        self.punch(file * RING, RING);
    }

    fn punch(&self, place: u64, length: u64) {
        if let Err(error) = punch(&self.memory, place, place + length) {
            tracing::debug!(%error, "can't free the memory of written bytes");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::memory;
    use super::*;

    #[test]
    fn bytes_are_found_again_wherever_the_ring_begins_anew_and_go_once_flushed() {
        let bytes = Bytes::new(memory("test").unwrap().into());
        let data: Vec<u8> = (0..3 * PAGE as u32).map(|at| (at / 7) as u8).collect();
        let offset = 5 * RING - PAGE - 10;
        bytes.write(3, offset, &data).unwrap();
        bytes.write(4, offset, &[9; 20]).unwrap();
        bytes.write(3, offset + PAGE, b"again").unwrap();
        let mut wanted = data.clone();
        wanted[PAGE as usize..][..5].copy_from_slice(b"again");
        let end = offset + data.len() as u64;
        assert!(bytes.read(3, offset..end).unwrap() == wanted);
        bytes.free(3, offset..end - 100);
        assert!(bytes.read(3, end - 100..end).unwrap() == wanted[wanted.len() - 100..]);
        assert_eq!(bytes.read(4, offset..offset + 20).unwrap(), [9; 20]);
        bytes.free_all(3);
        bytes.free_all(4);
        assert_eq!(rustix::fs::fstat(&bytes.memory).unwrap().st_blocks, 0);
    }
}
