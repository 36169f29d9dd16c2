//! The mark, a file beside the log: the number of a record that is on disk, with all earlier ones.
//!
//! A log that ends before its mark has lost answered records, even if its last frame is valid. The
//! namenode writes the mark after each sync of the log, and syncs it from time to time. So the mark
//! never exceeds the log. If the process is killed, the mark is exact; after a power failure, it may
//! be too low.

use super::{
    FORMAT_VERSION, LogError,
    frame::{u32_at, u64_at},
};
use crate::disk::{Disk, DiskFile};
use std::io;
use strait_crc::crc32c;

const NAME: &str = "mark";
const TEMPORARY: &str = "mark.tmp";
const MAGIC: u32 = u32::from_le_bytes(*b"KMRK");
const SLOT_BYTES: usize = 32;
/// Offset of the second slot. Writes alternate between two pages of the file, so after a torn write
/// the other slot still has the previous number.
const SECOND_SLOT: u64 = 4096;

/// The mark of an open log.
#[derive(Debug)]
pub(super) struct Mark<F> {
    file: F,
    cluster: u64,
    slot: u64,
    synced: bool,
}

impl<F: DiskFile> Mark<F> {
    /// Opens the mark, or makes it if the log has none. Raises it to record `sequence`, durably.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub(super) fn set<D: Disk<File = F>>(disk: &D, cluster: u64, sequence: u64) -> io::Result<Self> {
        let file = match disk.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_mark(disk, cluster)?;
                disk.open(NAME)?
            }
            opened => opened?,
        };
        let newest = newest(&file, cluster)?;
        let mut mark = Self { file, cluster, slot: newest.map_or(0, |(_, slot)| slot), synced: true };
        if newest.is_none_or(|(marked, _)| marked < sequence) {
            mark.note(sequence)?;
            mark.file.sync_data()?;
            mark.synced = true;
        }
        Ok(mark)
    }

    /// Writes the mark for record `sequence`, which is on disk, without a sync of the mark.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub(super) fn note(&mut self, sequence: u64) -> io::Result<()> {
        self.slot = SECOND_SLOT - self.slot;
        self.synced = false;
        self.file.write_at(self.slot, &slot(self.cluster, sequence))
    }

    /// The mark's file, if it changed since the last call. The caller syncs it.
    pub(super) fn unsynced(&mut self) -> Option<F> {
        (!std::mem::replace(&mut self.synced, true)).then(|| self.file.clone())
    }
}

/// Makes the mark of a log without records, durably. Make it before all other files of a new
/// directory. So if the mark is missing from a directory with other files, it was lost.
///
/// # Errors
/// An I/O error of the disk.
pub fn make_mark<D: Disk>(disk: &D, cluster: u64) -> io::Result<()> {
    let file = disk.create(TEMPORARY)?;
    file.write_at(0, &slot(cluster, 0))?;
    file.write_at(SECOND_SLOT, &slot(cluster, 0))?;
    file.sync_data()?;
    disk.rename(TEMPORARY, NAME)?;
    disk.sync_names()
}

/// The number in the mark. None if there is no mark: older versions made none.
///
/// # Errors
/// An I/O error of the disk; the mark is damaged, or belongs to another cluster.
pub fn read_mark<D: Disk>(disk: &D, cluster: u64) -> Result<Option<u64>, LogError> {
    let file = match disk.open(NAME) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match newest(&file, cluster)? {
        Some((sequence, _)) => Ok(Some(sequence)),
        None => {
            Err(LogError::Foreign { file: NAME.to_owned(), why: "the file is damaged or of another cluster" })
        }
    }
}

/// The highest number in a valid slot, and the slot's offset.
fn newest<F: DiskFile>(file: &F, cluster: u64) -> io::Result<Option<(u64, u64)>> {
    let mut newest = None;
    for at in [0, SECOND_SLOT] {
        let bytes = file.read_vec(at, SLOT_BYTES)?;
        newest = newest.max(parse(&bytes, cluster).map(|sequence| (sequence, at)));
    }
    Ok(newest)
}

fn slot(cluster: u64, sequence: u64) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(&MAGIC.to_le_bytes());
    slot[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    slot[8..16].copy_from_slice(&cluster.to_le_bytes());
    slot[16..24].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c(&slot[..28]);
    slot[28..].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn parse(slot: &[u8], cluster: u64) -> Option<u64> {
    let sound = slot.len() == SLOT_BYTES
        && u32_at(slot, 0)? == MAGIC
        && u64_at(slot, 8)? == cluster
        && u32_at(slot, 28)? == crc32c(&slot[..28]);
    sound.then(|| u64_at(slot, 16)).flatten()
}
