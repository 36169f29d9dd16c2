//! Refused datanodes: the reasons, and the consequences for clients.

use super::{Shared, audit::Asked, heartbeats::address_of};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};
use strait_flexrpc::{Request, stub::ServiceError};
use strait_kadoop_core::{
    Identity, Millis,
    error::{Error, Result},
    messages::{Caller, Point},
};
use strait_kadoop_wire::{
    failure::{refuse, refuse_for},
    wire,
};

/// Most refused datanodes that are remembered.
const MAX_REFUSED: usize = 1_000;
/// How long after its latest refusal a datanode is listed. A datanode that an operator can admit stays
/// listed, since the namenode may wait for that decision.
const LISTED_MS: Millis = 3_600_000;
/// How long a change waits after a start for a datanode that had joined before. Datanodes without a
/// namenode try to reach it several times a second.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);
/// Most changes that wait for such a datanode at a time. Each holds a worker.
const MAX_WAITING: usize = 64;

/// The reason for refusing a change before a datanode that had joined earlier has sent a heartbeat.
const UNHEARD: &str = "since its start, the namenode has received no heartbeat from a datanode that had \
                       joined before; such a datanode may know of log records that the namenode has lost; \
                       start one that `strait datanodes` lists or, if all are gone for good, decommission \
                       each with `strait decommission`";

/// A refused datanode.
#[derive(Debug)]
struct RefusedNode {
    address: SocketAddr,
    name: String,
    rack: String,
    error: Error,
    why: String,
    at: Millis,
}

/// Refused datanodes, each with the latest reason.
#[derive(Debug, Default)]
pub(super) struct Refused {
    nodes: BTreeMap<Identity, RefusedNode>,
}

impl Refused {
    /// Records a refusal. Returns whether to log it: true if it is the datanode's first, or has another
    /// reason than the previous one.
    fn note(&mut self, identity: Identity, node: RefusedNode) -> bool {
        if self.nodes.len() >= MAX_REFUSED && !self.nodes.contains_key(&identity) {
            let oldest = self.nodes.iter().min_by_key(|(_, node)| node.at).map(|(identity, _)| *identity);
            oldest.map(|oldest| self.nodes.remove(&oldest));
        }
        let error = node.error;
        self.nodes.insert(identity, node).is_none_or(|before| before.error != error)
    }

    /// Removes a datanode that the namenode has accepted.
    pub(super) fn forget(&mut self, identity: Identity) {
        self.nodes.remove(&identity);
    }
}

impl Shared {
    /// The reason for refusing a heartbeat, for operators.
    pub(super) fn refusal_of(&self, told: &wire::KdHeartbeat<'_>, error: Error, seen: Point) -> String {
        match error {
            Error::LogBehind => Self::lost(seen.record),
            Error::OtherHistory => format!(
                "it knows of record {} of a log that this namenode doesn't have: it was in the cluster \
                 before records were lost, or belonged to a namenode on a copy of this directory; \
                 `strait admit` accepts it, and its replicas of unknown files are then deleted",
                seen.record
            ),
            Error::ForeignData if told.cluster != 0 && told.cluster != self.cluster => format!(
                "it belongs to cluster {:016x}, and this is cluster {:016x}: start it with its own namenode",
                told.cluster, self.cluster
            ),
            Error::ForeignData => "it holds replicas with ids that this namenode never issued: the log has \
                                   lost records, or the replicas are another namenode's; `strait admit` \
                                   accepts it, and its replicas of unknown files are then deleted"
                .to_owned(),
            other => other.to_string(),
        }
    }

    fn lost(record: u64) -> String {
        format!(
            "a datanode knows of record {record}, which the namenode's log doesn't have: records are lost, \
             or an older copy of the namenode's directory was restored. The namenode refuses changes until \
             you restore the newest copy and restart it, or discard the lost records with `strait admit`"
        )
    }

    /// A client's refusal. If it is due to lost records or missing datanodes, it says what to do.
    pub(super) fn refuse_told(&self, error: Error) -> ServiceError {
        let (behind, waits) = {
            let namenode = self.read();
            (namenode.behind(), namenode.waits_for_datanodes())
        };
        match (error, behind) {
            (Error::LogBehind, Some(record)) => refuse_for(error, Self::lost(record)),
            (Error::NoDatanodes, _) if waits => refuse_for(error, UNHEARD.to_owned()),
            _ => refuse(error),
        }
    }

    pub(super) fn note_refused(
        &self,
        told: &wire::KdHeartbeat<'_>,
        peer: SocketAddr,
        error: Error,
        why: &str,
    ) {
        // A datanode without a session begins a new one by itself. `demand_sole` logs duplicates.
        if matches!(error, Error::NotRegistered | Error::Busy) {
            return;
        }
        // Without a usable address, use 0 as the port: that of `peer` changes with each connection.
        let address = address_of(told, peer).unwrap_or(SocketAddr::new(peer.ip(), 0));
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        let node = RefusedNode {
            address,
            name: text(told.name.as_bytes()),
            rack: text(told.rack.as_bytes()),
            error,
            why: why.to_owned(),
            at: self.clock.now(),
        };
        let identity = Identity(told.identity);
        if self.read().run_of(identity).is_none() {
            self.hosts.write().unwrap_or_else(PoisonError::into_inner).forget(identity);
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.note(identity, node) {
            tracing::error!(%address, identity = format!("{:016x}", identity.0), "a datanode is refused: {why}");
        }
    }

    pub(super) fn refused_nodes(&self) -> Result<wire::KdRefusedNodes<'static>> {
        let admissible: BTreeSet<Identity> =
            self.ask(|namenode| Ok(namenode.refused().map(|(identity, _)| identity).collect()))?;
        let now = self.clock.now();
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = refused.nodes.iter().map(|(identity, node)| wire::KdRefusedNode {
            identity: identity.0,
            address: node.address.to_string().into(),
            name: node.name.clone().into(),
            rack: node.rack.clone().into(),
            refusal: strait_kadoop_wire::failure::number_of(node.error),
            why: node.why.clone().into(),
            admissible: admissible.contains(identity),
            silent_ms: now.saturating_sub(node.at),
        });
        Ok(wire::KdRefusedNodes {
            nodes: nodes.filter(|node| node.admissible || node.silent_ms < LISTED_MS).collect(),
        })
    }

    pub(super) fn admit(&self, call: &Request, caller: &Caller, identity: Identity) -> Result<()> {
        let done = self.operate(|namenode| namenode.admit(caller, identity));
        if done.is_ok() {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).forget(identity);
        }
        self.audited(call, caller, Asked::new("admit", &format!("datanode {:016x}", identity.0)), done)
    }

    /// After a start, a change waits for the first heartbeat of a datanode that had joined before: it may
    /// know of records that the log has lost. The wait ends after [`PATIENCE`], and the core then refuses.
    pub(super) fn wait_for_datanodes(&self) {
        if !self.read().waits_for_datanodes() {
            return;
        }
        let waiting = &self.waiting;
        if waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING {
            let until = Instant::now() + PATIENCE;
            while self.read().waits_for_datanodes() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_once_for_each_reason_and_few_are_remembered() {
        let mut refused = Refused::default();
        let node = |error, at| RefusedNode {
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            name: String::new(),
            rack: String::new(),
            error,
            why: String::new(),
            at,
        };
        assert!(refused.note(Identity(1), node(Error::ForeignData, 1)));
        assert!(!refused.note(Identity(1), node(Error::ForeignData, 2)));
        assert!(refused.note(Identity(1), node(Error::LogBehind, 3)));
        refused.forget(Identity(1));
        assert!(refused.note(Identity(1), node(Error::LogBehind, 4)));
        for identity in 2..=2_000 {
            assert!(refused.note(Identity(identity), node(Error::ForeignData, 5)));
        }
        assert_eq!(refused.nodes.len(), MAX_REFUSED);
        assert!(!refused.nodes.contains_key(&Identity(1)), "the oldest is forgotten first");
    }
}
