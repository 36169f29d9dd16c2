//! The latest point of the namenode's log that a datanode knows of, stored in each data directory.
//!
//! The datanode writes it from time to time. If the process is killed, the latest written point
//! remains. After a power failure, the remaining point may be older.

use crate::{
    Millis,
    disk::{Disk, DiskFile},
    messages::Point,
};
use strait_crc::crc32c;

const NAME: &str = "heard";
const MAGIC: u32 = u32::from_le_bytes(*b"KHRD");
const VERSION: u32 = 1;
const SLOT_BYTES: usize = 36;
/// Offset of the second slot. Writes alternate between two pages of the file, so after a torn write the
/// other slot still has the previous point.
const SECOND_SLOT: u64 = 4096;
/// Time between two writes. A point of another start of a namenode is written at the next tick.
const PERIOD_MS: Millis = 5_000;

/// The latest point, and the files that store it.
pub(super) struct Memory<F> {
    /// The file in each directory, if it has one.
    files: Vec<Option<F>>,
    /// Number of the latest write.
    count: u64,
    heard: Point,
    written: Point,
    write_at: Millis,
    synced: bool,
}

impl<F: DiskFile> Memory<F> {
    /// Loads the newest point from the directories.
    pub(super) fn open<D: Disk<File = F>>(directories: &[D]) -> Self {
        // Ignore a directory without such a file: its replicas are usable all the same.
        let files: Vec<Option<F>> = directories.iter().map(|disk| disk.open(NAME).ok()).collect();
        let slots = files.iter().flatten().flat_map(|file| [0, SECOND_SLOT].map(|at| (file, at)));
        let newest = slots.filter_map(|(file, at)| parse(&file.read_vec(at, SLOT_BYTES).ok()?)).max();
        let (count, heard) = newest.unwrap_or_default();
        Self { files, count, heard, written: heard, write_at: 0, synced: true }
    }

    /// The latest point that the datanode knows of.
    pub(super) fn heard(&self) -> Point {
        self.heard
    }

    /// Replaces the point by the one in a namenode's answer.
    pub(super) fn hear(&mut self, point: Point) {
        if point.start != 0 {
            self.heard = point;
        }
    }

    /// Writes the point to the directories, if it has changed and a write is due.
    pub(super) fn tick<D: Disk<File = F>>(&mut self, directories: &[Option<D>], now: Millis) {
        let news = self.heard != self.written;
        if news && (self.heard.start != self.written.start || now >= self.write_at) {
            self.write_at = now + PERIOD_MS;
            self.write(directories);
        }
    }

    fn write<D: Disk<File = F>>(&mut self, directories: &[Option<D>]) {
        self.count += 1;
        let slot = slot(self.count, self.heard);
        let at = if self.count.is_multiple_of(2) { SECOND_SLOT } else { 0 };
        for (file, directory) in self.files.iter_mut().zip(directories) {
            let Some(directory) = directory else { continue };
            let there = file.take().or_else(|| directory.create(NAME).ok());
            // Ignore a failure: the other directories have the point.
            *file = there.filter(|file| file.write_at(at, &slot).is_ok());
        }
        (self.written, self.synced) = (self.heard, false);
    }

    /// The files, if they changed since the last call. The caller syncs them.
    pub(super) fn unsynced(&mut self) -> Vec<F> {
        if std::mem::replace(&mut self.synced, true) {
            return Vec::new();
        }
        self.files.iter().flatten().cloned().collect()
    }
}

fn slot(count: u64, point: Point) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(&MAGIC.to_le_bytes());
    slot[4..8].copy_from_slice(&VERSION.to_le_bytes());
    slot[8..16].copy_from_slice(&count.to_le_bytes());
    slot[16..24].copy_from_slice(&point.record.to_le_bytes());
    slot[24..32].copy_from_slice(&point.start.to_le_bytes());
    let crc = crc32c(&slot[..32]);
    slot[32..].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn parse(slot: &[u8]) -> Option<(u64, Point)> {
    let slot: &[u8; SLOT_BYTES] = slot.try_into().ok()?;
    let u32_at = |at: usize| u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]]);
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let sound = u32_at(0) == MAGIC && u32_at(4) == VERSION && u32_at(32) == crc32c(&slot[..32]);
    sound.then(|| (u64_at(8), Point { record: u64_at(16), start: u64_at(24) }))
}
