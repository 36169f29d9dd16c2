//! Open files: few, however many replicas there are.
//!
//! A sealed replica's bytes never change, so its file may be closed and opened again at any time. The
//! files of a replica that is being written are synced before they are closed: the kernel reports a
//! failed write-back only to files that were open at that time.

use super::{Datanode, Replica, disk_of, replica::disk};
use crate::{
    ChunkId, Stamp,
    disk::Disk,
    error::{Error, Result},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Most files that wait to be closed outside the lock.
const MAX_DISCARDED: usize = 64;

impl<D: Disk> Datanode<D> {
    /// Opens the files of a replica that is going to be written, if they are closed.
    pub(super) fn reopen(&mut self, chunk: ChunkId) -> Result<()> {
        self.writes += 1;
        let Some(replica) = self.replicas.get_mut(&chunk) else { return Err(Error::NoReplica) };
        replica.written = self.writes;
        if !replica.is_closed() {
            return Ok(());
        }
        self.close_one()?;
        let Some(replica) = self.replicas.get_mut(&chunk) else { return Err(Error::NoReplica) };
        replica.reopen(disk_of(&self.directories, replica.directory)?).map_err(disk)?;
        self.open_for_writes.push(chunk);
        Ok(())
    }

    /// Makes room for the files of another replica that is written: if there are too many, it closes
    /// those of the one that was written longest ago.
    pub(super) fn close_one(&mut self) -> Result<()> {
        if self.open_for_writes.len() < self.config.open_replicas {
            return Ok(());
        }
        self.open_for_writes
            .retain(|chunk| self.replicas.get(chunk).is_some_and(Replica::is_open_for_writes));
        if self.open_for_writes.len() < self.config.open_replicas {
            return Ok(());
        }
        let idle = self.open_for_writes.iter().filter_map(|chunk| self.replicas.get(chunk));
        let idle = idle.filter(|replica| replica.can_be_closed()).min_by_key(|replica| replica.written);
        let chunk = idle.map(|replica| replica.chunk).ok_or(Error::Busy)?;
        self.open_for_writes.retain(|other| *other != chunk);
        let Some(replica) = self.replicas.get_mut(&chunk) else { return Ok(()) };
        let index = replica.directory;
        let closed = replica.close(disk_of(&self.directories, index)?, &self.config);
        // Its own writer learns of a failure. The files are closed in any case.
        let _ = self.settle_sync(index, closed);
        Ok(())
    }

    /// The file of a replica's bytes, to read from.
    pub(super) fn file(&self, replica: &Replica<D>) -> io::Result<D::File> {
        let directory = disk_of(&self.directories, replica.directory).map_err(io::Error::other)?;
        match replica.is_open_for_writes() {
            true => replica.open(directory),
            false => self.open.get((replica.chunk, replica.stamp), || replica.open(directory)),
        }
    }

    /// Leaves the closing of a file to the caller of [`Datanode::discarded`].
    pub(super) fn discard(&mut self, file: Option<D::File>) {
        if self.discarded.len() < MAX_DISCARDED {
            self.discarded.extend(file);
        }
    }
}

/// Files of replicas that nobody writes: those that were read last.
#[derive(Debug)]
pub(super) struct OpenFiles<F> {
    most: usize,
    kept: Mutex<Kept<F>>,
}

#[derive(Debug)]
struct Kept<F> {
    files: BTreeMap<(ChunkId, Stamp), (F, u64)>,
    /// Number of uses so far.
    uses: u64,
}

impl<F: Clone> OpenFiles<F> {
    pub fn new(most: usize) -> Self {
        Self { most, kept: Mutex::new(Kept { files: BTreeMap::new(), uses: 0 }) }
    }

    /// The file of the replica's bytes, which `open` opens if it isn't here.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get(&self, of: (ChunkId, Stamp), open: impl FnOnce() -> io::Result<F>) -> io::Result<F> {
        if let Some(file) = self.kept().used(of) {
            return Ok(file);
        }
        let file = open()?;
        let mut kept = self.kept();
        let least = kept.files.iter().min_by_key(|(_, (_, used))| *used).map(|(of, _)| *of);
        let gone = least.filter(|_| kept.files.len() >= self.most).and_then(|of| kept.files.remove(&of));
        let used = kept.next_use();
        kept.files.insert(of, (file.clone(), used));
        drop(kept);
        // Without the lock: closing a deleted file may free its space, which takes time.
        drop(gone);
        Ok(file)
    }

    /// Closes a replica's file, once all readers of this moment are done.
    pub fn close(&self, of: (ChunkId, Stamp)) -> Option<F> {
        self.kept().files.remove(&of).map(|(file, _)| file)
    }

    /// Closes all.
    pub fn clear(&self) {
        self.kept().files.clear();
    }

    fn kept(&self) -> MutexGuard<'_, Kept<F>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Clone> Kept<F> {
    fn used(&mut self, of: (ChunkId, Stamp)) -> Option<F> {
        let now = self.next_use();
        let (file, used) = self.files.get_mut(&of)?;
        *used = now;
        Some(file.clone())
    }

    fn next_use(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(files: &OpenFiles<u64>, chunk: u64) -> bool {
        let mut opened = false;
        let open = || {
            opened = true;
            Ok(chunk)
        };
        assert_eq!(files.get((ChunkId(chunk), Stamp(1)), open).unwrap(), chunk);
        opened
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
    fn a_file_that_cant_be_opened_is_tried_again() {
        let files = OpenFiles::<u64>::new(2);
        assert!(files.get((ChunkId(1), Stamp(1)), || Err(io::Error::other("none"))).is_err());
        assert!(get(&files, 1));
        assert_eq!(files.close((ChunkId(1), Stamp(1))), Some(1));
        assert!(get(&files, 1));
    }
}
