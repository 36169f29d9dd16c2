//! Sessions: each one's identity, store and open files.

use crate::closed::Closed;
use crate::config::{Access, Config, ConfiguredStore, Limits};
use crate::handles::{Handle, Handles, too_many_files};
use crate::logins::{Logins, Refusal};
use crate::mac;
use crate::peer::{Origin, Peer};
use crate::places::{Place, Places};
use crate::pool::{Grant, Holder, Key, Pool};
use crate::retry::{Mutations, Remembered};
use crate::token::{Claims, Login, Signer};
use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::clock::now_ms;
use strait_store::random::random;
use strait_store::{Error, ErrorKind, Principal, Result, SessionSecret, fail};

/// The message for a client that can't get another session.
pub const TOO_MANY_SESSIONS: &str = "too many sessions are open, in all or from this client's address (on the \
                                     gateway's host: from this local user); try again later";

/// Milliseconds on a monotonic clock: setting the wall clock must not end every session.
fn uptime_ms() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as i64
}

/// The identity for which a session acts.
#[derive(Clone)]
pub enum Identity {
    /// None yet: the client must log in.
    Nobody(Uninvited),
    /// A client without a login, if the operator allows that.
    Anonymous(Principal),
    /// A user who logged in.
    User(Login),
}

impl Identity {
    /// The principal for whom such a session acts.
    ///
    /// # Errors
    /// Unauthenticated: the client must log in first.
    pub fn principal(&self) -> Result<Principal> {
        match self {
            Self::Nobody(why) => fail(ErrorKind::Unauthenticated, why.to_string()),
            Self::Anonymous(principal) => Ok(principal.clone()),
            Self::User(login) => Ok(Principal::new(&login.user)),
        }
    }

    /// The key that it counts for: a user, or the origin of a client without a login.
    pub fn key(&self, from: Origin) -> Key {
        match self {
            Self::Nobody(_) | Self::Anonymous(_) => Key::Origin(from),
            Self::User(login) => Key::User(login.user.as_str().into()),
        }
    }
}

/// The reason why a client must log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Uninvited {
    /// Every client must log in.
    NoLogin,
    /// Over HTTP, a page of any site may be the sender.
    Http,
    /// The client's socket belongs to another local user than the gateway.
    OtherUser(u32),
    /// The kernel names no user for the client's socket: it comes by way of a container or another
    /// host, has closed its socket, or its user has no number here.
    UnknownUser,
}

impl fmt::Display for Uninvited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self {
            Self::NoLogin => {
                return f.write_str("this gateway requires a login");
            }
            Self::Http => {
                return f.write_str(
                    "over HTTP this gateway requires a login; run it with --passwords FILE and log in, or \
                     let everybody in with --allow-anonymous",
                );
            }
            Self::OtherUser(user) => format!("belongs to user id {user}"),
            Self::UnknownUser => format!(
                "comes from a user whom the kernel doesn't name: its socket is closed or in another network \
                 namespace, or belongs to user id {}, which also stands for users of other namespaces",
                strait_flexrpc::overflow_user()
            ),
        };
        let own = own_user();
        write!(
            f,
            "without a login this gateway serves only user id {own}, and this connection {whose}; \
             run the gateway with --passwords FILE and log in, or let every local user in with --allow-anonymous"
        )
    }
}

/// The number of the user whose rights this process has. It is cached, since every call without a login
/// needs it.
fn own_user() -> u32 {
    static OWN: LazyLock<u32> = LazyLock::new(|| rustix::process::geteuid().as_raw());
    *OWN
}

/// One client's session.
pub struct Session {
    /// Its number. A DfsV2 token contains it.
    pub id: u128,
    /// See [`Signer::secret_of`].
    secret: SessionSecret,
    /// Distinguishes this session from earlier ones of the same number: at another gateway, before
    /// a restart, or before it idled out.
    pub incarnation: i64,
    /// Its store.
    pub store: ConfiguredStore,
    /// Its open files and listings.
    pub handles: Handles,
    /// Outcomes of its mutations, for retries.
    pub mutations: Mutations,
    /// Its user's share of the changes that may run in the store.
    changes: Mutex<Arc<Holder>>,
    /// The origin that opened it.
    from: Origin,
    identity: Mutex<Identity>,
    /// Connections attached; when the last is lost the session lingers.
    connections: AtomicUsize,
    /// Calls that run in it.
    calls: AtomicUsize,
    /// Set when the session ends, before its handles are closed. It then takes no more calls.
    ended: AtomicBool,
    /// On the clock of [`uptime_ms`].
    last_used_ms: AtomicI64,
    /// Its place in the share of the origin that opened it; none once it has ended.
    place: Mutex<Option<Place>>,
}

impl Session {
    /// The principal for whom it acts.
    ///
    /// # Errors
    /// Unauthenticated: the client must log in first.
    pub fn principal(&self) -> Result<Principal> {
        Ok(Principal { session: Some(self.secret), ..self.with_identity(Identity::principal)? })
    }

    /// The session's identity.
    pub fn identity(&self) -> Identity {
        self.with_identity(Identity::clone)
    }

    /// Looks at its identity, without the cost of a copy. `look` must not wait.
    pub fn with_identity<T>(&self, look: impl FnOnce(&Identity) -> T) -> T {
        look(&self.identity.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether this user is logged in to it.
    pub fn is_of(&self, user: &str) -> bool {
        matches!(self.identity(), Identity::User(login) if login.user == user)
    }

    /// Whether its login was lent.
    pub fn is_lent(&self) -> bool {
        matches!(self.identity(), Identity::User(login) if login.lender.is_some())
    }

    /// Whether another user than this one is logged in to it.
    pub fn is_of_another(&self, user: &str) -> bool {
        matches!(self.identity(), Identity::User(login) if login.user != user)
    }

    /// Logs in, or out.
    pub fn set_identity(&self, identity: Identity) {
        let key = identity.key(self.from);
        self.handles.count_for(&key);
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        *changes = changes.other(&key);
        drop(changes);
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    /// Adds a connection that uses it.
    pub fn attach(&self) {
        self.connections.fetch_add(1, Ordering::AcqRel);
        self.touch();
    }

    /// Removes a lost connection.
    pub fn detach(&self) {
        self.connections.fetch_sub(1, Ordering::AcqRel);
        self.touch();
    }

    /// Records that a client uses it now.
    pub fn touch(&self) {
        self.last_used_ms.store(uptime_ms(), Ordering::Release);
    }

    /// A place for a change. The change holds it until it ends, even if its client leaves.
    ///
    /// # Errors
    /// Busy: the store runs its maximum of changes, or this user's share of them is used up.
    pub fn begin_change(&self) -> Result<Grant> {
        let place = self.changes.lock().unwrap_or_else(PoisonError::into_inner).try_take(1);
        place.ok_or_else(too_many_changes)
    }

    /// Whether it has ended, though a connection may still hold it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn set_ended(&self) {
        self.ended.store(true, Ordering::Release);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Counts a running call. While calls run, the session doesn't idle out.
    pub fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts the call as done.
    pub fn end_call(&self) {
        self.touch();
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    fn expired(&self, now: i64, limits: &Limits) -> bool {
        let idle = now.saturating_sub(self.last_used_ms.load(Ordering::Acquire));
        let attached = self.connections.load(Ordering::Acquire) > 0;
        let allowed = if attached { limits.session_idle } else { limits.session_linger };
        idle > allowed.as_millis() as i64 && self.calls.load(Ordering::Acquire) == 0
    }

    /// Adds a handle that was opened for `who`, and gives its number.
    ///
    /// # Errors
    /// Unauthenticated: the session has ended in the meantime, or acts for another user. Then this removes
    /// the handle, since otherwise nobody would close it, or another user would have it.
    pub fn add_handle(&self, who: &Principal, handle: Handle) -> Result<i64> {
        let number = self.handles.add(handle);
        // A session's end or a logout is recorded before the handles are closed. So either the closing
        // finds this handle, or this check finds the record.
        if !self.has_ended() && self.principal().is_ok_and(|now| now.user == who.user) {
            return Ok(number);
        }
        drop(self.handles.remove(number));
        fail(
            ErrorKind::Unauthenticated,
            "the session ended, or its user logged out, while the file was opened",
        )
    }

    /// Whether its token alone suffices to restore it.
    fn is_empty(&self) -> bool {
        self.connections.load(Ordering::Acquire) == 0
            && self.calls.load(Ordering::Acquire) == 0
            && self.handles.is_empty()
            && self.mutations.is_empty()
    }

    /// Closes all files properly, and returns the first failure.
    pub async fn close_files(&self) -> Result<()> {
        let mut result = Ok(());
        for handle in self.handles.drain() {
            if let Handle::File(file) = handle
                && let Err(error) = file.close().await
            {
                result = result.and(Err(error));
            }
        }
        result
    }

    /// Abandons all files without closing them.
    pub fn abandon_files(&self) {
        drop(self.handles.drain());
    }
}

fn too_many_changes() -> Error {
    let message =
        "too many changes are running in this store, for this user or for all users; try again later";
    Error::new(ErrorKind::Busy, message)
}

/// The current sessions, and the closed ones that tokens mustn't restore.
struct Table {
    by_id: HashMap<u128, Arc<Session>>,
    closed: Closed,
}

/// A token whose signature was checked, and its session.
pub struct Entry {
    token: String,
    claims: Claims,
    /// The session.
    pub session: Arc<Session>,
}

/// All sessions, and the checks that admit clients to them.
pub struct Sessions {
    table: Mutex<Table>,
    stores: Vec<ConfiguredStore>,
    /// Places for changes, by the store's name.
    changes: HashMap<String, Arc<Pool>>,
    access: Access,
    signer: Signer,
    limits: Limits,
    remembered: Arc<Remembered>,
    /// Places for open files and listings.
    handles: Arc<Pool>,
    places: Arc<Places>,
    logins: Logins,
}

impl Sessions {
    /// Without any session yet.
    pub fn new(config: Config) -> Self {
        let places = || Pool::new(config.limits.changes_per_store);
        Self {
            table: Mutex::new(Table {
                by_id: HashMap::new(),
                closed: Closed::new(config.limits.token_renewal, config.limits.closed_sessions),
            }),
            changes: config.stores.iter().map(|store| (store.name.clone(), places())).collect(),
            stores: config.stores,
            access: config.access,
            signer: Signer::new(config.token_key),
            places: Places::new(config.limits.sessions),
            logins: Logins::new(config.limits.logins, config.limits.password_checks),
            remembered: Remembered::new(config.limits.remembered_bytes, config.limits.remembered_for),
            handles: Pool::new(config.limits.handles),
            limits: config.limits,
        }
    }

    /// The stores that clients may pick from.
    pub fn stores(&self) -> &[ConfiguredStore] {
        &self.stores
    }

    /// The configured store with this name or URI; the default store for an empty text. Clients choose
    /// among the stores that the operator configured.
    pub fn store(&self, asked: &str) -> Result<ConfiguredStore> {
        let found = match asked {
            "" => self.stores.first(),
            _ => self.stores.iter().find(|store| {
                store.name == asked || store.uri.trim_end_matches('/') == asked.trim_end_matches('/')
            }),
        };
        found.cloned().ok_or_else(|| self.unknown_store(asked))
    }

    fn unknown_store(&self, asked: &str) -> Error {
        let names: Vec<&str> = self.stores.iter().map(|store| store.name.as_str()).collect();
        let asked: String = asked.chars().take(200).collect();
        let message = format!("no store {asked:?} is configured here, only: {}", names.join(", "));
        Error::new(ErrorKind::NotFound, message)
    }

    /// The configured store with this name; the default without one.
    ///
    /// # Errors
    /// NotFound, with the known names.
    pub fn store_named(&self, name: Option<&str>) -> Result<ConfiguredStore> {
        let found = match name {
            Some(name) => self.stores.iter().find(|store| store.name == name),
            None => self.stores.first(),
        };
        found.cloned().ok_or_else(|| self.unknown_store(name.unwrap_or_default()))
    }

    /// A place among the open files for a request that opens one without a handle.
    ///
    /// # Errors
    /// Busy: this user, or all users together, have too many open files.
    pub fn file_place(&self, key: &Key) -> Result<Grant> {
        self.handles.holder(key).try_take(1).ok_or_else(too_many_files)
    }

    /// A place for a change in a store, for a request without a session there.
    ///
    /// # Errors
    /// Busy, as [`Session::begin_change`].
    pub fn begin_change(&self, store: &str, key: &Key) -> Result<Grant> {
        let place = self.changes.get(store).and_then(|places| places.holder(key).try_take(1));
        place.ok_or_else(too_many_changes)
    }

    /// Whether there is a password file to check logins against.
    pub fn has_passwords(&self) -> bool {
        self.access.passwords.is_some()
    }

    /// If the password file has changed, reads it again and returns true. The next [`Sessions::sweep`] ends
    /// sessions of changed and removed users. Reads a small local file, so it may block the thread briefly.
    ///
    /// # Errors
    /// A line for people, once for each change: the file can't be used. The former contents stay in force.
    pub fn reload_passwords(&self) -> std::result::Result<bool, String> {
        self.access.passwords.as_ref().map_or(Ok(false), |file| file.reload_if_changed())
    }

    /// Reads the password file, even if it is unchanged. Returns false if there is none.
    ///
    /// # Errors
    /// A line for people, at each call: the file can't be used. The former contents stay in force.
    pub fn reload_passwords_now(&self) -> std::result::Result<bool, String> {
        self.access.passwords.as_ref().map_or(Ok(false), |file| file.reload().map(|()| true))
    }

    /// Checks whether a login still holds.
    ///
    /// # Errors
    /// Unauthenticated if the login has ended, the user was removed, the password changed, or the session that
    /// lent it was closed. Also at a gateway without a password file, which can't check.
    pub fn check_login(&self, login: &Login) -> Result<()> {
        self.check_user(login)?;
        match login.lender {
            Some(lender) if self.lock().closed.contains(lender) => {
                fail(ErrorKind::Unauthenticated, "the login was lent, and its lender has logged out")
            }
            _ => Ok(()),
        }
    }

    fn check_user(&self, login: &Login) -> Result<()> {
        let Some(file) = &self.access.passwords else {
            let message =
                "this gateway has no password file to check the login against; log in at one that has";
            return fail(ErrorKind::Unauthenticated, message);
        };
        if login.ends_ms <= now_ms() {
            return fail(ErrorKind::Unauthenticated, "the login has expired; log in again");
        }
        if file.epoch(&login.user) != Some(login.epoch) {
            let message =
                "the login is no longer valid: its user was removed or the password changed; log in again";
            return fail(ErrorKind::Unauthenticated, message);
        }
        Ok(())
    }

    fn is_revoked(&self, session: &Session, closed: &Closed) -> bool {
        let Identity::User(login) = session.identity() else { return false };
        self.check_user(&login).is_err() || login.lender.is_some_and(|lender| closed.contains(lender))
    }

    /// The identity of a client that hasn't logged in.
    pub fn stranger(&self, peer: &Peer) -> Identity {
        let Access { anonymous, starter, .. } = &self.access;
        match (anonymous, starter, peer.user) {
            (Some(anybody), ..) => Identity::Anonymous(anybody.clone()),
            (None, None, _) => Identity::Nobody(Uninvited::NoLogin),
            (None, Some(_), _) if peer.http => Identity::Nobody(Uninvited::Http),
            (None, Some(starter), Some(user)) if user == own_user() => Identity::Anonymous(starter.clone()),
            (None, Some(_), Some(user)) => Identity::Nobody(Uninvited::OtherUser(user)),
            (None, Some(_), None) => Identity::Nobody(Uninvited::UnknownUser),
        }
    }

    /// The logins in progress, and the counts of all logins.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Checks a password. Only a few checks run at a time, for all clients together.
    ///
    /// # Errors
    /// Unauthenticated: the password is wrong or the user unknown; the message is the same for both.
    /// Busy: this user failed too often from this origin, or too many logins wait.
    pub async fn check_password(self: &Arc<Self>, user: &str, password: &str, from: Origin) -> Result<Login> {
        let Some(file) = &self.access.passwords else {
            let message =
                "this gateway has no logins: connect without a user, or have the operator set --passwords";
            return fail(ErrorKind::Unauthenticated, message);
        };
        let patient =
            |now| self.logins.check_backoff(user, from, now).map_err(|why| self.refused(user, from, &why));
        patient(Instant::now())?;
        let epoch = match file.verify_again(user, password) {
            Some(epoch) => {
                self.logins.succeeded(user, from, Instant::now());
                Some(epoch)
            }
            None => {
                let _place = self.logins.place(user, from).map_err(|why| self.refused(user, from, &why))?;
                let Some(turn) = self.logins.turn(from).await else {
                    return fail(ErrorKind::Unavailable, "the gateway is shutting down");
                };
                // Other attempts of this user from this origin may have failed during the wait.
                patient(Instant::now())?;
                let (this, name, password) = (self.clone(), user.to_owned(), password.to_owned());
                let verified = tokio::task::spawn_blocking(move || {
                    // The check continues if its client leaves. So it keeps its turn, and its outcome
                    // counts.
                    let _turn = turn;
                    let epoch = this.access.passwords.as_ref().and_then(|file| file.verify(&name, &password));
                    match epoch {
                        Some(_) => this.logins.succeeded(&name, from, Instant::now()),
                        None => this.logins.failed(&name, from, Instant::now()),
                    }
                    epoch
                });
                verified.await.unwrap_or(None)
            }
        };
        let Some(epoch) = epoch else {
            return fail(ErrorKind::Unauthenticated, "wrong user or password");
        };
        if let Some(homes) = &self.access.homes
            && let Err(error) = homes.make(user).await
        {
            tracing::warn!(user, %error, "can't make the user's home; the next login tries again");
        }
        let lifetime = self.limits.token_lifetime.as_millis() as i64;
        let ends_ms = now_ms().saturating_add(lifetime);
        Ok(Login { user: user.to_owned(), epoch, ends_ms, lender: None })
    }

    fn refused(&self, user: &str, from: Origin, why: &Refusal) -> Error {
        let message = match why {
            Refusal::BackedOff(wait) => {
                let seconds = wait.as_secs() + 1;
                format!("too many wrong passwords of this user from here; try again in {seconds} s")
            }
            Refusal::NoPlace => "too many logins at a time; try again later".to_owned(),
        };
        self.logins.note_refused(user, from, &message);
        Error::new(ErrorKind::Busy, message)
    }

    /// Opens a session.
    ///
    /// # Errors
    /// Busy: there are too many sessions, or too many of this origin.
    pub fn open(&self, store: ConfiguredStore, identity: Identity, from: Origin) -> Result<Arc<Session>> {
        self.open_with_id(u128::from_be_bytes(random()), store, identity, from)
    }

    /// Opens a session of the 2009 service, whose handles are an i64.
    pub fn open_numbered(
        &self,
        number: i64,
        store: ConfiguredStore,
        identity: Identity,
        from: Origin,
    ) -> Result<Arc<Session>> {
        self.open_with_id(u128::from(number.unsigned_abs()), store, identity, from)
    }

    fn open_with_id(
        &self,
        id: u128,
        store: ConfiguredStore,
        identity: Identity,
        from: Origin,
    ) -> Result<Arc<Session>> {
        let mut table = self.lock();
        if table.closed.contains(id) {
            return fail(ErrorKind::Unauthenticated, "the session was closed; log in again");
        }
        let by_id = &mut table.by_id;
        if let Some(session) = by_id.get(&id) {
            return Ok(session.clone());
        }
        let Some(place) = self.places.take(from) else {
            return fail(ErrorKind::Busy, TOO_MANY_SESSIONS);
        };
        let key = identity.key(from);
        // Every configured store has an entry.
        let changes = self.changes.get(&store.name).cloned().unwrap_or_else(|| Pool::new(1));
        let session = Arc::new(Session {
            id,
            secret: self.signer.secret_of(id),
            changes: Mutex::new(changes.holder(&key)),
            from,
            incarnation: i64::from_be_bytes(random()) & i64::MAX,
            store,
            handles: Handles::new(self.limits.handles_per_session, self.handles.holder(&key)),
            mutations: Mutations::new(self.remembered.clone()),
            identity: Mutex::new(identity),
            connections: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            last_used_ms: AtomicI64::new(uptime_ms()),
            place: Mutex::new(Some(place)),
        });
        by_id.insert(id, session.clone());
        Ok(session)
    }

    /// Lends the login of a session: opens another session of its user and store, which ends after
    /// `lend_ms` at the latest. If `lent` is the token of a session lent before, extends that one
    /// instead.
    ///
    /// # Errors
    /// InvalidArgument: `session` has no login, `lend_ms` isn't positive, or `lent` is the token of a login of its
    /// own. PermissionDenied: its login was lent. Unauthenticated: `lent` isn't the token of a session of this user
    /// and store.
    pub fn lend(
        &self,
        session: &Session,
        lend_ms: i64,
        lent: Option<&str>,
        peer: &Peer,
    ) -> Result<Arc<Session>> {
        let Identity::User(login) = session.identity() else {
            return fail(ErrorKind::InvalidArgument, "only a login can be lent, and this session has none");
        };
        if login.lender.is_some() {
            return fail(ErrorKind::PermissionDenied, "a lent login can't be lent again");
        }
        if lend_ms <= 0 {
            return fail(ErrorKind::InvalidArgument, "a login must be lent for at least a millisecond");
        }
        let ends_ms = login.ends_ms.min(now_ms().saturating_add(lend_ms));
        let login = Login { ends_ms, lender: Some(session.id), ..login };
        let Some(token) = lent else {
            return self.open(session.store.clone(), Identity::User(login), peer.origin());
        };
        let earlier = self.by_token(token, peer)?;
        if !earlier.is_of(&login.user) || earlier.store.name != session.store.name {
            return fail(ErrorKind::Unauthenticated, "the lent token belongs to another user or store");
        }
        let was_lent = matches!(earlier.identity(), Identity::User(login) if login.lender.is_some());
        if !was_lent {
            return fail(ErrorKind::InvalidArgument, "only the token of a lent login can be extended");
        }
        earlier.set_identity(Identity::User(login));
        Ok(earlier)
    }

    /// A new token for a session, and its expiry.
    pub fn token(&self, session: &Session) -> (String, i64) {
        let login = match session.identity() {
            Identity::User(login) => Some(login),
            Identity::Anonymous(_) | Identity::Nobody(_) => None,
        };
        let renewed_ms = now_ms().saturating_add(self.limits.token_renewal.as_millis() as i64);
        let expires_ms = login.as_ref().map_or(renewed_ms, |login| login.ends_ms.min(renewed_ms));
        let claims = Claims { session: session.id, expires_ms, store: session.store.name.clone(), login };
        (self.signer.sign(&claims), expires_ms)
    }

    /// The session of a token. If another gateway opened it (or this one before a restart), creates
    /// it here.
    ///
    /// # Errors
    /// Unauthenticated for a token that is wrong or has expired, whose session was
    /// closed, or whose login is no longer valid. A token without a login is valid only
    /// for a client that needs no login.
    pub fn by_token(&self, token: &str, peer: &Peer) -> Result<Arc<Session>> {
        self.enter(token, peer).map(|entry| entry.session)
    }

    /// As [`Sessions::by_token`], for a client that may come again with the same token.
    ///
    /// # Errors
    /// The same.
    pub fn enter(&self, token: &str, peer: &Peer) -> Result<Entry> {
        let Some(claims) = self.signer.check(token, now_ms()) else {
            return fail(
                ErrorKind::Unauthenticated,
                "the session's token is wrong or has expired; log in again",
            );
        };
        let identity = self.identity_of(&claims, peer)?;
        let known = self.lock().by_id.get(&claims.session).inspect(|session| session.touch()).cloned();
        let session = match known {
            Some(session) => session,
            None => self.open_with_id(claims.session, self.store(&claims.store)?, identity, peer.origin())?,
        };
        Ok(Entry { token: token.to_owned(), claims, session })
    }

    /// The session of an earlier entry, without the cost of checking the token's signature again. None if
    /// this is another token, or anything else than the signature has to be checked anew.
    pub fn enter_again(&self, entry: &Entry, token: &str, peer: &Peer) -> Option<Arc<Session>> {
        let Entry { token: known, claims, session } = entry;
        if !mac::equal(known.as_bytes(), token.as_bytes()) {
            return None;
        }
        // Before the check, so that it doesn't idle out between the two.
        session.touch();
        let holds =
            claims.expires_ms > now_ms() && self.identity_of(claims, peer).is_ok() && !session.has_ended();
        holds.then(|| session.clone())
    }

    /// The identity that a token stands for.
    fn identity_of(&self, claims: &Claims, peer: &Peer) -> Result<Identity> {
        match &claims.login {
            Some(login) => {
                self.check_login(login)?;
                Ok(Identity::User(login.clone()))
            }
            None => {
                let stranger = self.stranger(peer);
                stranger.principal()?;
                Ok(stranger)
            }
        }
    }

    /// The session with this number, marked as used.
    pub fn by_id(&self, id: u128) -> Option<Arc<Session>> {
        let session = self.lock().by_id.get(&id).cloned();
        session.inspect(|session| session.touch())
    }

    /// Ends a session; the caller closes or abandons its files.
    pub fn end(&self, id: u128) -> Option<Arc<Session>> {
        self.lock().by_id.remove(&id).inspect(|session| session.set_ended())
    }

    /// Ends a session at its client's request, and revokes its tokens. The caller closes its files.
    pub fn close(&self, session: &Session) {
        let owner = match session.identity() {
            Identity::User(login) => Some(login.user),
            Identity::Anonymous(_) | Identity::Nobody(_) => None,
        };
        self.lock().closed.add(owner.as_deref(), session.id, Instant::now());
        self.end(session.id);
    }

    /// Ends a session that its connection has left, if its token alone suffices to restore it.
    /// Otherwise it lingers.
    pub fn left(&self, session: &Arc<Session>) {
        /// References of the table and of the caller.
        const NOBODY_ELSE: usize = 2;
        // Most sessions have other users, and need no look at the table.
        if Arc::strong_count(session) > NOBODY_ELSE {
            return;
        }
        let by_id = &mut self.lock().by_id;
        let ours = by_id.get(&session.id).is_some_and(|known| Arc::ptr_eq(known, session));
        if ours && session.is_empty() && Arc::strong_count(session) == NOBODY_ELSE {
            by_id.remove(&session.id);
        }
    }

    /// Ends sessions that have idled out, or whose login is no longer valid. The others forget
    /// their old answers.
    pub fn sweep(&self) {
        let (now, instant) = (uptime_ms(), Instant::now());
        let mut ended = Vec::new();
        let mut table = self.lock();
        let Table { by_id, closed, .. } = &mut *table;
        by_id.retain(|_, session| {
            session.mutations.forget_aged(instant);
            let ends = session.expired(now, &self.limits) || self.is_revoked(session, closed);
            if ends {
                session.set_ended();
                ended.push(session.clone());
            }
            !ends
        });
        // Dropping a writer may start work.
        drop(table);
        for session in ended {
            session.abandon_files();
        }
    }

    /// Ends all sessions and closes their files, within `patience`.
    pub async fn close_all(&self, patience: Duration) {
        let all: Vec<_> = self.lock().by_id.drain().map(|(_, session)| session).collect();
        let closing = all.iter().map(|session| async {
            if let Err(error) = session.close_files().await {
                tracing::warn!(%error, "a file couldn't be closed at shutdown");
            }
        });
        let _ = tokio::time::timeout(patience, futures::future::join_all(closing)).await;
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // A poisoned lock is harmless: every critical section leaves the table consistent.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
