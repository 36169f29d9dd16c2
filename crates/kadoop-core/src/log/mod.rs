//! The namenode's log and its checkpoints, as files. This module treats records as opaque bytes.
//!
//! ```text
//!   log-SEQUENCE        header │ frame │ frame │ … │ zeroes (preallocated)
//!   checkpoint-SEQUENCE header │ block │ block │ … │ last block
//!   mark                number of a record on disk
//! ```
//!
//! A frame holds the records of one sync. The next frame is written only after that sync, so a crash
//! can tear only the last frame. If a valid frame follows an invalid one, or if the log ends before
//! the mark, the log is damaged. Records are numbered from 1 without gaps.

mod checkpoint;
mod frame;
mod mark;
mod reader;
mod writer;

pub use checkpoint::{CheckpointWriter, read_checkpoint};
pub use frame::MAX_FRAME_BYTES;
pub use mark::{make_mark, read_mark};
pub use reader::{Tail, read_log};
pub use writer::Journal;

use crate::faults::{Fault, Faults};
use std::io;
use thiserror::Error;

/// The current format, and the only one so far.
pub const FORMAT_VERSION: u32 = 1;

/// The reason why a namenode can't start from its directory.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk failed.
    #[error("the disk failed: {0}")]
    Disk(#[from] io::Error),
    /// Records are missing.
    #[error(
        "{segment} begins with record {found}, but record {expected} comes next: a segment is missing. \
         Restore that file, or start from a copy of this directory"
    )]
    Gap {
        /// The segment that begins too late.
        segment: String,
        /// The missing record.
        expected: u64,
        /// The segment's first record.
        found: u64,
    },
    /// A frame is damaged, and other frames follow it.
    #[error(
        "{file} is damaged at byte {offset}, and valid frames follow, so this isn't a torn write. \
         Restore the file, or start from a copy of this directory"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Offset in it, in bytes.
        offset: u64,
    },
    /// Records that were on disk are missing at the log's end.
    #[error(
        "the log ends with record {found}, but record {marked} was on disk: the log's end is missing or \
         damaged. Restore the log's files, or start from a copy of this directory that has the record"
    )]
    Short {
        /// The last record in the log, or in the newest checkpoint.
        found: u64,
        /// The record in the mark.
        marked: u64,
    },
    /// The file is from a newer program or another cluster, or was renamed.
    #[error("{file}: {why}")]
    Foreign {
        /// The file.
        file: String,
        /// The mismatch.
        why: &'static str,
    },
    /// An undamaged record doesn't fit the state before it.
    #[error("record {sequence} can't be applied: {why}")]
    Record {
        /// The record.
        sequence: u64,
        /// The contradiction.
        why: &'static str,
    },
}

fn segment_name(first_sequence: u64) -> String {
    format!("log-{first_sequence:020}")
}

fn checkpoint_name(sequence: u64) -> String {
    format!("checkpoint-{sequence:020}")
}

/// The numbers that follow `prefix` in those of the names that begin with it, in rising order.
fn numbered(names: &[String], prefix: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The numbers of the segments' first records, in rising order.
pub fn segments(names: &[String]) -> Vec<u64> {
    numbered(names, "log-")
}

/// The numbers of the last record in each checkpoint, in rising order.
pub fn checkpoints(names: &[String]) -> Vec<u64> {
    numbered(names, "checkpoint-")
}

/// Removes files that no start needs: all checkpoints but the two newest, and all segments that the
/// older of the two covers. A start uses the second checkpoint if the newest is unreadable.
///
/// # Errors
/// An I/O error of the disk.
pub fn prune<D: crate::disk::Disk>(disk: &D, faults: Faults) -> io::Result<()> {
    let names = disk.list()?;
    let checkpoints = checkpoints(&names);
    let kept = if faults.has(Fault::CheckpointKeptAlone) { 1 } else { 2 };
    let Some(kept) = checkpoints.len().checked_sub(kept) else { return Ok(()) };
    for old in &checkpoints[..kept] {
        disk.remove(&checkpoint_name(*old))?;
    }
    // A segment ends where the next begins.
    for pair in segments(&names).windows(2) {
        if pair[1] <= checkpoints[kept] + 1 {
            disk.remove(&segment_name(pair[0]))?;
        }
    }
    disk.sync_names()
}
