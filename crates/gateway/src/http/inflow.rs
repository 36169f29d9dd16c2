//! Receives the bodies of requests.

use super::refused::{Refusal, bad};
use crate::config::{Limits, MIN_PROGRESS_BYTES};
use crate::memory::Permit;
use crate::pool::Holder;
use crate::slow::{Flow, Way};
use bytes::{Bytes, BytesMut};
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strait_store::ErrorKind;
use tokio::time::timeout;

/// A body that is being received. Its client has to make progress.
pub struct Inflow<'a> {
    body: &'a mut Incoming,
    stall: Duration,
    due: Instant,
    /// Bytes since the last progress.
    fresh: u64,
    /// Bytes received beyond the previous piece.
    over: Bytes,
    /// Why the body ended early, after the bytes of the previous piece.
    broken: Option<Refusal>,
}

impl<'a> Inflow<'a> {
    /// Begins to receive: from now on, the client has to make progress.
    pub fn new(body: &'a mut Incoming, limits: &Limits) -> Self {
        let due = Instant::now() + limits.stall;
        Self { body, stall: limits.stall, due, fresh: 0, over: Bytes::new(), broken: None }
    }

    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// The body is broken, or came too slowly.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if !self.over.is_empty() {
            return Ok(Some(std::mem::take(&mut self.over)));
        }
        if let Some(refusal) = self.broken.take() {
            return Err(refusal);
        }
        loop {
            let slow = || {
                let message = "the body came too slowly";
                Refusal::new(StatusCode::REQUEST_TIMEOUT, ErrorKind::TimedOut, message)
            };
            let left = self.due.saturating_duration_since(Instant::now());
            let next = timeout(left, poll_fn(|cx| Pin::new(&mut *self.body).poll_frame(cx))).await;
            let frame = match next.map_err(|_| slow())? {
                None => return Ok(None),
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Err(bad("the body is broken or cut short")),
            };
            let Ok(data) = frame.into_data() else { continue };
            self.fresh += data.len() as u64;
            if self.fresh >= MIN_PROGRESS_BYTES {
                (self.fresh, self.due) = (0, Instant::now() + self.stall);
            }
            return Ok(Some(data));
        }
    }

    /// The next `bytes`; fewer only at the end, or if the body breaks after them.
    ///
    /// # Errors
    /// Those of [`Inflow::next`].
    pub async fn piece(&mut self, bytes: usize) -> Result<Bytes, Refusal> {
        // The client's time begins now, since the gateway may have been busy with the previous piece.
        (self.fresh, self.due) = (0, Instant::now() + self.stall);
        let mut piece = BytesMut::new();
        while piece.len() < bytes {
            let mut data = match self.next().await {
                Ok(Some(data)) => data,
                Ok(None) => break,
                // The bytes before count: an append keeps them. The next call reports this.
                Err(refusal) if !piece.is_empty() => {
                    self.broken = Some(refusal);
                    break;
                }
                Err(refusal) => return Err(refusal),
            };
            self.over = data.split_off(data.len().min(bytes - piece.len()));
            if piece.is_empty() {
                // Allocate the piece in one step, once the first bytes have arrived.
                piece.reserve(bytes.min(self.announced(data.len())));
            }
            piece.extend_from_slice(&data);
        }
        Ok(piece.freeze())
    }

    /// Fails if the body broke after the previous piece.
    pub fn check(&mut self) -> Result<(), Refusal> {
        self.broken.take().map_or(Ok(()), Err)
    }

    /// At most this many bytes of the body remain: `here`, those kept for the next piece, and the
    /// announced ones.
    fn announced(&self, here: usize) -> usize {
        let to_come = self.body.size_hint().upper().map_or(usize::MAX, |bytes| bytes as usize);
        to_come.saturating_add(here + self.over.len())
    }
}

/// Records the memory of a body while it is received, so that `slow` finds slow senders.
pub struct Receiving {
    flow: Arc<Flow>,
    holder: Arc<Holder>,
}

impl Receiving {
    /// Records `units` from now until this is dropped.
    pub fn new(flow: Arc<Flow>, holder: Arc<Holder>, units: usize) -> Self {
        flow.holds(Way::In, &holder, units);
        Self { flow, holder }
    }

    /// The part of a body's memory that others may wait for.
    pub fn units(memory: Option<&Permit>) -> usize {
        memory.map_or(0, Permit::shared_units)
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.flow.holds(Way::In, &self.holder, 0);
    }
}
