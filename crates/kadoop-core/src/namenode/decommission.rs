//! Decommissioned datanodes.
//!
//! Such a datanode's replicas can be read and copied as before, but don't count. So their chunks get
//! replicas on other datanodes, as all chunks with too few replicas do. The datanode's own replicas
//! aren't deleted as superfluous. The end of a decommission isn't logged, since it follows from the
//! replicas of the other datanodes.

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
    /// The datanode isn't being decommissioned.
    InService,
    /// The datanode is being decommissioned, and chunks still need it.
    Decommissioning {
        /// Number of chunks that still need it. None if that isn't known, since it hasn't reported its
        /// replicas since the namenode started.
        chunks: Option<u64>,
    },
    /// The datanode is decommissioned: no chunk needs it.
    Decommissioned,
}

impl Namenode {
    /// Begins the decommission of a datanode or, if `cancelled`, cancels it.
    ///
    /// # Errors
    /// PermissionDenied: the caller lacks a superuser's rights. NotFound: there is no such datanode.
    /// LogBehind: the log has lost records, so the namenode refuses changes.
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

    /// The holders whose replicas count: those that are neither decommissioned nor being decommissioned,
    /// nor still have to report after a cancelled decommission.
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
        // An open or replaced chunk may still need each replica.
        !logged.ended
            || logged.replaced
            || self.counted(&self.cluster.live_good(chunk)).len() < self.target(chunk)
    }

    /// Handles the beginning or the cancellation of a datanode's decommission.
    pub(super) fn on_service(&mut self, id: NodeId) {
        let stays = !self.state.decommissioned.contains(&id);
        // If this leaves no datanode to wait for after the start, stop waiting.
        let mut staying = self.state.nodes.keys().filter(|node| !self.state.decommissioned.contains(node));
        self.cluster.heard |= staying.all(|node| self.cluster.nodes.contains_key(node));
        let careless = self.config.faults.has(Fault::ComebackBelieved);
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        node.comeback = if stays && !careless { Comeback::Unheard } else { Comeback::Over };
        self.review_held(id);
    }
}

/// The computation of a datanode's decommission progress, in steps so that mutations needn't wait for
/// the whole computation.
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

    /// Examines the next chunks. Returns the progress once all chunks are examined.
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
        // Also count open chunks that the datanode doesn't hold yet: a writer may send it their bytes at
        // any time.
        let open = state.open.values().flat_map(|file| &file.chunks).filter(|open| {
            !known.held.contains(&open.chunk) && open.pipeline.iter().any(|member| member.node == self.node)
        });
        Some(match self.chunks + open.count() as u64 {
            0 => Standing::Decommissioned,
            left => Standing::Decommissioning { chunks: Some(left) },
        })
    }
}
