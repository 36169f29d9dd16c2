//! Splits a connection's bytes into requests. It checks each length against the limits before it
//! allocates.

use crate::config::Limits;
use crate::memory::{Account, Permit};
use crate::request::{Outgoing, Request};
use crate::slow::Way;
use bytes::{BufMut, Bytes, BytesMut};
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::io;
use std::time::Instant;
use strait_wire::{
    ApplicationError, ApplicationErrorKind, Decoder, Encoded, Envelope, Protocol, Scan, Scanner, Sniff, Wire,
    sniff,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Buffer of a connection that waits for a request; most requests fit.
const FIRST_READ_BYTES: usize = 1 << 10;
/// Least size of a read in mid-request.
const READ_BYTES: usize = 16 << 10;
/// Bytes that a large request may have beyond the memory set aside for it: small fields after a
/// large one, which the scanner can't foresee.
const TAIL_BYTES: usize = 16 << 10;
/// Most bytes read beyond the known end of a large request. With fewer, small fields at its end would
/// take a system call each; with more, its large buffer could hold the next request too.
const OVERREAD_BYTES: usize = 1 << 10;
/// Most arrivals that are remembered. With more, a request counts as arrived with later ones.
const MOST_ARRIVALS: usize = 64;

/// The receiving side of a connection.
pub struct Input<R> {
    from: R,
    buffer: BytesMut,
    wire: Option<Wire>,
    scanner: Option<Scanner>,
    max_bytes: usize,
    stranger_bytes: usize,
    /// Memory for a request larger than the reserve.
    memory: Option<Permit>,
    /// Its place in the queue for that memory, kept when `receive` is dropped.
    waiting: Option<BoxFuture<'static, Permit>>,
    /// A large request waits for the end of an earlier call, which may be a login.
    undecided: bool,
    /// The sender of the request being received isn't bound by the limit of a stranger.
    is_admitted: bool,
    /// Length of the request being received, as far as known.
    needed: usize,
    /// The client has sent its last byte.
    ended: bool,
    /// [`Received::Left`] was returned for the client's end.
    reported_end: bool,
    /// Bytes received in all.
    pub received: u64,
    /// The bytes of all requests that were passed on.
    passed: u64,
    /// When bytes arrived that no passed request has, each with the value of `received` after it.
    arrivals: VecDeque<(u64, Instant)>,
}

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// A user, or a client that needs no login.
    Known,
    /// A client without a login so far; a running call may log it in.
    Undecided,
    /// A client without a login.
    Stranger,
}

/// Result of receiving.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once; a box would cost each request one")]
pub enum Received {
    /// A request.
    Request(Request),
    /// The connection speaks HTTP. No byte was consumed.
    Http,
    /// The input can't be read any further; this is the answer.
    Refused(Outgoing),
    /// The client has sent its last byte, and all its requests were passed on.
    End,
    /// The client has sent its last byte, and some of its bytes haven't become requests yet.
    Left,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// An input that has received nothing yet.
    pub fn new(from: R, limits: &Limits) -> Self {
        let buffer = BytesMut::new();
        Self {
            from,
            buffer,
            wire: None,
            scanner: None,
            max_bytes: limits.message_bytes,
            stranger_bytes: limits.stranger_message_bytes,
            memory: None,
            waiting: None,
            undecided: false,
            is_admitted: false,
            needed: 0,
            ended: false,
            reported_end: false,
            received: 0,
            passed: 0,
            arrivals: VecDeque::new(),
        }
    }

    /// Whether only part of a request has arrived.
    pub fn mid_request(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Whether the gateway itself delays the request.
    pub fn waits_for_memory(&self) -> bool {
        self.waiting.is_some() || self.undecided
    }

    /// The socket.
    pub fn source(&self) -> &R {
        &self.from
    }

    /// The socket, and the bytes read from it that belong to no request yet.
    pub fn into_parts(self) -> (R, Bytes) {
        (self.from, self.buffer.freeze())
    }

    /// Memory that the request being received needs. JSON needs twice its length, since payloads are
    /// decoded into other bytes. The length of unframed JSON isn't known before its end. So it counts as
    /// a stranger's largest request and, once it is longer than that, as the largest request of all.
    fn claim(&self, reserve_bytes: usize) -> usize {
        match self.wire {
            Some(Wire { protocol: Protocol::Json, framed }) if self.needed > reserve_bytes => {
                2 * match self.needed {
                    _ if framed => self.needed,
                    needed if needed <= self.stranger_bytes => self.stranger_bytes,
                    _ => self.max_bytes,
                }
            }
            _ => self.needed,
        }
    }

    /// Receives the next request if `may_receive`. Otherwise only waits for the end of the client's bytes.
    pub async fn next(
        &mut self,
        may_receive: bool,
        account: &Account,
        sender: impl Fn() -> Sender,
    ) -> io::Result<Received> {
        if may_receive {
            return self.receive(account, sender).await;
        }
        while !self.ended {
            if self.buffer.len() >= READ_BYTES {
                // Further bytes stay in the socket, so the end can't be seen.
                return std::future::pending().await;
            }
            self.read(usize::MAX, account).await?;
        }
        if self.reported_end {
            return std::future::pending().await;
        }
        self.reported_end = true;
        Ok(Received::Left)
    }

    /// Reads some bytes; none once the client has sent its last byte.
    async fn read(&mut self, most: usize, account: &Account) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        if self.buffer.len() == self.buffer.capacity() {
            self.buffer.reserve(if self.buffer.is_empty() { FIRST_READ_BYTES } else { READ_BYTES });
        }
        let read = self.from.read_buf(&mut (&mut self.buffer).limit(most)).await?;
        self.ended = read == 0;
        self.received += read as u64;
        if read > 0 {
            if self.arrivals.len() == MOST_ARRIVALS {
                self.arrivals.pop_back();
            }
            self.arrivals.push_back((self.received, Instant::now()));
        }
        account.flow().moved(Way::In, read);
        Ok(read)
    }

    /// Receives the next request, or the end of the input. Waits until `account` has memory for the
    /// request's bytes. `sender` names the client that sends. Cancel safe: a dropped future loses no
    /// bytes.
    pub async fn receive(&mut self, account: &Account, sender: impl Fn() -> Sender) -> io::Result<Received> {
        loop {
            if let Some(received) = self.take_request(account) {
                return Ok(received);
            }
            if let Some(refused) = self.admit(account, &sender).await {
                return Ok(refused);
            }
            if let Some(refused) = self.have_memory(account).await {
                return Ok(refused);
            }
            // An idle connection has next to no buffer. The buffer of a large request is allocated
            // once, after its memory is granted.
            let missing = self.needed.saturating_sub(self.buffer.len());
            let least = if self.buffer.is_empty() { FIRST_READ_BYTES } else { READ_BYTES };
            if self.buffer.capacity() - self.buffer.len() < missing.max(1) {
                self.buffer.reserve(missing.max(least));
            }
            // An unframed JSON request doesn't say what is missing.
            let known = !matches!(self.wire, Some(Wire { protocol: Protocol::Json, framed: false }));
            let most = match self.memory {
                Some(_) if known => missing + OVERREAD_BYTES,
                Some(_) => READ_BYTES,
                None => usize::MAX,
            };
            let read = self.read(most, account).await?;
            if read == 0 {
                return if self.buffer.is_empty() {
                    Ok(Received::End)
                } else {
                    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a request"))
                };
            }
        }
    }

    /// Refuses requests too large for a stranger, before taking memory for them.
    async fn admit(&mut self, account: &Account, sender: &impl Fn() -> Sender) -> Option<Received> {
        self.undecided = false;
        // `self.memory` doesn't show admission: a stranger may have it for the request's first part.
        if self.is_admitted || self.needed <= self.stranger_bytes.max(account.reserve_bytes()) {
            return None;
        }
        match sender() {
            Sender::Known => {
                self.is_admitted = true;
                None
            }
            Sender::Undecided => {
                self.undecided = true;
                std::future::pending().await
            }
            Sender::Stranger => {
                let (needed, most) = (self.needed, self.stranger_bytes);
                let message = format!(
                    "a request of {needed} bytes before a login: log in first; until then a request has \
                     {most} bytes at most"
                );
                self.wire.map(|wire| self.refusal(wire, message))
            }
        }
    }

    /// Waits for the memory of a request larger than the reserve. Refuses a request that later announces
    /// further bytes, if there is no memory for them at once.
    async fn have_memory(&mut self, account: &Account) -> Option<Received> {
        if self.needed <= account.reserve_bytes() {
            return None;
        }
        let needed = self.claim(account.reserve_bytes());
        match &mut self.memory {
            None => {
                let (budget, holder) = (account.budget(), account.holder());
                let at_once = match self.waiting {
                    None => budget.try_take(holder, needed),
                    Some(_) => None,
                };
                let memory = match at_once {
                    Some(memory) => memory,
                    None => {
                        let wait = || Box::pin(budget.wait(holder, needed)) as BoxFuture<'static, Permit>;
                        self.waiting.get_or_insert_with(wait).await
                    }
                };
                self.waiting = None;
                account.flow().holds(Way::In, holder, memory.shared_units());
                self.memory = Some(memory);
                None
            }
            Some(memory) => {
                let lacking = needed.saturating_sub(memory.bytes() + TAIL_BYTES);
                if lacking == 0 || memory.grow(lacking) {
                    return None;
                }
                let message = "no memory for a second large field, or for a large JSON request; send one large \
                               field per request, and JSON in frames";
                self.wire.map(|wire| self.refusal(wire, message.to_owned()))
            }
        }
    }

    /// The answer to a request that can't be read any further.
    fn refusal(&self, wire: Wire, message: String) -> Received {
        let start = if wire.framed { 4.min(self.buffer.len()) } else { 0 };
        let head = Bytes::copy_from_slice(&self.buffer[start..self.buffer.len().min(256)]);
        Received::Refused(protocol_error(wire, head, message))
    }

    /// When the last of the next bytes arrived, which are a request that is passed on.
    fn arrival(&mut self, bytes: usize) -> Instant {
        self.passed += bytes as u64;
        while self.arrivals.front().is_some_and(|(end, _)| *end < self.passed) {
            self.arrivals.pop_front();
        }
        self.arrivals.front().map_or_else(Instant::now, |(_, instant)| *instant)
    }

    /// A whole request, or a refusal, if the buffer has one.
    fn take_request(&mut self, account: &Account) -> Option<Received> {
        if self.buffer.is_empty() {
            return None;
        }
        let wire = match self.wire {
            Some(wire) => wire,
            None => match sniff(&self.buffer) {
                Sniff::NeedMore => return None,
                Sniff::Thrift(wire) => *self.wire.insert(wire),
                Sniff::Http => return Some(Received::Http),
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
                (self.scanner, self.needed, self.is_admitted) = (None, 0, false);
                let arrived = self.arrival(end);
                if self.buffer.is_empty() {
                    // The request keeps the allocation; the next gets its own.
                    self.buffer = BytesMut::new();
                } else if self.memory.is_some() {
                    // The few bytes left are copied, since they would keep a large allocation alive.
                    self.buffer = BytesMut::from(&self.buffer[..]);
                }
                if self.memory.is_some() {
                    account.flow().holds(Way::In, account.holder(), 0);
                }
                Some(Received::Request(Request::parse(wire, message, self.memory.take(), arrived)))
            }
            Err(error) => Some(self.refusal(wire, error.to_string())),
        }
    }
}

/// The answer to bytes that can't be read any further. Names the call if its head can be read.
fn protocol_error(wire: Wire, head: Bytes, message: String) -> Outgoing {
    let envelope = Envelope::read(&mut Decoder::new(wire.protocol, head)).ok();
    let (name, sequence) = envelope.map_or((String::new(), 0), |head| (head.name, head.sequence));
    let error = ApplicationError { kind: ApplicationErrorKind::ProtocolError, message };
    Outgoing { encoded: error.reply(wire, &name, sequence), memory: None, last: true }
}

/// The answer to other protocols, in the client's own protocol where possible.
fn foreign(kind: Sniff) -> Outgoing {
    let plain = |bytes: &'static [u8]| Encoded { segments: vec![Bytes::from_static(bytes)] };
    let encoded = match kind {
        // A fatal handshake_failure alert (RFC 8446, section 6).
        Sniff::Tls => plain(b"\x15\x03\x01\x00\x02\x02\x28"),
        Sniff::Http | Sniff::Unknown | Sniff::NeedMore | Sniff::Thrift(_) => {
            let wire = Wire { protocol: Protocol::Binary, framed: false };
            return protocol_error(wire, Bytes::new(), "not a Thrift message in any encoding".to_owned());
        }
    };
    Outgoing { encoded, memory: None, last: true }
}
