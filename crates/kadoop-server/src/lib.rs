//! Kadoop's processes: thin shells around the cores, on FlexRPC.
//!
//! ```text
//!   client ── calls ──→ NamenodeServer: lock ─ core ─ group commit ─→ log
//!     │                    ↑ heartbeats, answered with orders
//!     └─ chains, reads ─→ DatanodeServer: core ─→ data directories
//! ```
//!
//! The servers run in any process; `strait namenode` and `strait datanode` run one each.
//!
//! This crate does I/O, threads, clocks and keys, and makes no decisions. The cores decide which
//! bytes are written, trusted or deleted. Clients must never link this crate.

mod checkpoints;
mod commit;
mod datanode;
mod dump;
mod namenode;
mod observed;
mod storage_directory;

pub use datanode::{DatanodeNumbers, DatanodeOptions, DatanodeServer, ShortCircuit};
pub use dump::dump_log;
pub use namenode::{Accounts, Logins, NamenodeNumbers, NamenodeOptions, NamenodeServer};
pub use storage_directory::Role;

use std::time::Duration;

/// Default duration from which a call counts as slow and is logged. HDFS's datanodes have the same default
/// (`dfs.datanode.slow.io.warning.threshold.ms`). A sync on a busy disk takes less.
const SLOW_CALL: Duration = Duration::from_millis(300);
