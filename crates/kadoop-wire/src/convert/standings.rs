//! Converts decommission states of datanodes, and rebalances.

use crate::wire::{self, KdStanding};
use strait_kadoop_core::{
    NodeId,
    namenode::{Rebalancing, Standing},
};

/// A datanode's standing, to the wire.
pub fn standing_to_wire(node: NodeId, standing: Standing) -> wire::KdNodeStanding {
    let (standing, chunks) = match standing {
        Standing::InService => (KdStanding::KdInService, None),
        Standing::Decommissioning { chunks } => (KdStanding::KdDecommissioning, chunks),
        Standing::Decommissioned => (KdStanding::KdDecommissioned, None),
    };
    wire::KdNodeStanding { node: node.0, standing, chunks }
}

/// A datanode's standing, from the wire.
pub fn standing_from_wire(told: &wire::KdNodeStanding) -> (NodeId, Standing) {
    let standing = match told.standing {
        KdStanding::KdInService => Standing::InService,
        KdStanding::KdDecommissioning => Standing::Decommissioning { chunks: told.chunks },
        KdStanding::KdDecommissioned => Standing::Decommissioned,
    };
    (NodeId(told.node), standing)
}

/// A rebalance's progress, to the wire.
pub fn rebalancing_to_wire(told: Rebalancing) -> wire::KdRebalance {
    let Rebalancing { running, threshold_percent, moving, moved_chunks, moved_bytes } = told;
    wire::KdRebalance { running, threshold_percent, moving, moved_chunks, moved_bytes }
}

/// A rebalance's progress, from the wire.
pub fn rebalancing_from_wire(told: &wire::KdRebalance) -> Rebalancing {
    let wire::KdRebalance { running, threshold_percent, moving, moved_chunks, moved_bytes } = *told;
    Rebalancing { running, threshold_percent, moving, moved_chunks, moved_bytes }
}
