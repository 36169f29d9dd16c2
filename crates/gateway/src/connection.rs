//! One connection: bytes in, requests out; answers in order, bytes out.
//!
//! Requests start in the order they came. Positional reads of one connection run side by side, up
//! to a limit. Any other request waits for those before it. So a client that sends ahead sees the
//! same effects as one that awaits each answer. Answers leave in the order of the requests.

use crate::config::MIN_PROGRESS_BYTES;
use crate::context::Context;
use crate::departure::{Departure, Encrypted};
use crate::dispatch::execute;
use crate::http::{self, Joined};
use crate::input::{Input, Received, Sender};
use crate::memory::{Account, Permit};
use crate::peer::Peer;
use crate::pool::{Engaged, Holder, Key};
use crate::processor;
use crate::request::{Outgoing, Request};
use crate::shared::Shared;
use crate::slow::{Cut, Way};
use crate::tls::Tls;
use bytes::Buf;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use strait_flexrpc::unpace_within_a_host;
use strait_telemetry::Seldom;
use strait_wire::Sniff;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::consume_budget;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// After a client has sent its last byte, the gateway waits this long for each further answer. So
/// programs that shut down only their sending side (`nc -N`) get the answers to ordinary calls, and a
/// client that has left costs no more than this.
const LEAVING_PATIENCE: Duration = Duration::from_secs(1);
/// Most pieces of one writev; answers have three or fewer each.
const MAX_SLICES: usize = 16;
/// The gateway reads the client's next requests before it sends an answer larger than this. Sending to a
/// socket that accepts everything at once would delay these requests.
const AT_ONCE_BYTES: usize = 16 << 10;
/// With more bytes of unread answers that the budget doesn't count, the gateway reads no requests.
const UNCOUNTED_BYTES: usize = 16 << 10;
/// Bytes of a refused client that the gateway reads and drops, so that the refusal reaches it
/// before the reset that unread bytes would cause.
const REFUSED_DRAIN_BYTES: u64 = 1 << 20;

/// Serves one connection until its client leaves, breaks the protocol or stalls, or until the
/// gateway shuts down.
pub async fn serve(shared: Arc<Shared>, stream: TcpStream, peer: Peer, shutdown: watch::Receiver<bool>) {
    if let Err(error) = accept(shared, stream, peer, shutdown).await {
        tracing::debug!(peer = %peer.address, %error, "connection ended");
    }
}

/// Serves TLS or clear text, as the client's first byte shows. If TLS is configured, only clients on
/// this host may use clear text. If clients must present certificates, no client may.
async fn accept(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: Peer,
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    unpace_within_a_host(&stream);
    let tls = match &shared.tls {
        None => None,
        Some(tls) => {
            let mut first = [0];
            tokio::select! {
                peeked = tokio::time::timeout(shared.limits.greeting, stream.peek(&mut first)) => peeked??,
                _ = shutdown.changed() => return Ok(()),
            };
            let encrypted = strait_wire::sniff(&first) == Sniff::Tls;
            if !encrypted && (tls.asks_for_certificates() || !peer.is_loopback()) {
                return Err(refused_clear_text(peer));
            }
            encrypted.then(|| (tls.clone(), tls.acceptor()))
        }
    };
    match tls {
        None => {
            let (from, to) = stream.into_split();
            // On the heap, so that a clear-text connection doesn't take as much memory as a TLS connection.
            Box::pin(run(shared, from, to, peer, shutdown)).await
        }
        Some((tls, acceptor)) => {
            let turns = shared.handshakes.holder(&Key::Origin(peer.origin()));
            let handshake = processor::in_turns(turns, acceptor.accept(stream));
            let shaken = tokio::time::timeout(shared.limits.stall, handshake).await?;
            let stream = shaken.inspect_err(|error| log_refused_certificate(peer, error))?;
            let peer = Peer { encrypted: true, ..peer };
            if !tls.asks_for_certificates() {
                let (from, to) = Encrypted::split(stream);
                return Box::pin(run(shared, from, to, peer, shutdown)).await;
            }
            // A second descriptor, since the stream's halves own the first.
            let socket = stream.get_ref().0.as_fd().try_clone_to_owned()?;
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let chain: Vec<_> = shown.iter().map(|shown| shown.clone().into_owned()).collect();
            let (from, to) = Encrypted::split(stream);
            let served = run(shared, from, to, peer, shutdown);
            Box::pin(while_trusted(&tls, &chain, &socket, served)).await
        }
    }
}

/// Serves until changed files revoke the client's certificate, or no longer trust its authority. Then
/// cuts the connection at its socket, so that its session is cleaned up as usual.
async fn while_trusted(
    tls: &Tls,
    chain: &[CertificateDer<'_>],
    socket: &OwnedFd,
    served: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let mut served = pin!(served);
    tokio::select! {
        result = &mut served => return result,
        () = tls.distrusted(chain) => tracing::info!("closed: the client's certificate isn't valid any more"),
    }
    // It fails only if the client has left already.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
    served.await
}

fn refused_clear_text(peer: Peer) -> io::Error {
    static REFUSED: Seldom = Seldom::new();
    let why = "TLS required: this gateway accepts clear text only from its own host (with --tls-client-ca, \
               from no host)";
    if let Some(left_out) = REFUSED.may_write() {
        tracing::warn!(peer = %peer.address, left_out, "connection refused: {why}");
    }
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Logs why the gateway refused a client's certificate. It doesn't log other failed handshakes: they
/// have nothing to do with the gateway's authorities and revocation lists.
fn log_refused_certificate(peer: Peer, error: &io::Error) {
    static REFUSED: Seldom = Seldom::new();
    let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) else { return };
    let is_about_it =
        matches!(error, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented);
    if is_about_it && let Some(left_out) = REFUSED.may_write() {
        let why = error.to_string();
        tracing::warn!(peer = %peer.address, why, left_out, "a client's certificate was refused");
    }
}

async fn run<R: AsyncRead + Departure + Unpin, W: AsyncWrite + Unpin>(
    shared: Arc<Shared>,
    from: R,
    to: W,
    peer: Peer,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let context = Arc::new(Context::new(shared.clone(), peer));
    let closing = shutdown.clone();
    let attribution = context.changes();
    let key = context.key();
    let (account, cut) = shared.budget.account(&key);
    let ready = shared.ready.holder(&key);
    let connection = Connection {
        input: Input::new(from, &shared.limits),
        output: Output {
            to,
            queue: VecDeque::new(),
            written: 0,
            shared_units: 0,
            uncounted: 0,
            unflushed: false,
            ends: false,
        },
        running: FuturesOrdered::new(),
        engaged: None,
        pending: None,
        due: None,
        leaves_at: None,
        alone: false,
        account,
        ready,
        key,
        attribution,
        cut,
        context: context.clone(),
        shared,
    };
    let result = match connection.run(shutdown.clone()).await {
        Ok(Some(Http { io, account, cut })) => {
            http::serve(context.shared.clone(), io, peer, (account, cut), shutdown).await
        }
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    // At shutdown the server closes all sessions properly instead.
    if !*closing.borrow() {
        context.connection_lost();
    }
    result
}

/// A connection that turned out to speak HTTP.
struct Http<R, W> {
    io: Joined<R, W>,
    account: Account,
    cut: Cut,
}

struct Connection<R, W> {
    shared: Arc<Shared>,
    context: Arc<Context>,
    account: Account,
    /// The turns of its requests at the processors.
    ready: Arc<Holder>,
    /// The user or origin that requests count for.
    key: Key,
    /// [`Context::changes`] when the account was last attributed.
    attribution: u64,
    /// Fires if this connection must end: it moves bytes too slowly, and others wait for the memory that
    /// it holds.
    cut: Cut,
    input: Input<R>,
    output: Output<W>,
    /// Requests being executed, in their order.
    running: FuturesOrdered<BoxFuture<'static, Outgoing>>,
    /// Counts this connection among its user's busy ones, while requests run.
    engaged: Option<Engaged>,
    /// A request that can't start yet.
    pending: Option<Request>,
    /// The earliest time at which the pending request may start, if its client hasn't logged in.
    due: Option<Instant>,
    /// After this time, a client that has sent its last byte gets no more answers.
    leaves_at: Option<Instant>,
    /// The running request doesn't allow others beside it.
    alone: bool,
}

impl<R: AsyncRead + Departure + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Serves until the end, or until the client turns out to speak HTTP.
    async fn run(mut self, mut shutdown: watch::Receiver<bool>) -> io::Result<Option<Http<R, W>>> {
        let period = self.shared.limits.stall;
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watch = Watch::default();
        let mut closing = *shutdown.borrow();
        // Once for all requests: all connections wait in one list.
        let mut stopped = pin!(shutdown.changed());
        loop {
            // At shutdown the connection finishes begun requests, and begins no others.
            self.output.ends |= closing && !self.input.mid_request();
            self.attribute();
            if let Some(begun) = self.start_pending() {
                self.postpone_leaving();
                self.advance(begun).await?;
            }
            self.output.note(&self.account);
            let in_flight = self.running.len() + self.output.queue.len();
            let idle = self.running.is_empty() && !self.output.busy() && self.pending.is_none();
            if idle && self.output.ends {
                return self.output.finish(self.input.into_parts().0).await.map(|()| None);
            }
            let may_receive = self.pending.is_none()
                && !self.output.ends
                && in_flight < self.shared.limits.reads_in_flight
                && self.output.uncounted <= UNCOUNTED_BYTES;
            let listens = may_receive || !self.output.ends;
            let (context, undecided) = (&self.context, !self.running.is_empty());
            let sender = || match context.attributed() {
                Some(_) => Sender::Known,
                None if undecided => Sender::Undecided,
                None => Sender::Stranger,
            };
            tokio::select! {
                // Receiving comes before sending. A socket that takes everything at once would
                // otherwise delay the next reads until all answers are sent.
                biased;
                received = self.input.next(may_receive, &self.account, sender), if listens => {
                    let received = received?;
                    if matches!(received, Received::Http) {
                        return Ok(Some(self.into_http()));
                    }
                    self.take(received);
                    self.output.ends |= closing && self.pending.is_some();
                }
                Some(answer) = self.running.next(), if !self.running.is_empty() => {
                    self.answered(answer);
                }
                sent = self.output.send(&self.account), if self.output.busy() => sent?,
                () = moment(self.due), if self.due.is_some() => self.due = None,
                // Dropping stops queries; a mutation runs to its end as a task of its own.
                () = moment(self.leaves_at), if self.leaves_at.is_some() && !self.running.is_empty() =>
                    return Ok(None),
                _ = &mut self.cut => {
                    let message = "too slow: other requests wait for the memory that this client holds";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                _ = ticks.tick() => watch.check(&self, may_receive)?,
                _ = &mut stopped, if !closing => closing = true,
            }
        }
    }

    fn into_http(self) -> Http<R, W> {
        let (from, read) = self.input.into_parts();
        let io = Joined::new(read, from, self.output.to, self.account.flow().clone());
        Http { io, account: self.account, cut: self.cut }
    }

    /// Takes a request, or notes that the client sends no more.
    fn take(&mut self, received: Received) {
        match received {
            Received::Request(request) => {
                self.pending = Some(request);
                let paced = !self.context.is_attributed();
                self.due = paced.then(|| self.shared.pace.next(&self.key, std::time::Instant::now()).into());
            }
            Received::Refused(refusal) => {
                self.output.ends = true;
                // The refusal leaves after the answers to earlier requests.
                self.running.push_back(Box::pin(std::future::ready(refusal)));
            }
            // Doesn't occur: only a connection's first bytes are recognised as HTTP, and `run` handles that.
            Received::Http => self.output.ends = true,
            end @ (Received::End | Received::Left) => {
                self.output.ends |= matches!(end, Received::End);
                self.leaves_at.get_or_insert_with(|| Instant::now() + LEAVING_PATIENCE);
            }
        }
    }

    /// Gives a client that has left more time for its answers.
    fn postpone_leaving(&mut self) {
        if let Some(leaves_at) = &mut self.leaves_at {
            *leaves_at = Instant::now() + LEAVING_PATIENCE;
        }
    }

    /// Moves the account to the share of the user who logged in.
    fn attribute(&mut self) {
        let changes = self.context.changes();
        if changes != self.attribution {
            self.attribution = changes;
            self.key = self.context.key();
            self.account.set_holder(&self.key);
            self.ready = self.shared.ready.holder(&self.key);
            self.engaged = self.engaged.take().map(|_| self.ready.engage());
        }
    }

    /// Starts the pending request if its turn has come and it has memory.
    fn start_pending(&mut self) -> Option<Begun> {
        let request = self.pending.as_ref()?;
        if self.due.is_some_and(|due| due > Instant::now()) {
            return None;
        }
        self.due = None;
        let beside_others = request.runs_beside_others();
        if (self.alone || !beside_others) && !self.running.is_empty() {
            return None;
        }
        let memory = match request.answer_bytes() {
            // There is no memory while an earlier answer occupies the reserve.
            Some(bytes) => Some(self.account.now(bytes)?),
            None => None,
        };
        let request = self.pending.take()?;
        self.context.note_left(request.needs_its_client() && self.input.source().has_left());
        self.alone = !beside_others;
        let (context, key) = (self.context.clone(), self.key.clone());
        let answer = execute(request, context, key, memory);
        self.engaged.get_or_insert_with(|| self.ready.engage());
        Some(match processor::needs_turns(&self.ready) {
            true => Begun::InTurns(Box::pin(processor::in_turns(self.ready.clone(), answer))),
            false => Begun::AtOnce(Box::pin(answer)),
        })
    }

    /// Runs a begun request as far as it gets without waiting: many answers come from memory, and leave
    /// in one write. Each round of the connection's loop that this saves takes a tenth of a small call's
    /// time.
    async fn advance(&mut self, begun: Begun) -> io::Result<()> {
        let mut answer = match begun {
            Begun::AtOnce(answer) if self.running.is_empty() => answer,
            Begun::AtOnce(answer) | Begun::InTurns(answer) => {
                self.running.push_back(answer);
                return Ok(());
            }
        };
        // Requests that are in the buffer already take no other part of the task's budget.
        consume_budget().await;
        let Poll::Ready(answer) = futures::poll!(&mut answer) else {
            self.running.push_back(answer);
            return Ok(());
        };
        // The loop reads further requests before it sends a large answer.
        let is_small = answer.encoded.len() <= AT_ONCE_BYTES && !self.input.mid_request();
        let is_next = !self.output.busy();
        self.answered(answer);
        if is_small
            && is_next
            && let Poll::Ready(sent) = futures::poll!(pin!(self.output.send(&self.account)))
        {
            sent?;
        }
        Ok(())
    }

    /// Queues the answer to the earliest request for sending.
    fn answered(&mut self, answer: Outgoing) {
        self.output.push(answer);
        // A client that sends without waiting for answers has the next request here already.
        if self.running.is_empty() && !self.input.mid_request() {
            self.engaged = None;
        }
        self.postpone_leaving();
    }
}

/// A request that has begun.
enum Begun {
    /// Its first step can run at once.
    AtOnce(BoxFuture<'static, Outgoing>),
    /// Each of its steps waits for its user's turn.
    InTurns(BoxFuture<'static, Outgoing>),
}

/// The bytes of an answer without memory of the budget.
fn uncounted(answer: &Outgoing) -> usize {
    if answer.memory.is_none() { answer.encoded.len() } else { 0 }
}

/// Waits until `at`, or forever if that is None. `select!` evaluates each branch's expression even if
/// its condition is false, so this one reads no clock before it is polled.
async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Ends connections that make no progress.
#[derive(Default)]
struct Watch {
    received: u64,
    written: u64,
    /// Whether the last check found an unfinished request.
    receiving: bool,
    /// Whether the last check found answers waiting for the client.
    sending: bool,
    idle_ticks: u32,
}

impl Watch {
    fn check<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        &mut self,
        connection: &Connection<R, W>,
        may_receive: bool,
    ) -> io::Result<()> {
        let Connection { shared, input, output, .. } = connection;
        // If a request waits for its turn or for memory, the delay isn't the client's fault.
        let receiving = may_receive && input.mid_request() && !input.waits_for_memory();
        let slow_sender = input.received - self.received < MIN_PROGRESS_BYTES;
        let slow_taker = output.written - self.written < MIN_PROGRESS_BYTES;
        if self.receiving && receiving && slow_sender || self.sending && output.busy() && slow_taker {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "stalled in mid-transfer"));
        }
        let moved = (input.received, output.written) != (self.received, self.written);
        let idle = !moved && connection.running.is_empty();
        self.idle_ticks = if idle { self.idle_ticks + 1 } else { 0 };
        let limits = &shared.limits;
        let is_known = input.received > 0 && connection.context.attributed().is_some();
        let allowed = if is_known { limits.session_idle } else { limits.greeting };
        if limits.stall * self.idle_ticks > allowed {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "idle for too long"));
        }
        (self.received, self.written) = (input.received, output.written);
        (self.receiving, self.sending) = (receiving, output.busy());
        Ok(())
    }
}

/// Answers on their way to the socket.
struct Output<W> {
    to: W,
    queue: VecDeque<Outgoing>,
    /// Bytes sent in all.
    written: u64,
    /// Units of shared memory that the queue holds, as last recorded by `note`.
    shared_units: usize,
    /// Bytes of queued answers without memory of the budget, such as errors.
    uncounted: usize,
    /// TLS may still hold some written bytes.
    unflushed: bool,
    /// The connection reads no more requests.
    ends: bool,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn push(&mut self, answer: Outgoing) {
        self.ends |= answer.last;
        self.uncounted += uncounted(&answer);
        self.queue.push_back(answer);
    }

    /// Whether there is something to send.
    fn busy(&self) -> bool {
        !self.queue.is_empty() || self.unflushed
    }

    /// Records how much memory the client's pending answers hold, and how many bytes it has taken.
    fn note(&mut self, account: &Account) {
        let units = |answer: &Outgoing| answer.memory.as_ref().map_or(0, Permit::shared_units);
        let shared_units = self.queue.iter().map(units).sum();
        if shared_units != self.shared_units {
            self.shared_units = shared_units;
            account.flow().holds(Way::Out, account.holder(), shared_units);
        }
    }

    /// Sends some of the first answers. Cancel safe: a dropped future loses no bytes, and sends none twice.
    async fn send(&mut self, account: &Account) -> io::Result<()> {
        if self.queue.is_empty() {
            self.to.flush().await?;
            self.unflushed = false;
            return Ok(());
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut bytes = 0;
        // A client that sends ahead gets small answers in one write.
        let answers = self.queue.iter().take_while(|answer| {
            let before = bytes;
            bytes += answer.encoded.len();
            before < AT_ONCE_BYTES
        });
        let filled = slices.iter_mut().zip(answers.flat_map(|answer| &answer.encoded.segments));
        let count = filled.map(|(slice, segment)| *slice = IoSlice::new(segment)).count();
        let mut sent = self.to.write_vectored(slices.get(..count).unwrap_or_default()).await?;
        if sent == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.written += sent as u64;
        account.flow().moved(Way::Out, sent);
        self.unflushed = true;
        while let Some(first) = self.queue.front_mut() {
            let segments = &mut first.encoded.segments;
            while let Some(segment) = segments.first_mut() {
                let step = sent.min(segment.len());
                segment.advance(step);
                sent -= step;
                if first.memory.is_none() {
                    self.uncounted -= step;
                }
                if !segment.is_empty() {
                    break;
                }
                segments.remove(0);
            }
            if !segments.is_empty() {
                break;
            }
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            self.to.flush().await?;
            self.unflushed = false;
        }
        Ok(())
    }

    /// Closes the sending side, and lets the last answer reach a client that still sends.
    async fn finish<R: AsyncRead + Unpin>(mut self, from: R) -> io::Result<()> {
        self.to.shutdown().await?;
        let drain = async {
            let mut rest = from.take(REFUSED_DRAIN_BYTES);
            tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Limits;
    use crate::memory::Budget;
    use rustix::net::sockopt::tcp_congestion;
    use std::pin::Pin;
    use std::task::Context as Waking;
    use strait_wire::Encoded;
    use tokio::net::TcpListener;

    /// Takes all bytes, and counts those of each write.
    struct Writes(Vec<usize>);

    impl AsyncWrite for Writes {
        fn poll_write(self: Pin<&mut Self>, cx: &mut Waking<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Waking<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let bytes = slices.iter().map(|slice| slice.len()).sum();
            self.0.push(bytes);
            Poll::Ready(Ok(bytes))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Waking<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Waking<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn small_answers_leave_together() {
        let (account, _cut) = Budget::new(&Limits::default()).account(&Key::User("ada".into()));
        let answer = |bytes: usize| {
            let segments = vec![vec![1; 10].into(), vec![2; bytes - 10].into()];
            Outgoing { encoded: Encoded { segments }, memory: None, last: false }
        };
        let mut output = Output {
            to: Writes(Vec::new()),
            queue: VecDeque::new(),
            written: 0,
            shared_units: 0,
            uncounted: 0,
            unflushed: false,
            ends: false,
        };
        [100, 200, 300, 2 * AT_ONCE_BYTES, 400]
            .map(answer)
            .into_iter()
            .for_each(|answer| output.push(answer));
        while output.busy() {
            output.send(&account).await.unwrap();
        }
        assert_eq!(output.to.0, [600 + 2 * AT_ONCE_BYTES, 400]);
        assert_eq!(output.uncounted, 0);
        assert_eq!(output.written as usize, 1_000 + 2 * AT_ONCE_BYTES);
    }

    #[tokio::test]
    async fn nothing_paces_a_connection_within_a_host() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        unpace_within_a_host(&accepted);
        assert_eq!(tcp_congestion(&accepted).unwrap(), "reno");
    }
}
