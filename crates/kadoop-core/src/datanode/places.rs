//! Writes whose bytes are written to their place in the file without the datanode's lock. To copy a MiB
//! to the kernel's memory takes as long as all other work for a write, so several writes copy in
//! parallel.
//!
//! A place is a range of the file. It lies after the replica's end, within the window of writes that can
//! arrive out of order, and belongs to one write. So a concurrent seal, fence or deletion can't lose
//! bytes that count. The bytes in a place count only after [`Datanode::finish`] has repeated the checks.

use super::{Datanode, Sums, failure::disk, live};
use crate::{
    disk::{Disk, DiskFile},
    error::Result,
    faults::Fault,
    messages::Write,
};

/// The place of a write's bytes.
#[derive(Debug)]
pub struct Place<F> {
    pub(super) id: u64,
    pub(super) file: F,
    pub(super) unit: u32,
}

/// The result of writing the bytes to a place.
#[derive(Debug)]
pub struct Placed {
    id: u64,
    outcome: Result<Grown>,
}

/// The checksums by which a replica grows, after the bytes are in its file.
#[derive(Debug)]
pub(super) struct Grown {
    pub end: u32,
    pub units: Vec<u32>,
    pub records: Vec<u8>,
}

impl<F: DiskFile> Place<F> {
    /// Writes the bytes to their place, and computes their checksums, without the datanode's lock.
    pub fn put(self, write: &Write) -> Placed {
        let Self { id, file, unit } = self;
        let outcome = file.write_at(write.offset.into(), &write.bytes).map_err(disk).map(|()| {
            let mut sums = Sums { length: write.offset, units: Vec::new() };
            let records = sums.extend(&write.bytes, unit);
            Grown { end: sums.length, units: sums.units, records }
        });
        Placed { id, outcome }
    }
}

impl<D: Disk + Clone> Datanode<D> {
    /// Reserves a place for a write. Call [`Place::put`] without the lock, and then
    /// [`Datanode::finish`]. If this returns None, use [`Datanode::write`] instead.
    ///
    /// # Errors
    /// As those of a write.
    pub fn place(&mut self, write: &Write) -> Result<Option<Place<D::File>>> {
        self.demand_member(&write.pipeline)?;
        self.demand_stamp(write.chunk, write.stamp)?;
        if (write.bytes.len() as u64) < u64::from(self.config.unit_bytes) {
            return Ok(None);
        }
        self.make_ready(write)?;
        self.last_place += 1;
        let replica = live(&mut self.replicas, write.chunk)?;
        let place = replica.place(self.last_place, write.offset, write.bytes.len(), &self.config);
        if !matches!(place, Ok(Some(_))) {
            self.room.give_back(replica.directory.into(), write.bytes.len());
        }
        place
    }

    /// Handles a write whose bytes are in their place. [`Datanode::settled`] returns its result with the
    /// number `caller`, at once or when the bytes before it have arrived.
    pub fn finish(&mut self, caller: u64, write: &Write, placed: Placed) {
        let mut applied = Vec::new();
        let result = self.try_finish(caller, write, placed, &mut applied);
        self.settle(caller, result, applied);
    }

    fn try_finish(
        &mut self,
        caller: u64,
        write: &Write,
        placed: Placed,
        applied: &mut Vec<u64>,
    ) -> Result<()> {
        live(&mut self.replicas, write.chunk)?.leave(write.offset, placed.id)?;
        let grown = placed.outcome?;
        // Check again, since the lock was released after the reservation.
        if !self.config.faults.has(Fault::PlaceTrusted) {
            self.demand_member(&write.pipeline)?;
            self.demand_stamp(write.chunk, write.stamp)?;
        }
        let replica = live(&mut self.replicas, write.chunk)?;
        replica.grow_by(caller, write.offset, grown, &self.config, applied)
    }
}
