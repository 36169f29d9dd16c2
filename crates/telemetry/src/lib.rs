//! Floor 0: what a server tells of its work.
//!
//! ```text
//!   RequestId   one number through every hop, into logs and records
//!   Calls       latencies and errors of each operation; says which calls are slow
//!   AuditLog    who asked for what, and whether it was allowed: lines in a file
//!   Page        all that is counted, in Prometheus' text format
//! ```
//!
//! The gateway, the namenode and the datanodes all use these, so that there is one format
//! of each. Counting is two additions to memory that few other threads write to (15 ns, and
//! 50 for two looks at the clock; an audit record takes 0.3 µs, 1.1 where four threads do
//! nothing else); what takes longer (lines on disk, a page of numbers) is done by others.
//!
//! This room must never: keep more for a caller than a fixed number of counters; hold up
//! a call for longer than its audit record takes to be put in a buffer, unless the disk
//! can't keep up with the log; write down keys, tokens or contents.

mod audit;
mod calls;
mod histogram;
mod page;
mod request_id;
mod seldom;

pub use audit::{AuditLog, Record};
pub use calls::Calls;
pub use page::{Kind, Page};
pub use request_id::{Entered, RequestId};
pub use seldom::Seldom;
