//! The bytes of a connection that turned out to speak HTTP.

use super::answering::Answers;
use super::refused::{Refusal, bad};
use super::sending::HEAD_BYTES;
use crate::slow::{Flow, Way};
use bytes::{Buf, Bytes, BytesMut};
use hyper::StatusCode;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use strait_store::ErrorKind;
use strait_web::Framing;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// After the last answer, the gateway reads and drops up to this many bytes that the client still sends.
/// Unread bytes would cause a reset, and the client might lose the answer (RFC 9112, section 9.6). The limit
/// is above the bytes that a network of 500 Mbit/s brings in [`DRAIN_TIME`], and bounds the work for
/// faster clients.
const DRAINED_BYTES: usize = 64 << 20;
/// The longest time for which the gateway reads and drops such bytes.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Stands for a refused head, so that its answer comes after those to the requests before it. A client
/// may send the same; without a refusal it is a request like any other.
const INSTEAD: &str = "GET * HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// The target of that request.
pub const REFUSED: &str = "*";
/// Bytes of one read while a head is incomplete.
const READ_BYTES: usize = 4 << 10;

/// Both sides of a connection, and the bytes already read from it. hyper gets whole heads only: it
/// answers bad and slow ones without a typed error, or takes them.
pub struct Joined<R, W> {
    /// Bytes that hyper may have.
    passed: Bytes,
    /// The beginning of a head.
    kept: BytesMut,
    framing: Framing,
    from: R,
    to: W,
    flow: Arc<Flow>,
    pub(super) traffic: Arc<Traffic>,
    draining: Option<Draining>,
}

/// The traffic of a connection, for those who watch it.
#[derive(Default)]
pub struct Traffic {
    /// Bytes that were written.
    pub written: AtomicU64,
    /// The client has to take bytes before more can be written.
    pub blocked: AtomicBool,
    /// Changes whenever whole heads, or bytes of bodies, have come.
    pub received: AtomicU64,
    /// The requests that are being answered.
    pub answers: Arc<Answers>,
    /// The reason why the connection's last head is refused.
    pub refusal: OnceLock<Refusal>,
}

/// The end of a connection whose client may still send.
struct Draining {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<R, W> Joined<R, W> {
    /// `read` comes before the bytes of `from`.
    pub fn new(read: Bytes, from: R, to: W, flow: Arc<Flow>) -> Self {
        let framing = Framing::new(HEAD_BYTES);
        let (passed, kept, traffic) = (Bytes::new(), read.into(), Arc::default());
        Self { passed, kept, framing, from, to, flow, traffic, draining: None }
    }

    /// Lets `refusal` be the last answer.
    fn refuse(&mut self, refusal: Refusal) {
        let _ = self.traffic.refusal.set(refusal);
        self.kept = BytesMut::new();
        self.passed = Bytes::from_static(INSTEAD.as_bytes());
    }

    fn has_refused(&self) -> bool {
        self.traffic.refusal.get().is_some()
    }

    /// How many of these bytes hyper may have, if their head is good.
    fn pass(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.framing.pass(bytes) {
            Ok(count) => {
                self.traffic.received.fetch_add(count as u64, Ordering::Relaxed);
                Some(count)
            }
            Err(bad) => {
                self.refuse(bad.into());
                None
            }
        }
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for Joined<R, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.passed.is_empty() {
                let count = this.passed.len().min(buffer.remaining());
                buffer.put_slice(&this.passed[..count]);
                this.passed.advance(count);
                return Poll::Ready(Ok(()));
            }
            if this.has_refused() {
                return Poll::Pending;
            }
            let kept = std::mem::take(&mut this.kept);
            let Some(count) = this.pass(&kept) else { continue };
            this.kept = kept;
            if count > 0 {
                this.passed = this.kept.split_to(count).freeze();
                continue;
            }
            if this.traffic.answers.overdue.load(Ordering::Relaxed) {
                if this.kept.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                let message = "the head came too slowly";
                this.refuse(Refusal::new(StatusCode::REQUEST_TIMEOUT, ErrorKind::TimedOut, message));
                continue;
            }
            if !this.kept.is_empty() {
                let mut more = [0; READ_BYTES];
                let mut more = ReadBuf::new(&mut more);
                ready!(this.poll_more(cx, &mut more))?;
                match more.filled() {
                    [] => this.refuse(bad("the head ends before its last line")),
                    more => this.kept.extend_from_slice(more),
                }
                continue;
            }
            let before = buffer.filled().len();
            ready!(this.poll_more(cx, buffer))?;
            let more = &buffer.filled()[before..];
            if more.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let count = this.pass(more);
            if !this.has_refused() {
                this.kept.extend_from_slice(&more[count.unwrap_or(0)..]);
            }
            buffer.set_filled(before + count.unwrap_or(0));
            if count.is_some_and(|count| count > 0) {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> Joined<R, W> {
    fn poll_more(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.from).poll_read(cx, buffer);
        self.flow.moved(Way::In, buffer.filled().len() - before);
        if polled.is_pending() {
            self.traffic.answers.rest();
        }
        polled
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Joined<R, W> {
    fn note(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.traffic.blocked.store(polled.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(count)) = polled {
            self.flow.moved(Way::Out, count);
            self.traffic.written.fetch_add(count as u64, Ordering::Relaxed);
        }
        polled
    }

    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let draining = self
            .draining
            .get_or_insert_with(|| Draining { left: DRAINED_BYTES, until: Box::pin(sleep(DRAIN_TIME)) });
        let mut dropped = [0; 4 << 10];
        loop {
            if draining.left == 0 || draining.until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let mut buffer = ReadBuf::new(&mut dropped);
            match ready!(Pin::new(&mut self.from).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {
                    draining.left = draining.left.saturating_sub(buffer.filled().len());
                }
                _ => return Poll::Ready(()),
            }
        }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> AsyncWrite for Joined<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.to).poll_write(cx, bytes);
        self.note(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.to).poll_write_vectored(cx, slices);
        self.note(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.to.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.to).poll_flush(cx);
        // TLS accepts bytes before the socket does, so a pending flush, too, waits for the client.
        self.traffic.blocked.store(polled.is_pending(), Ordering::Relaxed);
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.draining.is_none() {
            ready!(Pin::new(&mut self.to).poll_shutdown(cx))?;
        }
        ready!(self.poll_drain(cx));
        Poll::Ready(Ok(()))
    }
}
