//! The cluster as processes: thin shells around the cores, on FlexRPC.
//!
//! ```text
//!   Client ── calls ──→ NamenodeServer: lock ─ core ─ group commit ─→ log
//!     │                    ↑ heartbeats, answered with orders
//!     └─ chains, reads ─→ DatanodeServer: core ─→ data directories
//! ```
//!
//! [`Client`] is the interface for programs. The servers run in any process; `strait namenode` and
//! `strait datanode` run one each.
//!
//! This module does I/O, threads, clocks and keys, and decides nothing. The cores decide which
//! bytes may be written, believed or deleted.

mod checkpoints;
mod client;
mod clock;
mod commit;
pub mod convert;
mod credentials;
mod datanode;
mod descriptors;
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
    Password, Reader, RefusedNode, ShortCircuitReads, Standings, Verified, Verifier, Writer,
};
pub use convert::Host;
pub use credentials::Epoch;
pub use datanode::{DatanodeNumbers, DatanodeOptions, DatanodeServer, ShortCircuit};
pub use descriptors::Descriptors;
pub use dump::dump_log;
pub use failure::Failure;
pub use home::Role;
pub use keys::{ClientKey, KEY_BYTES, Key};
pub use namenode::{Accounts, Logins, NamenodeNumbers, NamenodeOptions, NamenodeServer};

/// Certificates, for logins.
pub mod tls {
    pub use strait_flexrpc::{ClientTls, Identity, ServerTls, TlsError, Trust};
}

use std::time::Duration;

/// Default duration from which a call counts as slow and is logged. HDFS's datanodes have the same
/// (`dfs.datanode.slow.io.warning.threshold.ms`). It is above a busy disk's sync.
const SLOW_CALL: Duration = Duration::from_millis(300);

/// Time after which a host that acknowledges no packet counts as unreachable: as long as a write
/// may take. The answer itself may take longer, for example with a slow disk's sync.
const PEER_SILENCE: Duration = Duration::from_secs(2);
