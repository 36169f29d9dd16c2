//! A checkpoint: the whole state after one record, as a stream of items in checksummed blocks. The
//! writer uses a temporary name, syncs the file, and then renames it.

use super::{
    FORMAT_VERSION, LogError, checkpoint_name,
    frame::{u32_at, u64_at},
};
use crate::{
    disk::{Disk, DiskFile},
    faults::{Fault, Faults},
};
use std::io;
use strait_crc::{crc32c, crc32c_append};

const MAGIC: u32 = u32::from_le_bytes(*b"KCHK");
const HEADER_BYTES: usize = 32;
/// Four numbers: the block's length, its number of items, its index, and its checksum.
const BLOCK_HEADER_BYTES: usize = 16;
/// A block of at least this size is written: large enough for few writes, and small compared with the
/// namenode's other memory.
const BLOCK_BYTES: usize = 64 << 10;
/// Largest block that a reader accepts.
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// Largest item. A block may exceed [`BLOCK_BYTES`] by one item and its length field.
const MAX_ITEM_BYTES: usize = MAX_BLOCK_BYTES - BLOCK_BYTES - 4;
/// Flag in the index of the last block.
const LAST: u32 = 1 << 31;
const TEMPORARY: &str = "checkpoint.tmp";

/// Writes a checkpoint.
#[derive(Debug)]
pub struct CheckpointWriter<'a, D: Disk> {
    disk: &'a D,
    file: D::File,
    sequence: u64,
    faults: Faults,
    offset: u64,
    block: Vec<u8>,
    items: u32,
    number: u32,
    finished: bool,
}

/// Removes an unfinished checkpoint, which frees its room.
impl<D: Disk> Drop for CheckpointWriter<'_, D> {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.disk.remove(TEMPORARY);
        }
    }
}

impl<'a, D: Disk> CheckpointWriter<'a, D> {
    /// Begins the checkpoint of the state after record `sequence`.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn create(disk: &'a D, cluster: u64, sequence: u64, faults: Faults) -> io::Result<Self> {
        let file = disk.create(TEMPORARY)?;
        file.write_at(0, &header(cluster, sequence))?;
        let (offset, block) = (HEADER_BYTES as u64, Vec::new());
        Ok(Self { disk, file, sequence, faults, offset, block, items: 0, number: 0, finished: false })
    }

    /// Adds an item.
    ///
    /// # Errors
    /// An I/O error of the disk; the item is larger than [`read_checkpoint`] accepts.
    pub fn item(&mut self, item: &[u8]) -> io::Result<()> {
        if item.len() > MAX_ITEM_BYTES {
            return Err(io::Error::other(format!("a checkpoint can't hold an item of {} bytes", item.len())));
        }
        self.block.extend_from_slice(&(item.len() as u32).to_le_bytes());
        self.block.extend_from_slice(item);
        self.items += 1;
        if self.block.len() >= BLOCK_BYTES { self.write_block(0) } else { Ok(()) }
    }

    /// Finishes the checkpoint. On return it is on disk under its final name.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_block(LAST)?;
        if !self.faults.has(Fault::CheckpointNotSynced) {
            self.file.sync_data()?;
        }
        let name = checkpoint_name(self.sequence);
        let is_new = !self.disk.list()?.contains(&name);
        self.disk.rename(TEMPORARY, &name)?;
        self.finished = true;
        self.disk.sync_names().inspect_err(|_| {
            // After a failed sync, the name may never reach the disk, so a crash can still remove this
            // checkpoint. [`super::prune`] must not remove older files because of it.
            if is_new {
                let _ = self.disk.remove(&name);
            }
        })
    }

    fn write_block(&mut self, flag: u32) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES + self.block.len());
        bytes.extend_from_slice(&(self.block.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.items.to_le_bytes());
        bytes.extend_from_slice(&(self.number | flag).to_le_bytes());
        let crc = crc32c_append(crc32c(&bytes), &self.block);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&self.block);
        self.file.write_at(self.offset, &bytes)?;
        self.offset += bytes.len() as u64;
        self.number += 1;
        self.items = 0;
        self.block.clear();
        Ok(())
    }
}

fn header(cluster: u64, sequence: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[8..16].copy_from_slice(&cluster.to_le_bytes());
    header[16..24].copy_from_slice(&sequence.to_le_bytes());
    let crc = crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Calls `each` with each item of the checkpoint of the state after record `sequence`, in order.
///
/// # Errors
/// An I/O error of the disk; damage; a newer version or another cluster; errors of `each`.
pub fn read_checkpoint<D: Disk>(
    disk: &D,
    cluster: u64,
    sequence: u64,
    faults: Faults,
    mut each: impl FnMut(&[u8]) -> Result<(), &'static str>,
) -> Result<(), LogError> {
    let name = checkpoint_name(sequence);
    let file = disk.open(&name)?;
    let damaged = |offset| LogError::Damaged { file: name.clone(), offset };
    let mut head = [0; HEADER_BYTES];
    file.read_at(0, &mut head)?;
    if u32_at(&head, 0) != Some(MAGIC) || u32_at(&head, 28) != Some(crc32c(&head[..28])) {
        return Err(damaged(0));
    }
    let foreign = |why| Err(LogError::Foreign { file: name.clone(), why });
    if u32_at(&head, 4) > Some(FORMAT_VERSION) {
        return foreign("written by a newer version of this program");
    }
    if u64_at(&head, 8) != Some(cluster) || u64_at(&head, 16) != Some(sequence) {
        return foreign("the file belongs to another cluster, or was renamed");
    }
    let mut offset = HEADER_BYTES as u64;
    let mut number = 0;
    loop {
        let (block, items, last) =
            read_block(&file, offset, number, faults)?.ok_or_else(|| damaged(offset))?;
        let mut rest = &block[..];
        for _ in 0..items {
            let item = u32_at(rest, 0).and_then(|length| rest.get(4..4usize.checked_add(length as usize)?));
            let item = item.ok_or_else(|| damaged(offset))?;
            each(item).map_err(|why| LogError::Record { sequence, why })?;
            rest = &rest[4 + item.len()..];
        }
        if last {
            return Ok(());
        }
        offset += (BLOCK_HEADER_BYTES + block.len()) as u64;
        number += 1;
    }
}

/// A block's bytes, its number of items, and whether it is the last; None if it is damaged.
fn read_block<F: DiskFile>(
    file: &F,
    offset: u64,
    number: u32,
    faults: Faults,
) -> io::Result<Option<(Vec<u8>, u32, bool)>> {
    let mut head = [0; BLOCK_HEADER_BYTES];
    if file.read_at(offset, &mut head)? < head.len() {
        return Ok(None);
    }
    let word = |at| u32_at(&head, at).unwrap_or_default();
    let (length, items, flagged, crc) = (word(0) as usize, word(4), word(8), word(12));
    if length > MAX_BLOCK_BYTES || flagged & !LAST != number {
        return Ok(None);
    }
    let mut block = vec![0; length];
    let whole = file.read_at(offset + BLOCK_HEADER_BYTES as u64, &mut block)? == length;
    let same = crc32c_append(crc32c(&head[..12]), &block) == crc || faults.has(Fault::CheckpointUnchecked);
    let sound = whole && same;
    Ok(sound.then_some((block, items, flagged & LAST != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn no_checkpoint_is_written_that_couldnt_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let mut writer = CheckpointWriter::create(&disk, 1, 9, Faults::NONE).unwrap();
        assert!(writer.item(&vec![1; MAX_ITEM_BYTES + 1]).is_err());
        writer.item(&vec![2; BLOCK_BYTES - 5]).unwrap();
        writer.item(&vec![3; MAX_ITEM_BYTES]).unwrap();
        writer.finish().unwrap();
        let mut items = Vec::new();
        read_checkpoint(&disk, 1, 9, Faults::NONE, |item| {
            items.push(item.len());
            Ok(())
        })
        .unwrap();
        assert_eq!(items, [BLOCK_BYTES - 5, MAX_ITEM_BYTES]);
    }
}
