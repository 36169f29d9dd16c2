//! One TCP connection: calls pipelined on it, replies taken in order.
//!
//! ```text
//!   call ─ encode ─→ queue ─→ sending task ─→ socket
//!   call ←─ decode ── its waiter ←─ receiving task ←─ socket
//! ```
//! A dropped call leaves the stream intact: its reply is read and thrown away.

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use strait_wire::{DecodeError, Encoded, Method, Protocol, Reply, Wire};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout};

/// Framed binary: the frame's length tells how large a buffer a reply needs
/// before any of it is looked at.
const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
/// Most bytes of one reply: a page of a listing with the longest paths (1,000
/// entries of some 8 KiB) is the largest.
const MAX_REPLY_BYTES: usize = 16 << 20;
/// Payload that calls in flight on one connection may carry, both ways
/// together. Eight chunks keep a 10 Gbit/s link busy over a 25 ms round trip.
const IN_FLIGHT_BYTES: usize = 32 << 20;
/// What a call counts for at least, whatever its payload; bounds the number in
/// flight to 2,048.
const CALL_BYTES: usize = 16 << 10;
/// The unit in which the two above are counted.
const PERMIT_BYTES: usize = 1 << 10;
/// For the frame's length and small replies; larger ones are read past it.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// No byte for so long while a reply is due, and the connection counts as
/// lost. A store may itself wait for a lost node: HDFS up to 70 s.
const REPLY_STALL: Duration = Duration::from_secs(150);
/// Encoded calls that are gathered for one write.
const GATHERED_CALLS: usize = 16;

/// The connection broke: a call on it may or may not have been executed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(String);

impl Broken {
    /// Stands where nothing was sent for want of a connection.
    pub(super) fn before_sending() -> Self {
        Self("there is no connection".to_owned())
    }
}

/// What a call comes to.
pub(super) type Answered<M> = std::result::Result<Result<Reply<M>, DecodeError>, Broken>;

/// A connection to a gateway.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    sequence: AtomicI32,
}

#[derive(Debug)]
struct Outgoing {
    message: Encoded,
    waiter: Waiter,
}

/// Who waits for a reply.
#[derive(Debug)]
struct Waiter {
    reply: oneshot::Sender<Bytes>,
    since: Instant,
    /// Given back when the reply is here, not when it is looked at: a caller
    /// that sends on without looking can't starve others, or itself.
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Default)]
struct Shared {
    waiters: Mutex<VecDeque<Waiter>>,
    broken: OnceLock<Broken>,
}

impl Shared {
    fn waiters(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        // Every critical section leaves the queue whole.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends all waiting; the first reason stays.
    fn fail(&self, why: String) {
        let mut waiters = self.waiters();
        let _ = self.broken.set(Broken(why));
        waiters.clear();
    }

    fn why(&self) -> Broken {
        self.broken.get().cloned().unwrap_or_else(|| Broken("the connection was closed".to_owned()))
    }
}

impl Connection {
    /// Takes over a connected socket, or what encrypts one.
    pub(super) fn new(
        read: impl AsyncRead + Unpin + Send + 'static,
        write: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        tokio::spawn(send(write, queue, shared.clone()));
        tokio::spawn(receive(read, shared.clone()));
        let permits = Arc::new(Semaphore::new(IN_FLIGHT_BYTES / PERMIT_BYTES));
        Self { outgoing, shared, permits, sequence: AtomicI32::new(1) }
    }

    /// Whether calls can still be answered.
    pub(super) fn is_alive(&self) -> bool {
        self.shared.broken.get().is_none()
    }

    /// Sends a call whose payload, there or back, is at most `payload_bytes`.
    /// Returns when it is in the queue; calls go out in the order of these
    /// returns.
    pub(super) async fn send<M: Method>(
        &self,
        args: &M::Args,
        payload_bytes: usize,
    ) -> Result<Answer<M>, Broken> {
        let bytes = payload_bytes.clamp(CALL_BYTES, IN_FLIGHT_BYTES);
        let permits = bytes.div_ceil(PERMIT_BYTES) as u32;
        // The semaphore is never closed.
        let permit = self.permits.clone().acquire_many_owned(permits).await.ok();
        self.queue::<M>(args, permit)
    }

    /// Sends a call and waits for its reply.
    pub(super) async fn call<M: Method>(&self, args: &M::Args, payload_bytes: usize) -> Answered<M> {
        self.send::<M>(args, payload_bytes).await?.receive().await
    }

    /// Sends a small call at once, not counted among those in flight: for
    /// handing back handles where waiting is impossible.
    pub(super) fn send_uncounted<M: Method>(&self, args: &M::Args) -> Result<Answer<M>, Broken> {
        self.queue::<M>(args, None)
    }

    fn queue<M: Method>(
        &self,
        args: &M::Args,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer<M>, Broken> {
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let (reply, received) = oneshot::channel();
        let waiter = Waiter { reply, since: Instant::now(), _permit: permit };
        let outgoing = Outgoing { message: M::call(WIRE, sequence, args), waiter };
        self.outgoing.send(outgoing).map_err(|_| self.shared.why())?;
        Ok(Answer { received, sequence, shared: self.shared.clone(), method: PhantomData })
    }
}

/// The reply to a call that is under way.
#[derive(Debug)]
pub(super) struct Answer<M> {
    received: oneshot::Receiver<Bytes>,
    sequence: i32,
    shared: Arc<Shared>,
    method: PhantomData<fn() -> M>,
}

impl<M: Method> Answer<M> {
    /// Waits for it.
    pub(super) async fn receive(self) -> Answered<M> {
        let message = self.received.await.map_err(|_| self.shared.why())?;
        match M::decode_reply(WIRE.protocol, message) {
            Ok((sequence, reply)) if sequence == self.sequence => Ok(Ok(reply)),
            Ok(_) => {
                self.shared.fail("the gateway's replies are out of order".to_owned());
                Err(self.shared.why())
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Writes what is queued, until nobody can queue more.
async fn send(
    mut socket: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
    shared: Arc<Shared>,
) {
    let mut gathered = Vec::with_capacity(GATHERED_CALLS);
    while queue.recv_many(&mut gathered, GATHERED_CALLS).await > 0 {
        let mut segments = Segments::default();
        {
            let mut waiters = shared.waiters();
            if shared.broken.get().is_some() {
                return;
            }
            for call in gathered.drain(..) {
                segments.0.extend(call.message.segments);
                waiters.push_back(call.waiter);
            }
        }
        // TLS keeps some back until it is flushed; a socket has nothing to do.
        let sent = async {
            socket.write_all_buf(&mut segments).await?;
            socket.flush().await
        };
        if let Err(error) = sent.await {
            return shared.fail(format!("sending to the gateway: {error}"));
        }
    }
}

/// Hands each reply to the waiter whose turn it is.
async fn receive(socket: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut socket = BufReader::with_capacity(READ_BUFFER_BYTES, socket);
    let error = loop {
        match read_frame(&mut socket, &shared).await {
            Err(error) => break error,
            Ok(message) => match shared.waiters().pop_front() {
                // The error means that nobody waits any longer.
                Some(waiter) => drop(waiter.reply.send(message)),
                None => break io::Error::other("a reply without a request"),
            },
        }
    };
    shared.fail(match error.kind() {
        io::ErrorKind::UnexpectedEof => "the gateway closed the connection".to_owned(),
        _ => format!("receiving from the gateway: {error}"),
    });
}

async fn read_frame(socket: &mut BufReader<impl AsyncRead + Unpin>, shared: &Shared) -> io::Result<Bytes> {
    let stalled = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    // Between replies silence is fine, unless one is due.
    loop {
        match timeout(REPLY_STALL, socket.fill_buf()).await {
            Ok(Ok([])) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Ok(_)) => break,
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let oldest = shared.waiters().front().map(|waiter| waiter.since);
                if oldest.is_some_and(|since| since.elapsed() >= REPLY_STALL) {
                    return Err(stalled());
                }
            }
        }
    }
    let length = timeout(REPLY_STALL, socket.read_u32()).await.map_err(|_| stalled())??;
    if length as usize > MAX_REPLY_BYTES {
        return Err(stranger(length));
    }
    let length = length as usize;
    let mut message: Limit<BytesMut> = BytesMut::with_capacity(length).limit(length);
    while message.has_remaining_mut() {
        let read = timeout(REPLY_STALL, socket.read_buf(&mut message)).await.map_err(|_| stalled())??;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(message.into_inner().freeze())
}

/// Pieces of messages on their way out, for writev(2).
#[derive(Debug, Default)]
struct Segments(VecDeque<Bytes>);

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |segment| segment)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pairs = slices.iter_mut().zip(&self.0);
        pairs.map(|(slice, segment)| *slice = IoSlice::new(segment)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(front) = self.0.front_mut() {
            if count < front.len() {
                return front.advance(count);
            }
            count -= front.len();
            self.0.pop_front();
        }
        assert_eq!(count, 0, "advanced past the end");
    }
}

/// What the first four bytes of an answer say about who gives it, if they can't
/// be a frame's length.
fn stranger(first: u32) -> io::Error {
    let first = first.to_be_bytes();
    io::Error::other(match &first {
        b"HTTP" => "what listens there speaks HTTP, and is no Strait gateway".to_owned(),
        // A record of TLS: an alert, or a handshake.
        [0x15 | 0x16, 3, ..] => "what listens there speaks TLS only (strait --tls)".to_owned(),
        _ => format!(
            "the answer is no Thrift message ({}…): no Strait gateway listens there",
            first.escape_ascii()
        ),
    })
}
