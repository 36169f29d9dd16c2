//! Datanodes that are to be done without.
//!
//! What such a datanode holds is read and copied from as before, but doesn't count: so its
//! chunks get their replicas elsewhere, as any that have too few, and nothing of it is deleted
//! for being superfluous. That it may go is told, not logged: it follows from what the others
//! hold.

use super::{Namenode, cluster::Comeback, record::Record};
use crate::{
    ChunkId, NodeId,
    error::{Error, Result},
    faults::Fault,
    messages::Caller,
};
use smallvec::SmallVec;
use std::ops::Bound;

/// Replicas looked at in one step: about a millisecond.
const STEP: usize = 10_000;

/// What is to become of a datanode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It stays.
    InService,
    /// It is to be done without, and isn't yet.
    Decommissioning {
        /// Chunks that it is still needed for; none where it hasn't told what it holds since the
        /// namenode began.
        chunks: Option<u64>,
    },
    /// Nothing is missed without it.
    Decommissioned,
}

impl Namenode {
    /// Does without a datanode from now on, or, if `cancelled`, doesn't after all.
    ///
    /// # Errors
    /// PermissionDenied but for the superuser; NotFound.
    pub fn decommission(&mut self, caller: &Caller, node: NodeId, cancelled: bool) -> Result<()> {
        if !self.view(caller).is_super() {
            return Err(Error::PermissionDenied);
        }
        if !self.state.nodes.contains_key(&node) {
            return Err(Error::NotFound);
        }
        if self.state.decommissioned.contains(&node) == cancelled {
            let record = match cancelled {
                false => Record::DecommissionBegun { node },
                true => Record::DecommissionCancelled { node },
            };
            self.commit(None, vec![record]);
        }
        Ok(())
    }

    /// Those of a chunk's holders that aren't to be done without.
    pub(super) fn counted(&self, holders: &[NodeId]) -> SmallVec<[NodeId; 4]> {
        let careless = self.config.faults.has(Fault::LeavingCounted);
        let stays = |node: &&NodeId| {
            let back = self.cluster.nodes.get(*node).is_some_and(|node| node.comeback == Comeback::Over);
            careless || back && !self.state.decommissioned.contains(*node)
        };
        holders.iter().filter(stays).copied().collect()
    }

    /// Whether the chunk would miss a replica on a datanode that is to be done without.
    fn misses(&self, chunk: ChunkId) -> bool {
        let Some(logged) = self.state.chunks.get(&chunk) else { return false };
        // One that was replaced goes as soon as its successor has its replicas.
        !logged.ended
            || logged.replaced
            || self.counted(&self.cluster.live_good(chunk)).len() < self.target(chunk)
    }

    /// A datanode is to be done without, or to stay.
    pub(super) fn on_service(&mut self, id: NodeId) {
        let stays = !self.state.decommissioned.contains(&id);
        let careless = self.config.faults.has(Fault::ComebackBelieved);
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        node.comeback = if stays && !careless { Comeback::Unheard } else { Comeback::Over };
        let held = node.held.clone();
        held.into_iter().for_each(|chunk| self.review(chunk));
    }
}

/// How far a datanode is on its way out, found out in steps: changes needn't wait for all of it.
#[derive(Debug)]
pub struct Departure {
    node: NodeId,
    after: Option<ChunkId>,
    chunks: u64,
}

impl Departure {
    /// Of this datanode.
    pub fn of(node: NodeId) -> Self {
        Self { node, after: None, chunks: 0 }
    }

    /// Looks on; what came of it, once that is known.
    pub fn step(&mut self, namenode: &Namenode) -> Option<Standing> {
        let state = &namenode.state;
        if !state.decommissioned.contains(&self.node) {
            return Some(Standing::InService);
        }
        let known = namenode.cluster.nodes.get(&self.node).filter(|node| node.reported);
        let Some(known) = known else { return Some(Standing::Decommissioning { chunks: None }) };
        let from = self.after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked = 0;
        for chunk in known.held.range((from, Bound::Unbounded)).take(STEP) {
            looked += 1;
            self.after = Some(*chunk);
            self.chunks += u64::from(namenode.misses(*chunk));
        }
        if looked == STEP {
            return None;
        }
        // It may be given bytes of these at any time.
        let open = state.open.values().flat_map(|file| &file.chunks).filter(|open| {
            !known.held.contains(&open.chunk) && open.pipeline.iter().any(|member| member.node == self.node)
        });
        Some(match self.chunks + open.count() as u64 {
            0 => Standing::Decommissioned,
            left => Standing::Decommissioning { chunks: Some(left) },
        })
    }
}
