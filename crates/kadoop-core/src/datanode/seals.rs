//! Seals replicas, and changes the stamps of sealed ones.

use super::{
    Datanode, Failure, Kept, Replica, Sealed, disk_of,
    failure::disk,
    number_of,
    replica::{Begun, Sealing, Synced},
};
use crate::{
    ChunkId, Stamp,
    disk::{Disk, Grouped},
    error::{Error, Result},
    faults::Fault,
    messages::Change,
};

impl<D: Disk + Clone> Datanode<D> {
    /// Cuts the replica to `length`, and seals it under `stamp`, on disk. A replica that is sealed at this length gets
    /// only the stamp. From then on nothing changes its bytes, not even a namenode's order.
    ///
    /// # Errors
    /// StaleStamp: the chunk has a higher stamp here. NoReplica: there is no replica. NotOpen: it is
    /// sealed at another length. BeyondEnd: it is shorter, or more of it is acknowledged. DatanodeBusy:
    /// another seal of it is under way. Corrupt: it has lost bytes. Disk, NoSpace: the disk failed or is full.
    pub fn seal(&mut self, chunk: ChunkId, stamp: Stamp, length: u32) -> Result<()> {
        match self.begin_seal(chunk, stamp, length)? {
            Some(sealing) => self.finish_seal(sealing.sync()),
            None => Ok(()),
        }
    }

    /// As [`Datanode::seal`], but leaves the syncs of the most usual kind of seal to the caller, which
    /// makes them without the datanode's lock. Returns None if the seal is already complete.
    ///
    /// # Errors
    /// As [`Datanode::seal`].
    pub fn begin_seal(
        &mut self,
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    ) -> Result<Option<Sealing<Grouped<D>>>> {
        self.demand_stamp(chunk, stamp)?;
        self.make_way(chunk)?;
        match self.replicas.get_mut(&chunk).ok_or(Error::NoReplica)? {
            Kept::Sealed(sealed) => {
                let sealed = *sealed;
                if length != sealed.length && !self.config.faults.has(Fault::SealedCut) {
                    return Err(Error::NotOpen);
                }
                self.restamp(chunk, sealed, stamp, length)?;
                Ok(None)
            }
            Kept::Live(replica) => {
                let held = replica.refuse_held();
                self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::NotOpen))));
                self.begin_live(chunk, stamp, length)
            }
        }
    }

    fn begin_live(
        &mut self,
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    ) -> Result<Option<Sealing<Grouped<D>>>> {
        self.seals += 1;
        let Some(Kept::Live(replica)) = self.replicas.get_mut(&chunk) else { return Err(Error::NoReplica) };
        let (index, own) = (replica.directory.into(), replica.stamp);
        let directory = disk_of(&self.directories, index)?;
        let begun = replica.begin_seal(directory, (self.seals, stamp, length), &self.config);
        let disk = directory.clone();
        // The seal may have replaced the replica's file.
        let old = self.open.close((chunk, own));
        self.discard(old.map(|old| old.data));
        match begun {
            Ok(Begun::Unsynced(data)) => {
                let (id, directory, faults) = (self.seals, number_of(index)?, self.config.faults);
                Ok(Some(Sealing { chunk, stamp, id, directory, data, disk, faults }))
            }
            Ok(Begun::Sealed(sealed)) => {
                self.settle_seal(chunk, Ok(sealed), index)?;
                // A replica whose seal a crash interrupted first gets its final name under its old stamp.
                if sealed.stamp != stamp {
                    self.restamp(chunk, sealed, stamp, length)?
                }
                Ok(None)
            }
            Err(failure) => self.settle_seal(chunk, Err(failure), index).map(|()| None),
        }
    }

    /// Completes a seal after the caller has made its syncs.
    ///
    /// # Errors
    /// As [`Datanode::seal`].
    pub fn finish_seal(&mut self, synced: Synced) -> Result<()> {
        let (chunk, index) = (synced.chunk, synced.directory.into());
        let replica = match self.replicas.get_mut(&chunk) {
            Some(Kept::Live(replica)) if replica.is_sealing(synced.id) => replica,
            other => {
                // The seal has already ended because another sync failed, or the replica was removed or
                // replaced.
                let gone = if let Some(Kept::Live(_)) = other { Error::NotOpen } else { Error::NoReplica };
                // A failure of this seal's sync still concerns the directory's other replicas.
                let _ = self.settle_sync(index, synced.outcome);
                return Err(gone);
            }
        };
        let sealed = replica.finish_seal(disk_of(&self.directories, index)?, synced, &self.config);
        self.settle_seal(chunk, sealed, index)
    }

    fn settle_seal(
        &mut self,
        chunk: ChunkId,
        sealed: Result<Sealed, Failure>,
        directory: usize,
    ) -> Result<()> {
        if let Ok(sealed) = &sealed {
            self.put_sealed(chunk, *sealed);
        } else if let Err(Failure::Refused(Error::Corrupt)) = &sealed {
            // Report that the replica has lost bytes, and can't be sealed at that length any more.
            self.changes.extend(self.replica(chunk).map(Change::Has));
        }
        self.settle_sync(directory, sealed).map(drop)
    }

    /// Puts a sealed replica in the place of the open one, and reports it.
    pub(super) fn put_sealed(&mut self, chunk: ChunkId, sealed: Sealed) {
        let before = self.replicas.insert(chunk, Kept::Sealed(sealed));
        if let Some(Kept::Live(replica)) = before
            && replica.fenced > sealed.stamp
        {
            self.remember_fence(chunk, replica.fenced);
        }
        self.changes.push(Change::Has(sealed.report(chunk)));
    }

    /// Gives a sealed replica the stamp `stamp`.
    fn restamp(&mut self, chunk: ChunkId, sealed: Sealed, stamp: Stamp, length: u32) -> Result<()> {
        let directory = usize::from(sealed.directory);
        if stamp == sealed.stamp && length == sealed.length {
            self.changes.push(Change::Has(sealed.report(chunk)));
            return Ok(());
        }
        self.take_name_back(chunk, &sealed)?;
        let opened = self.opened(chunk, &sealed)?;
        if length != sealed.length {
            return self.cut_sealed(chunk, sealed, stamp, length);
        }
        let (claim, disk) = (self.claim(chunk, sealed.stamp), disk_of(&self.directories, directory)?);
        let named = sealed.restamp(disk, &opened, (claim, stamp), &self.config);
        let after = self.note_name(chunk, sealed, named);
        let old = self.open.close((chunk, sealed.stamp));
        self.discard(old.map(|old| old.data));
        self.settle_seal(chunk, after, directory)
    }

    /// Returns the outcome of a change of the stamp. If the change failed and couldn't be undone, remembers
    /// the file's name.
    fn note_name(
        &mut self,
        chunk: ChunkId,
        before: Sealed,
        (named, done): (Sealed, Result<(), Failure>),
    ) -> Result<Sealed, Failure> {
        if done.is_err() && named != before {
            self.misnamed.insert(chunk, named);
        }
        done.map(|()| named)
    }

    /// Renames a replica's file back to its name, if that failed after an earlier change of the stamp.
    fn take_name_back(&mut self, chunk: ChunkId, sealed: &Sealed) -> Result<()> {
        if let Some(named) = self.misnamed.get(&chunk) {
            let directory = disk_of(&self.directories, sealed.directory.into())?;
            directory.rename(&named.file(chunk), &sealed.file(chunk)).map_err(disk)?;
            self.misnamed.remove(&chunk);
        }
        Ok(())
    }

    /// Cuts a sealed replica. Only a planted fault does that.
    fn cut_sealed(&mut self, chunk: ChunkId, sealed: Sealed, stamp: Stamp, length: u32) -> Result<()> {
        let sums = self.opened(chunk, &sealed)?.sums;
        let replica = Replica::unsealed(self.claim(chunk, sealed.stamp), &sealed, &sums);
        self.replicas.insert(chunk, Kept::Live(Box::new(replica)));
        self.begin_live(chunk, stamp, length).map(drop)
    }

    /// Joins the bytes and the table of a replica that an earlier version sealed in two files.
    pub(super) fn join_files(&mut self, chunk: ChunkId) {
        let Some(Kept::Sealed(sealed)) = self.replicas.get(&chunk) else { return };
        let sealed = *sealed;
        let directory = usize::from(sealed.directory);
        if self.take_name_back(chunk, &sealed).is_err() {
            return;
        }
        let Ok(disk) = disk_of(&self.directories, directory) else { return };
        let Ok(opened) = self.opened(chunk, &sealed) else { return };
        let claim = self.claim(chunk, sealed.stamp);
        let named = sealed.restamp(disk, &opened, (claim, sealed.stamp), &self.config);
        let joined = self.note_name(chunk, sealed, named);
        // After a failure, the replica keeps its two files.
        if let Ok(joined) = self.settle_sync(directory, joined) {
            self.replicas.insert(chunk, Kept::Sealed(joined));
        }
    }
}
