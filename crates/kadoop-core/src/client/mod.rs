//! The client: writers and readers of files, as state machines.
//!
//! ```text
//!   application ─ append, flush, sync, close ─→ WriterCore ─→ calls ─┐
//!   application ─ read(offset, length) ───────→ ReaderCore ─→ calls ─┤ the caller
//!                        inputs ←── what became of each call ────┘ makes them
//! ```
//!
//! The caller's duties:
//!
//! 1. After each input take all of `next_call()`, and make these calls in parallel, for example
//!    each in a thread. Each has an id, and a time within which to report its outcome,
//!    if need be [`Outcome::Unknown`] or [`Error::Unavailable`].
//! 2. A mutation that comes again with the same id is the same request. Send it to
//!    the namenode with the same [`RequestId`] ([`Requests`]). Within the given time, retry it
//!    as often as you like.
//! 3. Call `tick` when `wake_at` is due.
//! 4. While a client has files open, renew its leases (each second is plenty).
//! 5. After a writer's failure the client, which is alive, still has the file's lease. Request
//!    recovery ([`Mutation::RecoverLease`]), or no other writer can get the file.
//!
//! [`Outcome::Unknown`]: crate::messages::Outcome::Unknown
//! [`Error::Unavailable`]: crate::Error::Unavailable
//! [`Mutation::RecoverLease`]: crate::messages::Mutation::RecoverLease
//! [`RequestId`]: crate::messages::RequestId

mod memory;
mod reader;
mod requests;
mod writer;

pub use crate::check::Checked;
pub use memory::{Budget, Budgets, Holder, Unbounded};
pub use reader::{Content, LOCATE_BYTES, ReadCall, ReaderCore};
pub use requests::Requests;
pub use writer::{Goal, WriteCall, WriterCore};

use crate::Millis;

/// One of a writer's or reader's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call to make.
#[derive(Debug, Clone)]
pub struct Issue<C> {
    /// Return it with the call's outcome.
    pub id: CallId,
    /// Time within which to report the outcome.
    pub within_ms: Millis,
    /// The call.
    pub call: C,
}
