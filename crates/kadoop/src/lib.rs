//! Floor 1: Kadoop, the cluster file system that Strait embeds.
//!
//! ```text
//!   client ──────────── namenode ─── log, checkpoints
//!   writer, reader      names, chunks, leases, recovery
//!     │ chain of writes    │ orders, in the answers to heartbeats
//!     └──── datanode ──────┘
//!           replicas, checksums ─── data directories
//! ```
//!
//! The protocol is written down in `docs/kadoop-protocol.md`; read it first. All else is in
//! `docs/kadoop-internals.md`. Its parts are state machines: no socket, thread or clock of
//! their own; time and random numbers come as arguments, files by the trait [`disk::Disk`]. So
//! the whole cluster runs under a seeded simulation (`tests/simulation`). [`service`] has the
//! processes around them and [`Client`], which is what programs use.
//!
//! This room must never: change the namenode's state but by applying a record; let
//! an answer leave before the log; change a sealed replica's bytes; decide anything
//! from a datanode's absence; know of Strait.

pub mod client;
pub mod config;
mod crc32c;
pub mod datanode;
pub mod disk;
pub mod error;
pub mod faults;
mod ids;
pub mod log;
pub mod messages;
pub mod namenode;
pub mod service;
pub mod wire;

pub use config::Config;
pub use error::{Error, Result};
pub use ids::{ChunkId, ClientId, FileId, Identity, Incarnation, InodeNo, Member, Millis, NodeId, Stamp};
pub use service::{Client, ClientOptions};
