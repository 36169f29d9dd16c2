//! Writes whose bytes are put in their place while others go on: to copy a MiB to the disk's
//! memory takes as long as all else that is done with it, and needn't be done one after the
//! other.
//!
//! A place lies behind the replica's end, within the window of writes that may come before
//! their turn, and is nobody else's. So whatever becomes of the replica meanwhile, sealed,
//! fenced or removed, no byte that counts is touched; and none of the place's counts before
//! [`Datanode::finish`] has looked at everything again.

use super::{Datanode, Sums, replica::disk};
use crate::{
    disk::{Disk, DiskFile},
    error::{Error, Result},
    faults::Fault,
    messages::Write,
};

/// Where a write's bytes go.
#[derive(Debug)]
pub struct Place<F> {
    pub(super) id: u64,
    pub(super) file: F,
    pub(super) unit: u32,
}

/// A place that has its bytes, unless the disk refused them.
#[derive(Debug)]
pub struct Placed {
    id: u64,
    outcome: Result<Grown>,
}

/// What a replica grows by, once its bytes are in the file.
#[derive(Debug)]
pub(super) struct Grown {
    pub end: u32,
    pub units: Vec<u32>,
    pub records: Vec<u8>,
}

impl<F: DiskFile> Place<F> {
    /// Puts the write's bytes there, and computes their checksums. Needs nothing of the
    /// datanode.
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

impl<D: Disk> Datanode<D> {
    /// A place for a write, to be filled by [`Place::put`] without holding up anybody, and
    /// told to [`Datanode::finish`]. None if the write is to be taken by [`Datanode::write`].
    ///
    /// # Errors
    /// As a write's.
    pub fn place(&mut self, write: &Write) -> Result<Option<Place<D::File>>> {
        self.demand_member(&write.pipeline)?;
        self.demand_stamp(write.chunk, write.stamp)?;
        if (write.bytes.len() as u64) < u64::from(self.config.unit_bytes) {
            return Ok(None);
        }
        self.make_ready(write)?;
        let replica = self.replicas.get_mut(&write.chunk).ok_or(Error::NoReplica)?;
        self.last_place += 1;
        let place = replica.place(self.last_place, write.offset, write.bytes.len(), &self.config);
        if !matches!(place, Ok(Some(_))) {
            self.room.give_back(replica.directory, write.bytes.len());
        }
        place
    }

    /// Takes a write whose bytes are in their place; `caller` is named in
    /// [`Datanode::settled`], now or when the bytes before it have come.
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
        let replica = self.replicas.get_mut(&write.chunk).ok_or(Error::NoReplica)?;
        replica.leave(write.offset, placed.id)?;
        let grown = placed.outcome?;
        // Much may have happened since the place was given.
        if !self.config.faults.has(Fault::PlaceTrusted) {
            self.demand_member(&write.pipeline)?;
            self.demand_stamp(write.chunk, write.stamp)?;
        }
        let replica = self.replicas.get_mut(&write.chunk).ok_or(Error::NoReplica)?;
        replica.grow_by(caller, write.offset, grown, &self.config, applied)
    }
}
