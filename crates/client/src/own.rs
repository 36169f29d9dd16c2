//! A connection that one reader has to itself: replies to `readRange`, received by the thread that wants them.

use super::connection::WIRE;
use super::socket::Socket;
use bytes::Bytes;
use std::io::{self, BufReader, Read, Write};
use std::time::Instant;
use strait_wire::{Method, ReadRangeReply, ReadRangeRequest, methods};

/// Receive buffer for the bytes around the payloads. A larger one would copy more of the payloads.
const BUFFER_BYTES: usize = 16 << 10;
/// The length of a frame, or of a payload.
const LENGTH_BYTES: usize = size_of::<u32>();
/// The bytes behind a payload: the ends of the reply's struct and of the result around it.
const TAIL: [u8; 2] = [0, 0];

/// A connection that is attached to the session. After an error, its state is unknown: drop it.
pub(super) struct OwnConnection {
    socket: BufReader<Socket>,
    /// Requests that `flush` sends.
    gathered: Vec<u8>,
    /// Sequence numbers of the next request and of the next reply.
    next_request: i32,
    next_reply: i32,
    max_chunk_bytes: usize,
    incarnation: i64,
}

impl OwnConnection {
    /// Most bytes of one request, and the incarnation of the session whose handles it knows.
    pub(super) fn new(socket: Socket, max_chunk_bytes: usize, incarnation: i64) -> Self {
        Self {
            socket: BufReader::with_capacity(BUFFER_BYTES, socket),
            gathered: Vec::new(),
            next_request: 1,
            next_reply: 1,
            max_chunk_bytes,
            incarnation,
        }
    }

    pub(super) fn max_chunk_bytes(&self) -> usize {
        self.max_chunk_bytes
    }

    pub(super) fn incarnation(&self) -> i64 {
        self.incarnation
    }

    /// See [`Socket::wait_until`].
    pub(super) fn wait_until(&mut self, deadline: Instant) {
        self.socket.get_mut().wait_until(deadline);
    }

    /// Requests a range of a file, with the next [`Self::flush`].
    pub(super) fn ask(&mut self, handle: i64, offset: u64, bytes: usize) -> io::Result<()> {
        let request = ReadRangeRequest {
            handle: Some(handle),
            offset: Some(i64::try_from(offset).map_err(io::Error::other)?),
            length: Some(i32::try_from(bytes).map_err(io::Error::other)?),
            ..Default::default()
        };
        let call = methods::ReadRange::call(WIRE, self.next_request, &request.into());
        call.segments.iter().for_each(|segment| self.gathered.extend_from_slice(segment));
        self.next_request = self.next_request.wrapping_add(1);
        Ok(())
    }

    /// Sends the gathered requests.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let socket = self.socket.get_mut();
        socket.write_all(&self.gathered)?;
        self.gathered.clear();
        socket.flush()
    }

    /// Receives the next reply up to its payload, and returns the payload's length. [`Read`] then gives the payload.
    pub(super) fn begin_reply(&mut self) -> io::Result<usize> {
        let unexpected = || io::Error::other("not the reply with a payload that was expected");
        // The reply without any payload shows the bytes around one.
        let empty = ReadRangeReply { data: Some(Bytes::new()) };
        let empty = methods::ReadRange::reply(WIRE, self.next_reply, &Ok(empty)).to_bytes();
        let head = &empty[LENGTH_BYTES..empty.len() - LENGTH_BYTES - TAIL.len()];

        let frame = self.length()?;
        // The frame of an error may be shorter than the head.
        let payload = frame.checked_sub(empty.len() - LENGTH_BYTES).ok_or_else(unexpected)?;
        let mut received = vec![0; head.len()];
        self.socket.read_exact(&mut received)?;
        if received != head || self.length()? != payload {
            return Err(unexpected());
        }
        Ok(payload)
    }

    /// Receives the bytes behind a payload.
    pub(super) fn end_reply(&mut self) -> io::Result<()> {
        let mut tail = [0; TAIL.len()];
        self.socket.read_exact(&mut tail)?;
        self.next_reply = self.next_reply.wrapping_add(1);
        if tail == TAIL { Ok(()) } else { Err(io::Error::other("a reply with further fields")) }
    }

    fn length(&mut self) -> io::Result<usize> {
        let mut length = [0; LENGTH_BYTES];
        self.socket.read_exact(&mut length)?;
        Ok(u32::from_be_bytes(length) as usize)
    }
}

/// Bytes of the payload, straight from the socket if `into` is large.
impl Read for OwnConnection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.socket.read(into)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }
}
