//! Writes whose bytes go to their place in the file outside the lock. Copying a MiB to the disk's
//! memory takes as long as all other work on it, so several writes do that in parallel.
//!
//! A place lies behind the replica's end, within the window of writes that may arrive out of order,
//! and belongs to one write. So a concurrent seal, fence or deletion can't lose bytes that count.
//! The place's bytes count only after [`Datanode::finish`] has checked everything again.

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

/// A place after its bytes were written, or the disk's refusal.
#[derive(Debug)]
pub struct Placed {
    id: u64,
    outcome: Result<Grown>,
}

/// The growth of a replica, after its bytes are in the file.
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
    /// Reserves a place for a write. Fill it by [`Place::put`] without the lock, and then call
    /// [`Datanode::finish`]. None: use [`Datanode::write`].
    ///
    /// # Errors
    /// Those of a write.
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

    /// Takes a write whose bytes are in their place. [`Datanode::settled`] names `caller`, now or
    /// when the bytes before have arrived.
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
        // Check again: much may have happened since the reservation.
        if !self.config.faults.has(Fault::PlaceTrusted) {
            self.demand_member(&write.pipeline)?;
            self.demand_stamp(write.chunk, write.stamp)?;
        }
        let replica = live(&mut self.replicas, write.chunk)?;
        replica.grow_by(caller, write.offset, grown, &self.config, applied)
    }
}
