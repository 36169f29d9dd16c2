//! Syncs of a replica, and the handling of one whose sync failed.
//!
//! A kernel reports a failed sync once. It keeps the bytes readable until it needs their memory,
//! but no later sync writes them, although later syncs succeed. So a replica never syncs its files
//! again after a failure. It compares its bytes with their checksums and puts them in a new file in
//! the old one's place, whose first sync does prove something. It does the same with replicas found
//! open at a start, since the kernel may have reported the failure to the run before.

use super::{
    super::failure::{Failure, disk, sync_bytes, sync_names},
    Files, Kind, Replica, name,
};
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

impl<D: Disk> Replica<D> {
    /// Handles a failed sync of its files or names.
    pub fn distrust(&mut self) {
        if self.state == ReplicaState::Open || self.sealing.is_some() {
            (self.state, self.unsure, self.files) = (ReplicaState::Returned, true, None);
            // Its seal doesn't count.
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

    /// Writes the records of its checksums to a file, if they are in memory alone.
    pub fn keep_records(&mut self, disk_: &D, config: &Config) -> Result<(), Error> {
        if self.records_end.is_some() || self.sums.length == 0 {
            return Ok(());
        }
        self.reopen(disk_).map_err(disk)?;
        let Some(files) = &mut self.files else { return Ok(()) };
        files.records = Some(disk_.create(&name(self.chunk, self.stamp, Kind::Sums)).map_err(disk)?);
        // Their names share a sync.
        (self.records_end, self.name_synced) = (Some(0), false);
        let done = self.record(&[], config);
        if done.is_err() && !config.faults.has(Fault::RecordsForgotten) {
            // The disk is full, say. The next call tries again.
            self.records_end = None;
            self.files.iter_mut().for_each(|files| files.records = None);
        }
        done
    }

    /// Whether it could close its files for a while: they are open, and no write is under way.
    pub fn can_be_closed(&self) -> bool {
        self.files.is_some() && self.places.is_empty() && self.sealing.is_none()
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
            // A seal has put the table behind the bytes, which proves them.
            None if self.sealing.is_some() => Files { data: disk_.open(&self.file)?, records: None },
            // Files are synced before they are closed.
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

    /// Writes and syncs a new file, and renames it over the file of that name.
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
