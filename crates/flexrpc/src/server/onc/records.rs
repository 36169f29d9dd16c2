//! Records of plain ONC RPC that arrive on a connection, each in one buffer. The buffer grows with
//! the received bytes, and not with the announced size.

use crate::net::buffer::{Budget, Buffer, FIRST_READ_BYTES, Share};
use crate::net::reader::STASHED_FREE;
use crate::proto::onc::message::CALL_HEAD_BYTES;
use crate::proto::onc::record::{Assembly, MARK_BYTES};
use bytes::Bytes;
use std::io;
use std::sync::Arc;

/// Largest arguments that are copied out of their buffer, in bytes. The connection can then reuse
/// the buffer, which is cheaper than getting one from the pool.
const COPIED_BYTES: usize = 4 << 10;

/// A whole message, in its receive buffer.
pub(crate) struct Message {
    buffer: Buffer,
    len: usize,
}

impl Message {
    /// The first `len` bytes of `buffer`, which has at least so many.
    pub(crate) fn new(buffer: Buffer, len: usize) -> Self {
        Self { buffer, len }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.as_ref()[..self.len]
    }

    /// The last `len` bytes in memory of their own; also the buffer, if they were copied out of it.
    pub(crate) fn into_last(self, len: usize) -> (Bytes, Option<Buffer>) {
        let start = self.len - len;
        if len <= COPIED_BYTES {
            return (Bytes::copy_from_slice(&self.bytes()[start..]), Some(self.buffer));
        }
        (Bytes::from_owner(self.buffer).slice(start..start + len), None)
    }

    /// Releases the buffer, for the next message.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// Assembles records. Between records, it holds a buffer only if it got one back.
pub(crate) struct Records {
    assembly: Assembly,
    buffer: Option<Buffer>,
    /// Bytes of the buffer that are in use.
    end: usize,
    /// The beginning of a record that arrives slowly, and its share of the budget.
    stash: Vec<u8>,
    stashed: Option<Share>,
    /// The memory budget for records that exceed a first read.
    budget: Arc<Budget>,
    /// Most bytes of the buffer that can be in use: a record and a mark.
    most: usize,
    /// Size of the latest record. The next one probably has the same size, and a buffer that is
    /// large enough at once saves copies.
    expected: usize,
}

/// The outcome of reading once.
pub(crate) enum Read {
    /// A whole record.
    Record(Message),
    /// Some bytes arrived, but not the whole record. More may be waiting.
    More,
    /// No bytes are waiting.
    Nothing,
}

impl Records {
    /// For a connection whose first `end` bytes have already arrived.
    pub(crate) fn new(payload_bytes: usize, budget: Arc<Budget>, buffer: Buffer, end: usize) -> Self {
        let limit = payload_bytes.saturating_add(CALL_HEAD_BYTES);
        Self {
            assembly: Assembly::new(limit),
            buffer: Some(buffer),
            end,
            stash: Vec::new(),
            stashed: None,
            budget,
            most: limit.saturating_add(MARK_BYTES),
            expected: 0,
        }
    }

    /// Whether a record has begun to arrive.
    pub(crate) fn is_mid_record(&self) -> bool {
        self.end > 0 || self.assembly.announced() > 0
    }

    /// Takes a buffer back, for the next record.
    pub(crate) fn give_back(&mut self, buffer: Option<Buffer>) {
        if self.buffer.is_none() {
            self.buffer = buffer;
        }
    }

    /// Returns the buffer to the pool: a connection that waits holds only as much memory as it has
    /// sent bytes. `false` if the budget for paused messages is used up.
    pub(crate) fn release(&mut self) -> bool {
        let (begun, first) = (self.end > 0, FIRST_READ_BYTES);
        // A large record that has begun keeps its buffer: the budget already covers it.
        if let Some(buffer) = self.buffer.take_if(|buffer| !begun || buffer.as_ref().len() <= first) {
            if self.end > STASHED_FREE {
                self.stashed = self.budget.take(self.end);
                if self.stashed.is_none() {
                    return false;
                }
            }
            self.stash = buffer.as_ref()[..self.end].to_vec();
        }
        true
    }

    /// Receives once by `recv`, which returns the number of bytes, or `None` if none are waiting.
    /// Returns the record if it is whole.
    ///
    /// # Errors
    /// The connection broke, the bytes aren't an acceptable record, or memory is lacking. In each
    /// case the connection is unusable.
    pub(crate) fn read(
        &mut self,
        recv: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Read> {
        let mut buffer = self.resume();
        let read = match self.take_in(&mut buffer)? {
            true => Some(Read::Record),
            false => {
                if self.end == buffer.as_ref().len() {
                    self.enlarge(&mut buffer)?;
                }
                match recv(&mut buffer.as_mut()[self.end..])? {
                    Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Some(received) => {
                        self.end += received;
                        self.take_in(&mut buffer)?.then_some(Read::Record)
                    }
                    None => {
                        self.buffer = Some(buffer);
                        return Ok(Read::Nothing);
                    }
                }
            }
        };
        let Some(record) = read else {
            self.buffer = Some(buffer);
            return Ok(Read::More);
        };
        let len = self.assembly.len();
        self.expected = len + MARK_BYTES;
        self.keep_surplus(&buffer, len)?;
        self.assembly.begin_next();
        Ok(record(Message { buffer, len }))
    }

    /// A buffer to receive into, with the bytes that have already arrived.
    fn resume(&mut self) -> Buffer {
        self.buffer.take().unwrap_or_else(|| {
            let large = (self.expected > FIRST_READ_BYTES)
                .then(|| Buffer::take_from(&self.budget, self.expected))
                .flatten();
            let mut buffer = large.unwrap_or_else(|| Buffer::take(FIRST_READ_BYTES));
            buffer.as_mut()[..self.stash.len()].copy_from_slice(&self.stash);
            self.stash = Vec::new();
            self.stashed = None;
            buffer
        })
    }

    /// Adds the arrived bytes. Returns whether the record is whole.
    fn take_in(&mut self, buffer: &mut Buffer) -> io::Result<bool> {
        let arrived = &mut buffer.as_mut()[..self.end];
        let (end, whole) = self.assembly.take_in(arrived).map_err(|_| io::ErrorKind::InvalidData)?;
        self.end = end;
        Ok(whole)
    }

    /// Doubles the buffer, within the budget. So it is never much larger than the received bytes,
    /// and each byte is copied about once.
    fn enlarge(&self, full: &mut Buffer) -> io::Result<()> {
        let wanted = (2 * full.as_ref().len()).min(self.most).max(self.end + 1);
        let enlarged = full.enlarge(&self.budget, wanted, self.end);
        enlarged.then_some(()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// Keeps the bytes of a next record that the caller sent before the answer to this one.
    fn keep_surplus(&mut self, whole: &Buffer, len: usize) -> io::Result<()> {
        let surplus = &whole.as_ref()[len..self.end];
        self.end = surplus.len();
        if !surplus.is_empty() {
            let next = Buffer::of_surplus(surplus, Some(&self.budget));
            self.buffer = Some(next.ok_or(io::ErrorKind::OutOfMemory)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::onc::record::mark;

    fn records(payload_bytes: usize, budget_bytes: usize) -> Records {
        Records::new(payload_bytes, Budget::new(budget_bytes), Buffer::take(FIRST_READ_BYTES), 0)
    }

    /// Feeds `bytes` in pieces of at most `piece` bytes, with a pause after each.
    fn feed(records: &mut Records, bytes: &[u8], piece: usize) -> io::Result<Vec<Vec<u8>>> {
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let read = records.read(|room| {
                let len = piece.min(room.len()).min(bytes.len() - at);
                room[..len].copy_from_slice(&bytes[at..at + len]);
                at += len;
                Ok((len > 0).then_some(len))
            })?;
            match read {
                Read::Record(message) => {
                    found.push(message.bytes().to_vec());
                    let (last, spare) = message.into_last(3);
                    assert_eq!(last, found.last().unwrap()[found.last().unwrap().len() - 3..]);
                    records.give_back(spare);
                }
                Read::More => assert!(records.release()),
                Read::Nothing => return Ok(found),
            }
        }
    }

    #[test]
    fn records_of_any_size_are_found_whatever_pieces_they_come_in() {
        let big: Vec<u8> = (0..1_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let sent = [&b"small"[..], &big, b"behind", &big[..200_000], &big[..FIRST_READ_BYTES]];
        let stream: Vec<u8> =
            sent.iter().flat_map(|record| [&mark(record.len()), *record].concat()).collect();
        for piece in [1 << 22, 300_000, 65_536, 1449, 67] {
            let found = feed(&mut records(1 << 20, 1 << 22), &stream, piece).unwrap();
            assert!(found == sent, "pieces of {piece}");
        }
    }

    #[test]
    fn memory_is_taken_by_what_arrives_and_given_back() {
        let budget = Budget::new(1 << 22);
        let mut records = Records::new(1 << 21, Arc::clone(&budget), Buffer::take(FIRST_READ_BYTES), 0);
        assert!(feed(&mut records, &mark(1 << 21), 4).unwrap().is_empty());
        assert!(Buffer::take_from(&budget, 1 << 22).is_some(), "a claim costs nothing");
        feed(&mut records, &[7; 1 << 19], 1 << 16).unwrap();
        assert!(Buffer::take_from(&budget, (1 << 22) - (1 << 18)).is_none());
        drop(records);
        assert!(Buffer::take_from(&budget, 1 << 22).is_some());
    }

    #[test]
    fn what_pauses_in_mid_record_counts_against_the_budget() {
        let begun = [&mark(120_000)[..], &[7; 100_000]].concat();
        for (budget, room) in [(1 << 20, true), (50_000, false)] {
            let mut records = records(1 << 20, budget);
            let read = records.read(|into| {
                into[..begun.len()].copy_from_slice(&begun);
                Ok(Some(begun.len()))
            });
            assert!(matches!(read, Ok(Read::More)));
            assert_eq!(records.release(), room, "of {budget} bytes");
        }
    }

    #[test]
    fn a_record_for_which_there_is_no_memory_or_no_leave_ends_the_connection() {
        let stream = [&mark(500_000)[..], &[7; 500_000]].concat();
        let kind =
            |payload, budget| feed(&mut records(payload, budget), &stream, 1 << 16).unwrap_err().kind();
        assert_eq!(kind(1 << 20, 1 << 18), io::ErrorKind::OutOfMemory);
        assert_eq!(kind(1 << 18, 1 << 20), io::ErrorKind::InvalidData);
    }
}
