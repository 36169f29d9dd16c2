//! Logins of users, and the rights of their credentials.

use super::{
    Shared,
    attempts::{Attempts, Later},
};
use std::{
    any::Any,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use strait_flexrpc::{Holder, KeyId, KeyLookup, OwnKey, Request, ServerTls, stub::ServiceError};
use strait_kadoop_core::{
    ClientId, Millis,
    error::{Error, Result},
    messages::Caller,
};
use strait_kadoop_wire::{
    clock::wall,
    convert::{caller_from_wire, text},
    credentials::{CredentialKey, Epoch, Granted},
    failure::refuse,
    wire,
};
use strait_telemetry::{Record, Seldom};
use strait_xdr::Text;

/// Default lifetime of a credential. A stolen one is useless after this time.
const CREDENTIAL_MS: Millis = 15 * 60 * 1000;
/// Default time after a login in which a client can renew its credential without the password: more
/// than a working day.
const RENEWABLE_MS: Millis = 24 * 60 * 60 * 1000;
/// Default lifetime of a chunk's token for the holder of a credential. Datanodes check tokens without
/// asking the namenode, so tokens stay valid for up to this time after a credential was revoked.
const TOKEN_MS: Millis = 60 * 1000;

/// The users that may log in.
pub trait Accounts: Send + Sync + 'static {
    /// The user's epoch, if the password is right. A check may cost tens of milliseconds of processor time.
    /// It must take the same time for an unknown user, so that callers can't find out which users exist.
    fn log_in(&self, user: &str, password: &str) -> Option<Epoch>;

    /// The user's current epoch, which changes whenever the user is added or the password is set. None:
    /// there is no such user. The namenode calls this for every call of a user.
    fn epoch(&self, user: &str) -> Option<Epoch>;

    /// The user's groups, at most 1,024. The namenode calls this for every call of a user.
    fn groups(&self, user: &str) -> Vec<String>;
}

/// Settings of a namenode's logins.
#[derive(Clone)]
pub struct Logins {
    /// The users.
    pub accounts: Arc<dyn Accounts>,
    /// The certificate for TLS. Passwords and credentials are accepted over TLS only.
    pub tls: ServerTls,
    /// A credential's lifetime.
    pub credential_ms: Millis,
    /// How long after a login a client can renew its credential without the password.
    pub renewable_ms: Millis,
    /// Lifetime of a chunk's token for the holder of a credential. After the credential ends, its holder
    /// can still read and write at datanodes for up to this time.
    pub token_ms: Millis,
}

impl Logins {
    /// With the default times.
    pub fn new(accounts: Arc<dyn Accounts>, tls: ServerTls) -> Self {
        Self { accounts, tls, credential_ms: CREDENTIAL_MS, renewable_ms: RENEWABLE_MS, token_ms: TOKEN_MS }
    }
}

impl fmt::Debug for Logins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { credential_ms, renewable_ms, token_ms, .. } = self;
        let times = (credential_ms, renewable_ms, token_ms);
        f.debug_tuple("Logins").field(&times).finish()
    }
}

/// Issues credentials, and recognizes their holders.
pub(super) struct Desk {
    logins: Logins,
    key: CredentialKey,
    attempts: Mutex<Attempts>,
}

/// A caller with a credential.
struct Credentialed {
    granted: Granted,
    epoch: Epoch,
    accounts: Arc<dyn Accounts>,
}

impl Holder for Credentialed {
    fn is_valid(&self) -> bool {
        wall() < self.granted.until_ms && self.accounts.epoch(&self.granted.user) == Some(self.epoch)
    }
}

impl KeyLookup for Desk {
    fn find(&self, id: &KeyId) -> Option<OwnKey> {
        let granted = Granted::parse(id)?;
        let accounts = Arc::clone(&self.logins.accounts);
        let epoch = accounts.epoch(&granted.user)?;
        let key = self.key.key(id, &epoch)?;
        let holder = Credentialed { granted, epoch, accounts };
        holder.is_valid().then(|| OwnKey { key, holder: Arc::new(holder) })
    }
}

/// The credential of the call's caller; None if the caller has the clients' key instead.
fn holder(call: &Request) -> Option<&Credentialed> {
    let holder: &dyn Any = call.holder.as_deref()?;
    holder.downcast_ref()
}

/// The user of the caller's credential; None if the caller has the clients' key instead.
pub(super) fn user_of(call: &Request) -> Option<&str> {
    holder(call).map(|holder| holder.granted.user.as_ref())
}

impl Desk {
    pub(super) fn new(logins: Logins, key: CredentialKey) -> Self {
        Self { logins, key, attempts: Mutex::default() }
    }

    pub(super) fn tls(&self) -> ServerTls {
        self.logins.tls.clone()
    }

    /// Begins a check of a password, within the limits.
    ///
    /// # Errors
    /// Limit: too many checks run, or the user failed from this address shortly before.
    fn begin(&self, user: &str, from: IpAddr) -> Result<()> {
        self.attempts().begin(user, from.into(), Instant::now()).map_err(|later| match later {
            Later::Crowded => Error::Limit("too many logins are being checked; try again"),
            Later::Failed => {
                Error::Limit("this user's latest login from this address failed; try again in some seconds")
            }
        })
    }

    /// The user's epoch, if the password is right. Call this after [`Desk::begin`].
    fn check(&self, user: &str, password: &str, from: IpAddr) -> Result<Epoch> {
        let epoch = self.logins.accounts.log_in(user, password);
        self.attempts().end(user, from.into(), epoch.is_none(), Instant::now());
        epoch.ok_or(Error::Unauthenticated)
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn credential(&self, granted: &Granted, epoch: &Epoch) -> Result<wire::KdCredential<'static>> {
        let id = granted.id().ok_or(Error::Invalid("the user's name is too long for a credential"))?;
        let left = |until: Millis| u32::try_from(until.saturating_sub(wall())).unwrap_or(u32::MAX);
        Ok(wire::KdCredential {
            secret: self.key.secret(&id, epoch),
            id: id.bytes().to_vec().into(),
            client: granted.client.0,
            valid_ms: left(granted.until_ms),
            renewable_ms: left(granted.renewable_until_ms),
        })
    }

    fn until(&self, renewable_until_ms: Millis) -> Millis {
        wall().saturating_add(self.logins.credential_ms).min(renewable_until_ms)
    }
}

/// The service for callers without a key.
pub(super) struct LoginDesk(pub Arc<Shared>);

impl wire::KadoopLoginV1Service for LoginDesk {
    fn lg_null(&self, _: &Request) -> std::result::Result<(), ServiceError> {
        Ok(())
    }

    fn lg_login(
        &self,
        call: &Request,
        user: Text<'static>,
        password: Text<'static>,
    ) -> std::result::Result<wire::KdCredential<'_>, ServiceError> {
        self.0.log_in(call, &user, &password).map_err(refuse)
    }
}

impl Shared {
    fn log_in(
        &self,
        call: &Request,
        user: &Text<'_>,
        password: &Text<'_>,
    ) -> Result<wire::KdCredential<'static>> {
        let desk = self.desk.as_ref().ok_or(Error::Unauthenticated)?;
        // FlexRPC refuses unencrypted calls without a key. This is a second check.
        if !call.encrypted {
            return Err(Error::Unauthenticated);
        }
        let (user, password) = (text(user)?, text(password)?);
        let from = call.peer.ip().to_canonical();
        // Don't log this refusal: the password wasn't checked, and anybody can cause any number of
        // refusals.
        desk.begin(user, from)?;
        let checked = desk.check(user, password, from);
        self.note_login(user, from, checked.as_ref().err());
        let epoch = checked?;
        let renewable_until_ms = wall().saturating_add(desk.logins.renewable_ms);
        let granted = Granted {
            user: user.into(),
            client: self.join_client()?,
            until_ms: desk.until(renewable_until_ms),
            renewable_until_ms,
        };
        desk.credential(&granted, &epoch)
    }

    fn note_login(&self, user: &str, from: IpAddr, error: Option<&Error>) {
        if let Some(error) = error {
            static FAILED: Seldom = Seldom::new();
            if let Some(left_out) = FAILED.may_write() {
                tracing::warn!(?user, %from, %error, left_out, "a login failed");
            }
        }
        if let Some(log) = &self.audit {
            let why = error.map(Error::to_string);
            log.note(&Record {
                user,
                from,
                protocol: "rpc",
                operation: "login",
                // HDFS writes this for operations without a path.
                path: "null",
                target: None,
                allowed: error.is_none(),
                error: why.as_deref(),
            });
        }
    }

    /// A fresh credential for a caller that has one. With `rejoin`, it has a new client number if the
    /// namenode doesn't know the old one any more.
    pub(super) fn renew_credential(
        &self,
        call: &Request,
        rejoin: bool,
    ) -> Result<wire::KdCredential<'static>> {
        let (Some(holder), Some(desk)) = (holder(call), &self.desk) else {
            return Err(Error::Invalid("the caller has no credential that could be renewed"));
        };
        if !call.encrypted {
            return Err(Error::Invalid("a credential can be renewed over TLS only"));
        }
        let Granted { ref user, client, renewable_until_ms, .. } = holder.granted;
        // A new client takes memory, so a client that the namenode still knows keeps its number.
        let is_known = || self.ask(|namenode| Ok(namenode.state().clients.has(client)));
        let client = if rejoin && !is_known()? { self.join_client()? } else { client };
        let until_ms = desk.until(renewable_until_ms);
        desk.credential(&Granted { user: user.clone(), client, until_ms, renewable_until_ms }, &holder.epoch)
    }

    /// The user of a call. The holder of a credential can act only for its own user, even if the
    /// call names another.
    pub(super) fn caller(&self, call: &Request, told: &wire::KdCaller<'_>) -> Result<Caller> {
        let Some(Credentialed { granted, accounts, .. }) = holder(call) else {
            return caller_from_wire(told);
        };
        if text(&told.user)? != granted.user {
            return Err(Error::PermissionDenied);
        }
        let groups = accounts.groups(&granted.user).into_iter().map(Into::into).collect();
        Ok(Caller { user: granted.user.clone(), groups, session: None })
    }

    /// The client number in the caller's credential. None: the caller has the clients' key, and may
    /// use any client's number.
    pub(super) fn own_client(call: &Request) -> Option<ClientId> {
        holder(call).map(|holder| holder.granted.client)
    }

    /// Refuses a credential's holder that names another client's number: it could change that client's
    /// open files.
    pub(super) fn demand_client(call: &Request, client: ClientId) -> Result<()> {
        match Self::own_client(call) {
            Some(own) if own != client => Err(Error::UnknownClient),
            _ => Ok(()),
        }
    }

    /// Lifetime of the chunks' tokens in this call's answer.
    pub(super) fn token_ms_for(&self, call: &Request) -> Millis {
        match (&self.desk, holder(call)) {
            (Some(desk), Some(_)) => desk.logins.token_ms.min(self.token_ms),
            _ => self.token_ms,
        }
    }
}
