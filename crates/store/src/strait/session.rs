//! A session on a gateway, across as many connections as it takes.

use super::connection::{Broken, Connection};
use super::convert;
use super::lanes::{Lane, Lanes, Turn};
use super::tls::{self, Tls, check_secrecy};
use super::{Options, Token};
use crate::{Capabilities, Error, ErrorKind, Result};
use bytes::Bytes;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_wire::{
    CloseFileRequest, CloseSessionRequest, DfsError, Method, OpenSessionReply, OpenSessionRequest,
    ProtocolVersion, Reply, Secret, methods,
};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// A gateway that doesn't take a connection within this time isn't there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// So long a gateway may take to let somebody in; who listens longer is likely
/// to be waiting for other words than ours.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// As [`WELCOME_TIMEOUT`], with a password, whose hashing costs a gateway time
/// by design and stands in a queue.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// A further connection takes two round trips, and two more with TLS. Who can't
/// have one within this time shares one with others.
const FURTHER_PATIENCE: Duration = Duration::from_secs(1);
/// Pauses before each further attempt after a connection broke. In all they
/// outlast a gateway's restart, and stay below [`crate::Error`]s' readers'
/// patience.
const RETRY_DELAYS: [Duration; 6] = [
    Duration::from_millis(0),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1_000),
    Duration::from_millis(2_000),
    Duration::from_millis(4_000),
];

/// What is tried, for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) operation: &'static str,
    pub(super) path: &'a str,
}

/// Names one mutation, however often it is sent.
#[derive(Debug, Clone)]
pub(super) struct Mutation {
    id: Bytes,
    pub(super) is_retry: bool,
}

impl Mutation {
    pub(super) fn new() -> Result<Self> {
        let mut id = [0u8; 16];
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the kernel gives no random bytes: {error}"))
        })?;
        Ok(Self { id: Bytes::copy_from_slice(&id), is_retry: false })
    }

    pub(super) fn id(&self) -> Option<Bytes> {
        Some(self.id.clone())
    }

    pub(super) fn is_retry(&self) -> Option<bool> {
        self.is_retry.then_some(true)
    }
}

/// A session, attached to its connections or about to be.
pub(super) struct Session {
    address: String,
    options: Options,
    lanes: Mutex<Lanes>,
    /// Held while connecting after all connections were lost, so that one
    /// caller connects for all.
    connecting: tokio::sync::Mutex<()>,
    /// Of the latest login; replaces the one in `options`.
    token: Mutex<Option<Secret>>,
    /// The session's latest.
    incarnation: AtomicI64,
    tls: Option<Tls>,
}

/// A connection that the session is attached to.
#[derive(Clone)]
pub(super) struct Attached {
    pub(super) connection: Arc<Connection>,
    pub(super) capabilities: Capabilities,
    /// Most bytes of one read or append here.
    pub(super) max_chunk_bytes: usize,
    /// Of the session: what was opened in another one is gone.
    pub(super) incarnation: i64,
}

impl Attached {
    fn new(connection: Connection, opened: OpenSessionReply, incarnation: i64) -> Self {
        let max_chunk_bytes = opened.limits.and_then(|limits| limits.max_chunk_bytes);
        Self {
            connection: Arc::new(connection),
            incarnation,
            capabilities: convert::capabilities(&opened.store.unwrap_or_default()),
            max_chunk_bytes: max_chunk_bytes
                .and_then(|bytes| usize::try_from(bytes).ok())
                .filter(|bytes| *bytes > 0)
                .map_or(crate::MAX_CHUNK_BYTES, |bytes| bytes.min(crate::MAX_CHUNK_BYTES)),
        }
    }

    /// Whether both are of one session, with the same handles.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.incarnation == other.incarnation
    }
}

/// Counts a connection that is being opened, until dropped.
struct Opening<'a>(&'a Mutex<Lanes>);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(self.0).opening_done();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Critical sections only move a value in or out.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Connects and logs in; no second attempt, since nothing is at stake yet.
    pub(super) async fn open(address: String, options: Options) -> Result<Self> {
        let token = Mutex::new(options.token.clone());
        let tls = options.tls.as_ref().map(|tls| Tls::new(tls, &address)).transpose()?;
        let session = Self {
            address,
            options,
            tls,
            lanes: Mutex::default(),
            connecting: Default::default(),
            token,
            incarnation: AtomicI64::new(0),
        };
        session.attached(Turn::Beside).await?;
        Ok(session)
    }

    /// A connection for a call: one that nobody uses, a further one where all
    /// are in use and it would wait there, or a new one where all were lost. It
    /// counts as used as long as the caller keeps it.
    pub(super) async fn attached(&self, turn: Turn) -> Result<Attached> {
        if let Some(lane) = self.pick(turn) {
            return Ok(self.own_lane(lane).await);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(lane) = self.pick(turn) {
            return Ok(self.own_lane(lane).await); // somebody else has connected meanwhile
        }
        let attached = self.attach().await?;
        lock(&self.lanes).start(attached.clone());
        Ok(attached)
    }

    fn pick(&self, turn: Turn) -> Option<Lane> {
        lock(&self.lanes).pick(turn)
    }

    /// A further connection in place of one that others use, if it is to be had
    /// soon.
    async fn own_lane(&self, lane: Lane) -> Attached {
        if !lane.open_another {
            return lane.attached;
        }
        let opening = Opening(&self.lanes);
        let further = timeout(FURTHER_PATIENCE, self.join(&lane.attached)).await;
        let further = further.unwrap_or_else(|_| Err(self.unreachable("no answer")));
        if let Err(error) = &further {
            tracing::debug!(%error, "no further connection");
        }
        let further = further.ok();
        lock(opening.0).opened(further.clone());
        further.unwrap_or(lane.attached)
    }

    /// The session's incarnation, as of its latest connection.
    pub(super) fn incarnation(&self) -> i64 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// A further connection of the session: by its token, and by nothing else,
    /// since a login makes another session.
    async fn join(&self, first: &Attached) -> Result<Attached> {
        let Some(token) = lock(&self.token).clone() else {
            return Err(self.unreachable("it gave no token"));
        };
        let connection = self.connect().await?;
        let opened = self.log_in(&connection, Some(token)).await?;
        match opened.incarnation.unwrap_or(first.incarnation) {
            incarnation if incarnation == first.incarnation => {
                Ok(Attached::new(connection, opened, incarnation))
            }
            _ => Err(self.unreachable("the address leads to another gateway by now")),
        }
    }

    /// The session's first connection.
    async fn attach(&self) -> Result<Attached> {
        let connection = self.connect().await?;
        let token = lock(&self.token).clone();
        let opened = match token {
            Some(token) => match self.log_in(&connection, Some(token)).await {
                // Expired, or of a gateway that has another key by now.
                Err(error) if error.kind() == ErrorKind::Unauthenticated && self.may_log_in_anew() => {
                    self.log_in(&connection, None).await?
                }
                opened => opened?,
            },
            None => self.log_in(&connection, None).await?,
        };
        self.keep_token(&opened);
        // An older gateway doesn't tell: then it may be another one each time.
        let incarnation = opened.incarnation.unwrap_or_else(|| self.incarnation().wrapping_add(1));
        self.incarnation.store(incarnation, Ordering::Release);
        Ok(Attached::new(connection, opened, incarnation))
    }

    async fn connect(&self) -> Result<Connection> {
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.address));
        let socket = match connecting.await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(self.unreachable(&error.to_string()).caused_by(error)),
            Err(_) => return Err(self.unreachable("no answer")),
        };
        check_secrecy(&self.options, socket.peer_addr().ok().map(|peer| peer.ip()))
            .map_err(|error| error.at("connect to", &self.address))?;
        self.talk(socket).await
    }

    /// In clear text, or by TLS if the options say so.
    async fn talk(&self, socket: TcpStream) -> Result<Connection> {
        // Requests go out whole: waiting to fill a packet would only delay them.
        // An error here costs speed, nothing else.
        let _ = socket.set_nodelay(true);
        let Some(tls) = &self.tls else {
            let (read, write) = socket.into_split();
            return Ok(Connection::new(read, write));
        };
        match timeout(CONNECT_TIMEOUT, tls.handshake(socket)).await {
            Ok(Ok(stream)) => {
                let (read, write) = tokio::io::split(stream);
                Ok(Connection::new(read, write))
            }
            Ok(Err(error)) => Err(tls::refused(error).at("connect to", &self.address)),
            Err(_) => Err(self.unreachable("TLS: no answer; does it serve TLS?")),
        }
    }

    /// Not with a token that was given to us alone: an anonymous session in
    /// its place would be somebody else's.
    fn may_log_in_anew(&self) -> bool {
        self.options.user.is_some() || self.options.token.is_none()
    }

    async fn log_in(&self, connection: &Connection, token: Option<Secret>) -> Result<OpenSessionReply> {
        let by_password = token.is_none();
        let password = match (&self.options.password, &self.options.user) {
            (Some(password), _) if by_password => Some(password()?),
            _ => None,
        };
        let request = OpenSessionRequest {
            version: Some(ProtocolVersion::V1),
            store: self.options.store.clone(),
            user: self.options.user.clone().filter(|_| by_password),
            password,
            token,
        };
        let subject = Subject { operation: "connect to", path: &self.address };
        let patience = if request.password.is_some() { LOGIN_TIMEOUT } else { WELCOME_TIMEOUT };
        let request = request.into();
        match timeout(patience, connection.call::<methods::OpenSession>(&request, 0)).await {
            Ok(Ok(reply)) => outcome::<methods::OpenSession>(reply, subject),
            Ok(Err(broken)) => Err(self.unreachable(&broken.to_string())),
            Err(_) => {
                let seconds = patience.as_secs();
                let message = format!(
                    "no answer within {seconds} s: the gateway hangs, or something else listens there"
                );
                Err(Error::new(ErrorKind::TimedOut, message).at(subject.operation, subject.path))
            }
        }
    }

    fn keep_token(&self, opened: &OpenSessionReply) {
        let Some(token) = opened.token.clone() else { return };
        *lock(&self.token) = Some(token.clone());
        if let Some(keep) = &self.options.on_token {
            let expires_ms = opened.expires_ms.unwrap_or(i64::MAX);
            keep(&Token { token, expires_ms, user: opened.user.clone() });
        }
    }

    fn unreachable(&self, why: &str) -> Error {
        let message = format!("the gateway can't be reached: {why}");
        Error::new(ErrorKind::Unavailable, message).at("connect to", &self.address)
    }

    /// Calls what can be repeated without harm.
    pub(super) async fn ask<M>(
        &self,
        subject: Subject<'_>,
        payload_bytes: usize,
        args: impl Fn() -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError>,
    {
        self.call::<M>(subject, payload_bytes, |_| args()).await.map_err(|(error, _)| error)
    }

    /// Calls what must happen once: sent again only as a marked repetition.
    pub(super) async fn change<M>(
        &self,
        subject: Subject<'_>,
        args: impl Fn(&Mutation) -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError>,
    {
        let mut mutation = Mutation::new()?;
        let called = self.call::<M>(subject, 0, |is_retry| {
            mutation.is_retry = is_retry;
            args(&mutation)
        });
        called.await.map_err(|(error, unanswered)| if unanswered { unknown(error, subject) } else { error })
    }

    /// Calls again after each broken connection, and once after a session that
    /// has ended. An error says whether a call went unanswered.
    async fn call<M>(
        &self,
        subject: Subject<'_>,
        payload_bytes: usize,
        mut args: impl FnMut(bool) -> M::Args,
    ) -> std::result::Result<M::Success, (Error, bool)>
    where
        M: Method<Exception = DfsError>,
    {
        let mut delays = RETRY_DELAYS.iter();
        let mut unanswered = false;
        let mut logged_in_again = false;
        loop {
            let failure = match self.attached(turn::<M>()).await {
                Ok(attached) => match attached.connection.call::<M>(&args(unanswered), payload_bytes).await {
                    Ok(reply) => match outcome::<M>(reply, subject) {
                        Err(error) if self.session_ended(&error, &attached) && !logged_in_again => {
                            logged_in_again = true;
                            continue;
                        }
                        result => return result.map_err(|error| (error, false)),
                    },
                    Err(broken) => {
                        unanswered = true;
                        self.lost(&broken, subject)
                    }
                },
                Err(error) if error.kind() == ErrorKind::Unavailable => error,
                Err(error) => return Err((error, unanswered)),
            };
            match delays.next() {
                Some(delay) => sleep(*delay).await,
                None => return Err((failure, unanswered)),
            }
        }
    }

    /// Whether the gateway says that nobody is logged in; the connections aren't
    /// used any more then.
    fn session_ended(&self, error: &Error, used: &Attached) -> bool {
        let ended = error.kind() == ErrorKind::Unauthenticated;
        if ended {
            lock(&self.lanes).give_up(used);
        }
        ended
    }

    /// A broken connection as an error.
    pub(super) fn lost(&self, broken: &Broken, subject: Subject<'_>) -> Error {
        tracing::debug!(gateway = self.address, operation = subject.operation, %broken, "connection lost");
        let message = format!("the connection to {} broke: {broken}", self.address);
        Error::new(ErrorKind::Unavailable, message).at(subject.operation, subject.path)
    }

    /// Hands a handle back without waiting: of a writer this closes the file
    /// with what was accepted; after a broken connection the session's end
    /// does it.
    pub(super) fn release(&self, handle: i64) {
        let (Some(lane), Ok(mutation)) = (self.pick(Turn::Beside), Mutation::new()) else { return };
        let request =
            CloseFileRequest { request_id: mutation.id(), handle: Some(handle), ..Default::default() };
        let _ = lane.attached.connection.send_uncounted::<methods::CloseFile>(&request.into());
    }

    /// Ends the session on the gateway.
    pub(super) async fn close(&self) -> Result<()> {
        let Some(lane) = self.pick(Turn::Beside) else { return Ok(()) };
        let request = CloseSessionRequest::default().into();
        let subject = Subject { operation: "close", path: &self.address };
        let answered = lane.attached.connection.call::<methods::CloseSession>(&request, 0).await;
        lock(&self.lanes).clear();
        match answered {
            Ok(reply) => outcome::<methods::CloseSession>(reply, subject).map(drop),
            Err(_) => Ok(()), // then it ends by itself
        }
    }
}

/// How the gateway runs this method beside others on one connection.
fn turn<M: Method>() -> Turn {
    if M::NAME == methods::ReadRange::NAME { Turn::Beside } else { Turn::InOrder }
}

/// After how long to try again for the `attempt`th time, counted from 0; none
/// when it has been enough.
pub(super) fn retry_delay(attempt: usize) -> Option<Duration> {
    RETRY_DELAYS.get(attempt).copied()
}

/// A mutation whose fate can't be learnt.
pub(super) fn unknown(cause: Error, subject: Subject<'_>) -> Error {
    let message = format!("whether it happened can't be known: {}", cause.message());
    Error::new(ErrorKind::OutcomeUnknown, message).caused_by(cause).at(subject.operation, subject.path)
}

/// A reply as a result.
pub(super) fn outcome<M>(
    reply: std::result::Result<Reply<M>, strait_wire::DecodeError>,
    subject: Subject<'_>,
) -> Result<M::Success>
where
    M: Method<Exception = DfsError>,
{
    let error = match reply {
        Ok(Reply::Success(success)) => return Ok(success),
        Ok(Reply::Exception(told)) => return Err(convert::error(told, subject.operation, subject.path)),
        Ok(Reply::Application(told)) => convert::application_error(told),
        Err(error) => convert::senseless(error),
    };
    Err(error.at(subject.operation, subject.path))
}
