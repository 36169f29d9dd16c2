//! Requests out of a connection's bytes, bounded before anything is allocated.

use crate::memory::{Account, Permit};
use crate::request::{Outgoing, Request};
use bytes::{Bytes, BytesMut};
use std::io;
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Decoder, Encoded, Envelope, Protocol, Scan, Scanner, Sniff, Wire,
    sniff,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What a connection that waits for a request holds: most requests fit.
const FIRST_READ_BYTES: usize = 1 << 10;
/// What a read in mid-request asks for at least.
const READ_BYTES: usize = 16 << 10;

/// The receiving side of a connection.
pub struct Input<R> {
    from: R,
    buffer: BytesMut,
    wire: Option<Wire>,
    scanner: Option<Scanner>,
    max_bytes: usize,
    /// Memory for a request larger than the reserve.
    memory: Option<Permit>,
    /// Bytes the request being received has in all, as far as known.
    needed: usize,
    waits: bool,
    /// Bytes received in all.
    pub received: u64,
}

/// What came.
pub enum Received {
    /// A request.
    Request(Request),
    /// Something that can't be gone on after; this is the answer to it.
    Refused(Outgoing),
    /// The client has sent all it will.
    End,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Nothing received yet.
    pub fn new(from: R, max_bytes: usize) -> Self {
        let buffer = BytesMut::new();
        Self {
            from,
            buffer,
            wire: None,
            scanner: None,
            max_bytes,
            memory: None,
            needed: 0,
            waits: false,
            received: 0,
        }
    }

    /// Whether part of a request is here and the rest isn't.
    pub fn mid_request(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Whether it is this gateway that holds the request up.
    pub fn waits_for_memory(&self) -> bool {
        self.waits
    }

    /// The socket.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next request. May be dropped at any point: nothing is lost.
    pub async fn receive(&mut self, account: &Account) -> io::Result<Received> {
        loop {
            if let Some(received) = self.take_request() {
                return Ok(received);
            }
            if self.needed > account.reserve_bytes() && self.memory.is_none() {
                self.waits = true;
                let memory = account.budget().wait(self.needed).await;
                self.waits = false;
                self.memory = Some(memory);
            }
            // An idle connection has next to no buffer; a large request's is
            // made once, when its memory is had.
            let missing = self.needed.saturating_sub(self.buffer.len());
            let least = if self.buffer.is_empty() { FIRST_READ_BYTES } else { READ_BYTES };
            if self.buffer.capacity() - self.buffer.len() < missing.max(1) {
                self.buffer.reserve(missing.max(least));
            }
            let read = self.from.read_buf(&mut self.buffer).await?;
            self.received += read as u64;
            if read == 0 {
                return if self.buffer.is_empty() {
                    Ok(Received::End)
                } else {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client was cut off in mid-request"))
                };
            }
        }
    }

    /// A whole request, or a refusal, if the buffer has one.
    fn take_request(&mut self) -> Option<Received> {
        if self.buffer.is_empty() {
            return None;
        }
        let wire = match self.wire {
            Some(wire) => wire,
            None => match sniff(&self.buffer) {
                Sniff::NeedMore => return None,
                Sniff::Thrift(wire) => *self.wire.insert(wire),
                other => return Some(Received::Refused(foreign(other))),
            },
        };
        let scanner = self.scanner.get_or_insert_with(|| Scanner::new(wire, self.max_bytes));
        match scanner.scan(&self.buffer) {
            Ok(Scan::NeedMore(needed)) => {
                self.needed = needed;
                None
            }
            Ok(Scan::Complete { start, end }) => {
                let message = self.buffer.split_to(end).freeze().slice(start..);
                (self.scanner, self.needed) = (None, 0);
                if self.buffer.is_empty() {
                    // The request keeps the allocation; the next gets its own.
                    self.buffer = BytesMut::new();
                }
                Some(Received::Request(Request::parse(wire, message, self.memory.take())))
            }
            Err(error) => {
                let start = if wire.framed { 4.min(self.buffer.len()) } else { 0 };
                let head = Bytes::copy_from_slice(&self.buffer[start..self.buffer.len().min(256)]);
                Some(Received::Refused(protocol_error(wire, head, error.to_string())))
            }
        }
    }
}

/// The answer to bytes that can't be read on from. Names the call if its head
/// can be read.
fn protocol_error(wire: Wire, head: Bytes, message: String) -> Outgoing {
    let envelope = Envelope::read(&mut Decoder::new(wire.protocol, head)).ok();
    let (name, sequence) = envelope.map_or((String::new(), 0), |head| (head.name, head.sequence));
    let error = ApplicationError { kind: ApplicationErrorKind::ProtocolError, message };
    Outgoing { encoded: error.reply(wire, &name, sequence), _memory: None, last: true }
}

/// The answer to other protocols, in their own words where they have some.
fn foreign(kind: Sniff) -> Outgoing {
    let plain = |bytes: &'static [u8]| Encoded { segments: vec![Bytes::from_static(bytes)] };
    let encoded = match kind {
        // A fatal handshake_failure alert (RFC 8446, section 6).
        Sniff::Tls => plain(b"\x15\x03\x01\x00\x02\x02\x28"),
        Sniff::Http => plain(
            b"HTTP/1.1 501 Not Implemented\r\nConnection: close\r\nContent-Type: text/plain\r\n\
              Content-Length: 48\r\n\r\nThis port speaks Thrift: binary or compact only.",
        ),
        Sniff::Json => plain(
            b"[1,\"\",3,0,{\"1\":{\"str\":\"this port speaks Thrift binary or compact, not JSON\"},\"2\":{\"i32\":7}}]",
        ),
        Sniff::Unknown | Sniff::NeedMore | Sniff::Thrift(_) => {
            let wire = Wire { protocol: Protocol::Binary, framed: false };
            return protocol_error(wire, Bytes::new(), "not a Thrift message, on any wire".to_owned());
        }
    };
    Outgoing { encoded, _memory: None, last: true }
}
