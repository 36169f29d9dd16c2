//! Seals a replica: cuts the bytes to the length, appends the table, syncs both, and gives the file its
//! final name.
//!
//! If the stamp stays the same, an open replica's file with a table at its end already proves the seal.
//! So the final name needn't be on disk: a start that finds the old name compares the bytes with the
//! table. That saves one sync, and the other syncs need no lock ([`Sealing`]). Under another stamp, and
//! for a copy, only the final name proves the seal.

use super::{
    super::{
        failure::{Failure, sync_bytes, sync_names},
        names::{Kind, name, parse_name},
        sealed::Sealed,
    },
    Replica,
};
use crate::{
    ChunkId, Config, Stamp,
    disk::{Disk, DiskFile},
    error::{Error, Result},
    faults::{Fault, Faults},
    messages::ReplicaState,
};

/// A seal that still needs its syncs. Call [`Sealing::sync`] without the datanode's lock, and then
/// [`crate::datanode::Datanode::finish_seal`].
pub struct Sealing<D: Disk> {
    pub(in crate::datanode) chunk: ChunkId,
    pub(in crate::datanode) stamp: Stamp,
    pub(in crate::datanode) id: u64,
    pub(in crate::datanode) directory: u16,
    pub(in crate::datanode) data: D::File,
    pub(in crate::datanode) disk: D,
    pub(in crate::datanode) faults: Faults,
}

/// A seal whose syncs have succeeded or failed.
pub struct Synced {
    pub(in crate::datanode) chunk: ChunkId,
    pub(in crate::datanode) stamp: Stamp,
    pub(in crate::datanode) id: u64,
    pub(in crate::datanode) directory: u16,
    pub(in crate::datanode) outcome: Result<(), Failure>,
}

impl<D: Disk> Sealing<D> {
    /// Syncs bytes, table and name to disk.
    #[must_use]
    pub fn sync(self) -> Synced {
        let Self { chunk, stamp, id, directory, data, disk, faults } = self;
        let bytes = if faults.has(Fault::SealNotSynced) { Ok(()) } else { sync_bytes(&data) };
        let names = || if faults.has(Fault::SealNameNotSynced) { Ok(()) } else { sync_names(&disk) };
        Synced { chunk, stamp, id, directory, outcome: bytes.and_then(|()| names()) }
    }
}

/// A seal that has begun.
pub(in crate::datanode) enum Begun<F> {
    Sealed(Sealed),
    /// The bytes of this file, and then its name, still have to be synced.
    Unsynced(F),
}

impl<D: Disk> Replica<D> {
    /// Seals the replica at `length`, or begins to. The caller has to refuse the held writes before.
    ///
    /// # Errors
    /// DatanodeBusy: another seal is under way. NotOpen: it is already sealed at another length. BeyondEnd:
    /// it is shorter, or more of it is acknowledged. Corrupt: it has lost bytes. Disk, NoSpace: the disk
    /// failed or is full.
    pub fn begin_seal(
        &mut self,
        disk_: &D,
        (id, stamp, length): (u64, Stamp, u32),
        config: &Config,
    ) -> Result<Begun<D::File>, Failure> {
        if self.sealing.is_some() {
            return Err(Error::DatanodeBusy.into());
        }
        if self.tabled {
            // It was sealed before a crash. To write another table would put its bytes at risk.
            if length != self.sums.length {
                return Err(Error::NotOpen.into());
            }
            return self.finish_tabled(disk_, config).map(Begun::Sealed);
        }
        self.take_name_back(disk_)?;
        if length > self.sums.length || length < self.published {
            return Err(Error::BeyondEnd.into());
        }
        let unsure = self.unsure;
        let data = self.open(disk_)?;
        // A write to a place that is under way must not hit the table, so use a new file then, too.
        self.unsure |= !self.places.is_empty();
        let data = self.renew(disk_, &data, config)?.unwrap_or(data);
        let unit = config.unit_bytes;
        let mut last = vec![0; (length % unit) as usize];
        data.read_at((length - length % unit).into(), &mut last)?;
        self.files = None;
        // From here on, the bytes after `length` are lost.
        self.sums.cut(length, &last, unit);
        let before = self.file.clone();
        let done = self.put_table(disk_, &data, (id, stamp), config);
        if let Err(failure) = &done {
            let refused = matches!(failure, Failure::Refused(_));
            self.undo_seal(disk_, &data, before);
            // A new file whose name may not be on disk is as doubtful as the old one.
            self.unsure |= unsure || !refused;
        }
        done
    }

    fn put_table(
        &mut self,
        disk_: &D,
        data: &D::File,
        (id, stamp): (u64, Stamp),
        config: &Config,
    ) -> Result<Begun<D::File>, Failure> {
        let length = self.sums.length;
        if data.length()? != u64::from(length) {
            data.set_length(length.into())?;
        }
        data.write_at(length.into(), &self.sums.table(config.unit_bytes, self.claim(stamp)))?;
        if self.file == name(self.chunk, stamp, Kind::Open) {
            self.sealing = Some(id);
            return Ok(Begun::Unsynced(data.clone()));
        }
        let faults = config.faults;
        if !faults.has(Fault::SealNotSynced) {
            sync_bytes(data)?;
        }
        let sealed = self.take_sealed_name(disk_, stamp)?;
        if !faults.has(Fault::SealNameNotSynced) {
            sync_names(disk_)?;
        }
        self.drop_records(disk_);
        Ok(Begun::Sealed(sealed))
    }

    /// Completes a seal whose syncs were made without the lock.
    ///
    /// # Errors
    /// StaleStamp: the seal doesn't count, since a fence came during the syncs. Disk: a sync or the rename
    /// failed.
    pub fn finish_seal(&mut self, disk_: &D, synced: Synced, config: &Config) -> Result<Sealed, Failure> {
        let Synced { stamp, outcome, .. } = synced;
        self.sealing = None;
        let done = outcome.and_then(|()| {
            if stamp < self.fenced && !config.faults.has(Fault::SealTrusted) {
                return Err(Error::StaleStamp.into());
            }
            Ok(self.take_sealed_name(disk_, stamp)?)
        });
        match &done {
            Ok(_) => self.drop_records(disk_),
            Err(Failure::Refused(Error::StaleStamp)) if self.state == ReplicaState::Open => {
                // The replica stays open, with all its bytes. Sync their records, which have to prove
                // them once the table is cut off.
                let kept = self.sync(disk_, config);
                if let Ok(data) = disk_.open(&self.file) {
                    let _ = data.set_length(self.sums.length.into());
                }
                // Report a failed sync, which concerns the directory's other replicas, too.
                match kept {
                    Ok(()) | Err(Failure::Refused(_)) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Err(failure) => {
                let refused = matches!(failure, Failure::Refused(_));
                if let Ok(data) = disk_.open(&self.file) {
                    self.undo_seal(disk_, &data, self.file.clone());
                }
                self.state = ReplicaState::Returned;
                self.unsure |= !refused;
            }
        }
        done
    }

    /// Renames the file back, if that failed after an earlier failed seal. Until it succeeds, the file must
    /// not change: its name says that it is sealed, and a crash may leave it with that name.
    fn take_name_back(&mut self, disk_: &D) -> std::io::Result<()> {
        if let Some((_, stamp, Kind::Sealed(_))) = parse_name(&self.file)
            && stamp != self.stamp
        {
            let before = name(self.chunk, self.stamp, Kind::Open);
            disk_.rename(&self.file, &before)?;
            self.file = before;
        }
        Ok(())
    }

    /// Completes the seal of a replica that lacks only its final name.
    pub fn finish_tabled(&mut self, disk_: &D, config: &Config) -> Result<Sealed, Failure> {
        let unsure = self.unsure;
        let data = self.open(disk_)?;
        let data = self.renew(disk_, &data, config)?.unwrap_or(data);
        let done = (|| {
            // If only the process had stopped, and not the machine, the file may still be only in memory.
            sync_bytes(&data)?;
            sync_names(disk_)?;
            Ok(self.take_sealed_name(disk_, self.stamp)?)
        })();
        self.unsure |= unsure && done.is_err();
        if done.is_ok() {
            self.drop_records(disk_);
            let _ = disk_.remove(&name(self.chunk, self.stamp, Kind::Table));
        }
        done
    }

    /// Whether the seal with this number is under way.
    pub fn is_sealing(&self, id: u64) -> bool {
        self.sealing == Some(id)
    }

    /// Whether its seal lacked only the final name.
    pub fn is_tabled(&self) -> bool {
        self.tabled
    }

    /// Removes all traces of a failed seal that a start could mistake for a complete one. Ignores
    /// failures, since nothing more can be done on that disk.
    fn undo_seal(&mut self, disk_: &D, data: &D::File, before: String) {
        if self.file != before && disk_.rename(&self.file, &before).is_ok() {
            self.file = before;
        }
        let _ = data.set_length(self.sums.length.into());
        self.state = ReplicaState::Returned;
    }

    fn take_sealed_name(&mut self, disk_: &D, stamp: Stamp) -> std::io::Result<Sealed> {
        let Self { chunk, directory, .. } = *self;
        let length = self.sums.length;
        let sealed = Sealed { stamp, length, directory, damaged: false, split: false };
        let file = sealed.file(chunk);
        disk_.rename(&self.file, &file)?;
        self.file = file;
        Ok(sealed)
    }

    /// Removes the records of a sealed replica. If that fails, the next start does it.
    fn drop_records(&mut self, disk_: &D) {
        if self.records_end.take().is_some() {
            let _ = disk_.remove(&name(self.chunk, self.stamp, Kind::Sums));
        }
    }
}
