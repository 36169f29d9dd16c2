//! Rebalancing: moves replicas from fuller datanodes to emptier ones, on request.
//!
//! A move begins with a copy, as for a chunk with too few replicas. The chunk then has one replica too
//! many, and the namenode deletes the one that the copy replaces. So it deletes nothing before the copy
//! is reported. A rebalance ends: it examines each datanode's replicas once, and no move fills a datanode
//! beyond the mean. It isn't logged, so a restart of the namenode ends it, too.

use super::Namenode;
use crate::{
    ChunkId, Millis, NodeId,
    error::{Error, Result},
    faults::Fault,
    messages::Caller,
};
use std::collections::{BTreeMap, BTreeSet};

/// Most replicas examined in one tick: bounds its time.
const MAX_LOOKED_A_TICK: usize = 1_000;

/// One rebalance.
#[derive(Debug)]
pub(super) struct Balance {
    threshold_percent: u32,
    /// Chunks from this one on are younger than the rebalance, which leaves them alone.
    end: ChunkId,
    /// For each datanode, the chunk from which the search among its replicas continues.
    passes: BTreeMap<NodeId, ChunkId>,
    moves: BTreeMap<ChunkId, Move>,
    /// Whether it still looks for more moves.
    plans: bool,
    moved_chunks: u64,
    moved_bytes: u64,
}

/// A move of one replica.
#[derive(Debug, Clone, Copy)]
struct Move {
    from: NodeId,
    to: NodeId,
    bytes: u64,
}

/// Progress of a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebalancing {
    /// Whether it is still running.
    pub running: bool,
    /// How far a datanode's use may differ from the mean, in percent of its capacity.
    pub threshold_percent: u32,
    /// Number of replicas being moved.
    pub moving: u64,
    /// Number of replicas moved so far.
    pub moved_chunks: u64,
    /// Number of bytes of the replicas moved so far.
    pub moved_bytes: u64,
}

/// A datanode's distance from the mean fill.
#[derive(Debug, Clone, Copy)]
struct Fill {
    node: NodeId,
    capacity: i128,
    /// Bytes that it holds beyond its share by the mean; negative if it holds fewer.
    excess: i128,
}

impl Fill {
    /// The excess in millionths of the capacity.
    fn relative(&self) -> i128 {
        self.excess * 1_000_000 / self.capacity
    }
}

/// The outcome of a search for moves away from a datanode.
#[derive(PartialEq, Eq)]
enum Search {
    /// All its replicas are examined.
    Over,
    /// The search continues at a later tick.
    Waits,
}

impl Balance {
    /// The datanode whose replica of the chunk is to be deleted.
    pub(super) fn source(&self, chunk: ChunkId) -> Option<NodeId> {
        self.moves.get(&chunk).map(|moved| moved.from)
    }
}

impl Namenode {
    /// Begins a rebalance, which moves replicas until each datanode's use is within `threshold_percent` of
    /// the mean, or as near as whole chunks allow. It replaces a running rebalance, whose moves under way
    /// continue. `None` ends the running one and begins none.
    ///
    /// # Errors
    /// PermissionDenied: the caller lacks a superuser's rights. Invalid: the threshold isn't from 1 to
    /// 100 percent.
    pub fn rebalance(&mut self, caller: &Caller, threshold_percent: Option<u32>) -> Result<()> {
        if !self.view(caller).is_super() {
            return Err(Error::PermissionDenied);
        }
        let Some(threshold_percent) = threshold_percent else {
            self.cluster.balance.iter_mut().for_each(|balance| balance.plans = false);
            return Ok(());
        };
        if !(1..=100).contains(&threshold_percent) {
            return Err(Error::Invalid("the threshold must be from 1 to 100 percent"));
        }
        // Moves under way continue to their end.
        let moves = self.cluster.balance.take().map(|balance| balance.moves).unwrap_or_default();
        self.cluster.balance = Some(Balance {
            threshold_percent,
            end: self.state.next.chunk,
            passes: BTreeMap::new(),
            moves,
            plans: true,
            moved_chunks: 0,
            moved_bytes: 0,
        });
        Ok(())
    }

    /// Progress of the latest rebalance. None if there was none since this namenode started.
    pub fn rebalancing(&self) -> Option<Rebalancing> {
        let balance = self.cluster.balance.as_ref()?;
        let &Balance { threshold_percent, plans, moved_chunks, moved_bytes, .. } = balance;
        let moving = balance.moves.len() as u64;
        let running = plans || moving > 0;
        Some(Rebalancing { running, threshold_percent, moving, moved_chunks, moved_bytes })
    }

    /// Orders the next moves, between datanodes that take part in no copy.
    pub(super) fn balance(&mut self, now: Millis) {
        self.settle_moves();
        let Some(balance) = self.cluster.balance.as_ref().filter(|balance| balance.plans) else { return };
        let (threshold, idle) = (balance.threshold_percent, balance.moves.is_empty());
        let mut fills = self.fills();
        fills.sort_by_key(|fill| (-fill.relative(), fill.node));
        let mut looked = 0;
        let mut over = true;
        for source in fills.clone().iter().map(|fill| fill.node) {
            over &= self.move_from(source, threshold, &mut fills, &mut looked, now) == Search::Over;
        }
        if let Some(balance) = &mut self.cluster.balance {
            balance.plans = !(over && idle);
        }
    }

    /// Removes finished and failed moves, and counts the finished ones.
    fn settle_moves(&mut self) {
        let Some(mut balance) = self.cluster.balance.take() else { return };
        balance.moves.retain(|chunk, moved| {
            let cluster = &self.cluster;
            let good = cluster.good.get(chunk);
            let holds = |node: &NodeId| good.is_some_and(|good| good.contains(node));
            let leaves = |node: &NodeId| {
                cluster.nodes.get(node).is_some_and(|node| !node.dead && node.leaving.contains_key(chunk))
            };
            let goes_on = cluster.copies.get(chunk).is_some_and(|copy| copy.to == moved.to)
                || holds(&moved.to) && (cluster.superfluous.contains(chunk) || leaves(&moved.from));
            if !goes_on && holds(&moved.to) && !holds(&moved.from) {
                balance.moved_chunks += 1;
                balance.moved_bytes += moved.bytes;
            }
            goes_on
        });
        self.cluster.balance = Some(balance);
    }

    /// Fill of the live datanodes that aren't decommissioned, as it will be after the moves under way.
    fn fills(&self) -> Vec<Fill> {
        let nodes = self.cluster.nodes.iter().filter(|(id, node)| {
            node.reported
                && !node.dead
                && node.space.capacity_bytes > 0
                && !self.state.decommissioned.contains(id)
        });
        let mut used: BTreeMap<NodeId, i128> =
            nodes.clone().map(|(id, node)| (*id, node.space.used_bytes.into())).collect();
        for (chunk, moved) in self.cluster.balance.iter().flat_map(|balance| &balance.moves) {
            if let Some(used) = used.get_mut(&moved.from) {
                *used -= i128::from(moved.bytes);
            }
            if self.cluster.copies.contains_key(chunk)
                && let Some(used) = used.get_mut(&moved.to)
            {
                *used += i128::from(moved.bytes);
            }
        }
        let capacities = nodes.map(|(id, node)| (*id, i128::from(node.space.capacity_bytes)));
        let (all, whole): (i128, i128) =
            (used.values().sum(), capacities.clone().map(|(_, capacity)| capacity).sum());
        let excess = |id, capacity| used[&id] - all * capacity / whole.max(1);
        capacities.map(|(node, capacity)| Fill { node, capacity, excess: excess(node, capacity) }).collect()
    }

    /// Orders moves away from a datanode: one at a time, and none while it takes part in another copy.
    fn move_from(
        &mut self,
        source: NodeId,
        threshold: u32,
        fills: &mut [Fill],
        looked: &mut usize,
        now: Millis,
    ) -> Search {
        loop {
            let targets = targets(source, threshold, fills);
            let Some(balance) = self.cluster.balance.as_ref().filter(|_| !targets.is_empty()) else {
                return Search::Over;
            };
            if self.cluster.copies_at(source) || *looked >= MAX_LOOKED_A_TICK {
                return Search::Waits;
            }
            let from = balance.passes.get(&source).copied().unwrap_or_default();
            let held = self.cluster.nodes.get(&source).map(|node| &node.held);
            let Some(chunk) = held.and_then(|held| held.range(from..balance.end).next().copied()) else {
                return Search::Over;
            };
            *looked += 1;
            let excess = fills.iter().find(|fill| fill.node == source).map_or(0, |fill| fill.excess);
            let targets = self.fitting(chunk, source, excess, &targets, now);
            let free = targets.iter().copied().find(|to| !self.cluster.copies_at(*to));
            if free.is_none() && !targets.is_empty() {
                return Search::Waits;
            }
            if let Some(balance) = &mut self.cluster.balance {
                balance.passes.insert(source, ChunkId(chunk.0.saturating_add(1)));
            }
            if let Some(to) = free {
                let bytes = self.begin_move(chunk, source, to, now);
                for fill in fills.iter_mut() {
                    fill.excess -= if fill.node == source { bytes } else { 0 };
                    fill.excess += if fill.node == to { bytes } else { 0 };
                }
            }
        }
    }

    /// The datanodes among `targets` to which the replica can move.
    fn fitting(
        &self,
        chunk: ChunkId,
        source: NodeId,
        excess: i128,
        targets: &[Fill],
        now: Millis,
    ) -> Vec<NodeId> {
        let Some(logged) = self.state.chunks.get(&chunk) else { return Vec::new() };
        let counted = self.counted(&self.cluster.live_good(chunk));
        let bytes = i128::from(logged.length);
        let whole = logged.ended
            && !logged.replaced
            && counted.contains(&source)
            && counted.len() == self.target(chunk)
            && !self.cluster.copies.contains_key(&chunk);
        if !whole || bytes > excess {
            return Vec::new();
        }
        let racks = |nodes: &mut dyn Iterator<Item = NodeId>| {
            nodes.map(|node| self.rack(node)).collect::<BTreeSet<&str>>().len()
        };
        let now_on = racks(&mut counted.iter().copied());
        let fits = |fill: &&Fill| {
            let holds = self
                .cluster
                .nodes
                .get(&fill.node)
                .is_none_or(|node| node.held.contains(&chunk) || node.leaving.contains_key(&chunk));
            let after = counted.iter().copied().filter(|node| *node != source).chain([fill.node]);
            !holds
                && bytes <= -fill.excess
                && self.takes(fill.node, u64::from(logged.length), now)
                && racks(&mut after.into_iter()) >= now_on
        };
        targets.iter().filter(fits).map(|fill| fill.node).collect()
    }

    fn begin_move(&mut self, chunk: ChunkId, from: NodeId, to: NodeId, now: Millis) -> i128 {
        let Some(logged) = self.state.chunks.get(&chunk).copied() else { return 0 };
        self.begin_copy(chunk, logged, from, to, now);
        let bytes = u64::from(logged.length);
        if let Some(balance) = &mut self.cluster.balance {
            balance.moves.insert(chunk, Move { from, to, bytes });
        }
        if self.config.faults.has(Fault::MovedEarly) {
            self.delete(from, chunk, logged.stamp);
        }
        bytes.into()
    }
}

/// Datanodes to which replicas of `source` may move, the emptiest first. If `source` is too full, these
/// are all datanodes below the mean. If it is only above the mean, these are the datanodes that are too
/// empty.
fn targets(source: NodeId, threshold: u32, fills: &[Fill]) -> Vec<Fill> {
    let slack = |fill: &Fill| fill.capacity * i128::from(threshold) / 100;
    let Some(from) = fills.iter().find(|fill| fill.node == source) else { return Vec::new() };
    let fits = |fill: &&Fill| {
        let too_full = from.excess > slack(from) && fill.excess < 0;
        too_full || from.excess > 0 && fill.excess < -slack(fill)
    };
    let mut targets: Vec<Fill> = fills.iter().filter(fits).copied().collect();
    targets.sort_by_key(|fill| (fill.relative(), fill.node));
    targets
}
