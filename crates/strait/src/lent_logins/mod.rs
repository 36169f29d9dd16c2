//! Lent logins: short-lived logins that the command `run` gets from gateways, for its helpers on other hosts
//! and for the commands of these.
//!
//! ```text
//!   gateway ─→ Issued, in the command `run` ─ secrets ─→ Received, in a helper ─ descriptor ─→ in its commands
//! ```

mod issued;
mod received;
mod secret;

pub use issued::{Issued, LENT_FOR};
pub use received::Received;

/// The environment variable with the number of a descriptor that a helper's commands inherit. The descriptor
/// refers to the logins in memory, where no other user can read them.
pub const VARIABLE: &str = "STRAIT_LOGINS_FD";
