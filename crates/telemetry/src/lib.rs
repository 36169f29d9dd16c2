//! Servers' records of their own work.
//!
//! ```text
//!   RequestId   (FlexRPC's) one number through every hop, into logs and records
//!   Calls       latencies and errors of each operation; the log of slow calls
//!   AuditLog    user, operation and permission of each request: lines in a file
//!   Page        all counts, in Prometheus' text format
//! ```
//!
//! The gateway, the namenode and the datanodes all use these, so their logs and metrics have the same
//! formats. To count a call takes two additions to memory that few other threads write to (15 ns),
//! and two reads of the clock (50 ns). An audit record takes 0.3 µs, or 1.1 µs while four threads add
//! records without pause. Other threads do the longer work (lines on disk, a page of numbers).
//!
//! This room must never: use memory that grows with the number of callers; delay a call for longer
//! than it takes to buffer its audit record, unless the disk can't keep up with the log; write keys,
//! tokens or contents.

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
