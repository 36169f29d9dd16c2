//! The datanodes' reports, and which replicas count.

use super::{
    Namenode,
    apply::Event,
    cluster::{Comeback, Node, Odd},
    intake::{Intake, higher},
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

/// Most orders in one answer. Bounds the answer's size, and the datanode's work from one heartbeat.
const MAX_ORDERS: usize = 100;

impl Namenode {
    /// Processes a datanode's heartbeat, and returns an answer with orders. Returns None if the heartbeat
    /// has a full report, of which only a part was processed. Then call again with the same heartbeat;
    /// other calls may come in between.
    ///
    /// # Errors
    /// NotRegistered: the datanode has to ask for a session. LogBehind, OtherHistory, ForeignData: the
    /// records that it knows of, or its replicas, don't belong to the log's history. It is refused
    /// until an operator admits it.
    pub fn take_heartbeat(
        &mut self,
        beat: &Heartbeat,
        rack: &str,
        now: Millis,
    ) -> Result<Option<HeartbeatAnswer>> {
        if beat.session == 0 {
            self.demand_history(beat)?;
            return Ok(Some(self.register(beat, rack, now)));
        }
        let id = *self.state.identities.get(&beat.identity).ok_or(Error::NotRegistered)?;
        let node = self.cluster.nodes.get_mut(&id).ok_or(Error::NotRegistered)?;
        let same_run =
            node.incarnation == beat.incarnation || self.config.faults.has(Fault::FormerRunBelieved);
        let same_session = node.session == beat.session && same_run;
        let under_way = node.report.as_ref().map(|report| report.number);
        let continues = under_way == Some(beat.number);
        if !(same_session || continues && self.config.faults.has(Fault::FormerReportContinued)) {
            return Err(Error::NotRegistered);
        }
        node.heard = node.heard.max(now);
        // Ignore a heartbeat that a later one has overtaken, since it reports an older state.
        if beat.number > node.number && !continues {
            if under_way.is_some() {
                // A datanode sends one heartbeat at a time. So it no longer waits for the answer to the
                // one that is being processed.
                return Err(Error::NotRegistered);
            }
            node.number = beat.number;
            node.space = beat.space;
            let asked = node.comeback == Comeback::Asked;
            if node.comeback == Comeback::Unheard {
                node.comeback = Comeback::Asked;
            }
            match beat.full {
                Some(_) => node.report = Some(Intake::of(beat, asked)),
                None => self.take_changes(id, beat, now)?,
            }
        }
        if !self.take_part(id, beat, now)? {
            return Ok(None);
        }
        let (log, behind) = (self.state.point(), self.behind().is_some());
        self.cluster.roused.remove(&id);
        let node = self.cluster.nodes.get_mut(&id).ok_or(Error::NotRegistered)?;
        // If the namenode lacks records, its orders may be wrong.
        let orders = if behind { Vec::new() } else { node.orders.next(MAX_ORDERS) };
        Ok(Some(HeartbeatAnswer {
            session: node.session,
            node: id,
            orders,
            report: !node.reported || node.comeback != Comeback::Over,
            log,
        }))
    }

    /// As [`Namenode::take_heartbeat`], but processes a full report as a whole.
    ///
    /// # Errors
    /// As [`Namenode::take_heartbeat`].
    pub fn heartbeat(&mut self, beat: &Heartbeat, rack: &str, now: Millis) -> Result<HeartbeatAnswer> {
        loop {
            if let Some(answer) = self.take_heartbeat(beat, rack, now)? {
                return Ok(answer);
            }
        }
    }

    /// The number of the datanode that has this session.
    ///
    /// # Errors
    /// NotRegistered: the datanode has to ask for another session.
    pub fn in_session(&self, identity: Identity, session: u64) -> Result<NodeId> {
        let id = self.state.identities.get(&identity).ok_or(Error::NotRegistered)?;
        let node = self.cluster.nodes.get(id).filter(|node| node.session == session);
        node.map(|_| *id).ok_or(Error::NotRegistered)
    }

    /// The number and the current run of the datanode with that identity, if it has a session.
    pub fn run_of(&self, identity: Identity) -> Option<(NodeId, Incarnation)> {
        let id = *self.state.identities.get(&identity)?;
        Some((id, self.cluster.nodes.get(&id)?.incarnation))
    }

    /// Begins a session. Replicas of the former session don't count until they are reported again.
    fn register(&mut self, beat: &Heartbeat, rack: &str, now: Millis) -> HeartbeatAnswer {
        let known = self.state.identities.get(&beat.identity).copied();
        let id = known.unwrap_or(self.state.next.node);
        // A datanode that moved to another rack keeps its number.
        let moved = |node| self.rack(node) != rack && !self.config.faults.has(Fault::RackKept);
        if known.is_none_or(moved) {
            let (node, identity) = (id, beat.identity);
            self.commit(None, vec![Record::NodeJoined { node, identity, rack: rack.into() }]);
        }
        // Begin with the lowest count of all datanodes. So a newcomer gets an equal share of new chunks
        // from now on, and not all of them.
        let placed = self.cluster.nodes.values().map(|node| node.placed).min().unwrap_or(0);
        let former = self.cluster.nodes.remove(&id);
        let reported = self.config.faults.has(Fault::UnreportedCounted) && former.is_some();
        let (held, report) = former.map(|former| (former.held, former.report)).unwrap_or_default();
        let session = self.cluster.new_session();
        let node = Node {
            incarnation: beat.incarnation,
            session,
            number: 0,
            heard: now,
            dead: false,
            reported,
            report: report.filter(|_| self.config.faults.has(Fault::FormerReportContinued)),
            comeback: Comeback::Over,
            placed,
            space: beat.space,
            held,
            leaving: BTreeMap::new(),
            orders: Orders::default(),
        };
        self.cluster.nodes.insert(id, node);
        self.review_held(id);
        let stays = known.is_some_and(|node| !self.state.decommissioned.contains(&node));
        self.cluster.heard |= stays;
        HeartbeatAnswer { session, node: id, orders: Vec::new(), report: true, log: self.state.point() }
    }

    /// Processes the changes of a heartbeat without a full report.
    fn take_changes(&mut self, id: NodeId, beat: &Heartbeat, now: Millis) -> Result<()> {
        if let Some(highest) = self.foreign_changes(beat) {
            self.demand_own(id, beat, highest)?;
        }
        self.apply_changes(id, beat, now);
        Ok(())
    }

    /// As [`Self::highest_foreign`], of the replicas in the heartbeat's changes of the kind [`Change::Has`].
    pub(super) fn foreign_changes(&self, beat: &Heartbeat) -> Option<(ChunkId, Stamp)> {
        let changed = beat.changes.iter().filter_map(|change| match change {
            Change::Has(report) => Some(report),
            _ => None,
        });
        self.highest_foreign(changed)
    }

    /// Of the foreign replicas, the highest chunk and, separately, the highest stamp. A replica is foreign if
    /// this history didn't issue its chunk or its stamp. `None` if no replica is foreign.
    pub(super) fn highest_foreign<'r>(
        &self,
        reports: impl Iterator<Item = &'r ReplicaReport>,
    ) -> Option<(ChunkId, Stamp)> {
        let foreign = reports.filter(|report| !self.state.has_given(report.chunk, report.stamp));
        foreign.map(|report| (report.chunk, report.stamp)).reduce(higher)
    }

    /// Refuses a datanode that holds replicas of another history, unless it was admitted.
    pub(super) fn demand_own(
        &mut self,
        id: NodeId,
        beat: &Heartbeat,
        highest: (ChunkId, Stamp),
    ) -> Result<()> {
        if self.state.history.has_admitted(beat.identity) {
            return Ok(());
        }
        self.forget_replicas(id);
        self.cluster.nodes.remove(&id);
        let highest = higher(beat.highest, highest);
        Err(self.cluster.refuse(beat.identity, Error::ForeignData, beat.seen, highest))
    }

    pub(super) fn apply_changes(&mut self, id: NodeId, beat: &Heartbeat, now: Millis) {
        let copies = self.cluster.copies.len();
        for change in &beat.changes {
            self.take_change(id, *change, now);
        }
        if self.cluster.copies.len() < copies {
            self.order_next_copies(now);
        }
    }

    fn take_change(&mut self, id: NodeId, change: Change, now: Millis) {
        match change {
            Change::Has(report) => {
                self.note(id, report, false);
                // If this datanode had the order to copy the chunk, it can't take the copy: it holds another
                // replica of the chunk.
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

    /// Ends a copy that the datanode won't make. Leaves it to the next tick to order another copy: if
    /// this call did, the same datanode might get and abandon the order again and again.
    fn end_copy(&mut self, id: NodeId, chunk: ChunkId, now: Millis) {
        if let Some(copy) = self.cluster.copies.get_mut(&chunk).filter(|copy| copy.to == id) {
            copy.until = now;
        }
    }

    /// Records one replica, as good or as odd.
    pub(super) fn note(&mut self, id: NodeId, report: ReplicaReport, corrupt: bool) {
        let chunk = report.chunk;
        self.forget(id, chunk);
        let counts = self.counts(&report) && !corrupt;
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        let leaving = node.leaving.get(&chunk).is_some_and(|stamp| *stamp >= report.stamp);
        if leaving && !self.config.faults.has(Fault::DeletionNotCounted) {
            // The replica has become good. Keep it if the order to delete it wasn't sent yet.
            if !(counts && node.orders.withdraw(Kind::Delete, chunk)) {
                return;
            }
            node.leaving.remove(&chunk);
        }
        // An earlier order to seal has given the replica a higher stamp than the order to delete names,
        // so that order doesn't apply any more.
        if let Some(stamp) = node.leaving.get(&chunk).copied().filter(|stamp| *stamp < report.stamp) {
            node.leaving.remove(&chunk);
            node.orders.end(Kind::Delete, chunk, stamp);
        }
        node.held.insert(chunk);
        if report.state == ReplicaState::Sealed {
            node.orders.end(Kind::Seal, chunk, report.stamp);
        }
        if counts {
            self.cluster.good.entry(chunk).or_default().push(id);
            if self.cluster.copies.get(&chunk).is_some_and(|copy| copy.to == id) {
                self.cluster.copies.remove(&chunk);
            }
        } else {
            self.cluster.odd.entry(chunk).or_default().push(Odd { node: id, report, corrupt });
        }
        self.review(chunk);
    }

    /// Whether the replica is good: sealed, with the logged stamp and length.
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

    /// Counts the replica that a member has sealed according to the chunk's writer, until the datanode
    /// itself reports. Only if the datanode is still in the run in which it joined the pipeline: after
    /// a restart, its own report knows more than the writer.
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
        if !same && !self.config.faults.has(Fault::FormerRunOverrules) {
            return;
        }
        let there = self.cluster.good.get(&chunk).is_some_and(|good| good.contains(&node));
        if same && !there {
            self.note(node, report, false);
        }
        // A report that is being processed is older than the writer's statement.
        if let Some(report) = self.cluster.nodes.get_mut(&node).and_then(|node| node.report.as_mut()) {
            report.written.insert(chunk);
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
                    self.delete(node, chunk, self.latest_stamp());
                }
                self.review(chunk);
            }
            Event::Discarded(chunk, node) => self.delete(node, chunk, self.latest_stamp()),
        }
    }

    /// The latest stamp that was given out: no replica has a later one.
    fn latest_stamp(&self) -> Stamp {
        Stamp(self.state.next.stamp.0.saturating_sub(1))
    }

    /// Handles a reader's statement that a replica is damaged: if the replica counts as good, orders its
    /// datanode to compare it with its checksums.
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
