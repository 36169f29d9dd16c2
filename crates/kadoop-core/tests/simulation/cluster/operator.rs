//! An operator that decommissions datanodes, throws away those no longer needed, and rebalances.

use super::{
    moments::Moment,
    network::Host,
    world::{DIRECTORIES, Event, NODES, World},
};
use crate::{disk::SimDisk, namespace::someone, random::Random};
use strait_kadoop_core::{
    Millis, NodeId,
    messages::Space,
    namenode::{Departure, Standing},
};

/// Capacity of a datanode's disks: a few chunks are a percent.
const CAPACITY_BYTES: u64 = 16 << 10;
/// Longest pause between two checks of the cluster.
const PAUSE_MS: Millis = 2_500;

/// Has its own random numbers, so that runs without an operator keep their schedules.
pub struct Operator {
    random: Random,
    works: bool,
    /// Whether it wants all datanodes in service at the end.
    keeps_all: bool,
}

impl Operator {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(!seed);
        let (works, keeps_all) = (random.one_in(4), random.one_in(2));
        Self { random, works, keeps_all }
    }
}

impl World {
    pub fn begin_operating(&mut self) {
        // In a stranding only one crash may go wrong.
        let alone = self.moment == Some(Moment::Stranding) || self.losses.excludes_operator();
        if self.operator.works && !alone {
            self.at(self.now + 1, Event::Operate);
        }
    }

    /// Capacity and use of a datanode's disks.
    pub fn space(&self, host: Host) -> Space {
        let node = &self.nodes[host - 1];
        let replicas = node.running.iter().flat_map(|running| running.replicas());
        let used_bytes = match node.disks.iter().all(SimDisk::is_full) {
            true => CAPACITY_BYTES,
            false => replicas.map(|replica| u64::from(replica.length)).sum(),
        };
        Space { capacity_bytes: CAPACITY_BYTES, used_bytes }
    }

    pub fn operate(&mut self) {
        let pause = 1 + self.operator.random.below(PAUSE_MS);
        self.at(self.now + pause, Event::Operate);
        let Some((namenode, _)) = &self.namenode else { return };
        let leaving = namenode.state().decommissioned.first().copied();
        let user = someone("kadoop");
        if self.healed {
            if let Some(node) = leaving.filter(|_| self.operator.keeps_all) {
                let _ = self.ask(|namenode| namenode.decommission(&user, node, true));
            }
            return;
        }
        match (self.operator.random.below(6), leaving) {
            (0..=2, None) => {
                let index = self.operator.random.below(NODES as u64) as usize;
                let number = self.numbers.iter().find(|(_, known)| **known == index);
                if let Some(node) = number.map(|(node, _)| *node) {
                    let _ = self.ask(|namenode| namenode.decommission(&user, node, false));
                }
            }
            (0, Some(node)) => {
                let _ = self.ask(|namenode| namenode.decommission(&user, node, true));
            }
            (1 | 2, Some(node)) => self.throw_away(node),
            (3, _) => {
                let stop = self.operator.random.one_in(8);
                let threshold = 1 + self.operator.random.below(3) as u32;
                let _ = self.ask(|namenode| namenode.rebalance(&user, (!stop).then_some(threshold)));
            }
            _ => {}
        }
    }

    /// Replaces a datanode that isn't needed any more by one with new disks.
    fn throw_away(&mut self, node: NodeId) {
        let Some(index) = self.numbers.get(&node).copied() else { return };
        if self.standing(node) != Some(Standing::Decommissioned) {
            return;
        }
        if self.trace {
            eprintln!("{:>7} datanode {} is thrown away", self.now, index + 1);
        }
        self.crash(index + 1);
        self.nodes[index].disks = (0..DIRECTORIES).map(|_| SimDisk::default()).collect();
    }

    fn standing(&self, node: NodeId) -> Option<Standing> {
        let (namenode, _) = self.namenode.as_ref()?;
        let mut departure = Departure::of(node);
        loop {
            if let Some(standing) = departure.step(namenode) {
                return Some(standing);
            }
        }
    }

    /// Decommissioned datanodes. Fails if one of them is still needed, or a rebalance still runs,
    /// once all is well.
    pub fn done_without(&self) -> Result<Vec<usize>, String> {
        let (namenode, _) = self.namenode.as_ref().ok_or("the namenode is down")?;
        if let Some(rebalancing) = namenode.rebalancing().filter(|rebalancing| rebalancing.running) {
            return Err(format!("{rebalancing:?}"));
        }
        let here = |node: &NodeId| self.nodes.iter().any(|known| known.number == Some(*node));
        let decommissioned = namenode.state().decommissioned.iter().copied();
        let leaving: Vec<NodeId> = decommissioned.filter(here).collect();
        for node in &leaving {
            let standing = self.standing(*node);
            if standing != Some(Standing::Decommissioned) {
                return Err(format!("{node:?} doesn't get away: {standing:?}"));
            }
        }
        Ok(leaving.iter().filter_map(|node| self.numbers.get(node).copied()).collect())
    }
}
