//! Syncs that fail by themselves, and processes that end where the machine goes on: what they
//! left in memory is read as if it were on disk.

use super::{
    moments::Moment,
    network::{Host, NAMENODE},
    world::{Event, NODES, World},
};
use crate::{disk::SimDisk, random::Random};
use strait_kadoop::Millis;

/// From one to the next, at most.
const PAUSE_MS: Millis = 1_000;
/// Syncs of a disk until one fails, at most.
const SOON: u64 = 6;

/// Its own random numbers: so the other runs are what they are without.
pub struct Syncs {
    random: Random,
    fail: bool,
    /// Processes end beside.
    ends: bool,
    /// The power fails everywhere in the end.
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
        // Nothing but one crash goes wrong there.
        if self.syncs.fail && self.moment != Some(Moment::Stranding) {
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

    /// What syncs have failed for is gone from memory as well.
    fn forget_lost(&self, host: Host) {
        match host {
            NAMENODE => self.disk.forget_lost(),
            node => self.nodes[node - 1].disks.iter().for_each(SimDisk::forget_lost),
        }
    }

    /// No sync fails from now on; whether the power fails everywhere first.
    pub fn end_failing_syncs(&mut self) -> bool {
        self.disk.fail_sync_after(None);
        self.nodes.iter().flat_map(|node| &node.disks).for_each(|disk| disk.fail_sync_after(None));
        self.syncs.fail && self.syncs.dark
    }

    /// All that is read from now on is what is on disk.
    pub fn forget_all_lost(&self) {
        (NAMENODE..=NODES).for_each(|host| self.forget_lost(host));
    }
}
