//! The state machines of Kadoop, the cluster file system that Strait embeds.
//!
//! ```text
//!   client ──────────── namenode ─── log, checkpoints
//!   writer, reader      names, chunks, leases, recovery
//!     │ chain of writes    │ orders, in the answers to heartbeats
//!     └──── datanode ──────┘
//!           replicas, checksums ─── data directories
//! ```
//!
//! Read the protocol first: `docs/kadoop-protocol.md`. `docs/kadoop-internals.md` has the rest. The
//! parts are state machines without socket, thread or clock. Callers pass time and random numbers
//! as arguments, and files as the trait [`disk::Disk`]. So a seeded simulation can run the whole
//! cluster (`tests/simulation`). The crates kadoop-server and kadoop-client add sockets, threads and
//! clocks; kadoop-wire encodes the messages.
//!
//! This crate must never: change the namenode's state except by applying a record; send an answer
//! before its records are on disk; change a sealed replica's bytes; decide anything from a
//! datanode's absence; open a socket, start a thread, read a clock; know of Strait.

mod check;
pub mod client;
pub mod config;
pub mod datanode;
pub mod disk;
pub mod error;
pub mod faults;
mod ids;
pub mod log;
pub mod messages;
pub mod namenode;

pub use config::Config;
pub use error::{Error, Result};
pub use ids::{
    ChunkId, ClientId, FileId, Holder, Identity, Incarnation, InodeNo, Member, Millis, NodeId, Stamp,
};
