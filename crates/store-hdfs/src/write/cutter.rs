//! Cuts a file's bytes into packets, without I/O.
//!
//! ```text
//! block:   chunks of `chunk_bytes`, each with a checksum; the last may be shorter
//! packet:  whole chunks, at least one, up to `packet_bytes` (`most_packet_bytes` in a large append);
//!          ends within a chunk only at a flush or the block's end
//! ```
//!
//! A flush within a chunk sends a part of the chunk. The next packet begins at the chunk's start. It sends
//! that part again, with the checksum of the whole chunk, as `DFSOutputStream.flushOrSync` does. So no
//! datanode has to read its file to compute the checksum. A writer that appends to a block which ends within
//! a chunk doesn't have the chunk's first bytes. Its first packet ends with that chunk, and the datanode
//! computes the checksum (`BlockReceiver.receivePacket`).

use super::super::wire::{ChecksumKind, crc_type};
use bytes::{BufMut, Bytes, BytesMut};
use strait_crc::{crc32, crc32c};

const CHECKSUM_BYTES: usize = 4;

/// Sizes that don't change within a file.
#[derive(Debug, Clone)]
pub struct Sizes {
    pub block_bytes: u64,
    /// Size of a packet that collects small appends.
    pub packet_bytes: usize,
    /// Size of a packet that is a part of a large append.
    pub most_packet_bytes: usize,
    pub checksum: ChecksumKind,
}

/// A piece of a block, ready to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Offset of the first byte in the block.
    pub offset: u64,
    pub data: Bytes,
    /// A checksum for each chunk.
    pub checksums: Bytes,
}

impl Piece {
    /// A piece without bytes, at `offset`.
    pub fn empty(offset: u64) -> Self {
        Self { offset, data: Bytes::new(), checksums: Bytes::new() }
    }

    /// Offset after the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// The bytes that no full packet has yet.
#[derive(Debug)]
pub struct Cutter {
    sizes: Sizes,
    /// Offset in the block of the first pending byte.
    offset: u64,
    pending: BytesMut,
    /// Pending bytes that were already sent: the start of a chunk.
    sent: usize,
}

impl Cutter {
    /// A cutter for a block that already has `offset` bytes.
    pub fn new(sizes: Sizes, offset: u64) -> Self {
        Self { sizes, offset, pending: BytesMut::new(), sent: 0 }
    }

    /// Length of the block, including pending bytes.
    pub fn end(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }

    /// Pending bytes that were never sent.
    pub fn unsent(&self) -> usize {
        self.pending.len() - self.sent
    }

    /// Whether the block is full. Then the next bytes belong to another one.
    pub fn is_full(&self) -> bool {
        self.end() == self.sizes.block_bytes
    }

    /// Begins another block.
    pub fn next_block(&mut self) {
        debug_assert_eq!(self.unsent(), 0, "no byte of the block before is left");
        (self.offset, self.sent) = (0, 0);
        self.pending = BytesMut::new();
    }

    /// Takes bytes from the front of `data` until a packet is full, and returns that packet. Returns None if
    /// all bytes are pending now. The block must not be full.
    pub fn push(&mut self, data: &mut Bytes) -> Option<Piece> {
        let room = self.limit(data.len()) - self.pending.len();
        if data.len() < room {
            self.pending.extend_from_slice(data);
            data.clear();
            return None;
        }
        let part = data.split_to(room);
        if self.pending.is_empty() {
            return Some(self.cut(part));
        }
        self.pending.extend_from_slice(&part);
        self.flush()
    }

    /// A packet with the pending bytes, if some were never sent.
    pub fn flush(&mut self) -> Option<Piece> {
        if self.unsent() == 0 {
            return None;
        }
        let data = std::mem::take(&mut self.pending).freeze();
        Some(self.cut(data))
    }

    /// Length at which a packet that begins at `offset` is full, if an append has `available` bytes.
    fn limit(&self, available: usize) -> usize {
        let Sizes { block_bytes, packet_bytes, most_packet_bytes, .. } = self.sizes;
        let chunk = self.chunk_bytes();
        // A large packet needs no copy, because no byte is pending.
        let is_large = self.pending.is_empty() && available > packet_bytes;
        let wanted = if is_large { available.min(most_packet_bytes) } else { packet_bytes };
        let most = match (self.offset % chunk as u64) as usize {
            0 => (wanted / chunk).max(1) * chunk,
            past => chunk - past,
        };
        most.min(usize::try_from(block_bytes - self.offset).unwrap_or(usize::MAX))
    }

    /// A packet with all of `data`. If it ends within a chunk, keeps that part of the chunk for the next
    /// packet.
    fn cut(&mut self, data: Bytes) -> Piece {
        let chunk = self.chunk_bytes();
        let piece = Piece { offset: self.offset, checksums: self.checksums(&data), data };
        let is_aligned = piece.offset.is_multiple_of(chunk as u64);
        let kept = if is_aligned { piece.data.len() % chunk } else { 0 };
        // A copy: the piece's own bytes may be part of a much larger buffer.
        self.pending = BytesMut::from(&piece.data[piece.data.len() - kept..]);
        self.sent = kept;
        self.offset = piece.end() - kept as u64;
        piece
    }

    fn checksums(&self, data: &[u8]) -> Bytes {
        let chunks = data.chunks(self.chunk_bytes());
        let mut sums = BytesMut::with_capacity(chunks.len() * CHECKSUM_BYTES);
        match self.sizes.checksum.crc_type {
            crc_type::CRC32C => chunks.for_each(|chunk| sums.put_u32(crc32c(chunk))),
            crc_type::CRC32 => chunks.for_each(|chunk| sums.put_u32(crc32(chunk))),
            _ => {}
        }
        sums.freeze()
    }

    fn chunk_bytes(&self) -> usize {
        self.sizes.checksum.bytes_per_crc.max(1) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNK: u64 = 8;

    fn sizes(block_bytes: u64, packet_bytes: usize, most_packet_bytes: usize) -> Sizes {
        let checksum = ChecksumKind { crc_type: crc_type::CRC32C, bytes_per_crc: CHUNK as u32 };
        Sizes { block_bytes, packet_bytes, most_packet_bytes, checksum }
    }

    /// A datanode's replica, with the datanode's rules for packets.
    fn receive(replica: &mut Vec<u8>, piece: &Piece) {
        let (offset, chunk) = (piece.offset as usize, CHUNK as usize);
        assert!(offset <= replica.len(), "a gap");
        let is_aligned = offset.is_multiple_of(chunk);
        assert!(is_aligned || piece.data.len() <= chunk - offset % chunk, "beyond an unaligned chunk");
        let expected: Vec<u8> =
            piece.data.chunks(chunk).flat_map(|chunk| crc32c::crc32c(chunk).to_be_bytes()).collect();
        assert_eq!(piece.checksums, expected);
        let known = &replica[offset..];
        assert_eq!(known, &piece.data[..known.len()], "the same bytes again");
        replica.truncate(offset);
        replica.extend_from_slice(&piece.data);
    }

    proptest! {
        #[test]
        fn any_appends_and_flushes_become_the_same_blocks(
            block_bytes in 1u64..100,
            packet_bytes in 1usize..64,
            more_bytes in 0usize..100,
            begin in 0u64..100,
            steps in proptest::collection::vec((0usize..200, any::<bool>()), 0..30),
        ) {
            let begin = begin % block_bytes;
            let most_packet_bytes = packet_bytes + more_bytes;
            let mut cutter = Cutter::new(sizes(block_bytes, packet_bytes, most_packet_bytes), begin);
            let mut blocks = vec![vec![0; begin as usize]];
            let mut due = vec![0; begin as usize];
            for (length, flush) in steps {
                let mut data: Bytes = (0..length).map(|index| (due.len() + index) as u8).collect();
                due.extend_from_slice(&data);
                while !data.is_empty() {
                    let Some(piece) = cutter.push(&mut data) else { break };
                    prop_assert!(piece.data.len() <= most_packet_bytes.max(CHUNK as usize));
                    receive(blocks.last_mut().unwrap(), &piece);
                    if cutter.is_full() {
                        prop_assert_eq!(blocks.last().unwrap().len() as u64, block_bytes);
                        cutter.next_block();
                        blocks.push(Vec::new());
                    }
                }
                prop_assert!(cutter.pending.len() < packet_bytes.max(CHUNK as usize));
                if flush {
                    if let Some(piece) = cutter.flush() {
                        receive(blocks.last_mut().unwrap(), &piece);
                    }
                    prop_assert_eq!(cutter.unsent(), 0);
                    prop_assert_eq!(blocks.concat().len(), due.len());
                }
            }
            let unsent = cutter.unsent();
            prop_assert_eq!(&blocks.concat()[..], &due[..due.len() - unsent]);
        }
    }
}
