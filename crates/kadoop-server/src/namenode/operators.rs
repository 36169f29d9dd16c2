//! Operators' requests: the datanodes' standings, decommission, recommission, rebalance.

use super::{Shared, audit::Asked};
use strait_flexrpc::Request;
use strait_kadoop_core::{
    NodeId,
    error::{Error, Result},
    messages::Caller,
    namenode::{Departure, Namenode, Standing},
};
use strait_kadoop_wire::{
    convert::{rebalancing_to_wire, standing_to_wire},
    wire,
};

impl Shared {
    pub(super) fn standings(&self) -> Result<wire::KdService> {
        let (joined, rebalancing) = self.ask(|namenode| {
            let joined: Vec<NodeId> = namenode.state().nodes.keys().copied().collect();
            Ok((joined, namenode.rebalancing()))
        })?;
        let told = joined.into_iter().take(wire::KD_NODES as usize);
        let nodes: Result<Vec<_>> =
            told.map(|node| Ok(standing_to_wire(node, self.standing(node)?))).collect();
        Ok(wire::KdService { nodes: nodes?, rebalance: rebalancing.map(rebalancing_to_wire) })
    }

    fn standing(&self, node: NodeId) -> Result<Standing> {
        let mut departure = Departure::of(node);
        loop {
            if let Some(standing) = self.ask(|namenode| Ok(departure.step(namenode)))? {
                return Ok(standing);
            }
        }
    }

    pub(super) fn decommission(
        &self,
        call: &Request,
        caller: &Caller,
        node: NodeId,
        cancel: bool,
    ) -> Result<()> {
        let operation = if cancel { "recommission" } else { "decommission" };
        let done = self.operate(|namenode| namenode.decommission(caller, node, cancel));
        self.audited(call, caller, Asked::new(operation, &format!("datanode {}", node.0)), done)
    }

    pub(super) fn rebalance(&self, call: &Request, caller: &Caller, threshold_percent: u32) -> Result<()> {
        let threshold = Some(threshold_percent).filter(|percent| *percent > 0);
        let done = self.operate(|namenode| namenode.rebalance(caller, threshold));
        self.audited(call, caller, Asked::new("rebalance", "/"), done)
    }

    pub(super) fn operate(&self, operate: impl FnOnce(&mut Namenode) -> Result<()>) -> Result<()> {
        self.change(|namenode, _| match self.commit.is_short_of_room() {
            true => Err(Error::NoSpace),
            false => operate(namenode),
        })
    }
}
