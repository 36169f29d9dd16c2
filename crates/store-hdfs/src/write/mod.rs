//! Writing without the library. The library takes 0.4 to 0.5 s to close a small file, and syncs at each
//! flush.
//!
//! ```text
//!   writer ── cutter, queue ── line ── streamer ── pipeline ── datanode ── datanode …
//!     └────────────── open_file ──────────┘
//!                         └── holder: leases of a user or a session; holders: all
//!                               └── link: one connection per user to the namenode
//!   abandoned: frees the file of a writer that is gone
//! ```
//!
//! The pure modules decide: `cutter` where a packet ends, `queue` which packets are sent next or again,
//! `policy` which datanode failed and whether to replace it. The others have the sockets: `pipeline` writes
//! one block; `streamer`, a task, writes one file. All follow `DataStreamer` and `DFSOutputStream` of
//! Hadoop's client.
//!
//! Limits: each writer has at most 4 MiB and one append unacknowledged. [`strait_store::budget`] bounds the
//! memory of all writers and readers together. A writer that gets no memory waits until datanodes have its
//! bytes.
//!
//! This code serves clusters with SIMPLE authentication and without encrypted transfer, and replicated files
//! outside encryption zones. The library serves the rest.

mod abandoned;
mod cutter;
#[cfg(test)]
pub(super) mod fake;
#[cfg(test)]
mod faults;
mod holder;
mod holders;
mod line;
mod link;
mod open_file;
mod pipeline;
mod policy;
mod queue;
mod settings;
mod streamer;
mod wire;
mod writer;

pub(super) use abandoned::{recover_from, recover_unknown};
pub(super) use holder::LeaseHolder;
pub(super) use holders::Holders;
pub(super) use open_file::{NewFile, OpenFile, Opened};
pub(super) use settings::Settings;
#[cfg(test)]
pub(super) use wire::GetFileInfoResponse;
pub(super) use wire::HdfsFileStatus;
pub(super) use writer::{Context, DatanodesWriter};
