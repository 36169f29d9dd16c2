//! Code that Kadoop's servers and clients share: the messages between them, their keys and their errors.
//!
//! ```text
//!   idl/kadoop.x ── frpcgen ──→ wire ── convert ──→ the cores' values
//!                     keys ─→ tokens ─→ proofs      rights to chunks, and proofs of answers
//!                     keys ─→ credentials           keys of users that log in
//!                     failure                       errors as numbers of the interface
//!                     lending                       descriptors over a Unix socket
//!                     clock, stop, descriptors      time, threads, limits
//!                     random, directory_sync        random numbers, names on disk
//! ```
//!
//! This crate makes no decisions, and never knows the state of a namenode or a datanode.

pub mod clock;
pub mod convert;
pub mod credentials;
pub mod descriptors;
pub mod directory_sync;
pub mod failure;
pub mod keys;
pub mod lending;
pub mod proofs;
pub mod random;
pub mod stop;
pub mod tokens;
pub mod wire;

pub use convert::Host;
pub use credentials::Epoch;
pub use descriptors::Descriptors;
pub use failure::Failure;
pub use keys::{ClientKey, KEY_BYTES, Key};

/// Certificates, for logins.
pub mod tls {
    pub use strait_flexrpc::{ClientTls, Identity, ServerTls, TlsError, Trust};
}

use std::time::Duration;

/// A host that acknowledges no packet for this time counts as unreachable. It is as long as a write may take.
/// The answer to a call may take longer, for example during a slow disk's sync.
pub const PEER_SILENCE: Duration = Duration::from_secs(2);
