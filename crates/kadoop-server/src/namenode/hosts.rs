//! The datanodes' addresses, capacity and used bytes, from their heartbeats.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};
use strait_kadoop_core::{Identity, Millis, NodeId};
use strait_kadoop_wire::Host;

/// A datanode with less room gets no preference for being on the writer's host. Other writes before its
/// next heartbeat could fill it, and each chunk that it refuses then costs a broken pipeline.
const NEAR_ROOM_BYTES: u64 = 256 << 20;

/// A datanode, as its latest heartbeat describes it.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub host: Host,
    /// Source address of its heartbeats. On the namenode's own host it may differ from its service
    /// address.
    pub calls_from: IpAddr,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    /// When its latest heartbeat came.
    pub heard: Millis,
}

impl Known {
    fn is_at(&self, caller: IpAddr) -> bool {
        let of = caller.to_canonical();
        self.host.address.ip().to_canonical() == of || self.calls_from.to_canonical() == of
    }

    /// A datanode that reports no capacity isn't nearly full: it has lost its directories, and the next
    /// write there notices that.
    fn is_nearly_full(&self) -> bool {
        self.capacity_bytes > 0
            && self.capacity_bytes - self.used_bytes.min(self.capacity_bytes) < NEAR_ROOM_BYTES
    }
}

/// All datanodes that have sent a heartbeat since this process started.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: BTreeMap<NodeId, Known>,
    /// Datanodes whose identity a second process claims: since when, and whether that was logged.
    rivalled: BTreeMap<NodeId, (Millis, bool)>,
    /// Changes whenever a datanode is added or removed, or its address, name or rack changes. 0: empty.
    pub edition: u64,
}

impl Hosts {
    /// Records a heartbeat's contents.
    pub(super) fn note(&mut self, known: Known, random: impl FnOnce() -> u64) {
        let old = self.known.get(&known.host.node);
        if old.is_none_or(|old| old.host != known.host) {
            // The first edition is random, so that the editions of two runs of the namenode differ.
            self.edition = if self.edition == 0 { random() } else { self.edition.wrapping_add(1) };
        }
        self.known.insert(known.host.node, known);
    }

    /// The datanode's known service address, if it isn't `address` and its latest heartbeat came from
    /// there less than `stale_ms` ago.
    pub(super) fn elsewhere(
        &self,
        node: NodeId,
        address: SocketAddr,
        now: Millis,
        stale_ms: Millis,
    ) -> Option<SocketAddr> {
        let known = self.known.get(&node).filter(|known| now.saturating_sub(known.heard) < stale_ms)?;
        Some(known.host.address).filter(|other| *other != address)
    }

    /// Records whether a second process claims to be the datanode (`rivalled`). Returns true once, as soon
    /// as both processes certainly run: the first one sent a heartbeat after the second one's first
    /// heartbeat. That doesn't happen if the datanode moved to another address, or swapped disks with
    /// another datanode.
    pub(super) fn note_rival(&mut self, node: NodeId, rivalled: bool, now: Millis) -> bool {
        if !rivalled {
            self.rivalled.remove(&node);
            return false;
        }
        let heard = self.known.get(&node).map_or(0, |known| known.heard);
        let (since, told) = self.rivalled.entry(node).or_insert((now, false));
        let certain = heard > *since;
        certain && !std::mem::replace(told, certain)
    }

    /// Removes a datanode that has left the cluster.
    pub(super) fn forget(&mut self, identity: Identity) {
        let before = self.known.len();
        self.known.retain(|_, known| known.host.identity != identity);
        if self.known.len() < before {
            self.edition = self.edition.wrapping_add(1);
        }
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Host> {
        self.known.get(&node).map(|known| &known.host)
    }

    /// Whether the caller is on the datanode's host.
    pub(super) fn is_near(&self, node: NodeId, caller: IpAddr) -> bool {
        self.known.get(&node).is_some_and(|known| known.is_at(caller))
    }

    /// Datanodes on the caller's host, without nearly full ones.
    pub(super) fn near(&self, caller: IpAddr) -> Vec<NodeId> {
        let near = self.known.values().filter(|known| known.is_at(caller) && !known.is_nearly_full());
        near.map(|known| known.host.node).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Known> + Clone {
        self.known.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: [u8; 4] = [10, 0, 0, 1];

    fn hosts(known: &[([u8; 4], [u8; 4], u64)]) -> Hosts {
        let mut hosts = Hosts::default();
        for (node, (serves_at, calls_from, used_bytes)) in (1..).zip(known) {
            let host = Host {
                node: NodeId(node),
                identity: Identity(node.into()),
                address: (*serves_at, 9_093).into(),
                name: String::new(),
                rack: String::new(),
            };
            let (calls_from, used_bytes) = (IpAddr::from(*calls_from), *used_bytes);
            hosts.note(Known { host, calls_from, capacity_bytes: 1 << 40, used_bytes, heard: 0 }, || 1);
        }
        hosts
    }

    #[test]
    fn a_datanode_is_near_where_it_serves_and_where_it_calls_from() {
        let away = [10, 0, 0, 2];
        let hosts = hosts(&[(HERE, HERE, 0), (away, away, 0), (away, HERE, 0), (HERE, away, 0)]);
        assert_eq!(hosts.near(HERE.into()), [1, 3, 4].map(NodeId));
        // A dual-stack socket shows an IPv4 caller's address in this form.
        let mapped = std::net::Ipv4Addr::from(HERE).to_ipv6_mapped();
        assert_eq!(hosts.near(mapped.into()), [1, 3, 4].map(NodeId));
        assert!(hosts.is_near(NodeId(3), HERE.into()) && !hosts.is_near(NodeId(2), HERE.into()));
    }

    #[test]
    fn reports_a_rival_once_and_only_while_both_are_heard() {
        let mut hosts = hosts(&[(HERE, HERE, 0)]);
        let node = NodeId(1);
        let hear = |hosts: &mut Hosts, heard| hosts.known.get_mut(&node).unwrap().heard = heard;
        hear(&mut hosts, 100);
        // The datanode moved: the first process sends no more heartbeats.
        assert!(!hosts.note_rival(node, true, 200) && !hosts.note_rival(node, true, 700));
        hear(&mut hosts, 800);
        assert!(hosts.note_rival(node, true, 900) && !hosts.note_rival(node, true, 950));
        assert!(!hosts.note_rival(node, false, 1_000) && !hosts.note_rival(node, true, 1_100));
    }

    #[test]
    fn a_nearly_full_datanode_is_read_from_but_not_chosen_to_be_written_to() {
        let hosts = hosts(&[(HERE, HERE, (1 << 40) - NEAR_ROOM_BYTES + 1), (HERE, HERE, 5)]);
        assert_eq!(hosts.near(HERE.into()), [NodeId(2)]);
        assert!(hosts.is_near(NodeId(1), HERE.into()));
    }
}
