//! Full reports, which the namenode processes in parts: a million replicas at once would make other
//! calls wait for some tenths of a second.
//!
//! A datanode reports its replicas in the order of their chunks. So if a part skips a known chunk, the
//! datanode no longer has it. Between two parts
//!
//! - replicas that the report hasn't reached count as before; in a new session they don't count,
//! - the datanode may begin another session, which ends the report,
//! - a file may be removed: an order to delete a replica overrules the report of that replica,
//! - a writer may say that it has sealed a chunk: it overrules the report, which is older.
//!
//! The namenode checks all numbers of a report before the first replica counts, since a datanode of
//! another history may hold other bytes under the same numbers.

use super::{Namenode, record::Record};
use crate::{
    ChunkId, Millis, NodeId, Stamp,
    error::Result,
    faults::Fault,
    messages::{Change, Heartbeat, ReplicaReport},
};
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
};

/// A full report that is being processed.
#[derive(Debug)]
pub(super) struct Intake {
    /// The number of its heartbeat.
    pub number: u64,
    /// Number of replicas whose numbers were checked.
    checked: usize,
    /// The highest checked numbers that belong to another history.
    foreign: Option<(ChunkId, Stamp)>,
    /// Number of replicas that were processed.
    taken: usize,
    /// Replicas of chunks up to this one were processed.
    pub upto: ChunkId,
    /// Chunks of replicas that the same heartbeat reports as damaged.
    damaged: BTreeSet<ChunkId>,
    /// Chunks that a writer has sealed on the datanode since the report arrived.
    pub written: BTreeSet<ChunkId>,
    /// Whether the namenode had requested the report after a cancelled decommission.
    asked: bool,
}

impl Intake {
    pub(super) fn of(beat: &Heartbeat, asked: bool) -> Self {
        let damaged = beat.changes.iter().filter_map(|change| match change {
            Change::Corrupt { chunk, .. } => Some(*chunk),
            _ => None,
        });
        Self {
            number: beat.number,
            checked: 0,
            foreign: None,
            taken: 0,
            upto: ChunkId(0),
            damaged: damaged.collect(),
            written: BTreeSet::new(),
            asked,
        }
    }
}

/// The next statement of a report about a chunk.
enum Next {
    Has(ReplicaReport),
    Lacks(ChunkId),
}

impl Namenode {
    /// Processes the next part of the heartbeat's full report. Returns true if the report is complete,
    /// or if there is none.
    pub(super) fn take_part(&mut self, id: NodeId, beat: &Heartbeat, now: Millis) -> Result<bool> {
        let full = beat.full.as_deref().unwrap_or_default();
        if self.report_of(id, beat).is_none() {
            return Ok(true);
        }
        if !self.check_part(id, beat, full)? {
            return Ok(false);
        }
        for _ in 0..self.config.report_replicas.max(1) {
            match self.next_reported(id, beat, full) {
                Some(Next::Has(report)) => {
                    let damaged =
                        self.report_of(id, beat).is_some_and(|of| of.damaged.contains(&report.chunk));
                    self.note(id, report, damaged && !self.config.faults.has(Fault::DamageToldLate));
                }
                Some(Next::Lacks(chunk)) => {
                    self.forget(id, chunk);
                    self.review(chunk);
                }
                None => {
                    self.end_report(id, beat, now);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The report that is being processed, if it came with this heartbeat.
    fn report_of(&mut self, id: NodeId, beat: &Heartbeat) -> Option<&mut Intake> {
        let report = self.cluster.nodes.get_mut(&id)?.report.as_mut();
        report.filter(|report| report.number == beat.number)
    }

    /// Checks the next numbers of the report. Returns true once all are checked.
    fn check_part(&mut self, id: NodeId, beat: &Heartbeat, full: &[ReplicaReport]) -> Result<bool> {
        let from = self.report_of(id, beat).map_or(0, |report| report.checked);
        let upto = full.len().min(from + self.config.report_replicas.max(1));
        let before = if from == 0 { self.foreign_changes(beat) } else { None };
        let mut foreign = before
            .into_iter()
            .chain(self.highest_foreign(full.get(from..upto).unwrap_or_default().iter()))
            .reduce(higher);
        if let Some(report) = self.report_of(id, beat) {
            report.checked = upto;
            report.foreign = report.foreign.into_iter().chain(foreign).reduce(higher);
            foreign = report.foreign;
        }
        let all = upto == full.len();
        if all && let Some(highest) = foreign {
            self.demand_own(id, beat, highest)?;
        }
        Ok(all || self.config.faults.has(Fault::ReportUnchecked))
    }

    /// The next replica of the report, or the next known chunk that the report lacks.
    fn next_reported(&mut self, id: NodeId, beat: &Heartbeat, full: &[ReplicaReport]) -> Option<Next> {
        let adds = self.config.faults.has(Fault::ReportAdded);
        let overruled = self.config.faults.has(Fault::WrittenForgotten);
        let node = self.cluster.nodes.get_mut(&id)?;
        let report = node.report.as_mut().filter(|report| report.number == beat.number)?;
        loop {
            let next = full.get(report.taken);
            let known = node.held.range((Excluded(report.upto), Unbounded)).next().filter(|_| !adds);
            let (chunk, next) = match (known, next) {
                (Some(known), next) if next.is_none_or(|next| *known < next.chunk) => {
                    (*known, Next::Lacks(*known))
                }
                (_, Some(next)) => {
                    report.taken += 1;
                    (next.chunk, Next::Has(*next))
                }
                (_, None) => return None,
            };
            // A datanode of an older version may report its replicas in any order.
            report.upto = report.upto.max(chunk);
            if overruled || !report.written.contains(&chunk) {
                return Some(next);
            }
        }
    }

    fn end_report(&mut self, id: NodeId, beat: &Heartbeat, now: Millis) {
        let Some(node) = self.cluster.nodes.get_mut(&id) else { return };
        let Some(report) = node.report.take() else { return };
        node.reported = true;
        if report.asked && node.ends_comeback() {
            self.review_held(id);
        }
        let admitted = self.state.history.has_admitted(beat.identity);
        if admitted && report.foreign.is_none() {
            self.commit(None, vec![Record::Settled { identity: beat.identity }]);
        }
        // Check safe mode now, so that a complete cluster needn't wait for the next tick.
        self.watch_safe_mode(now);
        self.apply_changes(id, beat, now);
    }
}

/// The higher of the two chunks, and the higher of the two stamps.
pub(super) fn higher(of: (ChunkId, Stamp), other: (ChunkId, Stamp)) -> (ChunkId, Stamp) {
    (of.0.max(other.0), of.1.max(other.1))
}
