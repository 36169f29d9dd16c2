//! Syncs a replica, and handles a failed sync.
//!
//! The kernel reports a failed sync once. It keeps the bytes readable until it needs their memory, but
//! no later sync writes them, although later syncs succeed. So after a failure, a replica never syncs
//! the same files again. Instead, it compares its bytes with their checksums, and copies them to a new
//! file that replaces the old one: the first sync of a new file can be trusted. It does the same with
//! replicas that a start finds open, since the kernel may have reported a failure to the previous run.

use super::{
    super::failure::{Failure, disk, sync_bytes, sync_names},
    Files, Kind, Replica, name,
};
use crate::{
    Config,
    datanode::sums::provable,
    disk::{Disk, DiskFile},
    error::Error,
    faults::Fault,
    messages::ReplicaState,
};
use std::io;
use strait_crc::crc32c;

impl<D: Disk> Replica<D> {
    /// Handles a failed sync of the replica's files or names: it becomes a returned one.
    pub fn distrust(&mut self) {
        if self.state == ReplicaState::Open || self.sealing.is_some() {
            (self.state, self.unsure, self.files) = (ReplicaState::Returned, true, None);
            // A seal that is under way doesn't count.
            self.sealing = None;
        }
    }

    /// Opens the files of a replica that is going to be written, if they are closed.
    pub fn reopen(&mut self, disk_: &D) -> io::Result<()> {
        if self.is_closed() {
            let data = disk_.open(&self.file)?;
            let kept = self.records_end.is_some();
            let records = kept.then(|| disk_.open(&name(self.chunk, self.stamp, Kind::Sums))).transpose()?;
            self.files = Some(Files { data, records });
        }
        Ok(())
    }

    /// Writes the records of the checksums to a file, if they are only in memory.
    pub fn keep_records(&mut self, disk_: &D, config: &Config) -> Result<(), Error> {
        if self.records_end.is_some() || self.sums.length == 0 {
            return Ok(());
        }
        self.reopen(disk_).map_err(disk)?;
        let Some(files) = &mut self.files else { return Ok(()) };
        files.records = Some(disk_.create(&name(self.chunk, self.stamp, Kind::Sums)).map_err(disk)?);
        // The next sync of names has to cover the new file, too.
        (self.records_end, self.name_synced) = (Some(0), false);
        let done = self.record(&[], config);
        if done.is_err() && !config.faults.has(Fault::RecordsForgotten) {
            // For example, the disk is full. The next call tries again.
            self.records_end = None;
            self.files.iter_mut().for_each(|files| files.records = None);
        }
        done
    }

    /// Whether its files can be closed until the next write: they are open, and neither a write nor a seal
    /// is under way.
    pub fn can_be_closed(&self) -> bool {
        self.files.is_some() && self.places.is_empty() && self.sealing.is_none()
    }

    /// Syncs the files, and closes them until the next write. If they were closed without a sync, the
    /// kernel's report of a failure would be lost.
    pub fn close(&mut self, disk_: &D, config: &Config) -> Result<(), Failure> {
        if !config.faults.has(Fault::ClosedUnsynced) {
            self.sync(disk_, config)?;
        }
        self.files = None;
        Ok(())
    }

    /// Whether the names of its files may be only in memory.
    pub fn is_nameless(&self) -> bool {
        (self.state == ReplicaState::Open || self.sealing.is_some()) && !self.name_synced
    }

    /// Syncs all applied bytes.
    pub fn sync(&mut self, disk_: &D, config: &Config) -> Result<(), Failure> {
        match self.state {
            ReplicaState::Sealed => return Ok(()),
            ReplicaState::Returned => return Err(Error::NotOpen.into()),
            ReplicaState::Open => {}
        }
        let faults = config.faults;
        self.keep_records(disk_, config)?;
        let files = match &self.files {
            Some(files) => files.clone(),
            // A seal has written the table after the bytes, so their records aren't needed.
            None if self.sealing.is_some() => Files { data: disk_.open(&self.file)?, records: None },
            // Closed files are already synced.
            None => return Ok(()),
        };
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

    /// If a sync of the file `old` may have failed, copies its bytes to a new file, which replaces it, and
    /// returns the new file. Call this before another sync.
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
            if self.tabled {
                file.write_at(copied.into(), &self.sums.table(config.unit_bytes, self.claim(self.stamp)))?;
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
        (self.unsure, self.name_synced) = (false, false);
        Ok(Some(data))
    }

    /// Writes and syncs a new file, and renames it to `of`, which replaces the old file.
    fn replace(
        &self,
        disk_: &D,
        of: &str,
        put: impl FnOnce(&D::File) -> Result<(), Failure>,
    ) -> Result<D::File, Failure> {
        let anew = name(self.chunk, self.stamp, Kind::Anew);
        let file = disk_.create(&anew)?;
        let done = put(&file).and_then(|()| sync_bytes(&file)).and_then(|()| Ok(disk_.rename(&anew, of)?));
        if done.is_err() {
            let _ = disk_.remove(&anew);
        }
        done.map(|()| file)
    }

    /// Reads the next units from `from` on, which have to match their checksums.
    ///
    /// # Errors
    /// Corrupt: one of them doesn't match, or can't be read.
    fn sound_piece(&self, data: &D::File, from: u32, config: &Config) -> Result<Vec<u8>, Failure> {
        let unit = config.unit_bytes;
        let step = config.write_bytes.next_multiple_of(unit).min(self.sums.length - from);
        let sums = self.sums.units.get((from / unit) as usize..).unwrap_or_default();
        // Unreadable bytes count as lost.
        let mut bytes = data.read_vec(from.into(), step as usize).unwrap_or_default();
        let mut units = bytes.chunks(unit as usize).zip(sums);
        let sound = bytes.len() == step as usize && units.all(|(unit, sum)| crc32c(unit) == *sum);
        // The planted fault `TableTrusted` trusts the table here, too.
        if !sound && config.faults.has(Fault::TableTrusted) {
            bytes.resize(step as usize, 0);
        } else if !sound {
            return Err(Error::Corrupt.into());
        }
        Ok(bytes)
    }

    /// Shortens the replica, since bytes after the first `sound` ones are lost.
    fn shrink(&mut self, disk_: &D, data: &D::File, sound: u32, config: &Config) -> Result<(), Failure> {
        if self.tabled || self.records_end.is_none() {
            self.sums.cut(sound, &[], config.unit_bytes);
        } else {
            let records = disk_.open(&name(self.chunk, self.stamp, Kind::Sums))?;
            let proven = provable(data, &records, config.unit_bytes, self.claim(self.stamp))?;
            self.sums = proven.unwrap_or_default();
        }
        (self.published, self.tabled) = (self.published.min(self.sums.length), false);
        Ok(())
    }
}
