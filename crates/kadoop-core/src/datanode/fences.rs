//! Fences: for each chunk, the stamp below which writes and seals are refused.

use super::{Datanode, Kept};
use crate::{
    ChunkId, Stamp,
    config::MAX_FENCES,
    disk::Disk,
    error::{Error, Result},
    faults::Fault,
    messages::Change,
};

impl<D: Disk + Clone> Datanode<D> {
    pub(super) fn demand_stamp(&self, chunk: ChunkId, stamp: Stamp) -> Result<()> {
        let fence = self.fences.get(&chunk).copied();
        let highest = match self.replicas.get(&chunk) {
            Some(Kept::Live(replica)) => Some(replica.fenced),
            Some(Kept::Sealed(sealed)) => fence.max(Some(sealed.stamp)),
            None => fence,
        };
        if highest.is_some_and(|highest| stamp < highest)
            && !self.config.faults.has(Fault::StaleStampAccepted)
        {
            return Err(Error::StaleStamp);
        }
        Ok(())
    }

    pub(super) fn fence(&mut self, chunk: ChunkId, stamp: Stamp) {
        match self.replicas.get_mut(&chunk) {
            Some(Kept::Live(replica)) => {
                replica.fenced = replica.fenced.max(stamp);
                let held = replica.refuse_held();
                self.settled.extend(held.into_iter().map(|caller| (caller, Err(Error::StaleStamp))));
            }
            Some(Kept::Sealed(sealed)) if stamp <= sealed.stamp => {}
            None if self.config.faults.has(Fault::FenceForgotten) => {}
            Some(Kept::Sealed(_)) | None => self.remember_fence(chunk, stamp),
        }
        let replica = self.replica(chunk);
        self.changes.push(Change::Fenced { chunk, stamp, replica });
        if self.fences.len() > MAX_FENCES {
            self.begin_anew();
        }
    }

    /// Remembers the fence of a chunk that has no open replica here.
    pub(super) fn remember_fence(&mut self, chunk: ChunkId, stamp: Stamp) {
        let fence = self.fences.entry(chunk).or_default();
        *fence = stamp.max(*fence);
    }

    /// Begins another incarnation. The fences of the previous one aren't needed any more: requests that
    /// they would reject name the previous incarnation.
    pub(super) fn begin_anew(&mut self) {
        self.incarnation.0 = self.incarnation.0.wrapping_add(1);
        self.fences.clear();
        self.session = 0;
    }
}
