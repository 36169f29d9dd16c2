//! Files that many writers write at once, on any store: PLFS (Bent et al., SC 2009; on HDFS: Cranor, Polte, Gibson).
//!
//! A logical file is a *container*, a directory of the store. Each writer appends to a data log and
//! an index log of its own. So no two writers write to one file, and the store needs only appends. On a store
//! without them, each sync begins new parts of both logs (`parts.rs`).
//!
//! ```text
//!   write_at(offset, bytes)                      read_at(offset, length)
//!          │                                            │
//!       Writer ── Recorder ── block                  Reader ── View ── pieces
//!          │         (patterns)  │                      │        ▲
//!          ▼                     ▼                      ▼        │ a merged table, and newer blocks
//!   logs/RANK.NONCE.data   logs/RANK.NONCE.index    data logs   merged/…, index logs
//! ```
//!
//! At the end, `finalize` turns the logs into a plain file. It joins them without a copy if the store can
//! join files and each log has one contiguous part of the file. `plan.rs` says where the bytes are during the
//! join.
//!
//! **Order.** Overlapping writes are ordered by (epoch, rank, nonce, place in the log). At each sync, a
//! writer reads the highest published epoch, and publishes the next one before it writes its block. So the
//! bytes of a sync are newer than all bytes that other writers' syncs had published before it began, even if
//! such a writer crashed before its sync returned. The order doesn't depend on clocks.
//!
//! This room must never: name a store; keep more than a window of data, or a large index, in memory.

mod ahead;
pub mod block;
mod container;
mod finalize;
mod flatten;
pub mod index;
mod inspect;
mod layout;
mod logical;
mod logs;
mod merged;
mod parts;
pub mod pattern;
mod plan;
mod plfs_2_5;
mod reader;
mod scratch;
mod table;
mod view;
mod writer;

pub use container::{Container, Options};
pub use finalize::{Finalized, Way};
pub use inspect::{Problem, Recovery, WriterSummary};
pub use layout::LogName;
pub use plfs_2_5::Converted;
pub use reader::{Extent, Reader};
#[doc(hidden)]
pub use table::decode_all as decode_merged_index;
pub use writer::Writer;
