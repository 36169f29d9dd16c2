//! The execution of a chain call, which the call's owner gives to a worker.

use crate::proto::Micros;
use crate::proto::extension::Caller;
use crate::proto::frame::Head;
use crate::server::core::Origin;
use bytes::Bytes;

/// A chain call to execute at this callee.
pub(crate) struct Job {
    /// The number of the [`ChainCall`](super::call::ChainCall).
    pub(crate) call: u64,
    pub(crate) head: Head,
    pub(crate) args: Bytes,
    pub(crate) caller: Caller,
    pub(crate) origin: Origin,
    pub(crate) arrived: Micros,
}
