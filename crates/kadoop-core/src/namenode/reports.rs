//! The datanodes' reports, and which replicas count.

use super::{
    Namenode,
    apply::Event,
    cluster::{Comeback, Node, Odd},
    orders::{Kind, Orders},
    record::Record,
};
use crate::{
    ChunkId, Identity, Incarnation, Member, Millis, NodeId, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Change, Heartbeat, HeartbeatAnswer, Order, ReplicaReport, ReplicaState},
};
use std::collections::BTreeMap;

/// Most orders in one answer. Bounds the answer's size, and the datanode's work at a time.
const MAX_ORDERS: usize = 100;

impl Namenode {
    /// Takes a datanode's heartbeat and answers with orders.
    ///
    /// # Errors
    /// NotRegistered: the datanode has to ask for a session. LogBehind, OtherHistory, ForeignData: it
    /// isn't of the log's history, by what it has heard or what it holds. It is refused until it is
    /// admitted.
    pub fn heartbeat(&mut self, beat: &Heartbeat, rack: &str, now: Millis) -> Result<HeartbeatAnswer> {
        if beat.session == 0 {
            self.demand_history(beat)?;
            return Ok(self.register(beat, rack, now));
        }
        let id = *self.state.identities.get(&beat.identity).ok_or(Error::NotRegistered)?;
        let node = self.cluster.nodes.get_mut(&id).ok_or(Error::NotRegistered)?;
        let same_run =
            node.incarnation == beat.incarnation || self.config.faults.has(Fault::FormerRunBelieved);
        if node.session != beat.session || !same_run {
            return Err(Error::NotRegistered);
        }
        node.heard = node.heard.max(now);
        // An overtaken heartbeat reports an older state, so it is ignored.
        if beat.number > node.number {
            node.number = beat.number;
            node.space = beat.space;
            match node.comeback {
                Comeback::Unheard => node.comeback = Comeback::Asked,
                Comeback::Asked if beat.full.is_some() => node.comeback = Comeback::Over,
                Comeback::Asked | Comeback::Over => {}
            }
            self.take_report(id, beat, now)?;
        }
        let (log, behind) = (self.state.point(), self.behind().is_some());
        self.cluster.roused.remove(&id);
        let node = self.cluster.nodes.get_mut(&id).ok_or(Error::NotRegistered)?;
        // The namenode may lack records, so it orders nothing.
        let orders = if behind { Vec::new() } else { node.orders.next(MAX_ORDERS) };
        Ok(HeartbeatAnswer {
            session: node.session,
            node: id,
            orders,
            report: !node.reported || node.comeback != Comeback::Over,
            log,
        })
    }

    /// The number of the datanode that has this session.
    ///
    /// # Errors
    /// NotRegistered: it has to ask for another session.
    pub fn in_session(&self, identity: Identity, session: u64) -> Result<NodeId> {
        let id = self.state.identities.get(&identity).ok_or(Error::NotRegistered)?;
        let node = self.cluster.nodes.get(id).filter(|node| node.session == session);
        node.map(|_| *id).ok_or(Error::NotRegistered)
    }

    /// The datanode with that identity and its current run, if it has a session.
    pub fn run_of(&self, identity: Identity) -> Option<(NodeId, Incarnation)> {
        let id = *self.state.identities.get(&identity)?;
        Some((id, self.cluster.nodes.get(&id)?.incarnation))
    }

    /// Begins a session and forgets the replicas of the former one.
    fn register(&mut self, beat: &Heartbeat, rack: &str, now: Millis) -> HeartbeatAnswer {
        let known = self.state.identities.get(&beat.identity).copied();
        let id = known.unwrap_or(self.state.next.node);
        // A datanode that moved to another rack keeps its number.
        let moved = |node| self.rack(node) != rack && !self.config.faults.has(Fault::RackKept);
        if known.is_none_or(moved) {
            let (node, identity) = (id, beat.identity);
            self.commit(None, vec![Record::NodeJoined { node, identity, rack: rack.into() }]);
        }
        let adds = self.config.faults.has(Fault::ReportAdded);
        let former = self.cluster.nodes.get(&id).filter(|_| adds).map(|node| node.held.clone());
        if !adds {
            self.forget_replicas(id);
        }
        let session = self.cluster.new_session();
        let node = Node {
            incarnation: beat.incarnation,
            session,
            number: 0,
            heard: now,
            dead: false,
            reported: false,
            comeback: Comeback::Over,
            // As many as on the one with fewest: a newcomer gets its share, and no more.
            placed: self.cluster.nodes.values().map(|node| node.placed).min().unwrap_or(0),
            space: beat.space,
            held: former.unwrap_or_default(),
            leaving: BTreeMap::new(),
            orders: Orders::default(),
        };
        self.cluster.nodes.insert(id, node);
        let stays = known.is_some_and(|node| !self.state.decommissioned.contains(&node));
        self.cluster.heard |= stays;
        HeartbeatAnswer { session, node: id, orders: Vec::new(), report: true, log: self.state.point() }
    }

    fn take_report(&mut self, id: NodeId, beat: &Heartbeat, now: Millis) -> Result<()> {
        let reports = beat.full.iter().flatten();
        let changed = beat.changes.iter().filter_map(|change| match change {
            Change::Has(report) => Some(report),
            _ => None,
        });
        let foreign: Vec<_> = reports
            .chain(changed)
            .map(|report| (report.chunk, report.stamp))
            .filter(|(chunk, stamp)| !self.state.has_given(*chunk, *stamp))
            .collect();
        let admitted = self.state.history.has_admitted(beat.identity);
        if !foreign.is_empty() && !admitted {
            self.forget_replicas(id);
            self.cluster.nodes.remove(&id);
            let highest = foreign
                .iter()
                .fold(beat.highest, |highest, (chunk, stamp)| (highest.0.max(*chunk), highest.1.max(*stamp)));
            return Err(self.cluster.refuse(beat.identity, Error::ForeignData, beat.seen, highest));
        }
        if admitted && foreign.is_empty() && beat.full.is_some() {
            self.commit(None, vec![Record::Settled { identity: beat.identity }]);
        }
        if let Some(full) = &beat.full {
            if !self.config.faults.has(Fault::ReportAdded) {
                self.forget_replicas(id);
            }
            full.iter().for_each(|report| self.note(id, *report, false));
            if let Some(node) = self.cluster.nodes.get_mut(&id) {
                node.reported = true;
            }
            // Look at once, so that a complete cluster needn't wait for the next tick.
            self.watch_safe_mode(now);
        }
        let copies = self.cluster.copies.len();
        for change in &beat.changes {
            self.take_change(id, *change, now);
        }
        if self.cluster.copies.len() < copies {
            self.order_next_copies(now);
        }
        Ok(())
    }

    fn take_change(&mut self, id: NodeId, change: Change, now: Millis) {
        match change {
            Change::Has(report) => {
                self.note(id, report, false);
                // The datanode holds something other than the logged chunk, which is in the way of
                // the copy.
                self.end_copy(id, report.chunk, now);
                self.drive_chunk(report.chunk, now);
            }
            Change::Gone { chunk, stamp } => {
                if let Some(node) = self.cluster.nodes.get_mut(&id) {
                    // A report of an earlier deletion doesn't confirm a later one.
                    if node.leaving.get(&chunk).is_some_and(|leaving| *leaving <= stamp) {
                        node.leaving.remove(&chunk);
                    }
                    node.orders.end(Kind::Delete, chunk, stamp);
                }
                self.end_copy(id, chunk, now);
                self.forget(id, chunk);
                self.review(chunk);
            }
            Change::Corrupt { chunk, stamp } => {
                if let Some(logged) = self.state.chunks.get(&chunk) {
                    let (length, state) = (logged.length, ReplicaState::Sealed);
                    self.note(id, ReplicaReport { chunk, stamp, length, state }, true);
                }
            }
            Change::Fenced { chunk, stamp, replica } => self.take_fence(id, chunk, stamp, replica, now),
        }
    }

    /// Ends a copy that the datanode won't make. The next tick orders another, not this call: the
    /// same datanode might get it and give it up again and again.
    fn end_copy(&mut self, id: NodeId, chunk: ChunkId, now: Millis) {
        if let Some(copy) = self.cluster.copies.get_mut(&chunk).filter(|copy| copy.to == id) {
            copy.until = now;
        }
    }

    /// Records one replica: it counts, or it is odd.
    fn note(&mut self, id: NodeId, report: ReplicaReport, corrupt: bool) {
        let chunk = report.chunk;
        self.forget(id, chunk);
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        let leaving = node.leaving.get(&chunk).is_some_and(|stamp| *stamp >= report.stamp);
        if leaving && !self.config.faults.has(Fault::DeletionNotCounted) {
            return;
        }
        // An earlier seal order gave the replica a higher stamp than the one to delete.
        if let Some(stamp) = node.leaving.get(&chunk).copied().filter(|stamp| *stamp < report.stamp) {
            node.leaving.remove(&chunk);
            node.orders.end(Kind::Delete, chunk, stamp);
        }
        node.held.insert(chunk);
        if report.state == ReplicaState::Sealed {
            node.orders.end(Kind::Seal, chunk, report.stamp);
        }
        if self.counts(&report) && !corrupt {
            self.cluster.good.entry(chunk).or_default().push(id);
            if self.cluster.copies.get(&chunk).is_some_and(|copy| copy.to == id) {
                self.cluster.copies.remove(&chunk);
            }
        } else {
            self.cluster.odd.entry(chunk).or_default().push(Odd { node: id, report, corrupt });
        }
        self.review(chunk);
    }

    /// Whether the report matches the chunk as logged.
    fn counts(&self, report: &ReplicaReport) -> bool {
        self.state.chunks.get(&report.chunk).is_some_and(|chunk| {
            let same = chunk.stamp == report.stamp && chunk.length == report.length;
            let same = same || self.config.faults.has(Fault::StaleReplicaCounted);
            chunk.ended && report.state == ReplicaState::Sealed && same
        })
    }

    /// Forgets a replica.
    pub(super) fn forget(&mut self, id: NodeId, chunk: ChunkId) {
        if let Some(node) = self.cluster.nodes.get_mut(&id) {
            node.held.remove(&chunk);
        }
        if let Some(good) = self.cluster.good.get_mut(&chunk) {
            good.retain(|node| *node != id);
            if good.is_empty() {
                self.cluster.good.remove(&chunk);
            }
        }
        if let Some(odd) = self.cluster.odd.get_mut(&chunk) {
            odd.retain(|odd| odd.node != id);
            if odd.is_empty() {
                self.cluster.odd.remove(&chunk);
            }
        }
    }

    fn forget_replicas(&mut self, id: NodeId) {
        let held = self.cluster.nodes.get(&id).map(|node| node.held.clone()).unwrap_or_default();
        for chunk in held {
            self.forget(id, chunk);
            self.review(chunk);
        }
    }

    /// Believes the writer about the members that sealed a chunk, until the datanodes report
    /// themselves. Only members in the run in which they joined the pipeline count.
    pub(super) fn note_sealed(&mut self, chunk: ChunkId, member: Member) {
        let node = member.node;
        let Some(logged) = self.state.chunks.get(&chunk).filter(|chunk| chunk.ended) else { return };
        let report =
            ReplicaReport { chunk, stamp: logged.stamp, length: logged.length, state: ReplicaState::Sealed };
        let same = self
            .cluster
            .nodes
            .get(&node)
            .is_some_and(|known| known.reported && known.incarnation == member.incarnation);
        let there = self.cluster.good.get(&chunk).is_some_and(|good| good.contains(&node));
        if same && !there {
            self.note(node, report, false);
        }
    }

    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Target(chunk) => self.review(chunk),
            Event::Service(node) => self.on_service(node),
            Event::Ended(chunk) => {
                self.cluster.ended += 1;
                // Replicas reported earlier may count now.
                for odd in self.cluster.odd.get(&chunk).cloned().unwrap_or_default() {
                    self.note(odd.node, odd.report, odd.corrupt);
                }
                self.review(chunk);
            }
            Event::Gone(chunk) => {
                self.cluster.ended = self.cluster.ended.saturating_sub(1);
                self.cluster.copies.remove(&chunk);
                for node in self.cluster.good.remove(&chunk).unwrap_or_default() {
                    let stamp = Stamp(self.state.next.stamp.0.saturating_sub(1));
                    self.delete(node, chunk, stamp);
                }
                self.review(chunk);
            }
        }
    }

    /// A reader found a replica damaged. Orders its datanode to compare it with its checksums, if
    /// it is the chunk as logged.
    pub fn suspect(&mut self, node: NodeId, chunk: ChunkId, stamp: Stamp) {
        let logged = self.state.chunks.get(&chunk).is_some_and(|logged| logged.stamp == stamp);
        if logged && self.cluster.good.get(&chunk).is_some_and(|good| good.contains(&node)) {
            self.cluster.order(node, Order::Verify { chunk, stamp });
        }
    }

    /// Orders a datanode to delete a replica, which doesn't count from now on.
    pub(super) fn delete(&mut self, id: NodeId, chunk: ChunkId, stamp: Stamp) {
        if !self.config.faults.has(Fault::DeletionNotCounted) {
            self.forget(id, chunk);
        }
        if let Some(node) = self.cluster.nodes.get_mut(&id) {
            // As for the order: a lower stamp doesn't replace a higher one.
            let leaving = node.leaving.entry(chunk).or_insert(stamp);
            *leaving = stamp.max(*leaving);
        }
        self.cluster.order(id, Order::Delete { chunk, stamp });
    }
}
