//! Writes to an open replica. They are applied in order: a write that arrives early waits for the bytes
//! before it.

use super::{super::failure::disk, Files, Replica};
use crate::{
    Config,
    datanode::{
        places::{Grown, Place},
        sums::RECORDS_HEAD_BYTES,
    },
    disk::{Disk, DiskFile},
    error::{Error, Result},
    faults::Fault,
    messages::ReplicaState,
};
use bytes::Bytes;

/// A write that arrived out of order.
pub(super) enum Held {
    Bytes(Bytes),
    /// The bytes are already in the file.
    Placed(Grown),
}

impl Held {
    fn len(&self, offset: u32) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Placed(grown) => (grown.end - offset) as usize,
        }
    }
}

impl<D: Disk> Replica<D> {
    /// Applies a write that begins at the replica's end, and the held writes that follow it. Holds a write
    /// that begins later. Adds the callers of all applied writes to `applied`.
    pub fn write(
        &mut self,
        caller: u64,
        offset: u32,
        bytes: Bytes,
        config: &Config,
        applied: &mut Vec<u64>,
    ) -> Result<()> {
        if self.state != ReplicaState::Open || self.sealing.is_some() {
            return Err(Error::NotOpen);
        }
        if bytes.is_empty() {
            return Err(Error::Invalid("the write has no bytes"));
        }
        let end = offset.checked_add(bytes.len() as u32).ok_or(Error::BeyondEnd)?;
        if end <= self.sums.length {
            // This is a retry. If its bytes differ from the applied ones, one of the two is wrong.
            let mut there = vec![0; bytes.len()];
            self.open_files()?.data.read_at(offset.into(), &mut there).map_err(disk)?;
            applied.extend((there == bytes).then_some(caller));
            return if there == bytes { Ok(()) } else { Err(Error::Corrupt) };
        }
        if offset < self.sums.length {
            return Err(Error::Invalid("the write begins before the replica's end and continues after it"));
        }
        if !self.is_free(offset, end) {
            return Err(Error::BeyondEnd);
        }
        self.take(caller, offset, Held::Bytes(bytes), config, applied)
    }

    /// Reserves a place for `length` bytes at `offset`, until [`Replica::leave`]. Returns None if the write
    /// doesn't begin at the beginning of a unit, or lies outside of the range in which writes can wait.
    pub fn place(
        &mut self,
        id: u64,
        offset: u32,
        length: usize,
        config: &Config,
    ) -> Result<Option<Place<D::File>>> {
        if self.state != ReplicaState::Open || self.sealing.is_some() {
            return Err(Error::NotOpen);
        }
        let unit = config.unit_bytes;
        let end = u32::try_from(length).ok().and_then(|length| offset.checked_add(length));
        let end = end.ok_or(Error::BeyondEnd)?;
        let within = length > 0 && offset >= self.sums.length && end - self.sums.length <= config.hold_bytes;
        if !within || !offset.is_multiple_of(unit) {
            return Ok(None);
        }
        if !self.is_free(offset, end) {
            return Err(Error::BeyondEnd);
        }
        let file = self.open_files()?.data.clone();
        self.places.insert(offset, (id, end));
        Ok(Some(Place { id, file, unit }))
    }

    /// The replica's open files.
    ///
    /// # Errors
    /// Disk: the files are closed.
    fn open_files(&self) -> Result<&Files<D::File>> {
        self.files.as_ref().ok_or(Error::Disk)
    }

    /// Ends the reservation of a place.
    ///
    /// # Errors
    /// NoReplica: this replica doesn't have that place, so another replica had. NotOpen: the replica isn't
    /// open any more, so the bytes don't count.
    pub fn leave(&mut self, offset: u32, id: u64) -> Result<()> {
        if self.places.get(&offset).is_none_or(|(of, _)| *of != id) {
            return Err(Error::NoReplica);
        }
        self.places.remove(&offset);
        if self.state != ReplicaState::Open || self.sealing.is_some() {
            return Err(Error::NotOpen);
        }
        Ok(())
    }

    /// Applies bytes that are already in the file, or holds them until the bytes before have
    /// arrived.
    pub fn grow_by(
        &mut self,
        caller: u64,
        offset: u32,
        grown: Grown,
        config: &Config,
        applied: &mut Vec<u64>,
    ) -> Result<()> {
        self.take(caller, offset, Held::Placed(grown), config, applied)
    }

    /// Whether no other write is held or has a place in the range.
    fn is_free(&self, offset: u32, end: u32) -> bool {
        let place = self.places.range(..end).next_back();
        let held = self.held.range(..end).next_back();
        place.is_none_or(|(_, (_, place_end))| *place_end <= offset)
            && held.is_none_or(|(at, (_, held))| *at as usize + held.len(*at) <= offset as usize)
    }

    /// Applies a write if it begins at the replica's end, and the held writes that follow it. Otherwise
    /// holds the write.
    fn take(
        &mut self,
        caller: u64,
        offset: u32,
        write: Held,
        config: &Config,
        applied: &mut Vec<u64>,
    ) -> Result<()> {
        if offset > self.sums.length {
            let length = write.len(offset);
            if self.held_bytes + length > config.hold_bytes as usize {
                return Err(Error::BeyondEnd);
            }
            self.held_bytes += length;
            self.held.insert(offset, (caller, write));
            if config.faults.has(Fault::EarlyWriteAnswered) {
                applied.push(caller);
            }
            return Ok(());
        }
        self.apply(write, config)?;
        applied.push(caller);
        while let Some((caller, write)) = self.held.remove(&self.sums.length) {
            self.held_bytes -= write.len(self.sums.length);
            self.apply(write, config)?;
            applied.push(caller);
        }
        Ok(())
    }

    fn apply(&mut self, write: Held, config: &Config) -> Result<()> {
        match write {
            Held::Placed(Grown { end, units, records }) => {
                self.record(&records, config)?;
                self.sums.units.extend_from_slice(&units);
                self.sums.length = end;
            }
            Held::Bytes(bytes) => {
                let mut sums = self.sums.clone();
                self.open_files()?.data.write_at(self.sums.length.into(), &bytes).map_err(disk)?;
                let records = sums.extend(&bytes, config.unit_bytes);
                self.record(&records, config)?;
                self.sums = sums;
            }
        }
        Ok(())
    }

    /// Appends records to the file of checksums, if there is one. To an empty file, writes the head and
    /// all records.
    pub(super) fn record(&mut self, more: &[u8], config: &Config) -> Result<()> {
        let Some(end) = self.records_end else { return Ok(()) };
        let Some(records) = self.open_files()?.records.clone() else { return Ok(()) };
        let unit = config.unit_bytes;
        if end == 0 {
            let first =
                [&self.claim(self.stamp).records_head(unit)[..], &self.sums.records(unit), more].concat();
            records.write_at(0, &first).map_err(disk)?;
            self.records_end = Some(first.len() as u64);
            return Ok(());
        }
        let at = if config.faults.has(Fault::SumsInPlace) {
            RECORDS_HEAD_BYTES as u64 + u64::from(self.sums.length / unit) * 8
        } else {
            end
        };
        records.write_at(at, more).map_err(disk)?;
        self.records_end = Some(end + more.len() as u64);
        Ok(())
    }
}
