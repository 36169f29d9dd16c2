//! What Kadoop's servers and clients share: the messages between them, and the means to send them.
//!
//! ```text
//!   idl/kadoop.x ── frpcgen ──→ wire ── convert ──→ the cores' values
//!                     keys ─→ tokens ─→ proofs      who may do what, and proves it
//!                     keys ─→ credentials           users' own keys
//!                     failure                       errors as numbers of the interface
//!                     lending                       descriptors over a Unix socket
//!                     clock, stop, descriptors, system   the process's means
//! ```
//!
//! This room must never: decide anything; know a namenode's or a datanode's state.

pub mod clock;
pub mod convert;
pub mod credentials;
pub mod descriptors;
pub mod failure;
pub mod keys;
pub mod lending;
pub mod proofs;
pub mod stop;
pub mod system;
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

/// Time after which a host that acknowledges no packet counts as unreachable: as long as a write
/// may take. The answer itself may take longer, for example with a slow disk's sync.
pub const PEER_SILENCE: Duration = Duration::from_secs(2);
