//! A session on a gateway, across as many connections as needed.

mod calls;
mod own;

use super::attached::Attached;
use super::connection::Connection;
use super::convert;
use super::lanes::{Lane, Lanes, Turn};
use super::outage::Outage;
use super::reach::connect_to_any;
use super::renewal::Renewal;
use super::tls::{self, Tls, check_secrecy};
use super::{Options, Token};
use bytes::Bytes;
pub(super) use calls::{Retries, unknown};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
pub(super) use own::Lent;
use own::OwnConnections;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::work::Work;
use strait_store::{Error, ErrorKind, Result};
use strait_wire::{
    CloseFileRequest, CloseSessionRequest, DfsError, Method, OpenSessionReply, OpenSessionRequest,
    ProtocolVersion, Reply, Secret, methods,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

/// Time limit for connecting to a gateway.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a login by token. A server that accepts connections but exceeds it probably
/// speaks another protocol.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a login by password: its hash costs a gateway time by design, and waits in a
/// queue.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// A further connection takes two round trips, and two more with TLS. If it takes longer than this,
/// the call shares one with others.
const FURTHER_PATIENCE: Duration = Duration::from_secs(1);
/// An unreachable gateway counts as away for long after this time. It exceeds the pauses of one operation
/// together, so that the operation makes its last attempt.
const RETURN_WITHIN: Duration = Duration::from_secs(7);

/// Most handles to remember without a connection. A gateway bounds a session's open files, too.
const MAX_UNRELEASED: usize = 1024;

/// The attempted operation, for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) operation: &'static str,
    pub(super) path: &'a str,
}

/// Identifies one mutation through all its repetitions.
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
    /// [`Options::timeout`], or its default.
    timeout: Duration,
    lanes: Mutex<Lanes>,
    own: Mutex<OwnConnections>,
    /// The current attempt to connect after all connections were lost: one for all callers.
    connecting: Mutex<Option<Attempt>>,
    outage: Mutex<Outage>,
    /// Token of the latest login; replaces the one in `options`.
    token: Mutex<Option<Secret>>,
    renewal: Mutex<Renewal>,
    /// The session's latest incarnation.
    incarnation: AtomicI64,
    /// Handles to release with the next connection, each with the session's incarnation that knows it.
    unreleased: Mutex<Vec<(i64, i64)>>,
    tls: Option<Tls>,
}

/// Proof of identity for opening the session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The token of an earlier login.
    Token,
    /// The password, if there is a user; a token then only names the session.
    Password,
}

/// An attempt to connect, which adds its connection to the lanes. It is a task of its own, so that
/// a caller that isn't polled for a while doesn't delay others.
type Attempt = Shared<BoxFuture<'static, std::result::Result<(), Arc<Error>>>>;

/// Counts a connection being opened, until dropped.
struct Opening<'a>(&'a Mutex<Lanes>);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        lock(self.0).opening_done();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A poisoned lock is harmless: critical sections only move a value in or out.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Connects and logs in. It doesn't retry, since nothing can be lost yet.
    pub(super) async fn open(address: String, options: Options) -> Result<Arc<Self>> {
        let token = Mutex::new(options.token.clone());
        let tls = options.tls.as_ref().map(|tls| Tls::new(tls, &address)).transpose()?;
        let timeout = options.timeout.unwrap_or(super::DEFAULT_TIMEOUT);
        let session = Arc::new(Self {
            address,
            options,
            timeout,
            tls,
            lanes: Mutex::default(),
            own: Mutex::default(),
            connecting: Mutex::default(),
            outage: Mutex::default(),
            token,
            renewal: Mutex::default(),
            incarnation: AtomicI64::new(0),
            unreleased: Mutex::default(),
        });
        let subject = Subject { operation: "connect to", path: &session.address };
        session.by(session.limit(), subject, session.attached(Turn::Beside)).await??;
        Ok(session)
    }

    /// The end of [`Options::operation_timeout`] for an operation that begins now.
    pub(super) fn limit(&self) -> Option<Instant> {
        self.options.operation_timeout.and_then(|limit| Instant::now().checked_add(limit))
    }

    /// The time until which an operation that begins now may take: its [`Self::limit`], or the deadline of the
    /// call that this one serves, if that is earlier.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.limit().into_iter().chain(callers_deadline()).min()
    }

    /// Fails `work` at the deadline, if there is one.
    pub(super) async fn by<T>(
        &self,
        deadline: Option<Instant>,
        subject: Subject<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        let Some(deadline) = deadline else { return Ok(work.await) };
        timeout_at(deadline, work).await.map_err(|_| match self.options.operation_timeout {
            Some(limit) if callers_deadline() != Some(deadline) => self.beyond(limit, subject),
            _ => self.late("the gateway hadn't answered when the caller's deadline passed", subject),
        })
    }

    /// The error of an operation that took longer than its own limit.
    fn beyond(&self, limit: Duration, subject: Subject<'_>) -> Error {
        self.late(&format!("it took longer than its time limit of {} s", limit.as_secs_f64()), subject)
    }

    fn late(&self, why: &str, subject: Subject<'_>) -> Error {
        let message = format!("{}: {why}", self.address);
        Error::new(ErrorKind::TimedOut, message).at(subject.operation, subject.path)
    }

    /// A connection for a call: an unused one, a further one if all are in use and the call would
    /// wait there, or a new one if all were lost. It counts as used as long as the caller keeps it.
    pub(super) async fn attached(self: &Arc<Self>, turn: Turn) -> Result<Attached> {
        if let Some(lane) = self.pick(turn) {
            self.renew_token(&lane.attached);
            return Ok(self.own_lane(lane).await);
        }
        let attempt = self.attempt()?;
        attempt.await.map_err(|failed| failed.again().at("connect to", &self.address))?;
        match self.pick(turn) {
            Some(lane) => Ok(self.own_lane(lane).await),
            None => Err(self.unreachable("it closed the connection at once")),
        }
    }

    /// The current attempt to connect, or a new one.
    fn attempt(self: &Arc<Self>) -> Result<Attempt> {
        let mut connecting = lock(&self.connecting);
        // An attempt whose task was cancelled is still stored, but has ended.
        if let Some(attempt) = connecting.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return Ok(attempt.clone());
        }
        if let Some(failed) = lock(&self.outage).refuses(self.timeout.min(RETURN_WITHIN)) {
            return Err(failed.at("connect to", &self.address));
        }
        let session = self.clone();
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let attached = session.attach().await;
            let done = match attached {
                Ok(attached) => {
                    lock(&session.lanes).start(attached);
                    lock(&session.outage).is_back();
                    session.release_rest();
                    Ok(())
                }
                Err(error) => {
                    if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::TimedOut) {
                        lock(&session.outage).failed(began, &error);
                    }
                    Err(Arc::new(error))
                }
            };
            *lock(&session.connecting) = None;
            done
        });
        let done = async move {
            task.await.unwrap_or_else(|_| {
                let message = "the attempt to connect was cut off: the process is ending";
                Err(Arc::new(Error::new(ErrorKind::Unavailable, message)))
            })
        };
        Ok(connecting.insert(done.boxed().shared()).clone())
    }

    fn pick(&self, turn: Turn) -> Option<Lane> {
        lock(&self.lanes).pick(turn)
    }

    /// A further connection in place of one that others use, if one can be opened soon.
    async fn own_lane(&self, lane: Lane) -> Attached {
        if !lane.open_another {
            return lane.attached;
        }
        let opening = Opening(&self.lanes);
        let further = timeout(FURTHER_PATIENCE, self.join(&lane.attached)).await;
        let further = further.unwrap_or_else(|_| Err(self.unreachable("no answer")));
        if let Err(error) = &further {
            tracing::debug!(%error, "couldn't open a further connection; the call shares one");
        }
        let further = further.ok();
        lock(opening.0).opened(further.clone());
        further.unwrap_or(lane.attached)
    }

    /// The session's incarnation, as of its latest connection.
    pub(super) fn incarnation(&self) -> i64 {
        self.incarnation.load(Ordering::Acquire)
    }

    /// A further connection of the session, by its token only, since a login makes another session.
    async fn join(&self, first: &Attached) -> Result<Attached> {
        let Some(token) = lock(&self.token).clone() else {
            return Err(self.unreachable("it gave no token"));
        };
        let connection = self.connect().await?;
        let opened = self.log_in(&connection, Some(token), Proof::Token).await?;
        match opened.incarnation.unwrap_or(first.incarnation) {
            incarnation if incarnation == first.incarnation => {
                // Don't keep the token if a new session has replaced this one.
                if incarnation == self.incarnation() {
                    self.keep_token(&opened);
                }
                Ok(Attached::new(connection, opened, incarnation))
            }
            _ => Err(self.unreachable("another gateway now listens at this address")),
        }
    }

    /// Renews the token if that is due, on a connection of its own, so that other calls don't wait.
    fn renew_token(self: &Arc<Self>, first: &Attached) {
        if !lock(&self.renewal).take_due() {
            return;
        }
        let (session, first) = (self.clone(), first.clone());
        tokio::spawn(async move {
            if let Err(error) = session.join(&first).await {
                tracing::debug!(%error, "couldn't renew the token; another attempt follows later");
            }
        });
    }

    /// The session's first connection.
    async fn attach(&self) -> Result<Attached> {
        let connection = self.connect().await?;
        let token = lock(&self.token).clone();
        let opened = match token {
            // If the token isn't valid, the gateway opens a session by the password.
            Some(token) if self.options.always_send_password => {
                self.log_in(&connection, Some(token), Proof::Password).await?
            }
            Some(token) => match self.log_in(&connection, Some(token), Proof::Token).await {
                // The token has expired, or the gateway has another key by now.
                Err(error) if error.kind() == ErrorKind::Unauthenticated && self.may_log_in_anew() => {
                    self.log_in(&connection, None, Proof::Password).await?
                }
                opened => opened?,
            },
            None => self.log_in(&connection, None, Proof::Password).await?,
        };
        self.keep_token(&opened);
        // An older gateway sends no incarnation, so each connection may reach another session.
        let incarnation = opened.incarnation.unwrap_or_else(|| self.incarnation().wrapping_add(1));
        self.incarnation.store(incarnation, Ordering::Release);
        Ok(Attached::new(connection, opened, incarnation))
    }

    async fn connect(&self) -> Result<Connection> {
        self.talk(self.reach().await?).await
    }

    /// Connects, and checks that the login may take this way.
    async fn reach(&self) -> Result<TcpStream> {
        let patience = self.timeout.min(CONNECT_TIMEOUT);
        let seconds = patience.as_secs_f64();
        let until = Instant::now() + patience;
        let found = timeout_at(until, lookup_host(&self.address)).await.map_err(|_| {
            self.unreachable(&format!(
                "the host name {} couldn't be resolved within {seconds} s",
                self.host()
            ))
        })?;
        let addresses: Vec<SocketAddr> = found.map_err(|error| self.not_found(error))?.collect();
        let socket = connect_to_any(&addresses, until).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::TimedOut => self.unreachable(&format!("no connection within {seconds} s")),
            _ => self.not_connected(error),
        })?;
        check_secrecy(&self.options, socket.peer_addr().ok().map(|peer| peer.ip()))
            .map_err(|error| error.at("connect to", &self.address))?;
        // Requests leave whole, so waiting to fill a packet would only delay them. An error here
        // only costs speed.
        let _ = socket.set_nodelay(true);
        Ok(socket)
    }

    /// Clear text, or TLS if the options require it.
    async fn talk(&self, socket: TcpStream) -> Result<Connection> {
        let Some(tls) = &self.tls else {
            let (read, write) = socket.into_split();
            return Ok(Connection::new(read, write, self.timeout));
        };
        match timeout(self.timeout.min(CONNECT_TIMEOUT), tls.handshake(socket)).await {
            Ok(Ok(stream)) => {
                let (read, write) = tokio::io::split(stream);
                Ok(Connection::new(read, write, self.timeout))
            }
            Ok(Err(error)) => Err(tls::refused(error).at("connect to", &self.address)),
            Err(_) => Err(self.unreachable("TLS: no answer; does the gateway serve TLS?")),
        }
    }

    /// Whether a login without the token may follow if the token is invalid. False for a caller with only
    /// a token: the new session would be anonymous, so another user's.
    fn may_log_in_anew(&self) -> bool {
        self.options.user.is_some() || self.options.token.is_none()
    }

    /// The request to open or join the session, and the time to wait for its reply.
    fn opening(&self, token: Option<Secret>, proof: Proof) -> Result<(OpenSessionRequest, Duration)> {
        let by_password = proof == Proof::Password;
        let password = match (&self.options.password, &self.options.user) {
            (Some(password), _) if by_password => Some(password()?),
            _ => None,
        };
        let mut request = OpenSessionRequest {
            version: Some(ProtocolVersion::V1),
            store: self.options.store.clone(),
            user: self.options.user.clone().filter(|_| by_password),
            password,
            token,
            ..Default::default()
        };
        let patience = if request.password.is_some() { LOGIN_TIMEOUT } else { WELCOME_TIMEOUT };
        let patience = patience.min(self.timeout);
        request.deadline_ms = i32::try_from(patience.as_millis()).ok();
        Ok((request, patience))
    }

    async fn log_in(
        &self,
        connection: &Connection,
        token: Option<Secret>,
        proof: Proof,
    ) -> Result<OpenSessionReply> {
        let subject = Subject { operation: "connect to", path: &self.address };
        let (request, patience) = self.opening(token, proof)?;
        let request = request.into();
        match timeout(patience, connection.call::<methods::OpenSession>(&request, 0)).await {
            Ok(Ok(reply)) => outcome::<methods::OpenSession>(reply, subject).map_err(|error| {
                match error.kind() == ErrorKind::Unauthenticated && self.options.user.is_none() {
                    true => Error::new(
                        error.kind(),
                        format!("{}; give a user and a password (strait --user NAME)", error.message()),
                    )
                    .at(subject.operation, subject.path),
                    false => error,
                }
            }),
            Ok(Err(broken)) if broken.is_unauthenticated() => {
                let error = Error::new(ErrorKind::Unauthenticated, format!("TLS: {broken}"));
                Err(error.at(subject.operation, subject.path))
            }
            Ok(Err(broken)) if !broken.is_silence() => {
                let may_want_tls = self.tls.is_none() && !broken.is_of_stranger();
                let hint = if may_want_tls { "; does it serve TLS only (strait --tls)?" } else { "" };
                Err(self.unreachable(&format!("{broken}{hint}")))
            }
            _ => {
                let seconds = patience.as_secs_f64();
                let message = format!(
                    "no answer within {seconds} s: the gateway hangs, or another program listens there"
                );
                Err(Error::new(ErrorKind::TimedOut, message).at(subject.operation, subject.path))
            }
        }
    }

    /// Makes a login of the same user and store for other programs, which expires after `lifetime` at the
    /// latest. If `lent` is given, the gateway prolongs that login instead.
    pub(super) async fn lend(&self, lifetime: Duration, lent: Option<&Secret>) -> Result<Token> {
        let subject = Subject { operation: "lend the login at", path: &self.address };
        // A connection of its own: the gateway attaches it to the session that it opens.
        let connection = self.connect().await?;
        let request = OpenSessionRequest {
            version: Some(ProtocolVersion::V1),
            token: lock(&self.token).clone(),
            lend_ms: Some(i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX)),
            lent: lent.cloned(),
            ..Default::default()
        };
        let request = request.into();
        let asking = connection.call::<methods::OpenSession>(&request, 0);
        let opened = match timeout(WELCOME_TIMEOUT.min(self.timeout), asking).await {
            Ok(Ok(reply)) => outcome::<methods::OpenSession>(reply, subject)?,
            Ok(Err(broken)) => return Err(self.unreachable(&broken.to_string())),
            Err(_) => return Err(self.unreachable("no answer")),
        };
        let own = Some(self.incarnation());
        match opened.token {
            Some(token) if opened.incarnation.is_some() && opened.incarnation != own => {
                Ok(Token { token, expires_ms: opened.expires_ms.unwrap_or(0), user: opened.user })
            }
            _ => {
                let why = "this gateway is of an earlier version, and can't lend logins";
                Err(Error::new(ErrorKind::Unsupported, why).at(subject.operation, subject.path))
            }
        }
    }

    /// Ends the session of a lent token.
    pub(super) async fn take_back(self: &Arc<Self>, token: &Secret) -> Result<()> {
        let subject = Subject { operation: "take back the login at", path: &self.address };
        let request = CloseSessionRequest { session: Some(token.clone()), ..Default::default() };
        self.ask::<methods::CloseSession>(subject, 0, || request.clone().into()).await.map(drop)
    }

    /// Makes further connections use this token.
    pub(super) fn replace_token(&self, token: Secret) {
        *lock(&self.token) = Some(token);
    }

    fn keep_token(&self, opened: &OpenSessionReply) {
        let Some(token) = opened.token.clone() else { return };
        *lock(&self.token) = Some(token.clone());
        lock(&self.renewal).got(opened.expires_ms.unwrap_or(i64::MAX));
        if let Some(keep) = &self.options.on_token {
            let expires_ms = opened.expires_ms.unwrap_or(i64::MAX);
            keep(&Token { token, expires_ms, user: opened.user.clone() });
        }
    }

    /// The host of the gateway's address.
    fn host(&self) -> &str {
        self.address.rsplit_once(':').map_or(&self.address, |(host, _)| host)
    }

    /// The error for a host name that can't be resolved.
    fn not_found(&self, error: std::io::Error) -> Error {
        let why = format!("the host name {} can't be resolved; check its spelling ({error})", self.host());
        self.unreachable(&why).caused_by(error)
    }

    /// The error for a connection that couldn't be made.
    fn not_connected(&self, error: std::io::Error) -> Error {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => {
                "Connection refused: no program listens there; check the port, and that the gateway runs"
                    .to_owned()
            }
            _ => error.to_string(),
        };
        self.unreachable(&why).caused_by(error)
    }

    fn unreachable(&self, why: &str) -> Error {
        let message = format!("the gateway can't be reached: {why}");
        Error::new(ErrorKind::Unavailable, message).at("connect to", &self.address)
    }

    /// Makes the gateway forget a handle, without waiting. A writer's flushed bytes stay. Without a connection,
    /// the next one does it: the session may outlive the connection, and keep the handle's file busy.
    pub(super) fn release(&self, handle: i64) {
        // The lock is held, so that no connection begins between the look and the note.
        let mut lanes = lock(&self.lanes);
        let Some(lane) = lanes.least_used() else {
            let mut unreleased = lock(&self.unreleased);
            if unreleased.len() < MAX_UNRELEASED {
                unreleased.push((self.incarnation(), handle));
            }
            return;
        };
        drop(lanes);
        let Ok(mutation) = Mutation::new() else { return };
        let request = CloseFileRequest {
            request_id: mutation.id(),
            handle: Some(handle),
            abandon: Some(true),
            ..Default::default()
        };
        lane.connection.send_unanswered::<methods::CloseFile>(&request.into());
    }

    /// Releases the handles that had no connection.
    fn release_rest(&self) {
        let (handles, current) = (std::mem::take(&mut *lock(&self.unreleased)), self.incarnation());
        let known = handles.into_iter().filter(|(incarnation, _)| *incarnation == current);
        known.for_each(|(_, handle)| self.release(handle));
    }

    /// Ends the session on the gateway.
    pub(super) async fn close(&self) -> Result<()> {
        self.drop_own();
        let Some(lane) = lock(&self.lanes).least_used() else { return Ok(()) };
        let request = CloseSessionRequest::default().into();
        let subject = Subject { operation: "close", path: &self.address };
        let answered = lane.connection.call::<methods::CloseSession>(&request, 0).await;
        lock(&self.lanes).clear();
        match answered {
            Ok(reply) => outcome::<methods::CloseSession>(reply, subject).map(drop),
            Err(_) => Ok(()), // the session will idle out
        }
    }
}

/// The deadline of the call that this one serves, if that has one.
fn callers_deadline() -> Option<Instant> {
    Work::deadline().map(Instant::from)
}

/// The time left until a deadline, for a request. [`Options::timeout`] is no deadline: it starts with the
/// previous reply, at a time that the gateway can't know.
pub(super) fn time_left_ms(deadline: Option<Instant>) -> Option<i32> {
    let left = deadline?.saturating_duration_since(Instant::now());
    i32::try_from(left.as_micros().div_ceil(1_000)).ok()
}

/// Converts a reply to a result.
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
        Err(error) => convert::undecodable(error),
    };
    Err(error.at(subject.operation, subject.path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_lookup_of_the_host_s_name_is_named() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().max_blocking_threads(1).build().unwrap();
        // The lookup waits for the runtime's only blocking thread.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        runtime.spawn_blocking(move || wait.recv());
        let options = Options { timeout: Some(Duration::from_millis(10)), ..Options::default() };
        let opened = runtime.block_on(Session::open("gateway.test:9090".to_owned(), options));
        let error = opened.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let why = "the host name gateway.test couldn't be resolved within 0.01 s";
        assert!(error.message().ends_with(why), "{error}");
        drop(release);
    }
}
