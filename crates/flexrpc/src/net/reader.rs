//! Assembles the frames of a connection in one buffer. The handler or caller gets the payload in
//! place. The reader computes the checksum while the rest of the frame is under way.

use crate::net::buffer::{self, Budget, Buffer, FIRST_READ_BYTES, SLACK, Share};
use crate::net::clock;
use crate::proto::Micros;
use crate::proto::auth::SessionKey;
use crate::proto::frame::{Head, MAGIC, flags};
use crate::proto::limits::STALL_BYTES;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use strait_crc::{Running, crc32c};

/// Bytes whose checksum is computed at once: few enough for the cache, and enough for few calls.
const SLICE_BYTES: usize = 256 << 10;

/// Largest payload that is copied out of its buffer, in bytes. The reader can then reuse the
/// buffer, which is cheaper than getting one from the pool.
const COPIED_BYTES: usize = 4 << 10;

/// Largest beginning of a paused message that costs no budget, since a head sometimes arrives in
/// two segments. For as many connections as the default limit allows, this is 128 MiB.
pub(crate) const STASHED_FREE: usize = 4 << 10;

/// Up to this size the reader allocates a frame's announced size at once, which saves copies.
/// Beyond it, the buffer doubles as bytes arrive. It is the number of bytes that must arrive in the
/// time that a small message has to become whole.
const CLAIMED_BYTES: usize = STALL_BYTES + SLACK;

/// A whole frame.
pub(crate) struct Frame {
    pub(crate) head: Head,
    buffer: Buffer,
    /// Whether the payload's checksum is right.
    pub(crate) intact: bool,
    /// The time at which the head was complete; deadlines count from it.
    pub(crate) arrived: Micros,
}

/// The bytes of one receive.
pub(crate) struct Piece {
    pub(crate) len: usize,
    /// The time just before or after the receive.
    pub(crate) at: Micros,
}

impl Piece {
    /// `len` bytes received now.
    pub(crate) fn now(len: usize) -> Self {
        Self { len, at: clock::now() }
    }
}

impl Frame {
    /// Parses a datagram.
    ///
    /// # Errors
    /// The datagram isn't exactly one frame; this returns the buffer.
    #[inline]
    pub(crate) fn of_datagram(buffer: Buffer, piece: &Piece) -> Result<Self, Buffer> {
        let Piece { len, at } = *piece;
        let Some(bytes) = buffer.as_ref().get(..len) else { return Err(buffer) };
        let head = match Head::decode(bytes) {
            Ok(Some(head)) if head.frame_len() == len => head,
            _ => return Err(buffer),
        };
        let payload = &bytes[head.head_len()..head.head_len() + head.payload_len as usize];
        let intact = crc32c(payload) == head.payload_crc;
        Ok(Self { head, buffer, intact, arrived: at })
    }

    /// The head's extension.
    #[inline]
    pub(crate) fn extension(&self) -> &[u8] {
        &self.buffer.as_ref()[crate::proto::frame::HEAD_BYTES..self.head.head_len()]
    }

    /// Arguments or result.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer.as_ref()[self.head.head_len()..][..self.head.payload_len as usize]
    }

    /// The bytes that the tag covers, and the tag.
    fn tagged(&self) -> (&[u8], &[u8]) {
        let end = self.head.frame_len();
        let (covered, tag) = self.buffer.as_ref()[..end].split_at(end - self.head.tag_len());
        (covered, tag)
    }

    /// Whether the frame carries the tag that the key demands.
    #[inline(never)]
    pub(crate) fn is_authentic(&self, key: &SessionKey) -> bool {
        let (covered, tag) = self.tagged();
        self.head.has(flags::AUTHENTIC) && key.verify(&[covered], tag)
    }

    /// The payload, independent of this frame; also the buffer, if the payload was copied out of
    /// it.
    #[inline]
    pub(crate) fn into_payload(self) -> (Bytes, Option<Buffer>) {
        if self.head.payload_len == 0 {
            return (Bytes::new(), Some(self.buffer));
        }
        self.into_bytes()
    }

    #[inline(never)]
    fn into_bytes(self) -> (Bytes, Option<Buffer>) {
        let len = self.head.payload_len as usize;
        if len <= COPIED_BYTES {
            return (Bytes::copy_from_slice(self.payload()), Some(self.buffer));
        }
        let start = self.head.head_len();
        (Bytes::from_owner(self.buffer).slice(start..start + len), None)
    }

    /// Releases the buffer, for the next frame.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// Assembles frames. Between frames, it holds a buffer only if it got one back.
pub(crate) struct Reader {
    buffer: Option<Buffer>,
    /// Bytes that have arrived.
    end: usize,
    head: Option<Head>,
    /// Whether a head has ever arrived.
    spoke: bool,
    /// The time at which the head was complete, or before that, at which its latest piece arrived.
    arrived: Micros,
    running: Running,
    /// Payload bytes that the running checksum covers.
    checked: usize,
    /// Largest accepted payload.
    limit: usize,
    /// The memory budget for frames that exceed a first read.
    budget: Option<Arc<Budget>>,
    /// The beginning of a frame that arrives slowly.
    stash: Vec<u8>,
    /// The stash's share of the budget.
    stashed: Option<Share>,
    /// Size of the latest frame. The next frame probably has the same size, and a buffer that is
    /// large enough at once saves a copy.
    expected: usize,
}

/// Reasons why no frame can be read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The peer closed the connection, or it broke.
    Closed,
    /// The bytes aren't a frame, so the next frame's beginning is unknown.
    Frame,
    /// The payload is larger than the limit. Holds the frame's head.
    TooLarge(Box<Head>),
    /// The budget has no memory left for the frame. Holds the frame's head.
    NoRoom(Box<Head>),
}

impl ReadError {
    /// Any error makes the connection unusable.
    #[cold]
    fn of_connection(_: io::Error) -> Self {
        Self::Closed
    }

    #[cold]
    fn too_large(head: Head) -> Self {
        Self::TooLarge(Box::new(head))
    }

    #[cold]
    fn no_room(head: Head) -> Self {
        Self::NoRoom(Box::new(head))
    }
}

impl Reader {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            buffer: None,
            end: 0,
            head: None,
            spoke: false,
            arrived: 0,
            running: Running::new(),
            checked: 0,
            limit,
            budget: None,
            stash: Vec::new(),
            stashed: None,
            expected: FIRST_READ_BYTES,
        }
    }

    /// Whether a frame has begun to arrive.
    pub(crate) fn is_mid_frame(&self) -> bool {
        self.end > 0
    }

    /// As [`Reader::new`], but memory for large frames comes from a budget.
    pub(crate) fn with_budget(limit: usize, budget: Arc<Budget>) -> Self {
        Self { budget: Some(budget), ..Self::new(limit) }
    }

    /// The head of the arriving frame.
    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The time at which the arriving frame's head was complete.
    pub(crate) fn arrived(&self) -> Micros {
        self.arrived
    }

    /// The arriving frame's extension, if its head is complete.
    pub(crate) fn extension(&self) -> &[u8] {
        match (&self.head, &self.buffer) {
            (Some(head), Some(buffer)) => &buffer.as_ref()[crate::proto::frame::HEAD_BYTES..head.head_len()],
            _ => &[],
        }
    }

    /// The arrived part of the payload.
    pub(crate) fn payload_so_far(&self) -> &[u8] {
        match (&self.head, &self.buffer) {
            (Some(head), Some(buffer)) => {
                let end = self.end.min(head.head_len() + head.payload_len as usize);
                &buffer.as_ref()[head.head_len()..end]
            }
            _ => &[],
        }
    }

    /// Takes a buffer back, for the next frame.
    #[inline]
    pub(crate) fn give_back(&mut self, buffer: Option<Buffer>) {
        if self.buffer.is_none() {
            self.buffer = buffer;
        }
    }

    /// A buffer for a use other than assembling frames.
    pub(crate) fn take_buffer(&mut self, len: usize) -> Buffer {
        self.buffer.take().unwrap_or_else(|| Buffer::take(len))
    }

    /// Takes the arrived bytes, for another protocol, if the connection doesn't begin with a frame.
    /// Returns the buffer and the number of bytes. The reader then starts again.
    pub(crate) fn take_foreign(&mut self) -> Option<(Buffer, usize)> {
        let buffer = self.buffer.take_if(|_| !self.spoke)?;
        let end = std::mem::take(&mut self.end);
        (!buffer.as_ref()[..end].starts_with(&MAGIC)).then_some((buffer, end))
    }

    /// Returns the buffer to the pool: a connection that waits holds only as much memory as it has
    /// sent bytes. `false` if the budget for paused messages is used up.
    pub(crate) fn release(&mut self) -> bool {
        let (begun, first) = (self.end > 0, FIRST_READ_BYTES);
        // A large frame that has begun keeps its buffer: the budget already covers it.
        if let Some(buffer) = self.buffer.take_if(|buffer| !begun || buffer.as_ref().len() <= first) {
            if self.end > STASHED_FREE
                && let Some(budget) = &self.budget
            {
                self.stashed = budget.take(self.end);
                if self.stashed.is_none() {
                    return false;
                }
            }
            self.stash = buffer.as_ref()[..self.end].to_vec();
        }
        true
    }

    /// Takes a buffer to receive into, and copies the stash into it.
    #[inline(never)]
    fn resume(&mut self) {
        let large = match &self.budget {
            Some(budget) if self.expected > FIRST_READ_BYTES => Buffer::take_from(budget, self.expected),
            Some(_) => None,
            None => Some(Buffer::take(self.expected)),
        };
        let mut buffer = large.unwrap_or_else(|| Buffer::take(FIRST_READ_BYTES));
        buffer.as_mut()[..self.stash.len()].copy_from_slice(&self.stash);
        self.stash = Vec::new();
        self.stashed = None;
        self.buffer = Some(buffer);
    }

    /// Receives once by `recv`. Returns the frame if it is whole, and `Nothing` if no bytes have
    /// arrived.
    #[inline]
    pub(crate) fn read(
        &mut self,
        recv: impl FnOnce(&mut [u8]) -> io::Result<Option<Piece>>,
    ) -> Result<Read, ReadError> {
        if self.buffer.is_none() {
            self.resume();
        }
        if self.end > 0
            && let Some(frame) = self.parse_ahead()?
        {
            return Ok(Read::Frame(frame));
        }
        let Some(buffer) = &mut self.buffer else { return Ok(Read::Nothing) };
        let room = &mut buffer.as_mut()[self.end..];
        // The head mustn't make a payload of a slice's size need a second receive.
        let most = if room.len() <= SLICE_BYTES + buffer::SLACK { room.len() } else { SLICE_BYTES };
        match recv(&mut room[..most]) {
            Ok(None) => return Ok(Read::Nothing),
            Ok(Some(Piece { len: 0, .. })) => return Err(ReadError::Closed),
            Err(error) => return Err(ReadError::of_connection(error)),
            Ok(Some(Piece { len, at })) => {
                self.end += len;
                if self.head.is_none() {
                    self.arrived = at;
                }
            }
        }
        Ok(self.parse()?.map_or(Read::More, Read::Frame))
    }

    /// Parses bytes that arrived together with the previous frame.
    #[inline(never)]
    fn parse_ahead(&mut self) -> Result<Option<Frame>, ReadError> {
        if self.head.is_none() {
            // Count a frame that came with the previous one as arriving only when its turn comes.
            self.arrived = clock::now();
        }
        self.parse()
    }

    #[inline]
    fn parse(&mut self) -> Result<Option<Frame>, ReadError> {
        let Some(buffer) = &self.buffer else { return Ok(None) };
        let head = match self.head {
            Some(head) => head,
            None => {
                let Some(head) = Head::decode(&buffer.as_ref()[..self.end]).map_err(|_| ReadError::Frame)?
                else {
                    return Ok(None);
                };
                if head.payload_len as usize > self.limit {
                    return Err(ReadError::too_large(head));
                }
                self.checked = 0;
                self.spoke = true;
                head
            }
        };
        let frame_len = head.frame_len();
        if self.end < frame_len {
            self.head = Some(head);
            return self.go_on(head, frame_len).map(|()| None);
        }
        let crc = match &buffer.as_ref()[head.head_len()..][..head.payload_len as usize] {
            payload if self.checked == 0 => crc32c(payload),
            payload => self.checksum_with(&payload[self.checked..]),
        };
        let intact = crc == head.payload_crc;
        let Some(whole) = self.buffer.take() else { return Ok(None) };
        let surplus = self.end - frame_len;
        self.end = surplus;
        if surplus > 0 && !self.keep_surplus(&whole.as_ref()[frame_len..][..surplus]) {
            return Err(ReadError::no_room(head));
        }
        self.head = None;
        // Don't presize after a frame whose checksum failed.
        self.expected = if intact { frame_len } else { FIRST_READ_BYTES };
        Ok(Some(Frame { head, buffer: whole, intact, arrived: self.arrived }))
    }

    /// Continues a frame that isn't whole: adds arrived bytes to the checksum, and makes room for
    /// more.
    #[inline(never)]
    fn go_on(&mut self, head: Head, frame_len: usize) -> Result<(), ReadError> {
        let Some(buffer) = &mut self.buffer else { return Ok(()) };
        let room = buffer.as_ref().len();
        if room < frame_len && (room < CLAIMED_BYTES || self.end == room) {
            let wanted = frame_len.min((2 * room - SLACK).max(CLAIMED_BYTES));
            let grown = match &self.budget {
                Some(budget) => buffer.enlarge(budget, wanted, self.end),
                None => {
                    let mut larger = Buffer::take(wanted);
                    larger.as_mut()[..self.end].copy_from_slice(&buffer.as_ref()[..self.end]);
                    *buffer = larger;
                    true
                }
            };
            if !grown {
                return Err(ReadError::no_room(head));
            }
        }
        if self.payload_so_far().len() - self.checked >= SLICE_BYTES / 2 {
            self.check();
        }
        Ok(())
    }

    /// The payload's checksum, with the part that isn't in the running checksum yet.
    #[inline(never)]
    fn checksum_with(&self, last: &[u8]) -> u32 {
        let mut running = self.running;
        running.update(last);
        running.value()
    }

    /// Adds the arrived part of the payload to the running checksum, so that less work is left at
    /// the end.
    pub(crate) fn check(&mut self) {
        if let (Some(head), Some(buffer)) = (&self.head, &self.buffer) {
            let payload = &buffer.as_ref()[head.head_len()..self.end.max(head.head_len())];
            let payload = &payload[..payload.len().min(head.payload_len as usize)];
            if self.checked == 0 {
                self.running = Running::new();
            }
            self.running.update(&payload[self.checked..]);
            self.checked = payload.len();
        }
    }

    /// Keeps the bytes of a next frame that the peer sent before the answer to this one. `false` if
    /// there is no memory for them.
    #[inline(never)]
    fn keep_surplus(&mut self, surplus: &[u8]) -> bool {
        self.buffer = Buffer::of_surplus(surplus, self.budget.as_ref());
        self.buffer.is_some()
    }
}

/// The outcome of reading once.
pub(crate) enum Read {
    /// A whole frame.
    Frame(Frame),
    /// Some bytes arrived, but not the whole frame. More may be waiting.
    More,
    /// No bytes are waiting.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::frame::Kind;
    use crate::proto::ids::CallId;

    fn frame(payload: &[u8]) -> Vec<u8> {
        let head = Head {
            payload_len: payload.len() as u32,
            payload_crc: crc32c(payload),
            ..Head::new(Kind::Call, CallId::default())
        };
        [head.encode(b"ext"), payload.to_vec()].concat()
    }

    /// Feeds `bytes` in pieces of at most `piece` bytes.
    fn frames(bytes: &[u8], piece: usize) -> Result<Vec<(Vec<u8>, bool)>, ReadError> {
        let (mut reader, mut at, mut frames) = (Reader::new(1 << 21), 0, Vec::new());
        loop {
            let read = reader.read(|room| {
                let len = piece.min(room.len()).min(bytes.len() - at);
                room[..len].copy_from_slice(&bytes[at..at + len]);
                at += len;
                Ok((len > 0).then_some(Piece { len, at: 0 }))
            })?;
            match read {
                Read::Frame(frame) => {
                    assert_eq!(frame.extension(), b"ext");
                    frames.push((frame.payload().to_vec(), frame.intact));
                    let (payload, spare) = frame.into_payload();
                    assert_eq!(payload, frames.last().unwrap().0);
                    reader.give_back(spare);
                }
                Read::More => {}
                Read::Nothing => return Ok(frames),
            }
        }
    }

    #[test]
    fn frames_are_found_whatever_pieces_they_come_in() {
        let big: Vec<u8> = (0..1_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let payloads = [&b"small"[..], b"", &big, b"behind", &big[..200_000]];
        let bytes: Vec<u8> = payloads.iter().flat_map(|payload| frame(payload)).collect();
        for piece in [1 << 22, 300_000, 65_536, 1449, 67] {
            let read = frames(&bytes, piece).unwrap();
            assert!(read.len() == 5 && read.iter().all(|(_, intact)| *intact), "pieces of {piece}");
            assert!(read.iter().zip(payloads).all(|((read, _), sent)| read == sent));
        }
    }

    #[test]
    fn a_damaged_payload_is_told_and_the_next_frame_still_found() {
        let mut bytes = [frame(&[7; 300_000]), frame(b"next")].concat();
        bytes[200_000] ^= 1;
        let read = frames(&bytes, 100_000).unwrap();
        assert_eq!((read[0].1, read[1].1), (false, true));
        assert_eq!(read[1].0, b"next");
    }

    #[test]
    fn a_claimed_size_takes_memory_as_it_arrives() {
        const LARGE: usize = 32 << 20;
        let budget = Budget::new(LARGE + SLACK);
        let mut reader = Reader::with_budget(LARGE, Arc::clone(&budget));
        let bytes = frame(&vec![7; LARGE]);
        let mut sent = 0;
        let mut send = |most: usize| {
            let read = reader.read(|room| {
                let len = most.min(room.len()).min(bytes.len() - sent);
                room[..len].copy_from_slice(&bytes[sent..sent + len]);
                sent += len;
                Ok(Some(Piece { len, at: 0 }))
            });
            (read.unwrap(), sent)
        };
        assert!(matches!(send(1000).0, Read::More));
        assert!(budget.take(LARGE + SLACK - CLAIMED_BYTES).is_some(), "one byte costs no more");
        let whole = loop {
            match send(1 << 20) {
                (Read::Frame(frame), _) => break frame,
                (_, sent) => assert!(
                    budget.take((LARGE + SLACK).saturating_sub(CLAIMED_BYTES.max(2 * sent))).is_some()
                ),
            }
        };
        assert!(whole.intact && whole.payload() == vec![7; LARGE]);
    }

    #[test]
    fn what_is_sent_ahead_counts_against_the_budget() {
        let ahead = frame(&[7; 200_000]);
        for (left, room) in [(200_000, true), (100_000, false)] {
            let budget = Budget::new(600_000 + left);
            let mut reader = Reader::with_budget(1 << 20, Arc::clone(&budget));
            let mut feed = |bytes: &[u8]| {
                let mut fed = 0;
                loop {
                    let read = reader.read(|room| {
                        let len = room.len().min(bytes.len() - fed);
                        room[..len].copy_from_slice(&bytes[fed..fed + len]);
                        fed += len;
                        Ok((len > 0).then_some(Piece { len, at: 0 }))
                    });
                    if !matches!(read, Ok(Read::More)) {
                        return read;
                    }
                }
            };
            assert!(matches!(feed(&frame(&[7; 500_000])), Ok(Read::Frame(_))));
            let held = budget.take(100_000 - 68 - 3).unwrap();
            // The size of the previous frame has made this buffer large.
            let read = feed(&[&frame(b"small")[..], &ahead[..180_000]].concat());
            assert_eq!(matches!(read, Ok(Read::Frame(_))), room, "{left} left");
            drop(held);
        }
    }

    #[test]
    fn a_claimed_size_above_the_limit_takes_no_memory() {
        let head = Head { payload_len: u32::MAX, ..Head::new(Kind::Call, CallId::default()) };
        assert!(matches!(frames(&head.encode(b""), 1000), Err(ReadError::TooLarge(_))));
        assert!(matches!(frames(b"GET / HTTP/1.1", 1000), Err(ReadError::Frame)));
    }
}
