//! Decides which datanodes belong to the log's history.
//!
//! If a datanode knows of records beyond the log's end, the log has lost them. The namenode then refuses
//! all changes until an operator decides: to restore the lost records, or to admit the datanode, which
//! gives these records up. Any other datanode of another history is only refused itself.

use super::{Namenode, history, record::Record};
use crate::{
    ChunkId, Identity, Stamp,
    error::{Error, Result},
    faults::Fault,
    messages::{Caller, Heartbeat},
};

impl Namenode {
    /// Refuses a datanode that doesn't belong to the log's history.
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

    /// Admits a datanode that is refused for its history. From then on, this log alone counts: the
    /// datanode's replicas of another history belong to no file, and are deleted later.
    ///
    /// # Errors
    /// PermissionDenied: the caller lacks a superuser's rights. NotFound: no such datanode is refused.
    /// Invalid: no namenode can have issued the numbers of its replicas.
    pub fn admit(&mut self, caller: &Caller, identity: Identity) -> Result<()> {
        if !self.view(caller).is_super() {
            return Err(Error::PermissionDenied);
        }
        let refused = self.cluster.refusal(identity).ok_or(Error::NotFound)?;
        let (chunk, stamp) = refused.highest;
        if !history::is_possible(chunk, stamp) {
            return Err(Error::Invalid("no namenode can have issued the numbers of the datanode's replicas"));
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

    /// The highest record that a refused datanode knows of, if the log ends before it. As long as there
    /// is one, the namenode refuses all changes.
    pub fn behind(&self) -> Option<u64> {
        self.cluster.behind()
    }

    /// Whether datanodes joined before this start, and none has begun a session since. As long as that
    /// is so, the namenode refuses all changes: the datanodes may know of records that the log lacks.
    pub fn waits_for_datanodes(&self) -> bool {
        !self.cluster.heard
            && self.cluster.in_safe_mode()
            && self.state.point().start != 0
            && !self.config.faults.has(Fault::UnheardBelieved)
    }

    /// Checks that no known loss of records forbids changes.
    ///
    /// # Errors
    /// LogBehind: the log has lost records. NoDatanodes: no datanode that joined before this start has begun
    /// a session since; ask again.
    pub(super) fn demand_current(&self) -> Result<()> {
        match self.behind() {
            Some(_) => Err(Error::LogBehind),
            None if self.waits_for_datanodes() => Err(Error::NoDatanodes),
            None => Ok(()),
        }
    }
}
