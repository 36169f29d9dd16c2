//! Thrift over HTTP/1.1, on the same port: `POST /thrift`.
//!
//! hyper reads the heads and frames the bodies, from a connection whose first bytes were sniffed. Each
//! request then goes the way of one over TCP. First comes its identity, from the bearer token of its
//! head; then memory for its body, by that user's share; then the body, then [`dispatch`](crate::dispatch).
//!
//! A browser sends any page's requests to 127.0.0.1, and a proxy shares one connection among users. So
//! nothing here belongs to a connection: each request has a [`Context`] of its own, and never
//! loopback's default identity. `site` checks Host and Origin.

use crate::connection::MIN_PROGRESS_BYTES;
use crate::context::Context;
use crate::dispatch::execute;
use crate::fair::Key;
use crate::memory::{Account, Permit};
use crate::peer::Peer;
use crate::processor;
use crate::request::{Body as Asked, Request as Message};
use crate::shared::Shared;
use crate::site::Site;
use crate::slow::{Cut, Flow, Way};
use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use strait_store::ErrorKind;
use strait_wire::{ApplicationError, ApplicationErrorKind, Encoded, Protocol, Sniff, Wire, sniff};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{interval, sleep_until, timeout};

/// The path of both services.
const PATH: &str = "/thrift";
/// Largest head of a request, and most bytes of an answer that wait in the connection's own buffer. A
/// token has some hundred bytes; with [`crate::Limits::connections`] they bound this memory to 128 MiB.
const HEAD_BYTES: usize = 16 << 10;
/// Most fields of a head. Browsers and proxies send some twenty.
const HEAD_FIELDS: usize = 64;
/// Time for the first bytes of a refused request's body, which tell its protocol.
const BEGINNING_PATIENCE: Duration = Duration::from_millis(100);

/// Serves the requests of a connection whose first bytes are in `io`.
pub async fn serve<R, W>(
    shared: Arc<Shared>,
    io: Joined<R, W>,
    peer: Peer,
    (account, cut): (Account, Cut),
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (period, written) = (shared.limits.stall, io.written.clone());
    let unsent = Arc::new(AtomicUsize::new(0));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(shared.limits.greeting);
    builder.max_buf_size(HEAD_BYTES).max_headers(HEAD_FIELDS);
    let peer = Peer { http: true, ..peer };
    let front = Arc::new(Front { shared, peer, account: Mutex::new(account), unsent: unsent.clone() });
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let mut cut = pin!(cut);
    let mut ticks = interval(period);
    let (mut before, mut was_sending, mut closing) = (0, false, *shutdown.borrow());
    if closing {
        connection.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(io::Error::other),
            _ = &mut cut => {
                let message = "others wait for memory that this client uses too slowly";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            _ = ticks.tick() => {
                let (now, sending) = (written.load(Ordering::Relaxed), unsent.load(Ordering::Relaxed) > 0);
                if was_sending && sending && now - before < MIN_PROGRESS_BYTES {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "stalled in mid-answer"));
                }
                (before, was_sending) = (now, sending);
            }
            _ = shutdown.changed(), if !closing => {
                closing = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A connection's place in the gateway.
struct Front {
    shared: Arc<Shared>,
    peer: Peer,
    account: Mutex<Account>,
    /// Answers that the connection hasn't taken over whole.
    unsent: Arc<AtomicUsize>,
}

/// The reason why a request doesn't reach a method.
pub struct Refusal {
    /// HTTP's status.
    pub status: StatusCode,
    /// The kind of the error, as DfsV2 names them.
    pub kind: ErrorKind,
    /// Text for people, without a client's own words.
    pub message: &'static str,
}

impl Refusal {
    pub fn new(status: StatusCode, kind: ErrorKind, message: &'static str) -> Self {
        Self { status, kind, message }
    }
}

/// Ends a request's own context however the request ends.
struct OfRequest(Arc<Context>);

impl Drop for OfRequest {
    fn drop(&mut self) {
        self.0.connection_lost();
    }
}

/// The identity of a request before its body is read.
struct Sender {
    context: OfRequest,
    key: Key,
    known: bool,
}

impl Front {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let site = match self.shared.http.check(&head.headers, &head.uri) {
            Ok(site) => site,
            Err(refusal) => return refused(&refusal),
        };
        let mut response = match self.called(&head, body, &site).await {
            Ok(response) => response,
            Err(refusal) => refused(&refusal),
        };
        // A proxy may see another end of a chunked body than hyper (RFC 9112, section 11.2).
        if head.headers.contains_key(header::TRANSFER_ENCODING) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        site.allow(response.headers_mut());
        response
    }

    async fn called(
        &self,
        head: &Parts,
        mut body: Incoming,
        site: &Site,
    ) -> Result<Response<Answer>, Refusal> {
        if head.uri.path() != PATH {
            let message = "only /thrift is served here";
            return Err(Refusal::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message));
        }
        if head.method == Method::OPTIONS && site.is_allowed() {
            return Ok(site.preflight());
        }
        if head.method != Method::POST {
            let message = "send a Thrift message by POST";
            return Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, ErrorKind::Unsupported, message));
        }
        let asked = content(&head.headers)?;
        let admitted = self.sender(&head.headers).and_then(|sender| {
            let most = self.admit(&body, head.version, sender.known)?;
            Ok((sender, most))
        });
        let (sender, most) = match admitted {
            Ok(admitted) => admitted,
            Err(refusal) => {
                let protocol = asked.protocol.or(begun(&mut body).await);
                return protocol.map(|protocol| self.exception(&refusal, protocol, &asked)).ok_or(refusal);
            }
        };
        let (message, memory) = self.receive(body, most, &asked).await?;
        let protocol = match (asked.protocol, sniff(&message)) {
            (Some(protocol), _) => protocol,
            (None, Sniff::Thrift(Wire { protocol, framed: false })) => protocol,
            (None, _) => return Err(bad("the body isn't an unframed Thrift message")),
        };
        if message.is_empty() {
            return Err(bad("the body is empty"));
        }
        let wire = Wire { protocol, framed: false };
        let request = Message::parse(wire, message, memory);
        let is_bad = matches!(
            &request.body,
            Asked::Refused { error, .. } if error.kind != ApplicationErrorKind::UnknownMethod
        );
        let mut response = match self.execute(request, sender).await {
            Ok(response) => response,
            Err(refusal) => return Ok(self.exception(&refusal, protocol, &asked)),
        };
        response.headers_mut().insert(header::CONTENT_TYPE, asked.name);
        if is_bad {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        Ok(response)
    }

    /// A refusal as Thrift's exception: programs on Apache's libraries read the body, whatever the status.
    fn exception(&self, refusal: &Refusal, protocol: Protocol, asked: &Content) -> Response<Answer> {
        let error = ApplicationError {
            kind: ApplicationErrorKind::Unknown,
            message: format!("{:?}: {}", refusal.kind, refusal.message),
        };
        let encoded = error.reply(Wire { protocol, framed: false }, "", 0);
        let answer = Answer::new(encoded, None, self.unsent.clone(), &self.account());
        let mut response = Response::new(answer);
        response.headers_mut().insert(header::CONTENT_TYPE, asked.name.clone());
        as_refusal(response, refusal.status)
    }

    /// The request's own context, with the session of its bearer token if it has one.
    fn sender(&self, headers: &HeaderMap) -> Result<Sender, Refusal> {
        let context = OfRequest(Arc::new(Context::new(self.shared.clone(), self.peer)));
        let unauthorized =
            |message| Refusal::new(StatusCode::UNAUTHORIZED, ErrorKind::Unauthenticated, message);
        if let Some(given) = headers.get(header::AUTHORIZATION) {
            let token = given.to_str().ok().and_then(|text| text.split_once(' '));
            let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let (_, token) =
                token.ok_or(unauthorized("Authorization takes a session's token: Bearer TOKEN"))?;
            let session = self.shared.sessions.by_token(token.trim(), &self.peer).map_err(|_| {
                unauthorized("the token is wrong or has expired, or its login has ended; log in again")
            })?;
            context.0.attach(Some(session));
        }
        let key = context.0.attributed();
        let known = key.is_some();
        let key = key.unwrap_or(Key::Origin(self.peer.origin()));
        self.account().set_holder(&key);
        Ok(Sender { context, key, known })
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes that this body may have.
    fn admit(&self, body: &Incoming, version: Version, known: bool) -> Result<Most, Refusal> {
        let limits = &self.shared.limits;
        let bytes = if known { limits.message_bytes } else { limits.stranger_message_bytes };
        let most = Most { bytes, known };
        let announced = body.size_hint().exact();
        if announced.is_none() && version < Version::HTTP_11 {
            let message = "a body needs a Content-Length";
            return Err(Refusal::new(StatusCode::LENGTH_REQUIRED, ErrorKind::InvalidArgument, message));
        }
        match announced.is_some_and(|length| length > bytes as u64) {
            true => Err(most.exceeded()),
            false => Ok(most),
        }
    }

    /// The body, after its memory was granted.
    async fn receive(
        &self,
        mut body: Incoming,
        most: Most,
        asked: &Content,
    ) -> Result<(Bytes, Option<Permit>), Refusal> {
        let limits = &self.shared.limits;
        let announced = body.size_hint().exact();
        // A chunked body may have as many bytes as it likes, until it exceeds the limit.
        let needed = announced.map_or(most.bytes, |length| length as usize);
        let (budget, holder, flow, reserve) = {
            let account = self.account();
            let (budget, holder) = (account.budget().clone(), account.holder().clone());
            (budget, holder, account.flow().clone(), account.reserve_bytes())
        };
        let memory = match needed * asked.copies {
            small if small <= reserve => None,
            large => Some(budget.wait(&holder, large).await),
        };
        let _receiving = Receiving::new(flow, holder, memory.as_ref());
        let mut bytes = BytesMut::with_capacity(announced.map_or(0, |length| length as usize));
        let mut due = Instant::now() + limits.stall;
        let mut enough = MIN_PROGRESS_BYTES;
        loop {
            let slow = || {
                let message = "the body came too slowly";
                Refusal::new(StatusCode::REQUEST_TIMEOUT, ErrorKind::TimedOut, message)
            };
            let left = due.saturating_duration_since(Instant::now());
            let next = timeout(left, poll_fn(|cx| Pin::new(&mut body).poll_frame(cx))).await;
            let frame = match next.map_err(|_| slow())? {
                None => break,
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return Err(bad("the body is broken or cut short")),
            };
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > most.bytes {
                return Err(most.exceeded());
            }
            bytes.extend_from_slice(&data);
            if bytes.len() as u64 >= enough {
                enough = bytes.len() as u64 + MIN_PROGRESS_BYTES;
                due = Instant::now() + limits.stall;
            }
        }
        Ok((bytes.freeze(), memory))
    }

    async fn execute(&self, request: Message, sender: Sender) -> Result<Response<Answer>, Refusal> {
        let Sender { context, key, known } = sender;
        if !known {
            sleep_until(self.shared.pace.next(&key, Instant::now()).into()).await;
        }
        let granted = match request.answer_bytes() {
            None => None,
            Some(bytes) => match self.account().now(bytes) {
                Some(permit) => Some(permit),
                None => {
                    let message = "no memory for the answer; try again later";
                    return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, message));
                }
            },
        };
        let ready = self.shared.ready.holder(&key);
        let answer = execute(request, context.0.clone(), key, granted);
        let _engaged = ready.engage();
        let outgoing = match processor::needs_turns(&ready) {
            true => processor::in_turns(ready, answer).await,
            false => answer.await,
        };
        let answer = Answer::new(outgoing.encoded, outgoing.memory, self.unsent.clone(), &self.account());
        let mut response = Response::new(answer);
        if outgoing.last {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

fn bad(message: &'static str) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, ErrorKind::InvalidArgument, message)
}

/// The limit of a body.
struct Most {
    bytes: usize,
    /// Its sender is known before it is read.
    known: bool,
}

impl Most {
    fn exceeded(&self) -> Refusal {
        let message = match self.known {
            true => "the body is larger than a request may be",
            false => {
                "a body of more than 64 KiB needs the session's token in its head: Authorization: Bearer TOKEN"
            }
        };
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, ErrorKind::InvalidArgument, message)
    }
}

/// The protocol of the message that an unread body begins with, if that comes soon.
async fn begun(body: &mut Incoming) -> Option<Protocol> {
    let first = timeout(BEGINNING_PATIENCE, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx))).await;
    let data = first.ok()??.ok()?.into_data().ok()?;
    match sniff(&data) {
        Sniff::Thrift(Wire { protocol, framed: false }) => Some(protocol),
        _ => None,
    }
}

/// The kind of a body.
struct Content {
    /// None: its first bytes tell.
    protocol: Option<Protocol>,
    /// The answer has the same type.
    name: HeaderValue,
    /// How often its bytes may be in memory: JSON's payloads are decoded into others.
    copies: usize,
}

/// Apache's libraries send `application/x-thrift` with every protocol.
fn content(headers: &HeaderMap) -> Result<Content, Refusal> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (name, protocol, copies) = match kind.as_str() {
        "application/x-thrift" => ("application/x-thrift", None, 2),
        "application/vnd.apache.thrift.binary" => {
            ("application/vnd.apache.thrift.binary", Some(Protocol::Binary), 1)
        }
        "application/vnd.apache.thrift.compact" => {
            ("application/vnd.apache.thrift.compact", Some(Protocol::Compact), 1)
        }
        "application/vnd.apache.thrift.json" => {
            ("application/vnd.apache.thrift.json", Some(Protocol::Json), 2)
        }
        _ => {
            let message =
                "the Content-Type must be application/x-thrift or application/vnd.apache.thrift.PROTOCOL";
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Refusal::new(status, ErrorKind::InvalidArgument, message));
        }
    };
    Ok(Content { protocol, name: HeaderValue::from_static(name), copies })
}

/// A refusal as JSON.
fn refused(refusal: &Refusal) -> Response<Answer> {
    let text =
        format!("{{\"error\":{{\"kind\":\"{:?}\",\"message\":\"{}\"}}}}\n", refusal.kind, refusal.message);
    let mut response = Response::new(Answer::of(Bytes::from(text)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    as_refusal(response, refusal.status)
}

/// Adds status and fields of a refusal. It ends the connection, since the body may not have been read.
fn as_refusal(mut response: Response<Answer>, status: StatusCode) -> Response<Answer> {
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
        }
        _ => {}
    }
    response
}

/// Notes the memory of a body while it is received, so that slow senders can be found.
struct Receiving {
    flow: Arc<Flow>,
    holder: Arc<crate::fair::Holder>,
}

impl Receiving {
    fn new(flow: Arc<Flow>, holder: Arc<crate::fair::Holder>, memory: Option<&Permit>) -> Self {
        flow.holds(Way::In, &holder, memory.map_or(0, Permit::shared_units));
        Self { flow, holder }
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.flow.holds(Way::In, &self.holder, 0);
    }
}

/// An answer's body, which holds its memory until the connection has taken it over.
pub struct Answer {
    segments: VecDeque<Bytes>,
    sending: Option<Sending>,
}

struct Sending {
    unsent: Arc<AtomicUsize>,
    flow: Arc<Flow>,
    holder: Arc<crate::fair::Holder>,
    _memory: Option<Permit>,
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.unsent.fetch_sub(1, Ordering::Relaxed);
        self.flow.holds(Way::Out, &self.holder, 0);
    }
}

impl Answer {
    /// A short one.
    pub fn of(bytes: Bytes) -> Self {
        Self { segments: [bytes].into(), sending: None }
    }

    fn new(encoded: Encoded, memory: Option<Permit>, unsent: Arc<AtomicUsize>, account: &Account) -> Self {
        unsent.fetch_add(1, Ordering::Relaxed);
        let (flow, holder) = (account.flow().clone(), account.holder().clone());
        flow.holds(Way::Out, &holder, memory.as_ref().map_or(0, Permit::shared_units));
        let sending = Some(Sending { unsent, flow, holder, _memory: memory });
        Self { segments: encoded.segments.into(), sending }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    /// Small pieces: hyper takes a piece only when the one before is nearly sent.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(first) = self.segments.front_mut() else {
            self.sending = None;
            return Poll::Ready(None);
        };
        let piece = first.split_to(first.len().min(HEAD_BYTES));
        if first.is_empty() {
            self.segments.pop_front();
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.segments.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.segments.iter().map(|segment| segment.len() as u64).sum())
    }
}

/// Both sides of a connection, of which some bytes were read already. Counts the moved bytes.
pub struct Joined<R, W> {
    read: Bytes,
    from: R,
    to: W,
    flow: Arc<Flow>,
    written: Arc<AtomicU64>,
}

impl<R, W> Joined<R, W> {
    /// `read` comes before the bytes of `from`.
    pub fn new(read: Bytes, from: R, to: W, flow: Arc<Flow>) -> Self {
        Self { read, from, to, flow, written: Arc::default() }
    }
}

impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for Joined<R, W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
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

impl<R: Unpin, W: AsyncWrite + Unpin> Joined<R, W> {
    fn note(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = polled {
            self.flow.moved(Way::Out, count);
            self.written.fetch_add(count as u64, Ordering::Relaxed);
        }
        polled
    }
}

impl<R: Unpin, W: AsyncWrite + Unpin> AsyncWrite for Joined<R, W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.to).poll_write(cx, bytes);
        self.note(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.to).poll_write_vectored(cx, slices);
        self.note(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.to.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.to).poll_shutdown(cx)
    }
}
