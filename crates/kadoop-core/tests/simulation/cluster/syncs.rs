//! Failing syncs, and processes that end while the machine runs on: their unsynced data can be read
//! as if they were on disk.

use super::{
    moments::Moment,
    network::{Host, NAMENODE},
    world::{Event, NODES, World},
};
use crate::{disk::SimDisk, random::Random};
use strait_kadoop_core::Millis;

/// Longest pause between two failures.
const PAUSE_MS: Millis = 1_000;
/// Most syncs of a disk until one fails.
const SOON: u64 = 6;

/// Has its own random numbers, so that runs without failing syncs keep their schedules.
pub struct Syncs {
    random: Random,
    fail: bool,
    /// Whether processes end as well.
    ends: bool,
    /// Whether the power fails everywhere at the end.
    dark: bool,
}

impl Syncs {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.rotate_left(32) ^ 0x5eed);
        let (fail, ends, dark) = (random.one_in(4), random.one_in(2), random.one_in(2));
        Self { random, fail, ends, dark }
    }
}

impl World {
    pub fn begin_failing_syncs(&mut self) {
        // In a stranding only one crash may go wrong.
        let alone = self.moment == Some(Moment::Stranding) || self.losses.needs_mark();
        if self.syncs.fail && !alone {
            self.at(self.now + 1, Event::Syncs);
        }
    }

    pub fn fail_syncs(&mut self) {
        if self.healed {
            return;
        }
        let random = &mut self.syncs.random;
        let (pause, host, kind) =
            (random.below(PAUSE_MS), random.below(NODES as u64 + 1) as Host, random.below(8));
        let syncs = random.below(SOON);
        match kind {
            0 if self.syncs.ends => self.end_process(host),
            1 | 2 => self.forget_lost(host),
            _ if host == NAMENODE => self.disk.fail_sync_after(Some(syncs)),
            _ => {
                let directory = (pause & 1) as usize;
                self.nodes[host - 1].disks[directory].fail_sync_after(Some(syncs));
            }
        }
        self.at(self.now + 1 + pause, Event::Syncs);
    }

    /// Makes data of failed syncs unreadable.
    fn forget_lost(&self, host: Host) {
        match host {
            NAMENODE => self.disk.forget_lost(),
            node => self.nodes[node - 1].disks.iter().for_each(SimDisk::forget_lost),
        }
    }

    /// Ends the failures of syncs. Returns whether the power should fail everywhere first.
    pub fn end_failing_syncs(&mut self) -> bool {
        self.disk.fail_sync_after(None);
        self.nodes.iter().flat_map(|node| &node.disks).for_each(|disk| disk.fail_sync_after(None));
        self.syncs.fail && self.syncs.dark
    }

    /// Makes all data unreadable that aren't on disk after a failed sync.
    pub fn forget_all_lost(&self) {
        (NAMENODE..=NODES).for_each(|host| self.forget_lost(host));
    }
}
