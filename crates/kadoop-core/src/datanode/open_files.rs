//! Open files, whose number is bounded however many replicas there are.
//!
//! A sealed replica's bytes never change, so its file may be closed and opened again at any time. The
//! files of a replica that is being written are synced before they are closed: the kernel reports a
//! failed write-back only to descriptors that were open at that time.

use super::{Datanode, Kept, Opened, Replica, Sealed, disk_of, failure::disk, live};
use crate::{
    ChunkId, Stamp,
    disk::{Disk, Grouped},
    error::{Error, Result},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most files that wait until the caller closes them without the lock.
const MAX_DISCARDED: usize = 64;
/// Most checksums of open sealed replicas in memory, with 4 bytes each: those of 256 chunks of 64 MiB.
const MAX_SUMS: usize = 4 << 20;
/// From this number of units on, an open replica has a file with records of its checksums. The records
/// of a smaller one are only in memory for up to a second, so most small files never need such a file.
const RECORDED_UNITS: u32 = 16;

impl<D: Disk + Clone> Datanode<D> {
    /// Opens the files of a replica that is going to be written, if they are closed.
    pub(super) fn reopen(&mut self, chunk: ChunkId) -> Result<()> {
        self.writes += 1;
        let written = self.writes;
        let replica = live(&mut self.replicas, chunk)?;
        replica.written = written;
        if replica.is_closed() {
            self.close_one()?;
            let Some(Kept::Live(replica)) = self.replicas.get_mut(&chunk) else {
                return Err(Error::NoReplica);
            };
            replica.reopen(disk_of(&self.directories, replica.directory.into())?).map_err(disk)?;
            self.open_for_writes.push(chunk);
        }
        let Some(Kept::Live(replica)) = self.replicas.get_mut(&chunk) else { return Err(Error::NoReplica) };
        if replica.sums.length >= RECORDED_UNITS.saturating_mul(self.config.unit_bytes) {
            replica.keep_records(disk_of(&self.directories, replica.directory.into())?, &self.config)?;
        }
        Ok(())
    }

    /// Writes the records of all open replicas' checksums to files, so that their bytes can be proven
    /// even if the process is killed.
    pub(super) fn keep_records(&mut self) {
        for chunk in &self.open_for_writes {
            if let Some(Kept::Live(replica)) = self.replicas.get_mut(chunk)
                && replica.is_open_for_writes()
                && let Ok(directory) = disk_of(&self.directories, replica.directory.into())
            {
                // Ignore a failure: the next flush tries again, and reports it.
                let _ = replica.keep_records(directory, &self.config);
            }
        }
    }

    /// Makes room for the open files of another replica that is written: if too many replicas have open
    /// files, closes those of the least recently written one.
    pub(super) fn close_one(&mut self) -> Result<()> {
        if self.open_for_writes.len() < self.config.open_replicas {
            return Ok(());
        }
        self.open_for_writes.retain(
            |chunk| matches!(self.replicas.get(chunk), Some(Kept::Live(it)) if it.is_open_for_writes()),
        );
        if self.open_for_writes.len() < self.config.open_replicas {
            return Ok(());
        }
        let idle = self.open_for_writes.iter().filter_map(|chunk| match self.replicas.get(chunk) {
            Some(Kept::Live(replica)) if replica.can_be_closed() => Some(replica),
            _ => None,
        });
        let idle = idle.min_by_key(|replica| replica.written);
        let chunk = idle.map(|replica| replica.chunk).ok_or(Error::DatanodeBusy)?;
        self.open_for_writes.retain(|other| *other != chunk);
        let Some(Kept::Live(replica)) = self.replicas.get_mut(&chunk) else { return Ok(()) };
        let index = replica.directory.into();
        let closed = replica.close(disk_of(&self.directories, index)?, &self.config);
        // Ignore a failure: it makes that replica a returned one, so its own writer learns of it.
        let _ = self.settle_sync(index, closed);
        Ok(())
    }

    /// The file of a replica that isn't sealed, for reading.
    pub(super) fn file(&self, replica: &Replica<Grouped<D>>) -> io::Result<D::File> {
        let directory = disk_of(&self.directories, replica.directory.into()).map_err(io::Error::other)?;
        replica.open(directory)
    }

    /// A sealed replica's open file, with its table.
    ///
    /// # Errors
    /// Corrupt: the file has no valid table of this replica. Disk: the file can't be opened or read.
    pub(super) fn opened(&self, chunk: ChunkId, sealed: &Sealed) -> Result<Opened<D::File>> {
        let directory = disk_of(&self.directories, sealed.directory.into())?;
        let claim = self.claim(chunk, sealed.stamp);
        self.open.get((chunk, sealed.stamp), || match sealed.open(directory, claim, &self.config) {
            Ok(opened) => opened.map_err(|_| Error::Corrupt),
            Err(error) => Err(disk(error)),
        })
    }

    /// Leaves it to the caller of [`Datanode::discarded`] to close a file. If too many files wait, closes
    /// it here.
    pub(super) fn discard(&mut self, file: Option<D::File>) {
        if self.discarded.len() < MAX_DISCARDED {
            self.discarded.extend(file);
        }
    }
}

/// Open files of the most recently read sealed replicas, with their tables.
#[derive(Debug)]
pub(super) struct OpenFiles<F> {
    most: usize,
    kept: Mutex<Opens<F>>,
}

#[derive(Debug)]
struct Opens<F> {
    files: BTreeMap<(ChunkId, Stamp), (Opened<F>, u64)>,
    /// Number of uses so far.
    uses: u64,
    /// Number of checksums in all tables.
    sums: usize,
}

impl<F: Clone> OpenFiles<F> {
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::new(Opens { files: BTreeMap::new(), uses: 0, sums: 0 }) }
    }

    /// The replica's file. Calls `open` if it isn't open yet.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(&self, of: (ChunkId, Stamp), open: impl FnOnce() -> Result<Opened<F>>) -> Result<Opened<F>> {
        if let Some(opened) = self.kept().used(of) {
            return Ok(opened);
        }
        let opened = open()?;
        let mut kept = self.kept();
        let mut gone: Vec<_> = kept.remove(of).into_iter().collect();
        while kept.files.len() >= self.most
            || !kept.files.is_empty() && kept.sums + opened.sums.units.len() > MAX_SUMS
        {
            let least = kept.files.iter().min_by_key(|(_, (_, used))| *used).map(|(of, _)| *of);
            gone.extend(least.and_then(|least| kept.remove(least)));
        }
        let used = kept.next_use();
        kept.sums += opened.sums.units.len();
        kept.files.insert(of, (opened.clone(), used));
        drop(kept);
        // Close these files without the lock: if one was deleted, that frees its space, which takes time.
        drop(gone);
        Ok(opened)
    }

    /// Removes and returns a replica's file. It is closed once the caller and all current readers drop it.
    pub fn close(&self, of: (ChunkId, Stamp)) -> Option<Opened<F>> {
        self.kept().remove(of)
    }

    /// Removes all files.
    pub fn clear(&self) {
        let mut kept = self.kept();
        kept.files.clear();
        kept.sums = 0;
    }

    fn kept(&self) -> MutexGuard<'_, Opens<F>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Clone> Opens<F> {
    fn used(&mut self, of: (ChunkId, Stamp)) -> Option<Opened<F>> {
        let now = self.next_use();
        let (opened, used) = self.files.get_mut(&of)?;
        *used = now;
        Some(opened.clone())
    }

    fn remove(&mut self, of: (ChunkId, Stamp)) -> Option<Opened<F>> {
        let (opened, _) = self.files.remove(&of)?;
        self.sums -= opened.sums.units.len();
        Some(opened)
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datanode::Sums;
    use std::sync::Arc;

    fn open(files: &OpenFiles<u64>, chunk: u64, units: usize) -> bool {
        let mut opened = false;
        let open = || {
            opened = true;
            Ok(Opened { data: chunk, sums: Arc::new(Sums { length: 0, units: vec![0; units] }) })
        };
        assert_eq!(files.get((ChunkId(chunk), Stamp(1)), open).unwrap().data, chunk);
        opened
    }

    fn get(files: &OpenFiles<u64>, chunk: u64) -> bool {
        open(files, chunk, 1)
    }

    #[test]
    fn the_file_used_longest_ago_is_closed_for_another() {
        let files = OpenFiles::new(2);
        assert!(get(&files, 1) && get(&files, 2) && !get(&files, 1));
        assert!(get(&files, 3));
        assert!(!get(&files, 1) && !get(&files, 3) && get(&files, 2));
        assert_eq!(files.kept().files.len(), 2);
    }

    #[test]
    fn large_tables_leave_room_for_fewer() {
        let files = OpenFiles::new(10);
        assert!(open(&files, 1, MAX_SUMS / 2) && open(&files, 2, MAX_SUMS / 2) && !get(&files, 1));
        assert!(open(&files, 3, 1) && !get(&files, 1) && open(&files, 2, 1));
        assert!(open(&files, 4, MAX_SUMS + 1), "the largest one is kept alone");
        assert_eq!(files.kept().files.len(), 1);
        files.close((ChunkId(4), Stamp(1)));
        assert_eq!(files.kept().sums, 0);
    }

    #[test]
    fn a_file_that_cant_be_opened_is_tried_again() {
        let files = OpenFiles::<u64>::new(2);
        assert!(files.get((ChunkId(1), Stamp(1)), || Err(Error::Disk)).is_err());
        assert!(get(&files, 1));
        assert_eq!(files.close((ChunkId(1), Stamp(1))).map(|opened| opened.data), Some(1));
        assert!(get(&files, 1));
    }
}
