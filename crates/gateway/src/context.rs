//! A connection's peer, and the sessions that serve its calls.

use crate::peer::Peer;
use crate::pool::Key;
use crate::session::{Identity, Session, Sessions};
use crate::shared::Shared;
use crate::token::Login;
use crate::turns;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{Error, ErrorKind, FileSystem, Principal, Result, fail};
use strait_wire::Secret;

/// The state of a connection that its calls use.
pub struct Context {
    /// The gateway.
    pub shared: Arc<Shared>,
    /// The client.
    pub peer: Peer,
    current: Mutex<Current>,
    /// Counts changes that may affect [`Context::attributed`].
    changes: AtomicU64,
    /// Whether the latest request must not run without its client, and began after the client had
    /// left.
    left: AtomicBool,
}

/// The sessions that a connection uses.
#[derive(Default)]
struct Current {
    /// Sessions of the 2009 service, latest last. They end with the connection.
    legacy: VecDeque<Arc<Session>>,
    /// Name of the store of the first 2009 session.
    legacy_store: Option<String>,
    /// Whether a later 2009 session was on another store.
    legacy_stores_differ: bool,
    /// The session of DfsV2 that was opened on the connection. It outlives the connection for a while.
    attached: Option<Arc<Session>>,
    /// Other sessions that requests named by token, latest last. They stay in use as long as the
    /// connection lasts.
    by_token: VecDeque<Arc<Session>>,
}

/// Sessions that a connection keeps in use because requests named their tokens. A usual client has
/// one; a program that speaks for many users has many, and uses the latest.
const MAX_BY_TOKEN: usize = 64;

/// Sessions of the 2009 service that a connection may have. A program that calls `init` again and again
/// ends its oldest.
const MAX_LEGACY: usize = 64;

impl Context {
    /// The state of a new connection.
    pub fn new(shared: Arc<Shared>, peer: Peer) -> Self {
        Self {
            shared,
            peer,
            current: Mutex::default(),
            changes: AtomicU64::new(0),
            left: AtomicBool::new(false),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that this connection's requests count for: a user, or the origin of a client that
    /// needs no login. None while a login is needed and no user has logged in.
    pub fn attributed(&self) -> Option<Key> {
        self.find_identity(|identity| self.key_of(identity))
    }

    /// Whether [`Context::attributed`] has a key. Doesn't make the key.
    pub fn is_attributed(&self) -> bool {
        self.find_identity(|identity| (!matches!(identity, Identity::Nobody(_))).then_some(())).is_some()
    }

    /// Calls `find` with the identities of this connection's sessions, then with that of a client without
    /// a login. Returns the first result that isn't None.
    fn find_identity<T>(&self, find: impl Fn(&Identity) -> Option<T>) -> Option<T> {
        let of_sessions = {
            let current = self.current();
            [current.attached.as_ref(), current.by_token.back(), current.legacy.back()]
                .into_iter()
                .flatten()
                .filter(|session| !session.has_ended())
                .find_map(|session| session.with_identity(&find))
        };
        of_sessions.or_else(|| find(&self.shared.sessions.stranger(&self.peer)))
    }

    /// The key that this session's requests count for, on this connection or another.
    pub fn key_of_session(&self, session: &Session) -> Key {
        self.key_of(&session.identity()).unwrap_or(Key::Origin(self.peer.origin()))
    }

    fn key_of(&self, identity: &Identity) -> Option<Key> {
        match identity {
            Identity::Nobody(_) => None,
            known => Some(known.key(self.peer.origin())),
        }
    }

    /// The key that this connection's requests count for; its origin's while there is no other.
    pub fn key(&self) -> Key {
        self.attributed().unwrap_or(Key::Origin(self.peer.origin()))
    }

    /// A number that differs from earlier ones if [`Context::attributed`] may have changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Records a login or logout.
    pub fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Records, for a request that begins now, whether it needs its client and the client has left.
    pub fn note_left(&self, has_left: bool) {
        self.left.store(has_left, Ordering::Release);
    }

    /// Fails if the client had left before its change began: the client may have repeated the change
    /// at another gateway.
    ///
    /// # Errors
    /// Unavailable: the client had left. The gateway changes nothing.
    pub fn demand_client(&self) -> Result<()> {
        if !self.left.load(Ordering::Acquire) {
            return Ok(());
        }
        let message = "the client closed its sending side before the gateway began the change; keep it open \
                       until the answer, or leave out the request id";
        fail(ErrorKind::Unavailable, message)
    }

    /// The connection's own session of the 2009 service: the latest that it has.
    pub fn legacy(&self) -> Option<Arc<Session>> {
        self.current().legacy.back().cloned()
    }

    /// The session that serves calls with unknown client handles: the connection's own. None if the
    /// handle may have meant another store.
    pub fn legacy_for_unknown(&self) -> Option<Arc<Session>> {
        let current = self.current();
        current.legacy.back().filter(|_| !current.legacy_stores_differ).cloned()
    }

    /// Makes a session the connection's own. Earlier ones stay, for calls that name them.
    pub fn add_legacy(&self, session: Arc<Session>) {
        session.attach();
        let surplus = {
            let mut current = self.current();
            let store = current.legacy_store.get_or_insert_with(|| session.store.name.clone());
            current.legacy_stores_differ |= *store != session.store.name;
            current.legacy.push_back(session);
            if current.legacy.len() > MAX_LEGACY { current.legacy.pop_front() } else { None }
        };
        self.note_change();
        self.end_legacy(surplus);
    }

    /// Removes a session from the connection's own, if it is one of them.
    pub fn remove_legacy(&self, id: u128) {
        let removed = {
            let mut current = self.current();
            let at = current.legacy.iter().position(|own| own.id == id);
            at.and_then(|at| current.legacy.remove(at))
        };
        self.note_change();
        self.end_legacy(removed);
    }

    fn end_legacy(&self, sessions: impl IntoIterator<Item = Arc<Session>>) {
        for session in sessions {
            session.detach();
            self.shared.sessions.end(session.id);
            session.abandon_files();
        }
    }

    /// The connection's own session of DfsV2.
    pub fn attached(&self) -> Option<Arc<Session>> {
        self.current().attached.clone()
    }

    /// Attaches the connection to a session, and detaches it from the one before.
    pub fn attach(&self, session: Option<Arc<Session>>) {
        if let Some(session) = &session {
            session.attach();
        }
        let before = std::mem::replace(&mut self.current().attached, session);
        self.note_change();
        self.leave(before);
    }

    /// A call in the session of a DfsV2 token. Without a token, in the connection's own session.
    pub fn caller(&self, token: &Option<Secret>) -> Result<Caller> {
        let session = match token {
            Some(token) => {
                let session = self.shared.sessions.by_token(&token.0, &self.peer)?;
                self.keep_in_use(&session);
                session
            }
            None => self.attached().ok_or_else(|| {
                Error::new(ErrorKind::Unauthenticated, "no session; call openSession first")
            })?,
        };
        session.touch();
        Caller::of(&self.shared.sessions, session)
    }

    /// Counts this connection as a user of a session that a request named by token.
    fn keep_in_use(&self, session: &Arc<Session>) {
        let mut left = Vec::new();
        {
            let mut current = self.current();
            let mut used = current.by_token.iter().chain(&current.attached);
            if used.any(|known| Arc::ptr_eq(known, session)) {
                return;
            }
            current.by_token.retain(|known| !known.has_ended());
            session.attach();
            current.by_token.push_back(session.clone());
            while current.by_token.len() > MAX_BY_TOKEN {
                left.extend(current.by_token.pop_front());
            }
        }
        self.note_change();
        self.leave(left);
    }

    /// Detaches sessions that this connection no longer uses.
    fn leave(&self, sessions: impl IntoIterator<Item = Arc<Session>>) {
        for session in sessions {
            session.detach();
            self.shared.sessions.left(&session);
        }
    }

    /// The session that a 2009 client handle names. Without a handle, the connection's own.
    pub fn client(&self, handle: Option<i64>) -> Result<Arc<Session>> {
        let found = match handle {
            None => self.legacy(),
            Some(id) => u128::try_from(id).ok().and_then(|id| self.shared.sessions.by_id(id)),
        };
        found.ok_or_else(|| Error::new(ErrorKind::Unauthenticated, "no such client handle; call init first"))
    }

    /// Logs in by password, over TLS or loopback only.
    ///
    /// # Errors
    /// As [`Sessions::check_password`]. Each failure is counted and logged.
    pub async fn log_in(&self, user: &[u8], password: &str) -> Result<Login> {
        let (sessions, from) = (&self.shared.sessions, self.peer.origin());
        if !self.peer.encrypted && !self.peer.is_loopback() {
            let message = "passwords are accepted over TLS or loopback only; connect by TLS (--tls)";
            sessions.logins().note_refused(&String::from_utf8_lossy(user), from, message);
            return fail(ErrorKind::Unauthenticated, message);
        }
        match std::str::from_utf8(user) {
            Ok(user) => sessions.check_password(user, password, from).await,
            Err(_) => {
                sessions.logins().note_failed(&String::from_utf8_lossy(user), from);
                fail(ErrorKind::Unauthenticated, "wrong user or password")
            }
        }
    }

    /// Cleans up after a lost connection. Its 2009 sessions end and abandon open writers; the
    /// other sessions linger for their clients to return.
    pub fn connection_lost(&self) {
        let legacy = std::mem::take(&mut self.current().legacy);
        self.end_legacy(legacy);
        self.attach(None);
        let by_token = std::mem::take(&mut self.current().by_token);
        self.leave(by_token);
    }
}

/// A call in a session, on its store.
pub struct Caller {
    /// The session.
    pub session: Arc<Session>,
    /// The principal that it acts as.
    pub who: Principal,
}

impl Caller {
    /// A call in this session.
    ///
    /// # Errors
    /// Unauthenticated: a login is needed, the login is no longer valid, or the session has ended (a
    /// connection may still hold it).
    pub fn of(sessions: &Sessions, session: Arc<Session>) -> Result<Self> {
        if session.has_ended() {
            let message = "the session has ended; open it again by its token, or log in again";
            return fail(ErrorKind::Unauthenticated, message);
        }
        session.with_identity(|identity| -> Result<()> {
            if let Identity::User(login) = identity {
                sessions.check_login(login)?;
                turns::acts_for(&login.user);
            }
            Ok(())
        })?;
        let who = session.principal()?;
        session.begin_call();
        Ok(Self { who, session })
    }

    /// The session's store.
    pub fn fs(&self) -> &dyn FileSystem {
        self.session.store.fs.as_ref()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.session.end_call();
    }
}
