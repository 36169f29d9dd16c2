//! Callers without the cluster's key: by keys of their own, or by none.
//!
//! ```text
//!   Hello, key id, tag by that key ──→ KeyLookup ──→ OwnKey: key, holder
//!                                                      │
//!   Call, tag by key and session ────→ session's Bond ─┘──→ Request::holder
//! ```
//!
//! A session belongs to the key that it was opened under: a frame of it that another key
//! tagged is a stranger's, the cluster's own key included. So holders can neither call nor
//! revoke in each other's sessions. Only the handshake names the key; calls are as long as
//! without.
//!
//! Threat model: as of the cluster's key ([`super::auth`]), for each key by itself. Holders
//! don't trust each other. A server without the lookup refuses the handshake, and a client
//! never falls back to another key, so nobody can downgrade a caller.

use crate::proto::auth::{ClusterKey, SessionKey};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Longest id of a key, in bytes: what a server needs to find or derive a key, such as a name,
/// a date and a number.
pub const KEY_ID_BYTES: usize = 255;

/// Names a key: anything but a secret, since it crosses the wire in the clear.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(Arc<[u8]>);

impl KeyId {
    /// Of at most [`KEY_ID_BYTES`]; `None` if there are more, or none.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (1..=KEY_ID_BYTES).contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Finds callers' own keys.
pub trait KeyLookup: Send + Sync + 'static {
    /// The key with this id; `None` if there is none, or none any more. Strangers can ask for
    /// any id, once each handshake: it must be cheap, and the answer bounded.
    fn find(&self, id: &KeyId) -> Option<OwnKey>;
}

/// Whoever has a key of its own. Services get it with each call, and know its type.
pub trait Holder: Any + Send + Sync {
    /// Whether the key still holds. Asked before each call: once it doesn't, calls are
    /// refused, in sessions that were opened before as well.
    fn is_valid(&self) -> bool;
}

/// A caller's own key.
#[derive(Clone)]
pub struct OwnKey {
    /// It tags the caller's frames.
    pub key: ClusterKey,
    /// Whose it is.
    pub holder: Arc<dyn Holder>,
}

/// How a server finds callers' own keys.
#[derive(Clone)]
pub struct OwnKeys(pub Arc<dyn KeyLookup>);

impl fmt::Debug for OwnKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKeys(secret)")
    }
}

/// What a session was opened under, if not the cluster's key.
pub enum Bond {
    /// A key of the caller's own.
    Own {
        /// Tags the session's frames.
        key: SessionKey,
        /// Whose it is.
        holder: Arc<dyn Holder>,
    },
    /// None: its calls come by TLS, to programs that are open to anybody.
    Keyless,
}
