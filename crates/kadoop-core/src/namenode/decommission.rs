//! Decommissioned datanodes.
//!
//! Such a datanode's replicas are read and copied from as before, but don't count. So their chunks
//! get replicas elsewhere, as all chunks with too few do. None of its own is deleted as
//! superfluous. The end of a decommission isn't logged, since it follows from the replicas of the
//! other datanodes.

use super::{Namenode, cluster::Comeback, record::Record};
use crate::{
    ChunkId, NodeId,
    error::{Error, Result},
    faults::Fault,
    messages::Caller,
};
use smallvec::SmallVec;
use std::ops::Bound;

/// Replicas examined in one step: about a millisecond.
const STEP: usize = 10_000;

/// Progress of a datanode's decommission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It stays.
    InService,
    /// It is being decommissioned, and is still needed.
    Decommissioning {
        /// Chunks that still need it; none if it hasn't reported its replicas since the namenode
        /// started.
        chunks: Option<u64>,
    },
    /// No chunk needs it.
    Decommissioned,
}

impl Namenode {
    /// Begins the decommission of a datanode or, if `cancelled`, cancels it.
    ///
    /// # Errors
    /// PermissionDenied, except for the superuser; NotFound.
    pub fn decommission(&mut self, caller: &Caller, node: NodeId, cancelled: bool) -> Result<()> {
        if !self.view(caller).is_super() {
            return Err(Error::PermissionDenied);
        }
        if !self.state.nodes.contains_key(&node) {
            return Err(Error::NotFound);
        }
        if self.behind().is_some() {
            return Err(Error::LogBehind);
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

    /// The holders of a chunk that count: without decommissioned datanodes.
    pub(super) fn counted(&self, holders: &[NodeId]) -> SmallVec<[NodeId; 4]> {
        let careless = self.config.faults.has(Fault::LeavingCounted);
        let stays = |node: &&NodeId| {
            let back = self.cluster.nodes.get(*node).is_some_and(|node| node.comeback == Comeback::Over);
            careless || back && !self.state.decommissioned.contains(*node)
        };
        holders.iter().filter(stays).copied().collect()
    }

    /// Whether the chunk still needs a replica on a decommissioned datanode.
    fn misses(&self, chunk: ChunkId) -> bool {
        let Some(logged) = self.state.chunks.get(&chunk) else { return false };
        // A replaced chunk is dropped as soon as its successor has its replicas.
        !logged.ended
            || logged.replaced
            || self.counted(&self.cluster.live_good(chunk)).len() < self.target(chunk)
    }

    /// Handles the begin or the cancellation of a datanode's decommission.
    pub(super) fn on_service(&mut self, id: NodeId) {
        let stays = !self.state.decommissioned.contains(&id);
        // None is left to wait for.
        let mut staying = self.state.nodes.keys().filter(|node| !self.state.decommissioned.contains(node));
        self.cluster.heard |= staying.all(|node| self.cluster.nodes.contains_key(node));
        let careless = self.config.faults.has(Fault::ComebackBelieved);
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        node.comeback = if stays && !careless { Comeback::Unheard } else { Comeback::Over };
        self.review_held(id);
    }
}

/// A datanode's decommission progress, computed in steps so that mutations needn't wait for all of
/// it.
#[derive(Debug)]
pub struct Departure {
    node: NodeId,
    after: Option<ChunkId>,
    chunks: u64,
}

impl Departure {
    /// Begins with the first chunk of `node`.
    pub fn of(node: NodeId) -> Self {
        Self { node, after: None, chunks: 0 }
    }

    /// Examines the next part. Returns the progress once all is examined.
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
        // A writer may send it bytes of these chunks at any time.
        let open = state.open.values().flat_map(|file| &file.chunks).filter(|open| {
            !known.held.contains(&open.chunk) && open.pipeline.iter().any(|member| member.node == self.node)
        });
        Some(match self.chunks + open.count() as u64 {
            0 => Standing::Decommissioned,
            left => Standing::Decommissioning { chunks: Some(left) },
        })
    }
}
