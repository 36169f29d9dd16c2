//! Servers' records of their own work.
//!
//! ```text
//!   RequestId   (FlexRPC's) one number through every hop, into logs and records
//!   Calls       latencies and errors of each operation; the log of slow calls
//!   AuditLog    user, operation and permission of each request: lines in a file
//!   Page        all counts, in Prometheus' text format
//! ```
//!
//! The gateway, the namenode and the datanodes all use these, so that there is one format of each.
//! A call makes two additions to memory that few other threads write to (15 ns, and 50 for two
//! reads of the clock). An audit record takes 0.3 µs, or 1.1 if four threads do nothing else. Other
//! threads do the longer work (lines on disk, a page of numbers).
//!
//! This room must never: keep more for a caller than a fixed number of counters; delay a call for
//! longer than its audit record takes to be buffered, unless the disk can't keep up with the log;
//! write keys, tokens or contents.

mod audit;
mod calls;
mod histogram;
mod page;
mod seldom;
mod text;

pub use audit::{AuditLog, Record};
pub use calls::Calls;
pub use page::{Kind, Page};
pub use seldom::Seldom;
pub use strait_flexrpc::{Entered, RequestId};
pub use text::misleads;
