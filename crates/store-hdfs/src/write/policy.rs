//! Decisions about the datanodes of a pipeline, without I/O.

use super::super::wire::status;
use super::wire::PipelineAck;

/// Status of one datanode in an acknowledgement: the lowest 4 bits of its flag
/// (`PipelineAck.StatusFormat`).
const STATUS_BITS: u32 = 0xf;
/// Position of the two bits about slowness, and their value for a slow datanode (`PipelineAck.SLOW`).
const SLOW_SHIFT: u32 = 7;
const SLOW: u32 = 2;

/// The meaning of an acknowledgement (`DataStreamer.ResponseProcessor`).
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All datanodes have the packet.
    Acked(i64),
    /// The datanode with this index failed.
    Bad { index: usize, status: i32 },
    /// The datanode with this index shuts down, and will be back soon.
    Restarts(usize),
}

/// Reads an acknowledgement of `datanodes` datanodes. If several failed, returns the one furthest from the
/// client: those before it only report its failure.
pub fn judge(ack: &PipelineAck, datanodes: usize) -> Verdict {
    let status_of = |index: usize| match ack.flags.get(index) {
        Some(flag) => (flag & STATUS_BITS) as i32,
        None => ack.replies.get(index).copied().unwrap_or(status::ERROR),
    };
    let replies = ack.replies.len().max(ack.flags.len()).min(datanodes);
    for index in (0..replies).rev() {
        match status_of(index) {
            status::SUCCESS => {}
            status::OOB_RESTART => return Verdict::Restarts(index),
            status => return Verdict::Bad { index, status },
        }
    }
    // Fewer replies than datanodes are an error, unless the message acknowledges no packet: its number is
    // negative.
    match replies == datanodes || replies > 0 && ack.sequence < 0 {
        true => Verdict::Acked(ack.sequence),
        false => Verdict::Bad { index: replies.saturating_sub(1), status: status::ERROR },
    }
}

/// For each datanode of a pipeline: the number of acknowledgements in a row in which it was slow
/// (`DataStreamer.markSlowNode`). The namenode tells its datanodes which of them are slow.
#[derive(Debug)]
pub struct SlowNodes {
    threshold: u32,
    in_a_row: Vec<u32>,
}

impl SlowNodes {
    /// Counters for a pipeline of `datanodes`. With a threshold of 0, no slow datanode is left out.
    pub fn new(threshold: u32, datanodes: usize) -> Self {
        Self { threshold, in_a_row: vec![0; datanodes] }
    }

    /// Counts an acknowledgement. Returns the index of a datanode to leave out, but never of the only one.
    pub fn count(&mut self, ack: &PipelineAck) -> Option<usize> {
        for (index, count) in self.in_a_row.iter_mut().enumerate() {
            let is_slow = ack.flags.get(index).is_some_and(|flag| (flag >> SLOW_SHIFT) & 3 == SLOW);
            *count = if is_slow { count.saturating_add(1) } else { 0 };
        }
        let is_too_slow = |count: &u32| self.threshold > 0 && *count >= self.threshold;
        self.in_a_row.iter().position(is_too_slow).filter(|_| self.in_a_row.len() > 1)
    }
}

/// The values of `dfs.client.block.write.replace-datanode-on-failure.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Never,
    Default,
    Always,
}

/// When to replace a failed datanode (`ReplaceDatanodeOnFailure`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement {
    pub policy: Policy,
    /// Whether to continue without a replacement if there is no other datanode.
    pub best_effort: bool,
    /// Continue without a replacement if at least this many datanodes are left. 0: this permits nothing.
    pub min_replication: usize,
}

impl Replacement {
    /// Whether a pipeline with `left` of `replication` datanodes needs a replacement.
    pub fn is_wanted(&self, replication: usize, left: usize, appended: bool, flushed: bool) -> bool {
        if left == 0 || left >= replication {
            return false;
        }
        match self.policy {
            Policy::Never => false,
            Policy::Always => true,
            Policy::Default => replication >= 3 && (left <= replication / 2 || appended || flushed),
        }
    }

    /// Whether `left` datanodes are enough if no other is found.
    pub fn can_do_without(&self, left: usize) -> bool {
        self.best_effort || self.min_replication > 0 && left >= self.min_replication
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(sequence: i64, replies: &[i32], flags: &[u32]) -> PipelineAck {
        PipelineAck { sequence, replies: replies.to_vec(), flags: flags.to_vec() }
    }

    #[test]
    fn the_failure_furthest_from_the_client_counts() {
        assert_eq!(judge(&ack(4, &[0, 0, 0], &[]), 3), Verdict::Acked(4));
        // ECN and slowness are above the lowest 4 bits.
        assert_eq!(judge(&ack(4, &[0, 0, 0], &[0x20, 0x40, 0xa0]), 3), Verdict::Acked(4));
        assert_eq!(judge(&ack(4, &[0, 1], &[0, 1]), 3), Verdict::Bad { index: 1, status: 1 });
        assert_eq!(judge(&ack(4, &[1, 0, 2], &[]), 3), Verdict::Bad { index: 2, status: 2 });
        assert_eq!(judge(&ack(-2, &[8], &[8]), 3), Verdict::Restarts(0));
        assert_eq!(judge(&ack(4, &[0], &[]), 3), Verdict::Bad { index: 0, status: 1 });
        assert_eq!(judge(&ack(4, &[], &[]), 1), Verdict::Bad { index: 0, status: 1 });
        assert_eq!(judge(&ack(4, &[0; 9], &[]), 2), Verdict::Acked(4));
    }

    #[test]
    fn a_datanode_that_is_slow_many_times_in_a_row_is_left_out() {
        // Combinations of `PipelineAck.combineHeader`: normal 0x80, slow 0x100, slow and congested 0x160.
        let slow = ack(4, &[0, 0], &[0x80, 0x100]);
        let mut nodes = SlowNodes::new(3, 2);
        assert_eq!([(); 2].map(|()| nodes.count(&slow)), [None; 2]);
        assert_eq!(nodes.count(&ack(4, &[0, 0], &[0x80, 0x80])), None, "not in a row");
        assert_eq!([(); 2].map(|()| nodes.count(&slow)), [None; 2]);
        assert_eq!(nodes.count(&ack(5, &[0, 0], &[0x80, 0x160])), Some(1));
        let (mut tolerant, mut lonely) = (SlowNodes::new(0, 2), SlowNodes::new(1, 1));
        assert_eq!(tolerant.count(&slow), None);
        assert_eq!(lonely.count(&ack(4, &[0], &[0x100])), None, "there is no other");
    }

    #[test]
    fn replacement_is_javas() {
        let policy = |policy| Replacement { policy, best_effort: false, min_replication: 0 };
        let by_default = policy(Policy::Default);
        // (replication, left, appended, flushed)
        assert!(!by_default.is_wanted(2, 1, true, true), "fewer than three replicas");
        assert!(!by_default.is_wanted(3, 2, false, false));
        assert!(by_default.is_wanted(3, 1, false, false));
        assert!(by_default.is_wanted(3, 2, true, false) && by_default.is_wanted(3, 2, false, true));
        assert!(policy(Policy::Always).is_wanted(2, 1, false, false));
        assert!(!policy(Policy::Always).is_wanted(2, 2, false, false));
        assert!(!policy(Policy::Never).is_wanted(3, 1, true, true));
        let at_least_two = Replacement { min_replication: 2, ..by_default };
        assert!(at_least_two.can_do_without(2) && !at_least_two.can_do_without(1));
        assert!(!by_default.can_do_without(2));
    }
}
