//! A session on a gateway, across as many connections as needed.

use super::attached::Attached;
use super::connection::{Answered, Broken, Connection};
use super::convert;
use super::lanes::{Lane, Lanes, Turn};
use super::outage::Outage;
use super::renewal::Renewal;
use super::tls::{self, Tls, check_secrecy};
use super::{Options, Token};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::work::Work;
use strait_store::{Error, ErrorKind, Result};
use strait_wire::{
    CloseFileRequest, CloseSessionRequest, DfsError, Method, OpenSessionReply, OpenSessionRequest,
    ProtocolVersion, Reply, Secret, ServerInfoRequest, Timed, methods,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout, timeout_at};

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
/// Pauses before each further attempt after a connection broke. Together they outlast a gateway's restart,
/// and are short enough for people who wait for the error. No attempt begins later than [`Options::timeout`]
/// after the first failure. The upper half of each is random.
const RETRY_DELAYS: [Duration; 9] = [
    Duration::from_millis(0),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
    Duration::from_millis(1_000),
];

/// An unreachable gateway counts as away for long after this time. It exceeds the pauses of one operation
/// together, so that the operation makes its last attempt.
const RETURN_WITHIN: Duration = Duration::from_secs(7);

/// Methods whose work grows with the data: the gateway answers when it is done.
const LONG_WORK: [&str; 4] = [
    methods::GetChecksum::NAME,
    methods::RemovePath::NAME,
    methods::FlushFile::NAME,
    methods::CloseFile::NAME,
];

/// Changes that do no harm if they are executed twice: `AppendFile` opens a file as it is, `CloseFile` ends a
/// handle. If the gateway refuses one, the caller can repeat it, even if earlier attempts were executed.
const HARMLESS_TWICE: [&str; 2] = [methods::AppendFile::NAME, methods::CloseFile::NAME];

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
    /// The current attempt to connect after all connections were lost: one for all callers.
    connecting: Mutex<Option<Attempt>>,
    outage: Mutex<Outage>,
    /// Token of the latest login; replaces the one in `options`.
    token: Mutex<Option<Secret>>,
    renewal: Mutex<Renewal>,
    /// The session's latest incarnation.
    incarnation: AtomicI64,
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
            connecting: Mutex::default(),
            outage: Mutex::default(),
            token,
            renewal: Mutex::default(),
            incarnation: AtomicI64::new(0),
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
        timeout_at(deadline, work).await.map_err(|_| {
            let why = match self.options.operation_timeout {
                Some(limit) if callers_deadline() != Some(deadline) => {
                    format!("it took longer than its time limit of {} s", limit.as_secs_f64())
                }
                _ => "the caller's deadline passed before it answered".to_owned(),
            };
            let message = format!("{}: {why}", self.address);
            Error::new(ErrorKind::TimedOut, message).at(subject.operation, subject.path)
        })
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
            _ => Err(self.unreachable("the address leads to another gateway by now")),
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
        let patience = self.timeout.min(CONNECT_TIMEOUT);
        let mut is_resolved = false;
        let reached = async {
            let found = lookup_host(&self.address).await.map_err(|error| self.not_found(error))?;
            is_resolved = true;
            let addresses: Vec<SocketAddr> = found.collect();
            TcpStream::connect(&addresses[..]).await.map_err(|error| self.not_connected(error))
        };
        let reached = timeout(patience, reached).await;
        let socket = reached.unwrap_or_else(|_| {
            let seconds = patience.as_secs_f64();
            Err(self.unreachable(&match is_resolved {
                true => format!("nothing answers there within {seconds} s"),
                false => format!("the host name {} couldn't be resolved within {seconds} s", self.host()),
            }))
        })?;
        check_secrecy(&self.options, socket.peer_addr().ok().map(|peer| peer.ip()))
            .map_err(|error| error.at("connect to", &self.address))?;
        self.talk(socket).await
    }

    /// Clear text, or TLS if the options require it.
    async fn talk(&self, socket: TcpStream) -> Result<Connection> {
        // Requests leave whole, so waiting to fill a packet would only delay them. An error here
        // only costs speed.
        let _ = socket.set_nodelay(true);
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

    async fn log_in(
        &self,
        connection: &Connection,
        token: Option<Secret>,
        proof: Proof,
    ) -> Result<OpenSessionReply> {
        let by_password = proof == Proof::Password;
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
            ..Default::default()
        };
        let subject = Subject { operation: "connect to", path: &self.address };
        let patience = if request.password.is_some() { LOGIN_TIMEOUT } else { WELCOME_TIMEOUT };
        let patience = patience.min(self.timeout);
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
                let hint = if self.tls.is_none() { "; does it serve TLS only (strait --tls)?" } else { "" };
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

    /// Calls a method that can be repeated without harm.
    pub(super) async fn ask<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        args: impl Fn() -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        self.call::<M>(subject, payload_bytes, |_| args()).await.map_err(|(error, _)| error)
    }

    /// Calls a method that must be executed once. A repetition is marked as such.
    pub(super) async fn change<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        args: impl Fn(&Mutation) -> M::Args,
    ) -> Result<M::Success>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let mut mutation = Mutation::new()?;
        let called = self.call::<M>(subject, 0, |is_retry| {
            mutation.is_retry = is_retry;
            args(&mutation)
        });
        called.await.map_err(|(error, unanswered)| if unanswered { unknown(error, subject) } else { error })
    }

    /// As [`Self::repeat`], but fails at the [`Self::deadline`].
    async fn call<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        mut args: impl FnMut(bool) -> M::Args,
    ) -> std::result::Result<M::Success, (Error, bool)>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let deadline = self.deadline();
        // Without our limit in requests that the gateway runs beside others: of a stream of them, each has its
        // own time.
        let told = if turn::<M>() == Turn::InOrder { deadline } else { callers_deadline() };
        let sent = AtomicBool::new(false);
        let answered = self.repeat::<M>(subject, payload_bytes, |is_retry| {
            sent.store(true, Ordering::Relaxed);
            let mut args = args(is_retry);
            args.set_deadline_ms(time_left_ms(told));
            args
        });
        let answered = self.by(deadline, subject, answered).await;
        answered.unwrap_or_else(|late| Err((late, sent.load(Ordering::Relaxed))))
    }

    /// Repeats a call after each broken connection, and once if the session has ended. With an error it
    /// returns whether a call went unanswered.
    async fn repeat<M>(
        self: &Arc<Self>,
        subject: Subject<'_>,
        payload_bytes: usize,
        mut args: impl FnMut(bool) -> M::Args,
    ) -> std::result::Result<M::Success, (Error, bool)>
    where
        M: Method<Exception = DfsError, Args: Timed>,
    {
        let mut retries = Retries::default();
        let mut unanswered = false;
        let mut logged_in_again = false;
        loop {
            let failure = match self.attached(turn::<M>()).await {
                Ok(attached) => match self.answer::<M>(&attached, args(unanswered), payload_bytes).await {
                    Ok(reply) => match outcome::<M>(reply, subject) {
                        Err(error) if self.session_ended(&error, &attached) && !logged_in_again => {
                            logged_in_again = true;
                            continue;
                        }
                        // The call may have been executed before the session ended.
                        Err(error) if error.kind() == ErrorKind::Unauthenticated => {
                            return Err((error, unanswered));
                        }
                        // The refusal says nothing about an earlier attempt, which this gateway may not know.
                        Err(error) => {
                            let unknown =
                                unanswered && error.retry_safe() && !HARMLESS_TWICE.contains(&M::NAME);
                            return Err((error, unknown));
                        }
                        Ok(success) => return Ok(success),
                    },
                    Err(broken) if broken.is_silence() => return Err((self.lost(&broken, subject), true)),
                    Err(broken) => {
                        unanswered = true;
                        self.lost(&broken, subject)
                    }
                },
                Err(error) => match self.not_attached(error, subject) {
                    error if error.kind() == ErrorKind::Unavailable => error,
                    error => return Err((error, unanswered)),
                },
            };
            match retries.next(self) {
                Some(delay) => sleep(delay).await,
                None => return Err((failure, unanswered)),
            }
        }
    }

    /// The failure of an operation without a connection. Its path is the operation's, and its message
    /// names the gateway.
    fn not_attached(&self, error: Error, subject: Subject<'_>) -> Error {
        let message = match error.message().contains(&self.address) {
            true => error.message().to_owned(),
            false => format!("{}: {}", self.address, error.message()),
        };
        Error::new(error.kind(), message)
            .with_retry_safe(error.retry_safe())
            .at(subject.operation, subject.path)
            .caused_by(error)
    }

    /// One call on one connection.
    async fn answer<M: Method>(&self, on: &Attached, args: M::Args, payload_bytes: usize) -> Answered<M> {
        match LONG_WORK.contains(&M::NAME) {
            true => on.connection.call_until_done::<M, _>(&args, || self.is_there()).await,
            false => on.connection.call::<M>(&args, payload_bytes).await,
        }
    }

    /// Whether the gateway answers on another connection. If it closes that one, it is alive, too.
    async fn is_there(&self) -> bool {
        let asked = async {
            let connection = self.connect().await.map_err(drop)?;
            let asked = ServerInfoRequest::default().into();
            match connection.call::<methods::ServerInfo>(&asked, 0).await {
                Err(broken) if broken.is_silence() => Err(()),
                _ => Ok(()),
            }
        };
        timeout(self.timeout, asked).await.is_ok_and(|answered| answered.is_ok())
    }

    /// Whether the gateway reports that the session is no longer logged in. If so, drops its
    /// connections.
    fn session_ended(&self, error: &Error, used: &Attached) -> bool {
        let ended = error.kind() == ErrorKind::Unauthenticated;
        if ended {
            lock(&self.lanes).give_up(used);
        }
        ended
    }

    /// A broken connection as an error.
    pub(super) fn lost(&self, broken: &Broken, subject: Subject<'_>) -> Error {
        if broken.is_silence() {
            let error = Error::new(ErrorKind::TimedOut, format!("{}: {broken}", self.address));
            lock(&self.outage).silent_for(self.timeout, &error);
            return error.at(subject.operation, subject.path);
        }
        tracing::debug!(gateway = self.address, operation = subject.operation, %broken, "connection lost");
        let message = format!("the connection to {} broke: {broken}", self.address);
        Error::new(ErrorKind::Unavailable, message).at(subject.operation, subject.path)
    }

    /// Makes the gateway forget a handle, without waiting. A writer's flushed bytes stay. If the connection
    /// is broken, the handle ends with the session.
    pub(super) fn release(&self, handle: i64) {
        let (Some(lane), Ok(mutation)) = (self.pick(Turn::Beside), Mutation::new()) else { return };
        let request = CloseFileRequest {
            request_id: mutation.id(),
            handle: Some(handle),
            abandon: Some(true),
            ..Default::default()
        };
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

/// How the gateway runs this method beside others on one connection.
fn turn<M: Method>() -> Turn {
    if M::NAME == methods::ReadRange::NAME { Turn::Beside } else { Turn::InOrder }
}

/// Counts the further attempts of one operation.
#[derive(Default)]
pub(super) struct Retries {
    made: usize,
    failed_at: Option<Instant>,
}

impl Retries {
    /// The pause before the next attempt; none if there is no further attempt.
    pub(super) fn next(&mut self, session: &Session) -> Option<Duration> {
        let failed_at = *self.failed_at.get_or_insert_with(Instant::now);
        let delay = jittered(*RETRY_DELAYS.get(self.made)?);
        self.made += 1;
        let in_time = failed_at.elapsed() + delay <= session.timeout;
        let long = session.timeout.min(RETURN_WITHIN);
        (in_time && !lock(&session.outage).for_long(long)).then_some(delay)
    }
}

/// A pause between half of `longest` and all of it, so that the clients of one gateway don't return all at
/// the same time.
fn jittered(longest: Duration) -> Duration {
    let mut random = [0];
    // Without random bytes, the pause is the shortest one.
    let _ = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    longest / 2 + longest / 2 * u32::from(random[0]) / u32::from(u8::MAX)
}

/// The error for a mutation with an unknown outcome.
pub(super) fn unknown(cause: Error, subject: Subject<'_>) -> Error {
    let message = format!("the operation may have been executed, or not: {}", cause.message());
    Error::new(ErrorKind::OutcomeUnknown, message).caused_by(cause).at(subject.operation, subject.path)
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

    #[test]
    fn pauses_differ_and_keep_their_bounds() {
        let longest = Duration::from_secs(1);
        let pauses: Vec<Duration> = (0..64).map(|_| jittered(longest)).collect();
        assert!(pauses.iter().all(|pause| (longest / 2..=longest).contains(pause)), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{pauses:?}");
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}
