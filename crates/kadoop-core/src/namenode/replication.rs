//! Handles chunks with too few or too many replicas, and replicas that belong to no file.

use super::{
    Namenode,
    cluster::{Cluster, Copying, Odd},
    record::Record,
    recovery::has_as_much,
    state::Chunk,
};
use crate::{
    ChunkId, Millis, NodeId,
    faults::Fault,
    messages::{Order, ReplicaState, Source},
};

/// Most chunks examined in one tick: bounds its time. The datanodes can't begin 1,000 copies a
/// second anyway.
const MAX_CHUNKS_A_TICK: usize = 1_000;

/// Most chunks examined after a copy has ended. More than one, since the datanodes that the first chunks
/// need may be busy.
const MAX_CHUNKS_A_COPY: usize = 8;

/// Most chunks reviewed at a time: some ten milliseconds.
const MAX_REVIEWS: usize = 10_000;

/// The lowest priority: chunks with at least two live replicas and at least a third of the target.
const LEAST_URGENT: u8 = 2;

impl Namenode {
    /// Examines a chunk's known replicas and queues the work that they need.
    pub(super) fn review(&mut self, chunk: ChunkId) {
        self.note_short(chunk);
        let cluster = &mut self.cluster;
        for priority in 0..=LEAST_URGENT {
            cluster.needy.remove(&(priority, chunk));
        }
        cluster.superfluous.remove(&chunk);
        cluster.orphans.remove(&chunk);
        let Some(logged) = self.state.chunks.get(&chunk) else {
            if cluster.odd.contains_key(&chunk) {
                cluster.orphans.insert(chunk);
            }
            return;
        };
        // A replaced chunk gets no copies. `drop_kept` deletes it, whatever the number of its replicas.
        if !logged.ended || logged.replaced || cluster.in_safe_mode() {
            return;
        }
        let live = self.cluster.live_good(chunk);
        let (counted, live) = (self.counted(&live).len(), live.len());
        let target = self.target(chunk);
        if counted < target && live > 0 {
            let priority = if live == 1 {
                0
            } else if live * 3 < target {
                1
            } else {
                LEAST_URGENT
            };
            self.cluster.needy.insert((priority, chunk));
        } else if counted > target {
            self.cluster.superfluous.insert(chunk);
        }
        self.review_odd(chunk, live);
    }

    /// Reviews some of these chunks now, and the others between requests ([`Namenode::sweep`]).
    pub(super) fn review_all(&mut self, mut chunks: Vec<ChunkId>) {
        // `review_some` takes chunks from the list's end.
        chunks.reverse();
        chunks.append(&mut self.cluster.unreviewed);
        self.cluster.unreviewed = chunks;
        self.review_some();
    }

    /// Reviews all chunks of which the datanode has replicas.
    pub(super) fn review_held(&mut self, node: NodeId) {
        let held = self.cluster.nodes.get(&node).into_iter().flat_map(|node| &node.held);
        let held = held.copied().collect();
        self.review_all(held);
    }

    /// Reviews some of the chunks that still wait for a review.
    pub(super) fn review_some(&mut self) {
        let left = self.cluster.unreviewed.len().saturating_sub(MAX_REVIEWS);
        let some = self.cluster.unreviewed.split_off(left);
        some.into_iter().rev().for_each(|chunk| self.review(chunk));
        if self.cluster.unreviewed.is_empty() {
            // Free the vector's memory, which may have held all chunks of the namespace.
            self.cluster.unreviewed = Vec::new();
        }
    }

    /// Drops replaced chunks once the chunks that replaced them have as many replicas.
    pub(super) fn drop_kept(&mut self) {
        let careless = self.config.faults.has(Fault::KeptDroppedEarly);
        // A datanode in a new session hasn't reported its replicas yet.
        if !careless && self.cluster.nodes.values().any(|node| !node.dead && !node.reported) {
            return;
        }
        let replicated = |(chunk, kept): (&ChunkId, &Vec<ChunkId>)| {
            // A copy that was under way may exist without being reported yet.
            let copied = kept.iter().any(|old| self.cluster.copies.contains_key(old));
            let before = kept.iter().map(|old| self.cluster.live_good(*old).len()).max().unwrap_or(0);
            // Absent datanodes may hold the old chunk, too, and aren't counted here. So require at
            // least two replicas of the new chunk, which then survives one crash.
            let wanted = before.max(2).min(self.target(*chunk).max(1));
            let enough = !copied && self.cluster.live_good(*chunk).len() >= wanted;
            (careless || enough).then_some(*chunk)
        };
        let chunks: Vec<ChunkId> =
            self.state.kept.iter().filter_map(replicated).take(MAX_CHUNKS_A_TICK).collect();
        for chunk in chunks {
            self.commit(None, vec![Record::KeptDropped { chunk }]);
        }
    }

    /// The number of replicas that the chunk should have: its file's replication.
    pub(super) fn target(&self, chunk: ChunkId) -> usize {
        let inode = self.state.chunks.get(&chunk).and_then(|chunk| self.state.inodes.get(chunk.inode));
        inode.map_or(0, |inode| inode.replication().into())
    }

    /// Handles the chunk's replicas that don't count: orders to seal those that can be sealed, and to
    /// delete the others once enough replicas count.
    fn review_odd(&mut self, chunk: ChunkId, live: usize) {
        let Some(logged) = self.state.chunks.get(&chunk).copied() else { return };
        let enough = live >= self.target(chunk).max(1) || self.config.faults.has(Fault::LastReplicaDeleted);
        for odd in self.cluster.odd_of(chunk).copied().collect::<Vec<_>>() {
            if can_be_sealed(&odd, logged) || !enough && has_same_bytes(&odd, logged) {
                let (stamp, length) = (logged.stamp, logged.length);
                self.cluster.order(odd.node, Order::Seal { chunk, stamp, length });
            } else if enough {
                self.delete(odd.node, chunk, odd.report.stamp);
            }
        }
    }

    /// Orders to delete replicas beyond the target, and replicas that belong to no file.
    pub(super) fn remove_superfluous(&mut self, now: Millis) {
        let chunks: Vec<ChunkId> = self.cluster.superfluous.iter().copied().take(MAX_CHUNKS_A_TICK).collect();
        for chunk in chunks {
            let counted = self.counted(&self.cluster.live_good(chunk));
            // Skip a datanode that hasn't reported all its replicas in this session: it may already be
            // deleting its replica by an earlier order.
            let goes = counted.iter().copied().filter(|node| {
                self.cluster
                    .nodes
                    .get(node)
                    .is_some_and(|node| node.reported && !node.leaving.contains_key(&chunk))
            });
            let moved = self.cluster.balance.as_ref().and_then(|balance| balance.source(chunk));
            let spread = !self.config.faults.has(Fault::SpreadForgotten);
            let same = |node: NodeId, other: NodeId| spread && self.rack(other) == self.rack(node);
            let beside = |node: NodeId| counted.iter().filter(|other| same(node, **other)).count();
            let held = |node: NodeId| self.cluster.nodes.get(&node).map_or(0, |node| node.held.len());
            // Delete a replica whose removal leaves the others on as many racks as possible.
            let goes = goes.max_by_key(|node| (Some(*node) == moved, beside(*node), held(*node)));
            if counted.len() > self.target(chunk)
                && let Some(node) = goes
                && let Some(logged) = self.state.chunks.get(&chunk)
            {
                self.delete(node, chunk, logged.stamp);
            }
            self.review(chunk);
        }
        if self.cluster.safe_until.is_none_or(|since| now < since + self.config.orphan_ms) {
            return;
        }
        let orphans: Vec<ChunkId> = self.cluster.orphans.iter().copied().take(MAX_CHUNKS_A_TICK).collect();
        for chunk in orphans {
            for odd in self.cluster.odd.get(&chunk).cloned().unwrap_or_default() {
                self.delete(odd.node, chunk, odd.report.stamp);
            }
            self.review(chunk);
        }
    }

    /// Orders copies of chunks with too few replicas.
    pub(super) fn order_copies(&mut self, now: Millis) {
        // A copy's order is lost if its datanode dies or begins another session.
        let Cluster { copies, nodes, .. } = &mut self.cluster;
        let lives = |copy: &Copying| {
            nodes.get(&copy.to).is_some_and(|node| !node.dead && node.session == copy.session)
        };
        copies.retain(|_, copy| now < copy.until && lives(copy));
        for chunk in self.next_needy(MAX_CHUNKS_A_TICK) {
            self.order_copy(chunk, now);
        }
    }

    /// Orders further copies after one has ended.
    pub(super) fn order_next_copies(&mut self, now: Millis) {
        for chunk in self.next_needy(MAX_CHUNKS_A_COPY) {
            self.order_copy(chunk, now);
        }
    }

    /// Chunks to be copied next, urgent ones first. The least urgent ones take turns: a chunk for which
    /// no datanode can take a copy must not keep later ones from being tried.
    fn next_needy(&mut self, most: usize) -> Vec<ChunkId> {
        let Cluster { copies, needy, needy_from, .. } = &mut self.cluster;
        let urgent = needy.range(..(LEAST_URGENT, ChunkId(0)));
        let (from, first) = ((LEAST_URGENT, *needy_from), (LEAST_URGENT, ChunkId(0)));
        let others = needy.range(from..).chain(needy.range(first..from));
        let next = urgent.chain(others).filter(|(_, chunk)| !copies.contains_key(chunk)).take(most);
        let next: Vec<(u8, ChunkId)> = next.copied().collect();
        if let Some((LEAST_URGENT, last)) = next.last() {
            *needy_from = ChunkId(last.0.saturating_add(1));
        }
        next.into_iter().map(|(_, chunk)| chunk).collect()
    }

    fn order_copy(&mut self, chunk: ChunkId, now: Millis) {
        let Some(logged) = self.state.chunks.get(&chunk).copied() else { return };
        let most = self.config.copies_ordered;
        let (from, to) = self.cluster.streams();
        let sends = |node: &NodeId| from.get(node).copied().unwrap_or(0);
        let takes = |node: &NodeId| to.get(node).copied().unwrap_or(0);
        let live = self.cluster.live_good(chunk);
        let counted = self.counted(&live);
        if counted.len() >= self.target(chunk) {
            // Datanodes with replicas have come back, and the chunk's review is still to come.
            return;
        }
        let source = live.iter().copied().min_by_key(|node| sends(node)).filter(|node| sends(node) < most);
        let Some(source) = source else { return };
        let holds = |node: &NodeId| {
            self.cluster
                .nodes
                .get(node)
                .is_some_and(|node| node.held.contains(&chunk) || node.leaving.contains_key(&chunk))
        };
        let all = self.cluster.nodes.keys().copied().filter(|node| !counted.contains(node));
        let all: Vec<(NodeId, bool)> = all.map(|node| (node, holds(&node))).collect();
        let bytes = u64::from(logged.length);
        let busy = |limit| {
            let busy = all.iter().filter(|(node, holds)| *holds || takes(node) >= limit);
            busy.map(|(node, _)| *node).collect::<Vec<_>>()
        };
        let Some(any) = self.place(1, &counted, &busy(most), bytes, now).first().copied() else {
            return self.make_room(chunk, &busy(most), now);
        };
        // Prefer a datanode that receives few copies, so that all get their share. But stay on the rack
        // of the first choice, which follows the rules for racks.
        let rack = self.rack(any).to_owned();
        let mut limits = std::iter::successors(Some(1), |limit| Some(limit * 2)).take_while(|at| *at < most);
        let idle = limits.find_map(|limit| {
            let idle = self.place(1, &counted, &busy(limit), bytes, now).first().copied();
            idle.filter(|idle| self.rack(*idle) == rack)
        });
        let target = idle.unwrap_or(any);
        self.begin_copy(chunk, logged, source, target, now);
    }

    /// Orders datanode `to` to copy the chunk, preferably from datanode `from`.
    pub(super) fn begin_copy(
        &mut self,
        chunk: ChunkId,
        logged: Chunk,
        from: NodeId,
        to: NodeId,
        now: Millis,
    ) {
        let mut nodes = self.cluster.live_good(chunk).to_vec();
        nodes.sort_by_key(|node| *node != from);
        let (stamp, length) = (logged.stamp, logged.length);
        self.note_placed(to);
        let session = self.cluster.nodes.get(&to).map_or(0, |node| node.session);
        self.cluster.order(to, Order::Copy(Source { chunk, stamp, length, nodes }));
        self.cluster.copies.insert(chunk, Copying { to, session, from, until: now + self.config.copy_ms });
    }

    /// Makes room for a copy if each datanode that could take it has a bad replica of the same chunk:
    /// orders to delete one bad replica, although too few good ones exist.
    fn make_room(&mut self, chunk: ChunkId, holders: &[NodeId], now: Millis) {
        let Some(logged) = self.state.chunks.get(&chunk).copied() else { return };
        let bad = self.cluster.odd_of(chunk).copied().find(|odd| {
            !can_be_sealed(odd, logged) && holders.contains(&odd.node) && self.usable(odd.node, now)
        });
        if let Some(bad) = bad {
            self.delete(bad.node, chunk, bad.report.stamp);
        }
    }
}

/// Whether an open or returned replica has all logged bytes of the chunk.
fn can_be_sealed(odd: &Odd, logged: Chunk) -> bool {
    let report = odd.report;
    let prefix = report.stamp == logged.stamp && report.length >= logged.length;
    prefix && report.state != ReplicaState::Sealed && !odd.corrupt
}

/// Whether a replica under an earlier stamp has all logged bytes of the chunk. All bytes of a chunk come
/// from one writer, so its replicas differ only in their lengths. If the namenode restarts during a
/// recovery, members that it hasn't ordered to seal are left with such replicas.
fn has_same_bytes(odd: &Odd, logged: Chunk) -> bool {
    odd.report.stamp < logged.stamp && has_as_much(&odd.report, logged.length) && !odd.corrupt
}
