//! Decides which datanodes belong to the log's history.
//!
//! A datanode that has heard of records behind the log's end shows that the log has lost them. Then
//! nothing changes until an operator decides: to put back what is lost, or to admit the datanode,
//! which gives it up. A datanode of another history concerns itself alone.

use super::{Namenode, history, record::Record};
use crate::{
    ChunkId, Identity, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Caller, Heartbeat},
};

impl Namenode {
    /// Refuses a datanode that isn't of the log's history.
    pub(super) fn demand_history(&mut self, beat: &Heartbeat) -> Result<()> {
        let (seen, highest) = (beat.seen, beat.highest);
        let state = &self.state;
        let why = if self.config.faults.has(Fault::HistoryIgnored)
            || state.history.has_admitted(beat.identity)
        {
            None
        } else if !state.has_point(seen) {
            let joins = self.config.faults.has(Fault::JoinsCounted);
            let behind = if joins { seen.record > self.sequence() } else { state.history.ends_before(seen) };
            Some(if behind { Error::LogBehind } else { Error::OtherHistory })
        } else if highest != Default::default() && !state.has_given(highest.0, highest.1) {
            Some(Error::ForeignData)
        } else {
            None
        };
        match why {
            Some(why) => Err(self.cluster.refuse(beat.identity, why, seen, highest)),
            None => {
                self.cluster.forget_refusal(beat.identity);
                Ok(())
            }
        }
    }

    /// Admits a datanode that is refused for its history: this log is the true one. The datanode's
    /// replicas of another history belong to no file, and are deleted in time.
    ///
    /// # Errors
    /// PermissionDenied, except for the superuser; NotFound: no such datanode is refused; Invalid: its
    /// numbers were never handed out by any namenode.
    pub fn admit(&mut self, caller: &Caller, identity: Identity) -> Result<()> {
        if !self.view(caller).is_super() {
            return Err(Error::PermissionDenied);
        }
        let refused = self.cluster.refusal(identity).ok_or(Error::NotFound)?;
        let (chunk, stamp) = refused.highest;
        if !history::is_possible(chunk, stamp) {
            return Err(Error::Invalid("no namenode can have given the numbers of its replicas"));
        }
        let (chunk, stamp) = match self.config.faults.has(Fault::AdmittedBelow) {
            false => (ChunkId(chunk.0 + 1), Stamp(stamp.0 + 1)),
            true => Default::default(),
        };
        let record = refused.seen.record;
        self.commit(None, vec![Record::Admitted { identity, record, chunk, stamp }]);
        self.cluster.forget_refusal(identity);
        Ok(())
    }

    /// Datanodes refused for their history, with the reasons.
    pub fn refused(&self) -> impl Iterator<Item = (Identity, Error)> {
        self.cluster.refusals()
    }

    /// The last record that a datanode has heard of, if the log ends before it. Nothing changes
    /// meanwhile.
    pub fn behind(&self) -> Option<u64> {
        self.cluster.behind()
    }

    /// Whether no datanode has been heard since the start, though some have joined earlier. Nothing
    /// changes until then, since they might know of more records than the log has.
    pub fn waits_for_datanodes(&self) -> bool {
        !self.cluster.heard
            && self.cluster.in_safe_mode()
            && self.state.point().start != 0
            && !self.config.faults.has(Fault::UnheardBelieved)
    }

    /// Whether the log may be changed, as far as the datanodes have told.
    ///
    /// # Errors
    /// LogBehind; NoDatanodes: ask again.
    pub(super) fn demand_current(&self) -> Result<()> {
        match self.behind() {
            Some(_) => Err(Error::LogBehind),
            None if self.waits_for_datanodes() => Err(Error::NoDatanodes),
            None => Ok(()),
        }
    }
}
