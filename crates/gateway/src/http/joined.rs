//! The bytes of a connection that turned out to speak HTTP.

use crate::slow::{Flow, Way};
use bytes::{Buf, Bytes};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// After the last answer the gateway reads and drops up to this many bytes that the client still
/// sends. Unread bytes would cause a reset, and the client might lose the answer.
const DRAINED_BYTES: usize = 1 << 20;
/// The longest time for which the gateway reads and drops such bytes.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Both sides of a connection, and the bytes already read from it. Counts the moved bytes.
pub struct Joined<R, W> {
    read: Bytes,
    from: R,
    to: W,
    flow: Arc<Flow>,
    pub(super) written: Arc<AtomicU64>,
    /// The client has to take bytes before more can be written.
    pub(super) blocked: Arc<AtomicBool>,
    draining: Option<Draining>,
}

/// The end of a connection whose client may still send.
struct Draining {
    left: usize,
    until: Pin<Box<Sleep>>,
}

impl<R, W> Joined<R, W> {
    /// `read` comes before the bytes of `from`.
    pub fn new(read: Bytes, from: R, to: W, flow: Arc<Flow>) -> Self {
        Self { read, from, to, flow, written: Arc::default(), blocked: Arc::default(), draining: None }
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for Joined<R, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.read.is_empty() {
            let count = this.read.len().min(buffer.remaining());
            buffer.put_slice(&this.read[..count]);
            this.read.advance(count);
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.from).poll_read(cx, buffer);
        this.flow.moved(Way::In, buffer.filled().len() - before);
        polled
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Joined<R, W> {
    fn note(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.blocked.store(polled.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Ok(count)) = polled {
            self.flow.moved(Way::Out, count);
            self.written.fetch_add(count as u64, Ordering::Relaxed);
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
        self.blocked.store(polled.is_pending(), Ordering::Relaxed);
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
