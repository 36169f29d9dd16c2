//! Files whose writer is gone: leases that end, and the chunks they leave open.
//!
//! Each chunk that hasn't ended, in the file's order: a stamp above all others is
//! logged, the members are fenced with it, a length is decided from what they
//! answer, and those that have as much are told to seal. A round that comes to
//! nothing is begun anew with a higher stamp; only the end is logged.

use super::{
    Namenode,
    record::Record,
    state::{Chunk, OpenChunk},
};
use crate::{
    ChunkId, FileId, Incarnation, Millis, NodeId, Stamp,
    faults::Fault,
    messages::{Order, ReplicaReport, ReplicaState},
};
use std::collections::BTreeMap;

/// One attempt at one chunk.
#[derive(Debug)]
pub(super) struct Round {
    chunk: ChunkId,
    stamp: Stamp,
    began: Millis,
    /// When the first round for this chunk began.
    waiting_since: Millis,
    /// What each member said, and which run of it.
    answers: BTreeMap<NodeId, (Incarnation, Option<ReplicaReport>)>,
    length: Option<u32>,
}

impl Namenode {
    /// Takes the lease from whoever was silent for too long.
    pub(super) fn watch_leases(&mut self, now: Millis) {
        let hard = self.config.lease_hard_ms;
        let files: Vec<FileId> = self.state.open.keys().copied().collect();
        for file in files {
            if self.silence(file, now) >= hard {
                self.begin_recovery(file);
            }
        }
        let clients = &self.state.clients;
        if self.cluster.renewed.len() > crate::config::MAX_CLIENTS {
            let known: std::collections::BTreeSet<_> = clients.iter().map(|(client, _)| *client).collect();
            self.cluster.renewed.retain(|client, _| known.contains(client));
        }
    }

    /// Another writer wants the file.
    pub(super) fn contend(&mut self, file: FileId, insists: bool, now: Millis) {
        if !self.cluster.in_safe_mode() && (insists || self.silence(file, now) >= self.config.lease_soft_ms) {
            self.begin_recovery(file);
            self.drive(file, now);
        }
    }

    /// For how long nothing was heard of the writer.
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

    /// A replica of the chunk has changed: its recovery may go on.
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
        known.orders.retain(
            |order| !matches!(order, Order::Fence { chunk: of, stamp: to } if *of == chunk && *to <= stamp),
        );
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

    /// Takes the file's recovery as far as it goes now.
    fn drive(&mut self, file: FileId, now: Millis) {
        if self.cluster.in_safe_mode() {
            return;
        }
        loop {
            let Some(open) = self.state.open.get(&file).filter(|open| open.client.is_none()) else { return };
            let Some(chunk) = open.chunks.first().cloned() else {
                self.cluster.rounds.remove(&file);
                // The span's clock has no date; the file keeps the time of its last change.
                let time_ms = self.state.inode(open.inode).map_or(0, |inode| inode.modified_ms);
                self.commit(None, vec![Record::Closed { file, time_ms }]);
                return;
            };
            if !self.drive_open(file, &chunk, now) {
                return;
            }
        }
    }

    /// One chunk's round; true once the chunk's end is logged.
    fn drive_open(&mut self, file: FileId, open: &OpenChunk, now: Millis) -> bool {
        let Some(logged) = self.state.chunks.get(&open.chunk).copied() else { return false };
        let old = self.cluster.rounds.get(&file).filter(|round| round.chunk == open.chunk);
        let waiting_since = old.map_or(now, |round| round.waiting_since);
        // Orders and answers are lost with a datanode's session: begin anew now and then.
        if old.is_none_or(|round| now.saturating_sub(round.began) >= self.config.recovery_round_ms) {
            self.begin_round(file, open, logged, waiting_since, now);
        }
        let Some(mut round) = self.cluster.rounds.remove(&file) else { return false };
        for member in &open.pipeline {
            if round.length.is_none() && !round.answers.contains_key(&member.node) {
                self.cluster.order(member.node, Order::Fence { chunk: open.chunk, stamp: round.stamp });
            }
        }
        if round.length.is_none() {
            round.length = self.decide_length(&round, open, logged, now);
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
        waiting_since: Millis,
        now: Millis,
    ) {
        let chunk = open.chunk;
        let stamp =
            if self.config.faults.has(Fault::StampReused) { logged.stamp } else { self.state.next.stamp };
        for node in self.cluster.nodes.values_mut() {
            node.orders.retain(|order| {
                !matches!(order, Order::Fence { chunk: of, .. } | Order::Seal { chunk: of, .. } if *of == chunk)
            });
        }
        self.commit(None, vec![Record::StampTaken { file, chunk, stamp }]);
        let answers = BTreeMap::new();
        self.cluster
            .rounds
            .insert(file, Round { chunk, stamp, began: now, waiting_since, answers, length: None });
    }

    /// The chunk's length, as soon as it can be told.
    ///
    /// A member that ran unbroken has every acknowledged byte, so the shortest of
    /// these has, and the others agree with it so far. Without one, the longest of
    /// what came back has every byte that was synced.
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
                        // Sealed by the writer: on disk, at no less than was acknowledged. Sealed in an
                        // earlier round: what that one decided, perhaps from returned replicas.
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
        let answered = open.pipeline.iter().all(|member| round.answers.contains_key(&member.node));
        let patient = now.saturating_sub(round.waiting_since) >= self.config.recovery_patience_ms;
        // Others that are there add replicas to the sealed one: they get a moment.
        let there = open
            .pipeline
            .iter()
            .all(|member| round.answers.contains_key(&member.node) || !self.usable(member.node, now));
        let heard = there || now.saturating_sub(round.began) >= self.config.heartbeat_ms * 2;
        if unbroken.is_some() && heard {
            return unbroken;
        }
        if unbroken.is_none() && faults.has(Fault::SilenceBelieved) && patient {
            return Some(0);
        }
        if unbroken.is_none() && answered {
            return Some(others.unwrap_or(0));
        }
        // The longest of those that are there, not of the first to answer.
        if unbroken.is_none() && patient && heard { others } else { None }
    }

    fn sealed_somewhere(&self, chunk: ChunkId, stamp: Stamp, length: u32) -> bool {
        self.cluster.odd.get(&chunk).into_iter().flatten().any(|odd| {
            let report = odd.report;
            report.state == ReplicaState::Sealed
                && (report.stamp, report.length) == (stamp, length)
                && !odd.corrupt
        })
    }
}

/// Whether the replica can be sealed at `length`: one that is sealed never changes.
fn has_as_much(replica: &ReplicaReport, length: u32) -> bool {
    match replica.state {
        ReplicaState::Sealed => replica.length == length,
        ReplicaState::Open | ReplicaState::Returned => replica.length >= length,
    }
}
