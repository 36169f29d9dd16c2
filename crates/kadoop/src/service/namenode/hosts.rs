//! Where datanodes serve, and how full they are: learned from their heartbeats.

use crate::{Millis, NodeId, service::Host};
use std::collections::BTreeMap;

/// A datanode, as its last heartbeat told.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub host: Host,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    pub heard: Millis,
}

/// All that have been heard of since this process began.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: BTreeMap<NodeId, Known>,
    /// Changes with each address that changes.
    pub edition: u64,
}

impl Hosts {
    /// Takes up what a heartbeat told.
    pub(super) fn note(&mut self, known: Known, random: impl FnOnce() -> u64) {
        let old = self.known.get(&known.host.node);
        if old.is_none_or(|old| old.host != known.host) {
            // The first is drawn, so that editions of two runs of the namenode differ.
            self.edition = if self.edition == 0 { random() } else { self.edition.wrapping_add(1) };
        }
        self.known.insert(known.host.node, known);
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Host> {
        self.known.get(&node).map(|known| &known.host)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Known> {
        self.known.values()
    }
}
