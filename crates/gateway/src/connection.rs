//! One connection: bytes in, requests out; answers in order, bytes out.
//!
//! Requests start in the order they came. Positional reads of one connection
//! run side by side, up to a limit; anything else waits for those before it,
//! so that a client that sends without waiting sees the effects it would have
//! seen one by one. Answers leave in the order of the requests.

use crate::dispatch::{Context, Request};
use crate::input::{Input, Received};
use crate::memory::{Account, Permit};
use crate::server::Shared;
use bytes::Buf;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::Arc;
use strait_wire::Encoded;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// A transfer that moves less than this in a stall's time isn't slow, it is
/// stuck (or meant to be).
const MIN_PROGRESS_BYTES: u64 = 16 << 10;
/// Most pieces of one writev; answers have three or fewer each.
const MAX_SLICES: usize = 16;
/// What is read and thrown away of a client's that was refused, so that the
/// refusal reaches it before the reset that unread bytes would cause.
const REFUSED_DRAIN_BYTES: u64 = 1 << 20;

/// An answer on its way out.
pub struct Outgoing {
    /// The bytes.
    pub encoded: Encoded,
    /// The memory they take, held until they are sent.
    pub _memory: Option<Permit>,
    /// The connection ends after it.
    pub last: bool,
}

/// Serves one connection until its client is gone, breaks the protocol or
/// stalls, or the gateway shuts down.
pub async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    shutdown: watch::Receiver<bool>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, %error, "the connection was gone at once");
        return;
    }
    let account = shared.budget.account();
    let context = Arc::new(Context::new(shared.clone(), peer));
    let (from, to) = stream.into_split();
    let closing = shutdown.clone();
    let connection = Connection {
        input: Input::new(from, shared.limits.message_bytes),
        output: Output { to, queue: VecDeque::new(), written: 0, ends: false },
        running: FuturesOrdered::new(),
        pending: None,
        account,
        context: context.clone(),
        shared,
    };
    if let Err(error) = connection.run(shutdown).await {
        tracing::debug!(%peer, %error, "connection ended");
    }
    // At shutdown all sessions are closed properly, not abandoned.
    if !*closing.borrow() {
        context.connection_lost();
    }
}

struct Connection {
    shared: Arc<Shared>,
    context: Arc<Context>,
    account: Account,
    input: Input,
    output: Output,
    /// Requests being executed, in their order.
    running: FuturesOrdered<BoxFuture<'static, Outgoing>>,
    /// A request that can't start yet.
    pending: Option<Request>,
}

impl Connection {
    async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> io::Result<()> {
        let period = self.shared.limits.stall;
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch::default();
        let mut closing = *shutdown.borrow();
        loop {
            self.start_pending();
            let in_flight = self.running.len() + self.output.queue.len();
            let idle = in_flight == 0 && self.pending.is_none();
            if idle && (closing && !self.input.mid_request() || self.output.ends) {
                return self.output.finish(self.input.into_inner()).await;
            }
            let may_receive =
                self.pending.is_none() && !self.output.ends && in_flight < self.shared.limits.reads_in_flight;
            tokio::select! {
                biased;
                sent = self.output.send(), if !self.output.queue.is_empty() => sent?,
                Some(answer) = self.running.next(), if !self.running.is_empty() => self.output.push(answer),
                received = self.input.receive(&self.account), if may_receive => match received? {
                    Received::Request(request) => self.pending = Some(request),
                    Received::Refused(refusal) => self.output.push(refusal),
                    Received::End => self.output.ends = true,
                },
                _ = ticks.tick() => watch.check(&self)?,
                _ = shutdown.changed(), if !closing => closing = true,
            }
        }
    }

    /// Starts the request that waits, if its turn and its memory have come.
    fn start_pending(&mut self) {
        let Some(request) = &self.pending else { return };
        let memory = match request.read_bytes() {
            Some(bytes) => match self.account.now(bytes) {
                Some(permit) => Some(permit),
                // The reserve is in use by an answer before this one.
                None => return,
            },
            None if !self.running.is_empty() => return,
            None => None,
        };
        if let Some(request) = self.pending.take() {
            self.running.push_back(Box::pin(request.execute(self.context.clone(), memory)));
        }
    }
}

/// Cuts connections that don't move.
#[derive(Default)]
struct Watch {
    moved: u64,
    busy: bool,
    idle_ticks: u32,
}

impl Watch {
    fn check(&mut self, connection: &Connection) -> io::Result<()> {
        let moved = connection.input.received + connection.output.written;
        let busy = connection.input.mid_request() || !connection.output.queue.is_empty();
        // Waiting for memory isn't the client's fault.
        let stuck = busy && self.busy && !connection.input.waits_for_memory();
        if stuck && moved - self.moved < MIN_PROGRESS_BYTES {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "stalled in mid-transfer"));
        }
        let idle = moved == self.moved && connection.running.is_empty();
        self.idle_ticks = if idle { self.idle_ticks + 1 } else { 0 };
        let limits = &connection.shared.limits;
        if limits.stall * self.idle_ticks > limits.session_idle {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "idle for too long"));
        }
        (self.moved, self.busy) = (moved, busy);
        Ok(())
    }
}

/// Answers on their way to the socket.
struct Output {
    to: OwnedWriteHalf,
    queue: VecDeque<Outgoing>,
    /// Bytes sent in all.
    written: u64,
    /// No more requests are read.
    ends: bool,
}

impl Output {
    fn push(&mut self, answer: Outgoing) {
        self.ends |= answer.last;
        self.queue.push_back(answer);
    }

    /// Sends some of the first answer. May be dropped at any point: nothing
    /// is lost or sent twice.
    async fn send(&mut self) -> io::Result<()> {
        let Some(first) = self.queue.front_mut() else { return Ok(()) };
        let slices: Vec<IoSlice<'_>> =
            first.encoded.segments.iter().take(MAX_SLICES).map(|segment| IoSlice::new(segment)).collect();
        let mut sent = self.to.write_vectored(&slices).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += sent as u64;
        let segments = &mut first.encoded.segments;
        while let Some(segment) = segments.first_mut() {
            let step = sent.min(segment.len());
            segment.advance(step);
            sent -= step;
            if !segment.is_empty() {
                break;
            }
            segments.remove(0);
        }
        if segments.is_empty() {
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Says goodbye, and lets the last answer reach a client that still sends.
    async fn finish(mut self, from: OwnedReadHalf) -> io::Result<()> {
        self.to.shutdown().await?;
        let drain = async {
            let mut rest = from.take(REFUSED_DRAIN_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), drain).await;
        Ok(())
    }
}
