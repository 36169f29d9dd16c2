//! Bytes that the writer has accepted but not yet sent.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// A queue of pieces, each at most one write. It gathers small pieces by copying them, and never copies
/// large ones.
#[derive(Debug)]
pub(super) struct Staging {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    bytes: usize,
    write_bytes: usize,
}

impl Staging {
    pub fn new(write_bytes: u32) -> Self {
        let write_bytes = (write_bytes as usize).max(1);
        Self { pieces: VecDeque::new(), tail: BytesMut::new(), bytes: 0, write_bytes }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has a whole write.
    pub fn is_full(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Whether it has bytes that don't fill a write yet.
    pub fn has_part(&self) -> bool {
        !self.tail.is_empty()
    }

    pub fn push(&mut self, mut bytes: Bytes) {
        self.bytes += bytes.len();
        while !bytes.is_empty() {
            if self.tail.is_empty() && bytes.len() >= self.write_bytes {
                self.pieces.push_back(bytes.split_to(self.write_bytes));
                continue;
            }
            let take = bytes.len().min(self.write_bytes - self.tail.len());
            self.tail.extend_from_slice(&bytes[..take]);
            bytes.advance(take);
            if self.tail.len() == self.write_bytes {
                let piece = self.take_tail();
                self.pieces.push_back(piece);
            }
        }
    }

    /// Puts pieces back at the front of the queue, in their order.
    pub fn put_back(&mut self, pieces: impl DoubleEndedIterator<Item = Bytes>) {
        for piece in pieces.rev() {
            self.bytes += piece.len();
            self.pieces.push_front(piece);
        }
    }

    /// Takes the gathered bytes with their whole buffer. If the buffer were split instead, its rest would
    /// keep these bytes in memory as long as the file is open.
    fn take_tail(&mut self) -> Bytes {
        std::mem::take(&mut self.tail).freeze()
    }

    /// Length of the next piece. With `all`, the piece may be smaller than a whole write.
    pub fn next(&mut self, all: bool) -> Option<usize> {
        if self.pieces.is_empty() && all && !self.tail.is_empty() {
            let piece = self.take_tail();
            self.pieces.push_back(piece);
        }
        self.pieces.front().map(Bytes::len)
    }

    /// The next piece, or its first `most` bytes.
    pub fn take(&mut self, most: usize) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > most {
            let rest = piece.split_off(most);
            self.pieces.push_front(rest);
        }
        self.bytes -= piece.len();
        Some(piece)
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.write_bytes as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_arent_copied_and_small_ones_are_gathered() {
        let mut staging = Staging::new(4);
        let large = Bytes::from_static(b"abcdefgh");
        staging.push(large.clone());
        staging.push(Bytes::from_static(b"ij"));
        assert_eq!(staging.take(4).unwrap().as_ptr(), large.as_ptr());
        assert_eq!(staging.take(4).unwrap(), "efgh");
        assert_eq!((staging.next(false), staging.bytes()), (None, 2));
        staging.push(Bytes::from_static(b"klmn"));
        assert_eq!(staging.take(3).unwrap(), "ijk");
        assert_eq!(staging.next(true), Some(1));
        staging.put_back([Bytes::from_static(b"i"), Bytes::from_static(b"jk")].into_iter());
        let rest: Vec<Bytes> =
            std::iter::from_fn(|| staging.next(true).and_then(|_| staging.take(9))).collect();
        assert_eq!(rest.concat(), b"ijklmn");
        assert_eq!((staging.bytes(), staging.tail.capacity()), (0, 0), "no buffer is kept");
    }
}
