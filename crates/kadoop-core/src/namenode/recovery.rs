//! Recovery of files whose writer is gone: it ends their leases and their open chunks.
//!
//! Recovery handles the open chunks in the file's order. It logs a stamp above all others, fences the
//! members with it, and decides a length from their answers. Then it orders the members with at least
//! that many bytes to seal the chunk at that length. If a round doesn't finish in time, another begins
//! with a higher stamp. Only the stamps and the chunk's end are logged.
//!
//! If a live writer can't get a chunk sealed, it requests such rounds, and keeps its lease. It gives the
//! length. If no member has that many bytes any more, the writer gets an error.

use super::{
    Namenode,
    orders::Kind,
    record::Record,
    state::{Chunk, OpenChunk},
};
use crate::{
    ChunkId, ClientId, FileId, Incarnation, Millis, NodeId, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Caller, Order, ReplicaReport, ReplicaState},
};
use std::collections::{BTreeMap, BTreeSet};

/// One attempt to recover one chunk.
#[derive(Debug)]
pub(super) struct Round {
    chunk: ChunkId,
    stamp: Stamp,
    /// The length that the chunk's writer gave, if the writer requested the round.
    demanded: Option<u32>,
    began: Millis,
    /// When the first round for this chunk began.
    waiting_since: Millis,
    /// For each member that has answered: its run at that time, and its replica, if it has one.
    answers: BTreeMap<NodeId, (Incarnation, Option<ReplicaReport>)>,
    /// The chunk's length, once it is decided.
    length: Option<u32>,
    /// Every member has answered, and none has the demanded length.
    lost: bool,
}

/// The state of a pipeline's members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Every member has run unbroken.
    All,
    /// Some members have run unbroken. The others have restarted or are dead.
    Broken,
    /// No member is alive.
    Nothing,
    /// Some members have restarted and are back. The others are dead.
    Returned,
    /// All members have restarted and are back.
    AllReturned,
}

/// Most broken pipelines in one answer to a client's renewal, which comes each second. The bound keeps
/// their repair from delaying the client's other writers.
const MAX_BROKEN: usize = 32;

impl Namenode {
    /// Revokes the lease of each writer that was silent for too long, and notes the pipelines that have
    /// lost members.
    pub(super) fn watch_leases(&mut self, now: Millis) {
        let (hard, lost) = (self.config.lease_hard_ms, self.config.lease_lost_ms);
        // If this process was stopped, its clients' renewals are still on their way.
        let was_stopped = self.is_stopped(now);
        self.cluster.ticked = now;
        if was_stopped {
            self.cluster.awake_since = now;
        }
        let (mut silent, mut broken) = (Vec::new(), BTreeSet::new());
        for (file, open) in &self.state.open {
            let Some(client) = open.client else { continue };
            let silence = self.silence(*file, now);
            let returned = |chunk| matches!(self.left(chunk), Left::Returned | Left::AllReturned);
            if silence >= hard || silence >= lost && !was_stopped && open.chunks.iter().any(returned) {
                silent.push(*file);
            } else if let Some(last) = open.chunks.last().filter(|last| !last.claimed)
                && matches!(self.left(last), Left::Broken | Left::AllReturned)
            {
                broken.insert((client, *file));
            }
        }
        silent.into_iter().for_each(|file| self.begin_recovery(file));
        self.cluster.broken = broken;
        let clients = &self.state.clients;
        if self.cluster.renewed.len() > crate::config::MAX_CLIENTS {
            let known: BTreeSet<_> = clients.iter().map(|(client, _)| *client).collect();
            self.cluster.renewed.retain(|client, _| known.contains(client));
        }
    }

    /// The state of the members of an open chunk's pipeline.
    fn left(&self, open: &OpenChunk) -> Left {
        let (mut unbroken, mut returned) = (0, 0);
        for member in &open.pipeline {
            let Some(node) = self.cluster.nodes.get(&member.node).filter(|node| !node.dead) else { continue };
            if node.incarnation == member.incarnation {
                unbroken += 1;
            } else {
                returned += 1;
            }
        }
        let all = open.pipeline.len();
        match (unbroken, returned) {
            (unbroken, _) if unbroken == all => Left::All,
            (0, 0) => Left::Nothing,
            (0, returned) if returned == all => Left::AllReturned,
            (0, _) => Left::Returned,
            _ => Left::Broken,
        }
    }

    /// Up to `MAX_BROKEN` files of this client, as of the last tick: those whose last open chunk has no claimed end and
    /// a broken pipeline. A pipeline is broken if some of its members, but not all, have restarted or are dead; or if
    /// all have restarted and are back.
    pub fn broken_pipelines(&self, client: ClientId) -> Vec<FileId> {
        let of_client = (client, FileId(0))..=(client, FileId(u64::MAX));
        self.cluster.broken.range(of_client).take(MAX_BROKEN).map(|(_, file)| *file).collect()
    }

    /// Handles another writer's request for the file: revokes the lease if its writer was silent for long
    /// enough, or if the request `insists`. Its client may not repeat a request that insists. So such a
    /// request revokes the lease even in safe mode, and recovery follows afterwards.
    pub(super) fn contend(&mut self, file: FileId, insists: bool, now: Millis) {
        let is_silent = || self.silence(file, now) >= self.config.lease_soft_ms;
        if insists || !self.cluster.in_safe_mode() && is_silent() {
            self.begin_recovery(file);
            self.drive(file, now);
        }
    }

    /// Whether this caller's session has the file open at another client. The session has moved from
    /// that client to this one, so the writer there is no longer used.
    pub(super) fn holds_elsewhere(&self, file: FileId, caller: &Caller, client: ClientId) -> bool {
        let Some(open) = self.state.open.get(&file) else { return false };
        open.client != Some(client) && open.holder.is_some() && open.holder == caller.holder()
    }

    /// Whether this process has missed ticks, since it was stopped until a moment ago.
    fn is_stopped(&self, now: Millis) -> bool {
        now.saturating_sub(self.cluster.ticked) >= self.config.lease_lost_ms / 2
    }

    /// Time since the latest request or renewal of the file's writer, or since safe mode ended if that
    /// was later.
    fn silence(&self, file: FileId, now: Millis) -> Millis {
        let client = self.state.open.get(&file).and_then(|open| open.client);
        let Some((client, safe)) = client.zip(self.cluster.safe_until) else { return 0 };
        let heard = self.cluster.renewed.get(&client).copied().unwrap_or(0);
        now.saturating_sub(heard.max(safe))
    }

    fn begin_recovery(&mut self, file: FileId) {
        if self.state.open.get(&file).is_some_and(|open| open.client.is_some()) {
            self.commit(None, vec![Record::RecoveryBegun { file }]);
        }
    }

    pub(super) fn drive_recoveries(&mut self, now: Millis) {
        let open = &self.state.open;
        self.cluster.rounds.retain(|file, _| open.contains_key(file));
        let files: Vec<FileId> =
            self.state.open.iter().filter(|(_, open)| open.client.is_none()).map(|(file, _)| *file).collect();
        files.into_iter().for_each(|file| self.drive(file, now));
    }

    /// Continues the chunk's recovery after one of its replicas has changed.
    pub(super) fn drive_chunk(&mut self, chunk: ChunkId, now: Millis) {
        let round = self.cluster.rounds.iter().find(|(_, round)| round.chunk == chunk);
        if let Some((file, _)) = round {
            self.drive(*file, now);
        }
    }

    pub(super) fn take_fence(
        &mut self,
        node: NodeId,
        chunk: ChunkId,
        stamp: Stamp,
        replica: Option<ReplicaReport>,
        now: Millis,
    ) {
        let Some(known) = self.cluster.nodes.get_mut(&node) else { return };
        known.orders.end(Kind::Fence, chunk, stamp);
        let incarnation = known.incarnation;
        let round =
            self.cluster.rounds.values_mut().find(|round| round.chunk == chunk && round.stamp == stamp);
        if let Some(round) = round
            && round.length.is_none()
        {
            round.answers.insert(node, (incarnation, replica));
            self.drive_chunk(chunk, now);
        }
    }

    /// Ends the chunk at `length`, the acknowledged length according to its writer.
    ///
    /// # Errors
    /// LeaseLost: the client doesn't have the file's lease. Invalid: the length is 0 or above the chunk
    /// size, or the chunk already has another end. Unavailable: the round is under way, so ask again.
    /// BytesLost: no member has that many bytes any more. Then the chunk stays open, and the writer has
    /// to fail.
    pub(super) fn end_for_writer(
        &mut self,
        file: FileId,
        client: ClientId,
        chunk: ChunkId,
        length: u32,
        now: Millis,
    ) -> Result<()> {
        let open = self.leased(file, client)?;
        let logged = self.state.chunks.get(&chunk).filter(|logged| logged.inode == open.inode);
        if let Some(at) = open.place(chunk) {
            let moved = open.chunks[at].claimed && logged.is_some_and(|logged| logged.length != length);
            if length == 0 || length > self.chunk_bytes(open)? || moved {
                return Err(Error::Invalid("a chunk's end is 0, too large, or differs from before"));
            }
            if self.cluster.in_safe_mode() {
                return Err(Error::Unavailable);
            }
            let this = open.chunks[at].clone();
            if !self.drive_open(file, &this, Some(length), now) {
                let lost = self.cluster.rounds.get(&file).is_some_and(|round| round.lost);
                return Err(if lost { Error::BytesLost } else { Error::Unavailable });
            }
        } else if !logged.is_some_and(|logged| logged.ended && logged.length == length)
            && !self.config.faults.has(Fault::LossHidden)
        {
            return Err(Error::Invalid("the chunk was ended at another length, or belongs to another file"));
        }
        Ok(())
    }

    /// Continues the file's recovery as far as possible now.
    fn drive(&mut self, file: FileId, now: Millis) {
        if self.cluster.in_safe_mode() {
            return;
        }
        if self.state.open.get(&file).is_some_and(|open| open.client.is_some()) {
            return self.drive_for_writer(file, now);
        }
        loop {
            let Some(open) = self.state.open.get(&file).filter(|open| open.client.is_none()) else { return };
            let Some(chunk) = open.chunks.first().cloned() else {
                self.cluster.rounds.remove(&file);
                // The monotonic clock has no date, so the file keeps the time of its last change.
                let time_ms = self.state.inode(open.inode).map_or(0, |inode| inode.modified_ms);
                self.commit(None, vec![Record::Closed { file, time_ms }]);
                return;
            };
            if !self.drive_open(file, &chunk, None, now) {
                return;
            }
        }
    }

    /// Continues the round that the file's writer has requested.
    fn drive_for_writer(&mut self, file: FileId, now: Millis) {
        let Some((chunk, length)) = self.cluster.rounds.get(&file).map(|round| (round.chunk, round.demanded))
        else {
            return;
        };
        if let Some(open) = self.state.open_chunk(file, chunk).cloned()
            && length.is_some()
        {
            self.drive_open(file, &open, length, now);
        }
    }

    /// Begins or continues one chunk's round. Returns true once the chunk's end is logged.
    fn drive_open(&mut self, file: FileId, open: &OpenChunk, demanded: Option<u32>, now: Millis) -> bool {
        let Some(logged) = self.state.chunks.get(&open.chunk).copied() else { return false };
        let old = self.cluster.rounds.get(&file).filter(|round| round.chunk == open.chunk);
        let waiting_since = old.map_or(now, |round| round.waiting_since);
        // If a datanode's session ends, its orders and answers are lost. So begin a new round
        // periodically.
        let over = |round: &Round| now.saturating_sub(round.began) >= self.config.recovery_round_ms;
        if old.is_none_or(|round| over(round) || round.demanded != demanded) {
            if self.short_of_room {
                return false;
            }
            self.begin_round(file, open, logged, demanded, waiting_since, now);
        }
        let Some(mut round) = self.cluster.rounds.remove(&file) else { return false };
        for member in &open.pipeline {
            if round.length.is_none() && !round.answers.contains_key(&member.node) {
                self.cluster.order(member.node, Order::Fence { chunk: open.chunk, stamp: round.stamp });
            }
        }
        if round.length.is_none() {
            round.length = match demanded {
                None => self.decide_length(&round, open, logged, now),
                Some(demanded) => self.demand_length(&mut round, open, demanded, now),
            };
        }
        let Some(length) = round.length else {
            self.cluster.rounds.insert(file, round);
            return false;
        };
        let continued = open.continues.and_then(|old| self.state.chunks.get(&old)).map_or(0, |old| old.used);
        if length == 0 || length < continued {
            self.commit(None, vec![Record::ChunkDropped { file, chunk: open.chunk }]);
            return true;
        }
        let (chunk, stamp) = (open.chunk, round.stamp);
        if self.sealed_somewhere(chunk, stamp, length) {
            self.commit(None, vec![Record::ChunkEnded { file, chunk, stamp, length }]);
            return true;
        }
        for (node, (_, replica)) in &round.answers {
            if replica.is_some_and(|replica| has_as_much(&replica, length)) {
                self.cluster.order(*node, Order::Seal { chunk, stamp, length });
            }
        }
        self.cluster.rounds.insert(file, round);
        false
    }

    fn begin_round(
        &mut self,
        file: FileId,
        open: &OpenChunk,
        logged: Chunk,
        demanded: Option<u32>,
        waiting_since: Millis,
        now: Millis,
    ) {
        let chunk = open.chunk;
        let stamp =
            if self.config.faults.has(Fault::StampReused) { logged.stamp } else { self.state.next_stamp() };
        for node in self.cluster.nodes.values_mut() {
            for kind in [Kind::Fence, Kind::Seal] {
                node.orders.end(kind, chunk, Stamp(u64::MAX));
            }
        }
        self.commit(None, vec![Record::StampTaken { file, chunk, stamp }]);
        let (answers, length, lost) = (BTreeMap::new(), None, false);
        let round = Round { chunk, stamp, demanded, began: now, waiting_since, answers, length, lost };
        self.cluster.rounds.insert(file, round);
    }

    /// The chunk's length, as soon as it can be decided.
    ///
    /// A member that ran unbroken has every acknowledged byte. So the shortest replica of these members
    /// has all acknowledged bytes, and is a prefix of the others. Without such a member, the longest
    /// returned replica has every synced byte.
    fn decide_length(&self, round: &Round, open: &OpenChunk, logged: Chunk, now: Millis) -> Option<u32> {
        let faults = self.config.faults;
        let mut unbroken: Option<u32> = None;
        let mut others: Option<u32> = None;
        for member in &open.pipeline {
            let Some((incarnation, replica)) = round.answers.get(&member.node) else { continue };
            let (believed, length) = match replica {
                None => (*incarnation == member.incarnation || faults.has(Fault::AbsenceBelieved), Some(0)),
                Some(replica) => {
                    let believed = match replica.state {
                        ReplicaState::Open => true,
                        // If the writer sealed it, it is on disk, with at least the acknowledged bytes. If an
                        // earlier round did, that round may have decided its length from returned replicas.
                        ReplicaState::Sealed => replica.stamp == logged.stamp,
                        ReplicaState::Returned => faults.has(Fault::ReturnedBelieved),
                    };
                    (believed, Some(replica.length))
                }
            };
            if believed {
                unbroken = unbroken.min(length).or(length);
            } else if replica.is_some() {
                others = others.max(length);
            }
        }
        let answered = self.is_answered(round, open, now);
        let patient = open.pipeline.iter().all(|member| {
            round.answers.contains_key(&member.node) || self.is_given_up(member.node, round, now)
        });
        let heard = self.has_heard(round, open, now);
        if unbroken.is_some() && heard {
            return unbroken;
        }
        if unbroken.is_none() && faults.has(Fault::SilenceBelieved) && patient {
            return Some(0);
        }
        if unbroken.is_none() && answered {
            return Some(others.unwrap_or(0));
        }
        // Take the longest replica of all members that can answer, not that of the first to answer.
        if unbroken.is_none() && patient && heard { others } else { None }
    }

    /// Whether every member has answered. A decommissioned member for which recovery no longer waits
    /// counts as gone for good. Otherwise a file would stay open forever if no other member has any of
    /// its bytes.
    fn is_answered(&self, round: &Round, open: &OpenChunk, now: Millis) -> bool {
        let gone = |node: NodeId| {
            self.state.decommissioned.contains(&node)
                && self.is_given_up(node, round, now)
                && !self.config.faults.has(Fault::GoneAwaited)
        };
        let answers = |node: NodeId| round.answers.contains_key(&node) || gone(node);
        open.pipeline.iter().all(|member| answers(member.node))
    }

    /// Whether the member was silent for so long that recovery stops waiting for it. A member that
    /// still sends heartbeats is only late in this round, and may hold bytes that it reported in an
    /// earlier one. The time in which this process was stopped doesn't count as silence.
    fn is_given_up(&self, node: NodeId, round: &Round, now: Millis) -> bool {
        let heard = self.cluster.nodes.get(&node).map_or(0, |node| node.heard);
        let since = heard.max(round.waiting_since).max(self.cluster.awake_since);
        !self.is_stopped(now) && now.saturating_sub(since) >= self.config.recovery_patience_ms
    }

    /// The length that the writer demands, once a member has at least that many bytes. The member needn't
    /// have run unbroken: acknowledged bytes are the same at each member.
    fn demand_length(&self, round: &mut Round, open: &OpenChunk, demanded: u32, now: Millis) -> Option<u32> {
        let replicas = || round.answers.values().filter_map(|(_, replica)| *replica);
        if replicas().any(|replica| has_as_much(&replica, demanded)) {
            return self.has_heard(round, open, now).then_some(demanded);
        }
        if self.is_answered(round, open, now) {
            let longest = replicas().map(|replica| replica.length).max();
            round.lost = !self.config.faults.has(Fault::LossHidden);
            return if round.lost { None } else { longest.or(Some(0)) };
        }
        None
    }

    /// Whether all members that can answer have done so, or two heartbeats have passed. Recovery waits
    /// that long since each further member that answers gives the sealed chunk one more replica.
    fn has_heard(&self, round: &Round, open: &OpenChunk, now: Millis) -> bool {
        let heard = |node: NodeId| round.answers.contains_key(&node) || !self.usable(node, now);
        open.pipeline.iter().all(|member| heard(member.node))
            || now.saturating_sub(round.began) >= self.config.heartbeat_ms * 2
    }

    fn sealed_somewhere(&self, chunk: ChunkId, stamp: Stamp, length: u32) -> bool {
        self.cluster.odd_of(chunk).any(|odd| {
            let report = odd.report;
            report.state == ReplicaState::Sealed
                && (report.stamp, report.length) == (stamp, length)
                && !odd.corrupt
        })
    }
}

/// Whether the replica can be sealed at `length`. A sealed replica never changes its length.
pub(super) fn has_as_much(replica: &ReplicaReport, length: u32) -> bool {
    match replica.state {
        ReplicaState::Sealed => replica.length == length,
        ReplicaState::Open | ReplicaState::Returned => replica.length >= length,
    }
}
