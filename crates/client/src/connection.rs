//! One TCP connection: calls pipelined on it, replies taken in order.
//!
//! ```text
//!   call ─ encode ─→ queue ─→ sending task ─→ socket
//!   call ←─ decode ── its waiter ←─ receiving task ←─ socket
//! ```
//! A dropped call leaves the stream intact: the connection reads its reply and drops it.
//!
//! The time limit of a reply, the connection's patience, starts with its call or with the end of the reply
//! before it, whichever is later. If the whole reply hasn't arrived by then, the connection ends, and every
//! call on it fails.

use super::tls;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_wire::{DecodeError, Encoded, Method, Protocol, Reply, Wire};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// Framed binary: the frame's length gives the buffer size for a reply before any of it is decoded.
pub(super) const WIRE: Wire = Wire { protocol: Protocol::Binary, framed: true };
/// Most bytes of one reply. The largest is a page of a listing with the longest paths (1,000
/// entries of some 8 KiB).
pub(super) const MAX_REPLY_BYTES: usize = 16 << 20;
/// Most payload bytes of all calls in flight on one connection, requests and replies together. Eight
/// chunks keep a 10 Gbit/s link busy over a 25 ms round trip.
const IN_FLIGHT_BYTES: usize = 32 << 20;
/// Each call counts for at least this many bytes, which bounds the number of calls in flight to 2,048.
const CALL_BYTES: usize = 16 << 10;
/// Bytes that one permit of the connection's semaphore stands for.
const PERMIT_BYTES: usize = 1 << 10;
/// Receive buffer for frame lengths and small replies. Larger replies bypass it.
const READ_BUFFER_BYTES: usize = 16 << 10;
/// Replies of at least this size are received into buffers that earlier replies have used.
const LARGE_REPLY_BYTES: usize = 64 << 10;
/// Most such buffers of one connection. A caller that keeps up with the gateway has two or three replies at a
/// time.
const BUFFERS: usize = 4;
/// Time to receive the gateway's reason after sending to it failed. The reason has arrived already, or
/// never comes.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Most encoded calls that are gathered for one write.
const GATHERED_CALLS: usize = 16;

/// The connection broke: a call on it may or may not have been executed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub(super) struct Broken {
    why: String,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The connection ended.
    End,
    /// The bytes that came aren't a gateway's.
    Stranger,
    /// The gateway was silent for too long.
    Silence,
    /// TLS: the gateway rejects us as a client.
    Unauthenticated,
}

impl Broken {
    /// The error for a call that wasn't sent, since there was no connection.
    pub(super) fn before_sending() -> Self {
        Self::because("the connection ended before the client sent the call")
    }

    /// The gateway sent nothing for `patience`.
    pub(super) fn silence(patience: Duration) -> Self {
        let seconds = patience.as_secs_f64();
        let why = format!("the gateway hasn't answered within {seconds} s; a longer --timeout waits longer");
        Self { why, cause: Cause::Silence }
    }

    fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), cause: Cause::End }
    }

    /// The reason why receiving failed.
    fn receiving(error: &io::Error, patience: Duration) -> Self {
        if let Some(why) = tls::refusal(error) {
            return Self { why, cause: Cause::Unauthenticated };
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::because("the gateway closed the connection"),
            // The kernel reports the same kind if the host no longer responds.
            io::ErrorKind::TimedOut => Self::silence(patience),
            io::ErrorKind::Other => {
                Self { why: format!("receiving from the gateway: {error}"), cause: Cause::Stranger }
            }
            _ => Self::because(format!("receiving from the gateway: {error}")),
        }
    }

    /// Whether the gateway was silent for too long. Another attempt would only wait as long again.
    pub(super) fn is_silence(&self) -> bool {
        self.cause == Cause::Silence
    }

    /// Whether the answer is that of another program, or of a gateway that speaks TLS. The message tells which.
    pub(super) fn is_of_stranger(&self) -> bool {
        self.cause == Cause::Stranger
    }

    /// Whether the gateway rejects us as a TLS client.
    pub(super) fn is_unauthenticated(&self) -> bool {
        self.cause == Cause::Unauthenticated
    }
}

/// Result of a call.
pub(super) type Answered<M> = std::result::Result<Result<Reply<M>, DecodeError>, Broken>;

/// A connection to a gateway.
#[derive(Debug)]
pub(super) struct Connection {
    outgoing: mpsc::UnboundedSender<Outgoing>,
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    sequence: AtomicI32,
    patience: Duration,
}

/// The time by which a reply is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// Within the connection's patience.
    Soon,
    /// When the gateway has done work that grows with the data. Meanwhile the caller checks that
    /// the gateway is alive.
    WhenDone,
}

#[derive(Debug)]
struct Outgoing {
    message: Encoded,
    waiter: Waiter,
}

/// A call that waits for its reply.
#[derive(Debug)]
struct Waiter {
    /// None if nobody wants the reply.
    reply: Option<oneshot::Sender<Bytes>>,
    since: Instant,
    due: Due,
    /// Released when the reply arrives, not when the caller takes it. So a caller that keeps
    /// sending without taking replies can't starve others, or itself.
    _permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, Default)]
struct Shared {
    waiters: Mutex<VecDeque<Waiter>>,
    /// Replies to come whose callers have given up. Below zero for a moment, if a reply arrives just then.
    given_up: AtomicIsize,
    broken: watch::Sender<Option<Broken>>,
}

impl Shared {
    fn waiters(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        // A poisoned lock is harmless: every critical section leaves the queue consistent.
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails all waiting calls. Keeps the first reason.
    fn fail(&self, why: Broken) {
        let mut waiters = self.waiters();
        self.broken.send_if_modified(|broken| {
            let first = broken.is_none();
            broken.get_or_insert(why);
            first
        });
        waiters.clear();
    }

    fn is_broken(&self) -> bool {
        self.broken.borrow().is_some()
    }

    fn why(&self) -> Broken {
        self.broken.borrow().clone().unwrap_or_else(|| Broken::because("the connection was closed"))
    }

    /// Waits for the end of the connection.
    async fn ended(&self) -> Broken {
        // The sender lives as long as this borrow of it.
        let _ = self.broken.subscribe().wait_for(Option::is_some).await;
        self.why()
    }

    /// The start of the next reply's time limit. The previous reply was complete at `latest`. None if
    /// no reply is due.
    fn due_since(&self, latest: Instant) -> Option<Instant> {
        let waiters = self.waiters();
        waiters.front().filter(|waiter| waiter.due == Due::Soon).map(|waiter| waiter.since.max(latest))
    }
}

impl Connection {
    /// Takes over a connected socket, or a TLS stream over it. Each reply has `patience` to arrive.
    pub(super) fn new(
        read: impl AsyncRead + Unpin + Send + 'static,
        write: impl AsyncWrite + Unpin + Send + 'static,
        patience: Duration,
    ) -> Self {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        tokio::spawn(send(write, queue, shared.clone()));
        tokio::spawn(receive(read, shared.clone(), patience));
        let permits = Arc::new(Semaphore::new(IN_FLIGHT_BYTES / PERMIT_BYTES));
        Self { outgoing, shared, permits, sequence: AtomicI32::new(1), patience }
    }

    /// Whether calls can still be answered.
    pub(super) fn is_alive(&self) -> bool {
        !self.shared.is_broken()
    }

    /// Number of replies to come whose callers have given up.
    pub(super) fn given_up(&self) -> usize {
        self.shared.given_up.load(Ordering::Relaxed).try_into().unwrap_or(0)
    }

    /// Sends a call whose request and reply carry at most `payload_bytes`. Returns when the call is in the
    /// queue. Calls leave in the order in which they enter it.
    pub(super) async fn send<M: Method>(
        &self,
        args: &M::Args,
        payload_bytes: usize,
    ) -> Result<Answer<M>, Broken> {
        let bytes = payload_bytes.clamp(CALL_BYTES, IN_FLIGHT_BYTES);
        let permits = bytes.div_ceil(PERMIT_BYTES) as u32;
        let permit = tokio::select! {
            // The semaphore is never closed.
            permit = self.permits.clone().acquire_many_owned(permits) => permit.ok(),
            broken = self.shared.ended() => return Err(broken),
        };
        self.queue::<M>(args, permit, Due::Soon)
    }

    /// Sends a call and waits for its reply.
    pub(super) async fn call<M: Method>(&self, args: &M::Args, payload_bytes: usize) -> Answered<M> {
        self.send::<M>(args, payload_bytes).await?.receive().await
    }

    /// Sends a small call at once, not counted among those in flight, and ignores its reply: for closing
    /// handles in places that can't wait.
    pub(super) fn send_unanswered<M: Method>(&self, args: &M::Args) {
        let waiter = Waiter { reply: None, since: Instant::now(), due: Due::Soon, _permit: None };
        let message = M::call(WIRE, self.next_sequence(), args);
        // If the connection has ended, so have its handles.
        let _ = self.outgoing.send(Outgoing { message, waiter });
    }

    /// Sends a small call whose reply comes when its work is done, and waits for it. Each time the
    /// connection's patience has passed, it asks `is_there` whether the gateway is still alive.
    pub(super) async fn call_until_done<M: Method, F: Future<Output = bool>>(
        &self,
        args: &M::Args,
        is_there: impl Fn() -> F,
    ) -> Answered<M> {
        let mut answer = pin!(self.queue::<M>(args, None, Due::WhenDone)?.receive());
        loop {
            if let Ok(answered) = timeout(self.patience, &mut answer).await {
                return answered;
            }
            let there = tokio::select! {
                answered = &mut answer => return answered,
                there = is_there() => there,
            };
            if !there {
                self.shared.fail(Broken::silence(self.patience));
            }
        }
    }

    fn queue<M: Method>(
        &self,
        args: &M::Args,
        permit: Option<OwnedSemaphorePermit>,
        due: Due,
    ) -> Result<Answer<M>, Broken> {
        let sequence = self.next_sequence();
        let (reply, received) = oneshot::channel();
        let waiter = Waiter { reply: Some(reply), since: Instant::now(), due, _permit: permit };
        let outgoing = Outgoing { message: M::call(WIRE, sequence, args), waiter };
        self.outgoing.send(outgoing).map_err(|_| self.shared.why())?;
        Ok(Answer { received: Some(received), sequence, shared: self.shared.clone(), method: PhantomData })
    }

    fn next_sequence(&self) -> i32 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

/// The reply to a call in progress.
#[derive(Debug)]
pub(super) struct Answer<M> {
    /// None once it was received.
    received: Option<oneshot::Receiver<Bytes>>,
    sequence: i32,
    shared: Arc<Shared>,
    method: PhantomData<fn() -> M>,
}

impl<M> Drop for Answer<M> {
    fn drop(&mut self) {
        let Some(received) = &mut self.received else { return };
        // From now on, a reply that arrives can't be passed on: the receiving task subtracts it again.
        received.close();
        if received.try_recv().is_err() {
            self.shared.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<M: Method> Answer<M> {
    /// Waits for the reply.
    pub(super) async fn receive(mut self) -> Answered<M> {
        let Some(receiver) = &mut self.received else { return Err(self.shared.why()) };
        let received = tokio::select! {
            biased;
            received = receiver => received,
            broken = self.shared.ended() => return Err(broken),
        };
        self.received = None;
        let message = received.map_err(|_| self.shared.why())?;
        match M::decode_reply(WIRE.protocol, message) {
            Ok((sequence, reply)) if sequence == self.sequence => Ok(Ok(reply)),
            Ok(_) => {
                self.shared.fail(Broken::because("the gateway's replies are out of order"));
                Err(self.shared.why())
            }
            Err(error) => Ok(Err(error)),
        }
    }
}

/// Writes queued calls, until all their senders are gone.
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
            if shared.is_broken() {
                return;
            }
            for call in gathered.drain(..) {
                segments.0.extend(call.message.segments);
                waiters.push_back(call.waiter);
            }
        }
        // TLS holds some bytes back until a flush; for a plain socket a flush does nothing.
        let sent = async {
            socket.write_all_buf(&mut segments).await?;
            socket.flush().await
        };
        let sent = tokio::select! {
            sent = sent => sent,
            // If the gateway accepts no more bytes, the write would block the queued calls even after
            // the connection has ended.
            _ = shared.ended() => return,
        };
        if let Err(error) = sent {
            // The gateway may have sent a reason before it ended the connection.
            let _ = timeout(LAST_WORDS, shared.ended()).await;
            return shared.fail(Broken::because(format!("sending to the gateway: {error}")));
        }
    }
}

/// Receives replies, and passes each to the call that has waited longest.
async fn receive(socket: impl AsyncRead + Unpin, shared: Arc<Shared>, patience: Duration) {
    let mut socket = BufReader::with_capacity(READ_BUFFER_BYTES, socket);
    let mut buffers = Buffers::default();
    let mut latest = Instant::now();
    let error = loop {
        match next_frame(&mut socket, &mut buffers, &shared, latest, patience).await {
            Err(error) => break error,
            Ok(message) => match shared.waiters().pop_front() {
                Some(Waiter { reply: Some(reply), .. }) => {
                    // Sending fails if the caller has given up.
                    if reply.send(message).is_err() {
                        shared.given_up.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                Some(_) => {}
                None => break io::Error::other("a reply without a request"),
            },
        }
        latest = Instant::now();
    };
    shared.fail(Broken::receiving(&error, patience));
}

/// Receives the next reply. If it isn't complete within `patience` of the start of its time limit,
/// fails with `TimedOut`.
async fn next_frame(
    socket: &mut BufReader<impl AsyncRead + Unpin>,
    buffers: &mut Buffers,
    shared: &Shared,
    latest: Instant,
    patience: Duration,
) -> io::Result<Bytes> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    // Silence is fine unless a reply is due.
    loop {
        let due = shared.due_since(latest);
        let deadline = due.unwrap_or_else(Instant::now) + patience;
        match timeout_at(deadline, socket.fill_buf()).await {
            Ok(Ok([])) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Ok(_)) => break,
            Ok(Err(error)) => return Err(error),
            Err(_) if due.is_some() => return Err(late()),
            Err(_) => buffers.0.clear(),
        }
    }
    let deadline = shared.due_since(latest).unwrap_or_else(Instant::now) + patience;
    timeout_at(deadline, read_frame(socket, buffers)).await.map_err(|_| late())?
}

async fn read_frame(
    socket: &mut BufReader<impl AsyncRead + Unpin>,
    buffers: &mut Buffers,
) -> io::Result<Bytes> {
    let length = socket.read_u32().await?;
    if length as usize > MAX_REPLY_BYTES {
        return Err(stranger(length));
    }
    let length = length as usize;
    let mut message = buffers.take(length).limit(length);
    while message.has_remaining_mut() {
        if socket.read_buf(&mut message).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut buffer = message.into_inner();
    let message = buffer.split().freeze();
    buffers.put(buffer, length);
    Ok(message)
}

/// Memory of earlier replies, each to be used again once its caller has dropped the reply. New memory costs a
/// page fault for every 4 KiB, which takes longer than to receive them.
#[derive(Debug, Default)]
struct Buffers(Vec<BytesMut>);

impl Buffers {
    /// An empty buffer for `bytes`. The latest one that is free, since the CPU's caches may still have it.
    fn take(&mut self, bytes: usize) -> BytesMut {
        // A small reply in a large buffer would keep all of it.
        let fits = |buffer: &mut BytesMut| buffer.try_reclaim(bytes) && buffer.capacity() / 2 <= bytes;
        let found = if bytes < LARGE_REPLY_BYTES { None } else { self.0.iter_mut().rposition(fits) };
        found.map_or_else(|| BytesMut::with_capacity(bytes), |at| self.0.remove(at))
    }

    /// Keeps the buffer of a reply of `bytes` that was split from it.
    fn put(&mut self, buffer: BytesMut, bytes: usize) {
        if bytes < LARGE_REPLY_BYTES {
            return;
        }
        if self.0.len() == BUFFERS {
            self.0.remove(0);
        }
        self.0.push(buffer);
    }
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

/// The error for an answer whose first four bytes can't be a frame's length. They may identify the
/// peer's protocol.
fn stranger(first: u32) -> io::Error {
    let first = first.to_be_bytes();
    io::Error::other(match &first {
        b"HTTP" => "the server at this address speaks HTTP, and isn't a Strait gateway".to_owned(),
        // A TLS record: an alert, or a handshake.
        [0x15 | 0x16, 3, ..] => "the server at this address accepts only TLS; use strait --tls".to_owned(),
        _ => format!(
            "the answer isn't a Thrift message ({}…): the server at this address isn't a Strait gateway",
            first.escape_ascii()
        ),
    })
}
