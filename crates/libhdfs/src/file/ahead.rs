//! Reading ahead for programs that read a file from front to back, in pieces of any size.

use super::{PIECE_BYTES, Room, room_of};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use strait_store::{Error, ErrorKind, FileReader, Result};
use tokio::task::JoinHandle;

/// Requests ahead of the program: while it takes one piece, the network brings the next ones. With
/// [`PIECE_BYTES`] it bounds an open file's memory to 4 MiB.
const PIECES_AHEAD: usize = 3;

/// The place of a sequential reader, and the pieces there.
#[derive(Default)]
pub(super) struct Sequence {
    /// The end of the last read. Zero at first: a read at the beginning may be a sequence's first.
    next: u64,
    /// Reads in sequence so far.
    run: u32,
    current: Bytes,
    /// The offset of `current`.
    at: u64,
    /// Requests that follow each other, from the end of `current` on.
    ahead: VecDeque<Ahead>,
}

/// A request that runs on its own.
struct Ahead {
    offset: u64,
    length: usize,
    piece: JoinHandle<Result<Bytes>>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.piece.abort();
    }
}

impl Sequence {
    /// Copies the bytes that are here already.
    pub(super) fn copy(&mut self, at: u64, room: &mut Room) {
        if let Some(begin) = self.within_current(at) {
            self.next = at + room.put(&self.current[begin..]) as u64;
        }
    }

    /// Fills `room` from `at`, as far as the file goes.
    pub(super) async fn read(
        &mut self,
        reader: &Arc<dyn FileReader>,
        at: u64,
        room: &mut Room,
    ) -> Result<()> {
        self.run = if at == self.next { self.run.saturating_add(1) } else { 0 };
        let mut at = at;
        while room.left > 0 {
            let piece = self.piece(reader, at, room.left).await?;
            if piece.is_empty() {
                break;
            }
            at += room.put(&piece) as u64;
            self.next = at;
        }
        Ok(())
    }

    /// Some bytes from `at` on; none at the end.
    async fn piece(&mut self, reader: &Arc<dyn FileReader>, at: u64, wanted: usize) -> Result<Bytes> {
        if let Some(begin) = self.within_current(at) {
            return Ok(self.current.slice(begin..));
        }
        // The first small read of a sequence gets no more than itself: the program may seek next.
        let is_sequence = self.run > 1 || wanted > PIECE_BYTES;
        if !is_sequence || self.ahead.front().is_some_and(|first| first.offset != at) {
            self.ahead.clear();
        }
        if !is_sequence {
            return reader.read_at(at, wanted).await;
        }
        self.ask(reader, at);
        let Some(mut first) = self.ahead.pop_front() else {
            // At the end; a file that is being written may have grown.
            return reader.read_at(at, wanted.min(PIECE_BYTES)).await;
        };
        self.ask(reader, at + first.length as u64);
        let gone = |error| Error::new(ErrorKind::Internal, format!("a read ended early: {error}"));
        let piece = (&mut first.piece).await.map_err(gone)?;
        if piece.as_ref().map_or(true, |piece| piece.len() < first.length) {
            self.ahead.clear();
        }
        (self.current, self.at) = (piece?, at);
        Ok(self.current.clone())
    }

    /// The index of the byte at `at` in the current piece, if it is there.
    fn within_current(&self, at: u64) -> Option<usize> {
        let begin = usize::try_from(at.checked_sub(self.at)?).ok()?;
        (begin < self.current.len()).then_some(begin)
    }

    /// Asks for the missing pieces ahead, from `from` on if nothing is under way.
    fn ask(&mut self, reader: &Arc<dyn FileReader>, from: u64) {
        while self.ahead.len() < PIECES_AHEAD {
            let offset = self.ahead.back().map_or(from, |last| last.offset + last.length as u64);
            let length = room_of(reader, offset).min(PIECE_BYTES);
            if length == 0 {
                return;
            }
            let reader = reader.clone();
            let piece = tokio::spawn(async move { reader.read_at(offset, length).await });
            self.ahead.push_back(Ahead { offset, length, piece });
        }
    }
}
