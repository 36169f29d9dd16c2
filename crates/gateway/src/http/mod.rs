//! HTTP/1.1 on the gateway's port: a common layer, and two interfaces on it (Thrift and REST).
//!
//! ```text
//!   Joined ─ hyper ─→ Front: Host, Origin (site) → interface by the path
//!                       identity by the bearer token, in a Context of the request's own
//!                       /thrift  thrift: body → Request ─→ dispatch
//!                       /v1/…    rest:   target, query, conditions ─→ the store; bodies by pieces
//!   Joined ←─ hyper ←─ Answer: in memory, or a Download's pieces
//! ```
//!
//! hyper reads the heads and frames the bodies, from a connection whose first bytes were sniffed. The
//! gateway receives no byte of a body before the user's share has memory for it (`inflow`). An answer
//! holds its memory until hyper has taken all its bytes (`answer`, `download`).
//!
//! A browser sends any page's requests to 127.0.0.1, and a proxy shares one connection among users. So
//! no login belongs to a connection: each request has a [`Context`] of its own, and never gets the
//! default identity of loopback.

mod answer;
mod answering;
mod download;
mod inflow;
mod joined;
mod refused;
mod repoll;
pub mod rest;
mod sending;
mod site;
mod thrift;

pub use joined::Joined;

use crate::config::MIN_PROGRESS_BYTES;
use crate::context::Context;
use crate::memory::{Account, Permit};
use crate::peer::Peer;
use crate::pool::Key;
use crate::processor;
use crate::session::{Entry, Identity, Session, TOO_MANY_SESSIONS};
use crate::shared::Shared;
use crate::slow::Cut;
use crate::turns;
use answer::Answer;
use answering::Answering;
use futures::FutureExt;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use joined::Traffic;
use refused::{Refusal, refused};
use repoll::Repoll;
use sending::HEAD_BYTES;
use std::convert::Infallible;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::{Error, ErrorKind, fail};
use strait_telemetry::RequestId;
use strait_web::MAX_FIELDS;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at, sleep_until, timeout};

/// A client whose next head is due is looked at this often in the time that it has.
const LOOKS: u32 = 4;

/// Serves the requests of a connection whose first bytes are in `io`, and ends it.
pub async fn serve<R, W>(
    shared: Arc<Shared>,
    mut io: Joined<R, W>,
    peer: Peer,
    grants: (Account, Cut),
    shutdown: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let period = shared.limits.stall;
    serve_requests(shared, &mut io, peer, grants, shutdown).await?;
    // hyper does this itself, but not after a request with the field `Upgrade`: then it leaves the
    // connection to its caller.
    timeout(period, io.shutdown()).await.map_err(|_| stalled())?
}

async fn serve_requests<R, W>(
    shared: Arc<Shared>,
    io: &mut Joined<R, W>,
    peer: Peer,
    (account, cut): (Account, Cut),
    mut shutdown: watch::Receiver<bool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (period, patience, traffic) = (shared.limits.stall, shared.limits.greeting, io.traffic.clone());
    let unsent = Arc::new(AtomicUsize::new(0));
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES).max_headers(MAX_FIELDS);
    let peer = Peer { http: true, ..peer };
    let front = Arc::new(Front {
        shared,
        peer,
        account: Mutex::new(account),
        unsent: unsent.clone(),
        traffic: traffic.clone(),
        last: Mutex::default(),
        is_paced: AtomicBool::new(false),
    });
    let service = service_fn(move |request| {
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    let repoll = Repoll::new();
    let mut cut = pin!(cut);
    let mut ticks = interval(period);
    // Not hyper's own timer, which costs each request an entry in the timers of all connections.
    let pause = (patience / LOOKS).max(Duration::from_millis(1));
    let mut looks = interval_at(Instant::now() + pause, pause);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut received, mut rests) = (0, 0);
    let (mut before, mut was_sending, mut closing) = (0, false, *shutdown.borrow());
    if closing {
        connection.as_mut().graceful_shutdown();
    }
    // hyper's buffer may have the last bytes of an answer, which count as taken over.
    let sending = || unsent.load(Ordering::Relaxed) > 0 || traffic.blocked.load(Ordering::Relaxed);
    loop {
        tokio::select! {
            ended = repoll.run(connection.as_mut()) => return ended.map_err(io::Error::other),
            _ = &mut cut => {
                let message = "too slow: other requests wait for the memory that this client holds";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            _ = looks.tick() => {
                let now = traffic.received.load(Ordering::Relaxed);
                let answers = traffic.answers.are_running() || sending();
                rests = if now == received && !answers { rests + 1 } else { 0 };
                received = now;
                traffic.answers.overdue.store(rests >= LOOKS, Ordering::Relaxed);
            }
            _ = ticks.tick() => {
                let now = traffic.written.load(Ordering::Relaxed);
                let sending = sending();
                if was_sending && sending && now - before < MIN_PROGRESS_BYTES {
                    return Err(stalled());
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

fn stalled() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "stalled in mid-answer")
}

/// The state that all requests of one HTTP connection share.
pub struct Front {
    shared: Arc<Shared>,
    peer: Peer,
    account: Mutex<Account>,
    /// Answers that the connection hasn't taken over whole.
    unsent: Arc<AtomicUsize>,
    traffic: Arc<Traffic>,
    /// The last good token. Each request still has to bring it. Its session stays meanwhile, since it
    /// would otherwise end with each request, and be made anew for the next one.
    last: Mutex<Option<Entry>>,
    /// The present request is a user's, or the pace has delayed it. A connection has one request at a time.
    is_paced: AtomicBool,
}

impl Drop for Front {
    fn drop(&mut self) {
        let last = self.last.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Entry { session, .. }) = last {
            self.shared.sessions.left(&session);
        }
    }
}

/// A request's own context, which ends with the request.
pub struct OfRequest(Arc<Context>);

impl Drop for OfRequest {
    fn drop(&mut self) {
        self.0.connection_lost();
    }
}

impl OfRequest {
    /// Checks whether the request's login still holds, for answers and uploads that take long.
    fn check_login(&self) -> strait_store::Result<()> {
        let Some(session) = self.0.attached() else { return Ok(()) };
        if session.has_ended() {
            return fail(ErrorKind::Unauthenticated, "the session has ended; log in again");
        }
        match session.identity() {
            Identity::User(login) => self.0.shared.sessions.check_login(&login),
            Identity::Anonymous(_) | Identity::Nobody(_) => Ok(()),
        }
    }
}

/// The identity of a request before its body is read.
pub struct Sender {
    /// The request's own context. An answer that still reads a file shares it.
    context: Arc<OfRequest>,
    /// The user or origin that it counts for.
    key: Key,
    /// It needs no login, or has one.
    known: bool,
}

impl Front {
    async fn answer(self: &Arc<Self>, request: Request<Incoming>) -> Response<Answer> {
        let _answering = Answering::new(self.traffic.answers.clone());
        let version = request.version();
        self.is_paced.store(false, Ordering::Relaxed);
        let mut response = self.answer_of(request).await;
        self.keep_pace().await;
        // To an answer of HTTP/1.1, hyper would add keep-alive beside close. Old clients look for the former.
        if version < Version::HTTP_11 && response.headers().contains_key(header::CONNECTION) {
            *response.version_mut() = version;
        }
        response
    }

    async fn answer_of(self: &Arc<Self>, request: Request<Incoming>) -> Response<Answer> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let stands_for_refused = head.method == Method::GET && path == joined::REFUSED;
        if let Some(refusal) = self.traffic.refusal.get().filter(|_| stands_for_refused) {
            return refused(refusal);
        }
        let site = match self.shared.http.check(&head) {
            Ok(site) => site,
            Err(refusal) => return refused(&refusal),
        };
        let mut response = match path {
            _ if head.method == Method::OPTIONS => match methods(path) {
                Some(methods) => site.options(&methods),
                None => unknown(),
            },
            thrift::PATH => thrift::answer(self, &head, body).await,
            _ => rest::answer(self, &head, body).await,
        };
        // A proxy may find the end of a chunked body elsewhere than hyper (RFC 9112, section 11.2).
        if head.headers.contains_key(header::TRANSFER_ENCODING) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        site.allow(response.headers_mut());
        response
    }

    /// Delays a request of a stranger, once, so that strangers don't keep the processors from users. Requests that
    /// are refused before their sender is known are delayed at their end.
    async fn keep_pace(&self) {
        if self.is_paced.swap(true, Ordering::Relaxed) {
            return;
        }
        let context = OfRequest(Arc::new(Context::new(self.shared.clone(), self.peer)));
        // Some need no login.
        if context.0.attributed().is_none() {
            let origin = Key::Origin(self.peer.origin());
            sleep_until(self.shared.pace.next(&origin, std::time::Instant::now()).into()).await;
        }
    }

    /// Runs a request's work for a user or an origin, in its turns if it has more requests than turns.
    async fn in_turns<F: Future>(&self, key: &Key, work: F) -> F::Output {
        let ready = self.shared.ready.holder(key);
        self.traffic.answers.engage(&ready);
        match processor::needs_turns(&ready) {
            true => processor::in_turns(ready, work).await,
            false => work.await,
        }
    }

    /// The request's own context, with the session of its bearer token if it has one.
    fn sender(&self, headers: &HeaderMap) -> Result<Sender, Refusal> {
        let context = Arc::new(OfRequest(Arc::new(Context::new(self.shared.clone(), self.peer))));
        let unauthorized =
            |message| Refusal::new(StatusCode::UNAUTHORIZED, ErrorKind::Unauthenticated, message);
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        if let Some(first) = given.next() {
            let token = first.to_str().ok().and_then(|text| text.split_once(' '));
            let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            let token = token.filter(|_| given.next().is_none());
            let (_, token) = token
                .ok_or(unauthorized("send one Authorization field, with a session's token: Bearer TOKEN"))?;
            let session = self.session_of(token.trim()).map_err(|error| match error.kind() {
                // The token is valid, and another login wouldn't help.
                ErrorKind::Busy => {
                    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, ErrorKind::Busy, TOO_MANY_SESSIONS)
                }
                _ => unauthorized("the token is wrong or has expired, or its login has ended; log in again"),
            })?;
            context.0.attach(Some(session));
        }
        let key = context.0.attributed();
        let known = key.is_some();
        if known {
            self.is_paced.store(true, Ordering::Relaxed);
        }
        let key = key.unwrap_or(Key::Origin(self.peer.origin()));
        self.account().set_holder(&key);
        Ok(Sender { context, key, known })
    }

    /// The session of a token: that of the request before, if it had the same one.
    fn session_of(&self, token: &str) -> strait_store::Result<Arc<Session>> {
        let sessions = &self.shared.sessions;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = last.as_ref().and_then(|last| sessions.enter_again(last, token, &self.peer)) {
            return Ok(session);
        }
        let entry = sessions.enter(token, &self.peer)?;
        let session = entry.session.clone();
        if let Some(before) = last.replace(entry) {
            sessions.left(&before.session);
        }
        Ok(session)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the memory of a body. None if it fits the connection's reserve.
    async fn memory(&self, bytes: usize) -> Option<Permit> {
        let (budget, holder, reserve) = {
            let account = self.account();
            (account.budget().clone(), account.holder().clone(), account.reserve_bytes())
        };
        match bytes {
            small if small <= reserve => None,
            large => Some(budget.wait(&holder, large).await),
        }
    }

    /// Refuses a request of HTTP/1.0 without Content-Length, for a method with a body. Nothing marks the
    /// end of such a body, so hyper takes it for an empty one.
    fn demand_length(head: &Parts) -> Result<(), Refusal> {
        match head.version < Version::HTTP_11 && !head.headers.contains_key(header::CONTENT_LENGTH) {
            true => {
                let message = "with HTTP/1.0, send a Content-Length, even 0";
                Err(Refusal::new(StatusCode::LENGTH_REQUIRED, ErrorKind::InvalidArgument, message))
            }
            false => Ok(()),
        }
    }
}

/// The methods of a target; none for an unknown one.
fn methods(path: &str) -> Option<String> {
    match path {
        // The server as a whole (RFC 9110, section 9.3.7).
        "*" => Some("GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS".to_owned()),
        thrift::PATH => Some("POST, OPTIONS".to_owned()),
        path => rest::methods(path),
    }
}

/// The answer for an unknown target.
fn unknown() -> Response<Answer> {
    let message = "no such resource; see /openapi.json, or POST to /thrift";
    refused(&Refusal::new(StatusCode::NOT_FOUND, ErrorKind::NotFound, message))
}

/// Runs a part of a request's work at stores. The work counts for `key` and stops when it is dropped.
/// If it panics, only this request fails.
async fn guarded<T>(
    key: Key,
    id: RequestId,
    work: impl Future<Output = strait_store::Result<T>>,
) -> strait_store::Result<T> {
    let work = turns::call(key, None, Box::pin(work));
    let done = AssertUnwindSafe(RequestId::scope(Some(id), work)).catch_unwind().await;
    done.unwrap_or_else(|_| {
        tracing::error!(request = %id, "a call panicked");
        Err(Error::new(ErrorKind::Internal, "the gateway or its store has a bug: the call panicked"))
    })
}
