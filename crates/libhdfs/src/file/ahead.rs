//! Read-ahead for programs that read a file sequentially, in pieces of any size.

use super::{PIECE_BYTES, Room, room_of};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use strait_store::{Error, ErrorKind, FileReader, Result};
use tokio::task::JoinHandle;

/// Most requests ahead: while the program reads one piece, the next ones arrive. With the current piece, an
/// open file takes at most 4 MiB of memory (see [`PIECE_BYTES`]).
const PIECES_AHEAD: usize = 3;

/// The position of a sequential reader, and the pieces from there on.
#[derive(Default)]
pub(super) struct Sequence {
    /// Where the previous read ended. At first 0: a read at the file's beginning may start a sequence.
    next: u64,
    /// Reads in sequence so far.
    run: u32,
    current: Bytes,
    /// The offset of `current`.
    at: u64,
    /// Requests for adjacent pieces, from the end of `current` on.
    ahead: VecDeque<Ahead>,
}

/// A request that runs as a task of its own.
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
    /// Copies the bytes from `at` on that the current piece has.
    pub(super) fn copy(&mut self, at: u64, room: &mut Room) {
        if let Some(begin) = self.within_current(at) {
            self.next = at + room.put(&self.current[begin..]) as u64;
        }
    }

    /// Fills `room` with the bytes from `at` on, up to the file's end.
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
        // For the first small read of a sequence, nothing is read ahead: the program may seek next.
        let is_sequence = self.run > 1 || wanted > PIECE_BYTES;
        if !is_sequence || self.ahead.front().is_some_and(|first| first.offset != at) {
            self.ahead.clear();
        }
        if !is_sequence {
            return reader.read_at(at, wanted).await;
        }
        self.ask(reader, at);
        let Some(mut first) = self.ahead.pop_front() else {
            // At the known end. But a file that is being written may have grown.
            return reader.read_at(at, wanted.min(PIECE_BYTES)).await;
        };
        self.ask(reader, at + first.length as u64);
        let gone = |error| Error::new(ErrorKind::Internal, format!("a read-ahead was aborted: {error}"));
        let piece = (&mut first.piece).await.map_err(gone)?;
        if piece.as_ref().map_or(true, |piece| piece.len() < first.length) {
            self.ahead.clear();
        }
        (self.current, self.at) = (piece?, at);
        Ok(self.current.clone())
    }

    /// The index in the current piece of the byte at `at`, if the piece has it.
    fn within_current(&self, at: u64) -> Option<usize> {
        let begin = usize::try_from(at.checked_sub(self.at)?).ok()?;
        (begin < self.current.len()).then_some(begin)
    }

    /// Starts requests until [`PIECES_AHEAD`] are running. They continue after the last one, or, if none is
    /// running, begin at `from`.
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
