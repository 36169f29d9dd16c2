//! The client: what writes files and what reads them, as state machines.
//!
//! ```text
//!   application ─ append, flush, sync, close ─→ Writer ─→ calls ─┐
//!   application ─ read(offset, length) ───────→ Reader ─→ calls ─┤ the caller
//!                        inputs ←── what became of each call ────┘ makes them
//! ```
//!
//! The caller's duties:
//!
//! 1. After each input take all of `next_call()`, and make these calls, side by side: one
//!    thread for each is fine. Each has an id, and a time within which it is answered,
//!    if need be with [`Outcome::Unknown`] or [`Error::Unavailable`].
//! 2. A mutation that comes again with the same id is the same request: it goes to
//!    the namenode with the same [`RequestId`] ([`Requests`]). It is repeated inside the
//!    given time as often as the caller likes.
//! 3. Call `tick` when `wake_at` says so.
//! 4. While a client has files open, renew its leases (each second is plenty).
//! 5. A writer that gave up leaves its file leased to the client, which is alive: ask for
//!    its recovery ([`Mutation::RecoverLease`]), or nobody can have it.
//!
//! [`Outcome::Unknown`]: crate::messages::Outcome::Unknown
//! [`Error::Unavailable`]: crate::Error::Unavailable
//! [`Mutation::RecoverLease`]: crate::messages::Mutation::RecoverLease
//! [`RequestId`]: crate::messages::RequestId

mod check;
mod memory;
mod reader;
mod requests;
mod writer;

pub use check::Checked;
pub use memory::{Budget, Budgets, Holder, Unbounded};
pub use reader::{Content, LOCATE_BYTES, ReadCall, Reader};
pub use requests::Requests;
pub use writer::{Goal, WriteCall, Writer};

use crate::Millis;

/// One of a writer's or reader's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call to make.
#[derive(Debug, Clone)]
pub struct Issue<C> {
    /// To be given back with what became of it.
    pub id: CallId,
    /// Within which it has to be given back.
    pub within_ms: Millis,
    /// What to call.
    pub call: C,
}
