//! A client's access to the namenode: by the clients' key, or by a login's credential.

use std::{
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, CallError, ClientTls, ClusterKey, KeyId, Refusal, Transport};
use strait_kadoop_core::{ClientId, error::Error};
use strait_kadoop_wire::{
    PEER_SILENCE,
    failure::{Failure, Lost},
    keys::ClientKey,
    wire::{KadoopLoginV1Client, KadoopNamenodeV1Client, KdCredential},
};

/// How long the namenode may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Timeout of one attempt: longer than a sync on a slow disk, and shorter than callers wait for a
/// connection that hangs.
pub(super) const ATTEMPT: Duration = Duration::from_secs(10);
/// A credential is renewed after its lifetime divided by this.
const RENEWED_AFTER: u32 = 2;
/// Pause before the next attempt to renew a credential that is still valid.
const RENEWAL_PAUSE: Duration = Duration::from_secs(5);
/// For this time after a refused login, further logins fail with the same error, without a call: after each
/// failure, the namenode doubles the pause for this user and address.
const REFUSED: Duration = Duration::from_secs(5);

/// A client's means of access.
#[derive(Clone)]
pub enum Access {
    /// The clients' key: the client may act for any user.
    Key(ClientKey),
    /// A login: the client acts as that user only. Boxed to keep the common case, a key, small.
    Login(Box<Login>),
}

/// A user's login.
#[derive(Clone)]
pub struct Login {
    /// The user.
    pub user: String,
    /// Returns the password. The client calls this for each login: at first, and when its credential can't
    /// be renewed any more.
    pub password: Password,
    /// Certificates that the client accepts from the namenode.
    pub tls: ClientTls,
}

/// A function that returns a password.
pub type Password = Arc<dyn Fn() -> Result<String, Failure> + Send + Sync>;

impl From<ClientKey> for Access {
    fn from(key: ClientKey) -> Self {
        Self::Key(key)
    }
}

impl From<Login> for Access {
    fn from(login: Login) -> Self {
        Self::Login(Box::new(login))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Login(login) => f.debug_tuple("Login").field(&login.user).finish(),
        }
    }
}

/// The current access.
pub(super) enum Entry {
    Key(flexrpc::Client),
    Login { login: Box<Login>, state: Mutex<State> },
}

#[derive(Default)]
pub(super) struct State {
    held: Option<Arc<Held>>,
    refused: Option<(Instant, Failure)>,
}

/// A credential, and the FlexRPC client that uses it.
pub(super) struct Held {
    rpc: flexrpc::Client,
    client: ClientId,
    renew_at: Instant,
    until: Instant,
}

/// The access for one call.
pub(super) struct Pass {
    pub rpc: flexrpc::Client,
    /// The credential; None if the access is the clients' key.
    held: Option<Arc<Held>>,
    /// Whether this call caused the login.
    fresh: bool,
}

impl Entry {
    pub(super) fn new(access: &Access) -> Self {
        match access {
            Access::Key(key) => Self::Key(rpc(key.to_namenode(), None, None)),
            Access::Login(login) => Self::Login { login: login.clone(), state: Mutex::default() },
        }
    }

    /// The access for one call to the namenode at this address. If necessary, logs in or renews the
    /// credential.
    pub(super) fn pass(&self, namenode: SocketAddr) -> Result<Pass, Lost> {
        let (login, mut state) = match self {
            Self::Key(rpc) => return Ok(Pass { rpc: rpc.clone(), held: None, fresh: false }),
            Self::Login { login, state } => (login, lock(state)),
        };
        let now = Instant::now();
        let held = state.held.clone().filter(|held| now < held.until);
        let (held, fresh) = match held {
            Some(held) if now < held.renew_at => (held, false),
            Some(held) => (state.renew(login, &held, namenode, false).unwrap_or(held), false),
            None => (state.log_in(login, namenode)?, true),
        };
        Ok(Pass { rpc: held.rpc.clone(), held: Some(held), fresh })
    }

    /// Discards a credential that the namenode has rejected, so that the next call logs in again. Returns
    /// whether a new login can help: false if the credential was fresh.
    pub(super) fn end(&self, pass: &Pass) -> bool {
        let (Self::Login { state, .. }, Some(held)) = (self, &pass.held) else { return false };
        let mut state = lock(state);
        if state.held.as_ref().is_some_and(|current| Arc::ptr_eq(current, held)) {
            state.held = None;
        }
        !pass.fresh
    }

    /// Gets a credential with a new client number, after the namenode has forgotten the number `forgotten`.
    pub(super) fn rejoin(&self, forgotten: ClientId, namenode: SocketAddr) -> Result<(), Lost> {
        let Self::Login { login, state } = self else { return Ok(()) };
        let mut state = lock(state);
        match state.held.clone() {
            Some(held) if held.client == forgotten => state.renew(login, &held, namenode, true).map(drop),
            // Another thread has replaced the credential, or the next login will.
            _ => Ok(()),
        }
    }
}

impl State {
    fn log_in(&mut self, login: &Login, namenode: SocketAddr) -> Result<Arc<Held>, Lost> {
        if let Some((at, failure)) = &self.refused
            && at.elapsed() < REFUSED
        {
            return Err(Lost::Refused(failure.clone()));
        }
        let keyless = rpc(None, None, Some(login.tls.clone()));
        let handle = keyless.handle(namenode, Transport::Tcp).map_err(|error| match error {
            CallError::NotExecuted(Refusal::TlsUnavailable) => {
                let why = "the namenode has no logins: use the clients' key, or start `strait namenode` with \
                           --passwords, --tls-cert and --tls-key";
                Lost::Refused(Failure::new(Error::Unauthenticated, why))
            }
            error => error.into(),
        })?;
        let mut to = KadoopLoginV1Client::new(handle);
        let password = (login.password)().map_err(Lost::Refused)?;
        let told = to.lg_login(&login.user.as_str().into(), &password.as_str().into());
        match told.map_err(Lost::from) {
            Ok(told) => {
                self.refused = None;
                self.hold(login, &told)
            }
            // Too many password checks run, or this user's latest login failed shortly before. Retry later.
            Err(Lost::Refused(failure @ Failure { error: Error::Limit(_), .. })) => {
                Err(Lost::NotExecuted(failure))
            }
            Err(Lost::Refused(Failure { error: Error::Unauthenticated, .. })) => {
                let why = format!("the namenode refuses the password of {}, or has no such user", login.user);
                let failure = Failure::new(Error::Unauthenticated, why);
                self.refused = Some((Instant::now(), failure.clone()));
                Err(Lost::Refused(failure))
            }
            Err(lost) => Err(lost),
        }
    }

    fn renew(
        &mut self,
        login: &Login,
        held: &Held,
        namenode: SocketAddr,
        rejoin: bool,
    ) -> Result<Arc<Held>, Lost> {
        let ask = || -> Result<KdCredential<'static>, Lost> {
            let mut to = KadoopNamenodeV1Client::new(held.rpc.handle(namenode, Transport::Tcp)?);
            Ok(to.nn_credential(rejoin)?)
        };
        match ask() {
            Ok(told) => self.hold(login, &told),
            Err(lost) => {
                let renew_at = Instant::now() + RENEWAL_PAUSE;
                let Held { ref rpc, client, until, .. } = *held;
                self.held = Some(Arc::new(Held { rpc: rpc.clone(), client, renew_at, until }));
                Err(lost)
            }
        }
    }

    fn hold(&mut self, login: &Login, told: &KdCredential<'_>) -> Result<Arc<Held>, Lost> {
        let strange = || Lost::Refused(Error::Internal("a credential in another version's format").into());
        let key = ClusterKey::new(&told.secret).map_err(|_| strange())?;
        let id = KeyId::new(&told.id).ok_or_else(strange)?;
        let (now, valid) = (Instant::now(), Duration::from_millis(told.valid_ms.into()));
        let held = Arc::new(Held {
            rpc: rpc(Some(key), Some(id), Some(login.tls.clone())),
            client: ClientId(told.client),
            renew_at: now + valid / RENEWED_AFTER,
            until: now + valid,
        });
        self.held = Some(Arc::clone(&held));
        Ok(held)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client for calls to the namenode.
fn rpc(key: Option<ClusterKey>, key_id: Option<KeyId>, tls: Option<ClientTls>) -> flexrpc::Client {
    flexrpc::Client::new(flexrpc::ClientOptions {
        key,
        key_id,
        tls,
        timeout: Some(ATTEMPT),
        connect_timeout: CONNECT,
        peer_silence: Some(PEER_SILENCE),
        ..flexrpc::ClientOptions::default()
    })
}
