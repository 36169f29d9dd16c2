//! Many writers, one file, on any store: PLFS (Bent et al., SC 2009; on HDFS: Cranor, Polte, Gibson).
//!
//! A logical file is a *container*, a directory of the store. Each writer appends to a data log and
//! an index log of its own, so that no two write one file, and stores that only append will do.
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
//! In the end the logs become a plain file: `finalize` joins them where the store can, and where each
//! has a contiguous part (`plan.rs` says where the bytes are meanwhile).
//!
//! **Order.** Overlapping writes are ordered by (epoch, rank, nonce, place in the log). A writer
//! learns at each sync which epochs others have published, and publishes the next one before it writes
//! the block. So bytes that were synced before another writer's sync began are older than what that sync
//! publishes, and so are those of a writer that ended in the middle of a sync. No clock takes part.
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
mod old;
pub mod pattern;
mod plan;
mod random;
mod reader;
mod scratch;
mod table;
mod view;
mod writer;

pub use container::{Container, Options};
pub use finalize::{Finalized, Way};
pub use inspect::{Problem, Recovery, WriterSummary};
pub use layout::LogName;
pub use old::Converted;
pub use reader::{Extent, Reader};
#[doc(hidden)]
pub use table::decode_all as decode_merged_index;
pub use writer::Writer;
