//! Writing without the library: small files without its fixed wait, and flush apart from sync.
//!
//! ```text
//!   writer ── cutter, queue ── line ── streamer ── pipeline ── datanode ── datanode …
//!     │                                   │
//!     └──────────── holder: one connection to the namenode a user ┘
//! ```
//!
//! The pure part decides: `cutter` where a packet ends, `queue` which packet comes next and which are
//! to be sent again, `policy` which datanode failed and whether it is replaced. The shell has the
//! sockets: `pipeline` for one block, `streamer` for one file, a task. `DataStreamer` and
//! `DFSOutputStream` of Hadoop's client are the model for all of it.
//!
//! Limits: 4 MiB on their way and one append for each writer; the memory of all is that of
//! [`strait_store::budget`], as for readers. A writer without memory waits until datanodes have its bytes,
//! which stay its caller's until then.
//!
//! It serves clusters with SIMPLE authentication and without encrypted transfer, and replicated files
//! in no encryption zone. The library has the rest.

mod cutter;
#[cfg(test)]
mod fake;
mod holder;
mod line;
mod pipeline;
mod policy;
mod queue;
mod settings;
mod streamer;
mod wire;
mod writer;

pub(super) use holder::{Holders, LeaseHolder};
pub(super) use settings::Settings;
pub(super) use wire::FileStatus;
pub(super) use writer::{Context, DatanodesWriter};
