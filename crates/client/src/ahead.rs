//! A file read from front to back by one caller, over a connection that no other call uses.
//!
//! ```text
//!   Requests ── up to 16 in flight ──→ gateway
//!   the caller's memory ←── payloads, in the caller's thread ←── replies
//! ```
//! The caller's thread receives each payload from the socket into the caller's memory. Over a shared connection, a
//! task receives it and wakes the caller, which copies it.
//!
//! After any failure but silence, the read ends without an error. The caller then continues by single requests:
//! these are repeated, and report the error if it persists.

use super::own::OwnConnection;
use super::session::{Lent, Subject};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::time::{Duration, Instant};
use strait_store::StorePath;

/// Most bytes of one request. A chunk of 1 MiB measured best for gateways.
const CHUNK_BYTES: usize = 1 << 20;
/// Requests in flight: 16 MiB fill a link of 1 Gbit/s with a round trip of 134 ms.
const REQUESTS: usize = 16;

/// The bytes of a range in order. A read of none ends it.
pub(super) struct ReadAhead {
    lent: Lent,
    path: StorePath,
    /// None after the end.
    requests: Option<Requests>,
    /// The time left for the present reply, or the next one. The caller's pauses don't count.
    patience: Duration,
}

impl ReadAhead {
    /// Sends the first requests.
    pub(super) fn begin(
        (connection, lent): (OwnConnection, Lent),
        path: StorePath,
        handle: i64,
        range: Range<u64>,
    ) -> io::Result<Self> {
        let patience = lent.session().patience();
        let mut requests = Requests { connection, handle, range, asked: VecDeque::new(), missing: 0 };
        requests.connection.wait_until(Instant::now() + patience);
        requests.send()?;
        Ok(Self { lent, path, requests: Some(requests), patience })
    }
}

impl Read for ReadAhead {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (session, requests) = (self.lent.session(), self.requests.as_mut());
        let Some(requests) = requests.filter(|_| !into.is_empty()) else { return Ok(0) };
        if requests.missing == 0 {
            self.patience = session.patience();
        }
        let began = Instant::now();
        requests.connection.wait_until(began + self.patience);
        match requests.receive(into) {
            Ok(0) => {
                if let Some(ended) = self.requests.take() {
                    session.keep_own(ended.connection);
                }
                Ok(0)
            }
            Ok(bytes) => {
                self.patience = self.patience.saturating_sub(began.elapsed());
                Ok(bytes)
            }
            Err(error) => {
                self.requests = None;
                session.pause_own();
                if error.kind() != io::ErrorKind::InvalidData {
                    // The connections beside it led to the same gateway.
                    session.drop_own();
                }
                if error.kind() != io::ErrorKind::TimedOut {
                    return Ok(0);
                }
                let subject = Subject { operation: "read", path: self.path.as_str() };
                Err(session.silent(subject).into())
            }
        }
    }
}

/// Requests for the pieces of a range, and their replies.
struct Requests {
    connection: OwnConnection,
    handle: i64,
    /// The bytes that no request has asked for yet.
    range: Range<u64>,
    /// The length that each request without its reply asked for.
    asked: VecDeque<usize>,
    /// Bytes still to come of the payload that is being received.
    missing: usize,
}

impl Requests {
    /// Receives bytes of the present payload, or of the next one. 0 if the range has ended.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.missing == 0 {
            let Some(asked) = self.asked.pop_front() else { return Ok(0) };
            self.missing = self.connection.begin_reply()?;
            // A reply is short if the file was truncated, or if the gateway has little memory left. A longer one is
            // none of ours.
            if self.missing != asked {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply of another length"));
            }
        }
        let most = into.len().min(self.missing);
        let bytes = self.connection.read(&mut into[..most])?;
        self.missing -= bytes;
        if self.missing == 0 {
            self.connection.end_reply()?;
            self.send()?;
        }
        Ok(bytes)
    }

    /// Sends as many requests as may be in flight.
    fn send(&mut self) -> io::Result<()> {
        let chunk = CHUNK_BYTES.min(self.connection.max_chunk_bytes()) as u64;
        while self.asked.len() < REQUESTS && !self.range.is_empty() {
            let bytes = chunk.min(self.range.end - self.range.start);
            self.connection.ask(self.handle, self.range.start, bytes as usize)?;
            self.range.start += bytes;
            self.asked.push_back(bytes as usize);
        }
        self.connection.flush()
    }
}
