//! The cluster as processes: thin shells around the cores, on FlexRPC.
//!
//! ```text
//!   Client ── calls ──→ NamenodeServer: lock ─ core ─ group commit ─→ log
//!     │                    ↑ heartbeats, answered with orders
//!     └─ chains, reads ─→ DatanodeServer: core ─→ data directories
//! ```
//!
//! [`Client`] is what programs use. The servers run in any process; `strait namenode`
//! and `strait datanode` are one each.
//!
//! This module does I/O, threads, clocks and keys, and decides nothing: what may be
//! written, believed or deleted is the cores' to say.

mod checkpoints;
mod client;
mod clock;
mod commit;
pub mod convert;
mod credentials;
mod datanode;
mod dump;
mod failure;
mod home;
mod keys;
mod lending;
mod namenode;
mod observed;
pub mod proofs;
mod stop;
pub mod tokens;

pub use client::{
    Access, Client, ClientOptions, ClusterStatus, CreateOptions, Digester, Location, Login, NodeStatus,
    Password, Reader, ShortCircuitReads, Standings, Writer,
};
pub use convert::Host;
pub use credentials::Epoch;
pub use datanode::{DatanodeNumbers, DatanodeOptions, DatanodeServer, ShortCircuit};
pub use dump::dump_log;
pub use failure::Failure;
pub use keys::{ClientKey, KEY_BYTES, Key};
pub use namenode::{Accounts, Logins, NamenodeNumbers, NamenodeOptions, NamenodeServer};

/// Certificates, for logins.
pub mod tls {
    pub use strait_flexrpc::{ClientTls, Identity, ServerTls, TlsError, Trust};
}

use std::time::Duration;

/// From here on a call is slow, and written to the log, if nothing else is said: as HDFS's datanodes
/// have it (`dfs.datanode.slow.io.warning.threshold.ms`); above a busy disk's sync.
const SLOW_CALL: Duration = Duration::from_millis(300);

/// A host that acknowledges nothing for so long is cut off, or gone: as long as a write may take.
/// What it was asked may take longer, as a slow disk's sync does.
const PEER_SILENCE: Duration = Duration::from_secs(2);
