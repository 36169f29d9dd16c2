//! Files of two sealed replicas that are swapped while their datanode is down.

use super::{
    moments::Moment,
    trouble::sealed_name,
    world::{Event, NODES, World},
};
use crate::random::Random;
use strait_kadoop_core::Millis;

/// Longest pause between two swaps.
const PAUSE_MS: Millis = 6_000;

/// Has its own random numbers, so that runs without swaps keep their schedules.
pub struct Swaps {
    random: Random,
    come: bool,
}

impl Swaps {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.rotate_left(48) ^ 0x5a4b);
        let come = random.one_in(4);
        Self { random, come }
    }
}

impl World {
    pub fn begin_swaps(&mut self) {
        // In a stranding only one crash may go wrong.
        let alone = self.moment == Some(Moment::Stranding) || self.losses.is_single();
        if self.swaps.come && !alone {
            self.at(self.now + 1, Event::Swap);
        }
    }

    pub fn swap(&mut self) {
        if self.healed {
            return;
        }
        let random = &mut self.swaps.random;
        let (pause, node) = (1 + random.below(PAUSE_MS), random.below(NODES as u64) as usize);
        self.swap_on(node);
        self.at(self.now + pause, Event::Swap);
    }

    /// Ends a datanode and swaps the files of two of its replicas, if no bytes are lost by that.
    fn swap_on(&mut self, node: usize) {
        let replicas = self.sealed_on(node);
        let mut spare = replicas.into_iter().filter(|replica| self.can_be_damaged(node, *replica));
        let (Some(one), Some(other)) = (spare.next(), spare.next()) else { return };
        let names = [sealed_name(&one), sealed_name(&other)];
        let disk = self.nodes[node].disks.iter().find(|disk| names.iter().all(|name| disk.has(name)));
        let Some(disk) = disk.filter(|disk| disk.has_synced_names()).cloned() else { return };
        if self.trace {
            eprintln!("{:>7} swap: {one:?} and {other:?} of datanode {}", self.now, node + 1);
        }
        self.rotten.extend([one.chunk, other.chunk]);
        self.end_process(node + 1);
        let [one, other] = names;
        disk.swap(&one, &other);
    }
}
