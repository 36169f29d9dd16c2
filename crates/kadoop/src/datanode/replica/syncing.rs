//! Syncs of a replica, and the handling of one whose sync failed.
//!
//! A kernel reports a failed sync once. It keeps the bytes readable until it needs their memory,
//! but no later sync writes them, although later syncs succeed. So a replica never syncs its files
//! again after a failure. It compares its bytes with their checksums and puts them in a new file in
//! the old one's place, whose first sync does prove something. It does the same with replicas found
//! open at a start, since the kernel may have reported the failure to the run before.

use super::{Files, Replica, disk, name};
use crate::{
    Config,
    crc32c::crc32c,
    datanode::sums::provable,
    disk::{Disk, DiskFile},
    error::Error,
    faults::Fault,
    messages::ReplicaState,
};
use std::io;

/// A failed step, and the state that it puts in doubt.
pub(in crate::datanode) enum Failure {
    /// A refusal without further consequences.
    Refused(Error),
    /// A failed sync of the replica's files.
    Bytes(io::Error),
    /// A failed sync of the directory: names made since the last sync may be lost.
    Names(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Refused(disk(error))
    }
}

impl Failure {
    pub fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Bytes(error) | Self::Names(error) => disk(error),
        }
    }
}

pub(super) fn sync_bytes<F: DiskFile>(file: &F) -> Result<(), Failure> {
    file.sync_data().map_err(Failure::Bytes)
}

pub(super) fn sync_names<D: Disk>(disk_: &D) -> Result<(), Failure> {
    disk_.sync_names().map_err(Failure::Names)
}

impl<D: Disk> Replica<D> {
    /// Handles a failed sync of its files or names.
    pub fn distrust(&mut self) {
        if self.state == ReplicaState::Open {
            (self.state, self.unsure, self.files) = (ReplicaState::Returned, true, None);
        }
    }

    /// Opens the files of a replica that is going to be written, if they are closed.
    pub fn reopen(&mut self, disk_: &D) -> io::Result<()> {
        if self.is_closed() {
            let data = disk_.open(&self.file)?;
            let records = Some(disk_.open(&name(self.chunk, self.stamp, "sums"))?);
            self.files = Some(Files { data, records });
        }
        Ok(())
    }

    /// Whether it could close its files for a while: they are open, and no write is under way.
    pub fn can_be_closed(&self) -> bool {
        self.files.is_some() && self.places.is_empty()
    }

    /// Syncs and closes the files until the next write. Closing them unsynced would lose the
    /// kernel's report of a failure.
    pub fn close(&mut self, disk_: &D, config: &Config) -> Result<(), Failure> {
        if !config.faults.has(Fault::ClosedUnsynced) {
            self.sync(disk_, config)?;
        }
        self.files = None;
        Ok(())
    }

    /// Whether its names may be only in memory.
    pub fn is_nameless(&self) -> bool {
        self.state == ReplicaState::Open && !self.name_synced
    }

    /// Syncs all applied bytes.
    pub fn sync(&mut self, disk_: &D, config: &Config) -> Result<(), Failure> {
        match self.state {
            ReplicaState::Sealed => return Ok(()),
            ReplicaState::Returned => return Err(Error::NotOpen.into()),
            ReplicaState::Open => {}
        }
        let faults = config.faults;
        // Files are synced before they are closed.
        let Some(files) = self.files.clone() else { return Ok(()) };
        let done = (|| {
            let records = files.records.as_ref().filter(|_| !faults.has(Fault::SumsNotSynced));
            if let Some(records) = records {
                records.begin_sync();
            }
            if !faults.has(Fault::DataNotSynced) {
                sync_bytes(&files.data)?;
            }
            if let Some(records) = records {
                sync_bytes(records)?;
            }
            if !self.name_synced && !faults.has(Fault::NameNotSynced) {
                sync_names(disk_)?;
                self.name_synced = true;
            }
            Ok(())
        })();
        if done.is_err() {
            self.distrust();
        }
        done
    }

    /// Puts the bytes of `old` in new files if a sync of the old ones may have failed, and returns
    /// the new file of bytes. Call this before another sync.
    pub(super) fn renew(
        &mut self,
        disk_: &D,
        old: &D::File,
        config: &Config,
    ) -> Result<Option<D::File>, Failure> {
        if !self.unsure || config.faults.has(Fault::FailedSyncRepeated) {
            return Ok(None);
        }
        let mut copied = 0;
        let put = |file: &D::File| {
            while copied < self.sums.length {
                let bytes = self.sound_piece(old, copied, config)?;
                file.write_at(copied.into(), &bytes)?;
                copied += bytes.len() as u32;
            }
            Ok(())
        };
        let data = match self.replace(disk_, &self.file, put) {
            Ok(file) => file,
            Err(Failure::Refused(Error::Corrupt)) => {
                self.shrink(disk_, old, copied, config)?;
                return Err(Error::Corrupt.into());
            }
            Err(failure) => return Err(failure),
        };
        if self.tabled {
            let table = name(self.chunk, self.stamp, "table");
            let bytes = self.sums.table(config.unit_bytes, self.claim(self.stamp));
            self.replace(disk_, &table, |file| Ok(file.write_at(0, &bytes)?))?;
        }
        self.unsure = false;
        Ok(Some(data))
    }

    /// Writes and syncs a new file, and renames it over the file of that name.
    fn replace(
        &self,
        disk_: &D,
        of: &str,
        put: impl FnOnce(&D::File) -> Result<(), Failure>,
    ) -> Result<D::File, Failure> {
        let anew = name(self.chunk, self.stamp, "anew");
        let file = disk_.create(&anew)?;
        let done = put(&file).and_then(|()| sync_bytes(&file)).and_then(|()| Ok(disk_.rename(&anew, of)?));
        if done.is_err() {
            let _ = disk_.remove(&anew);
        }
        done.map(|()| file)
    }

    /// Whole units from `from` on that agree with their checksums.
    fn sound_piece(&self, data: &D::File, from: u32, config: &Config) -> Result<Vec<u8>, Failure> {
        let unit = config.unit_bytes;
        let step = config.write_bytes.next_multiple_of(unit).min(self.sums.length - from);
        let sums = self.sums.units.get((from / unit) as usize..).unwrap_or_default();
        // Unreadable bytes are lost as well.
        let mut bytes = data.read_vec(from.into(), step as usize).unwrap_or_default();
        let mut units = bytes.chunks(unit as usize).zip(sums);
        let sound = bytes.len() == step as usize && units.all(|(unit, sum)| crc32c(unit) == *sum);
        // The planted fault trusts the table here, too.
        if !sound && config.faults.has(Fault::TableTrusted) {
            bytes.resize(step as usize, 0);
        } else if !sound {
            return Err(Error::Corrupt.into());
        }
        Ok(bytes)
    }

    /// Shortens the replica: bytes behind the first `sound` ones are lost.
    fn shrink(&mut self, disk_: &D, data: &D::File, sound: u32, config: &Config) -> Result<(), Failure> {
        if self.tabled {
            self.sums.cut(sound, &[], config.unit_bytes);
        } else {
            let records = disk_.open(&name(self.chunk, self.stamp, "sums"))?;
            let proven = provable(data, &records, config.unit_bytes, self.claim(self.stamp))?;
            self.sums = proven.unwrap_or_default();
        }
        (self.published, self.tabled) = (self.published.min(self.sums.length), false);
        Ok(())
    }

    /// Gives a replica that lacks only its final name that name.
    pub(super) fn finish_seal(&mut self, disk_: &D, data: &D::File, config: &Config) -> Result<(), Failure> {
        let unsure = self.unsure;
        let renewed = self.renew(disk_, data, config)?;
        let data = renewed.as_ref().unwrap_or(data);
        let done = (|| {
            let table = disk_.open(&name(self.chunk, self.stamp, "table"))?;
            // If only the process had stopped, and not the machine, the files may be only in
            // memory.
            sync_bytes(data)?;
            sync_bytes(&table)?;
            sync_names(disk_)?;
            Ok(self.take_sealed_name(disk_, self.stamp)?)
        })();
        self.unsure |= unsure && done.is_err();
        done
    }

    pub(super) fn take_sealed_name(&mut self, disk_: &D, stamp: crate::Stamp) -> io::Result<()> {
        let sealed = name(self.chunk, stamp, "data");
        disk_.rename(&self.file, &sealed)?;
        self.file = sealed;
        Ok(())
    }
}
