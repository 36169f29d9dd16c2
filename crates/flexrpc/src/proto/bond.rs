//! Callers without the cluster's key: they have keys of their own, or no key.
//!
//! ```text
//!   Hello, key id, tag by that key ──→ KeyLookup ──→ OwnKey: key, holder
//!                                                      │
//!   Call, tag by key and session ────→ session's Bond ─┘──→ Request::holder
//! ```
//!
//! A session belongs to the key that opened it. The server treats a frame with any other key's tag
//! as a stranger's, even if the tag is by the cluster's key. So holders can neither call nor revoke
//! in each other's sessions. Only the handshake names the key; calls don't get longer.
//!
//! The threat model of the cluster's key ([`super::auth`]) applies to each own key separately.
//! Holders don't trust each other. A server without the lookup refuses the handshake, and a client
//! never falls back to another key, so nobody can downgrade a caller.

use crate::proto::auth::{ClusterKey, SessionKey};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Longest id of a key, in bytes. A server finds or derives the key from it: a name, a date and
/// a number fit.
pub const KEY_ID_BYTES: usize = 255;

/// Names a key. It crosses the wire in clear text, so it mustn't be secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(Arc<[u8]>);

impl KeyId {
    /// `None` if `bytes` is empty or longer than [`KEY_ID_BYTES`].
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
    /// The key with this id; `None` if no key has it, or the key is no longer valid. Strangers can
    /// ask for any id, once in each handshake. So the lookup must take little time and memory.
    fn find(&self, id: &KeyId) -> Option<OwnKey>;
}

/// The owner of a key. Services get it with each call and can downcast it to their own type.
pub trait Holder: Any + Send + Sync {
    /// Whether the key is still valid. The server asks before each call. If it isn't, the server
    /// refuses the call, even in a session that is already open.
    fn is_valid(&self) -> bool;
}

/// A caller's own key.
#[derive(Clone)]
pub struct OwnKey {
    /// The key that tags the caller's frames.
    pub key: ClusterKey,
    /// The key's owner.
    pub holder: Arc<dyn Holder>,
}

/// A server's lookup of callers' own keys.
#[derive(Clone)]
pub struct OwnKeys(pub Arc<dyn KeyLookup>);

impl fmt::Debug for OwnKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnKeys(secret)")
    }
}

/// A session's key, if it isn't the cluster's.
pub enum Bond {
    /// A key of the caller's own.
    Own {
        /// Tags the session's frames.
        key: SessionKey,
        /// The key's owner.
        holder: Arc<dyn Holder>,
    },
    /// No key: the calls come by TLS, to programs that are open to anybody.
    Keyless,
}
