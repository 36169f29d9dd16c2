//! The client: writers and readers of files, as state machines.
//!
//! ```text
//!   application ─ append, flush, sync, close ─→ WriterCore ─→ calls ─┐
//!   application ─ read(offset, length) ───────→ ReaderCore ─→ calls ─┤ the caller
//!                        inputs ←── the outcome of each call ────┘ makes them
//! ```
//!
//! Both are a [`Core`].
//!
//! The caller's duties:
//!
//! 1. After each input, take calls from `next_call()` until it returns None, and make these calls in
//!    parallel, for example each in a thread. Each has an id, and a time within which to report its
//!    outcome. If there is none by then, report [`Outcome::Unknown`] or [`Error::Unavailable`].
//! 2. If `next_call()` returns a mutation with the same id as before, it is a retry. Send it to the
//!    namenode with the same [`RequestId`] ([`RequestNumbers`]). Within the given time, retry it as often as
//!    you like.
//! 3. Call `tick` when `wake_at` is due.
//! 4. While a client has files open, renew its leases. Once a second is enough.
//! 5. After a writer's failure, the client still has the file's lease and keeps renewing it. Request
//!    recovery ([`Mutation::RecoverLease`]), or no other writer can get the file.
//!
//! [`Outcome::Unknown`]: crate::messages::Outcome::Unknown
//! [`Error::Unavailable`]: crate::Error::Unavailable
//! [`Mutation::RecoverLease`]: crate::messages::Mutation::RecoverLease
//! [`RequestId`]: crate::messages::RequestId

mod memory;
mod reader;
mod request_numbers;
mod writer;

pub use crate::check::Checked;
pub use memory::{Budget, Budgets, Holder, Unbounded};
pub use reader::{Content, LOCATE_BYTES, ReadCall, ReaderCore};
pub use request_numbers::RequestNumbers;
pub use writer::{Goal, WriteCall, WriterCore};

use crate::Millis;

/// One of a writer's or reader's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A writer's or reader's state machine.
pub trait Core: Send {
    /// A call that it needs.
    type Call: Send;

    /// The next call to make.
    fn next_call(&mut self) -> Option<Issue<Self::Call>>;

    /// Time at which to call [`Core::tick`], unless another input comes before.
    fn wake_at(&self) -> Option<Millis>;

    /// Does the work due at `now`.
    fn tick(&mut self, now: Millis);
}

/// A call to make.
#[derive(Debug, Clone)]
pub struct Issue<C> {
    /// The call's id. Pass it along with the outcome.
    pub id: CallId,
    /// Time within which to report the outcome.
    pub within_ms: Millis,
    /// The call.
    pub call: C,
}
