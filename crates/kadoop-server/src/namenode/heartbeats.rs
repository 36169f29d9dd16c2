//! The service for datanodes.

use super::{
    SWEEP_PAUSE, Shared,
    answers::{Answered, FEATURES},
    hosts::Known,
};
use std::{
    net::SocketAddr,
    sync::{Arc, PoisonError},
    thread,
    time::Duration,
};
use strait_flexrpc::Request;
use strait_kadoop_core::{
    ChunkId, Identity, NodeId, Stamp,
    error::{Error, Result},
    messages::{Change, Heartbeat, Point},
};
use strait_kadoop_wire::{
    Host,
    convert::{
        address_from_wire, beat_from_wire, heartbeat_answer_to_wire, host_to_wire, point_from_wire,
        point_to_wire, text,
    },
    failure::{refuse, refuse_for},
    random::random,
    wire,
};

/// Longest time before the namenode answers a datanode's watch.
const WATCH: Duration = Duration::from_secs(10);

/// The service for datanodes.
pub(super) struct Heartbeats(pub Arc<Shared>);

/// The datanode's service address. A datanode that listens on all addresses names an unspecified one; then
/// this is the address from which the datanode calls, with the named port.
pub(super) fn address_of(told: &wire::KdHeartbeat<'_>, peer: SocketAddr) -> Result<SocketAddr> {
    let mut address = address_from_wire(&told.address)?;
    if address.ip().is_unspecified() {
        address.set_ip(peer.ip());
    }
    Ok(address)
}

/// Logs that a heartbeat reports damaged replicas: one line, however many they are.
fn tell_damaged(beat: &Heartbeat, node: NodeId) {
    let damaged = beat.changes.iter().filter_map(|change| match change {
        Change::Corrupt { chunk, .. } => Some(chunk.0),
        _ => None,
    });
    let (replicas, chunk) = (damaged.clone().count(), damaged.clone().next());
    if let Some(chunk) = chunk {
        tracing::warn!(node = node.0, replicas, chunk, "a datanode has found damaged replicas");
    }
}

impl wire::KadoopClusterV1Service for Heartbeats {
    fn cl_null(&self, _: &Request) -> Answered<()> {
        Ok(())
    }

    fn cl_heartbeat(
        &self,
        call: &Request,
        beat: wire::KdHeartbeat<'static>,
    ) -> Answered<wire::KdHeartbeatAnswer<'_>> {
        // An older datanode doesn't report the point of the log, or the numbers, that it knows of.
        let (seen, highest) = (Point::default(), Default::default());
        Ok(self.0.answer(&beat, seen, highest, call.peer)?.answer)
    }

    fn cl_beat(&self, call: &Request, told: wire::KdBeat<'static>) -> Answered<wire::KdBeatAnswer<'_>> {
        let highest = (ChunkId(told.highest_chunk), Stamp(told.highest_stamp));
        self.0.answer(&told.beat, point_from_wire(&told.seen), highest, call.peer)
    }

    fn cl_watch(&self, _: &Request, identity: u64, session: u64) -> Answered<bool> {
        let node = self.0.read().in_session(Identity(identity), session);
        node.and_then(|node| self.0.watches.wait(node, WATCH)).map_err(refuse)
    }
}

impl Shared {
    fn answer(
        &self,
        told: &wire::KdHeartbeat<'_>,
        seen: Point,
        highest: (ChunkId, Stamp),
        peer: SocketAddr,
    ) -> Answered<wire::KdBeatAnswer<'static>> {
        self.heartbeat(told, seen, highest, peer).map_err(|error| {
            let why = self.refusal_of(told, error, seen);
            self.note_refused(told, peer, error, &why);
            refuse_for(error, why)
        })
    }

    /// Refuses a second process with the same identity, for example on a copy of a disk: each of the two
    /// would end the other's session again and again. So a datanode that restarts at another address
    /// is refused until its previous run is stale.
    fn demand_sole(&self, beat: &Heartbeat, address: SocketAddr) -> Result<()> {
        let Some((node, run)) = self.read().run_of(beat.identity) else { return Ok(()) };
        let now = self.clock.now();
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        let other = hosts.elsewhere(node, address, now, self.config.stale_ms);
        let other = other.filter(|_| run != beat.incarnation);
        let news = hosts.note_rival(node, other.is_some(), now);
        let Some(other) = other else { return Ok(()) };
        if news {
            tracing::error!(
                node = node.0, %other, %address,
                "two processes serve as one datanode: end one; if its directories are a copy, give it empty ones"
            );
        }
        Err(Error::Busy)
    }

    fn heartbeat(
        &self,
        told: &wire::KdHeartbeat<'_>,
        seen: Point,
        highest: (ChunkId, Stamp),
        peer: SocketAddr,
    ) -> Result<wire::KdBeatAnswer<'static>> {
        if told.cluster != 0 && told.cluster != self.cluster {
            return Err(Error::ForeignData);
        }
        let beat = Heartbeat { seen, highest, ..beat_from_wire(told) };
        let (address, name, rack) = (address_of(told, peer)?, text(&told.name)?, text(&told.rack)?);
        if beat.session == 0 {
            self.demand_sole(&beat, address)?;
        }
        let mut heard = 0;
        let answer = loop {
            let taken = self.change(|namenode, now| {
                heard = now;
                namenode.take_heartbeat(&beat, rack, now)
            })?;
            match taken {
                Some(answer) => break answer,
                // One part of a full report is applied. Let other calls get the lock before the next part.
                None => thread::sleep(SWEEP_PAUSE),
            }
        };
        if told.session != 0 {
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).forget(beat.identity);
        }
        tell_damaged(&beat, answer.node);
        let identity = beat.identity;
        let host =
            Host { node: answer.node, identity, address, name: name.to_owned(), rack: rack.to_owned() };
        let (capacity_bytes, used_bytes) = (told.capacity_bytes, told.used_bytes);
        let mut hosts = self.hosts.write().unwrap_or_else(PoisonError::into_inner);
        hosts.note(Known { host, calls_from: peer.ip(), capacity_bytes, used_bytes, heard }, || {
            random().unwrap_or(1)
        });
        let members = (told.members != hosts.edition).then(|| wire::KdMembers {
            edition: hosts.edition,
            hosts: hosts.iter().map(|known| host_to_wire(&known.host)).collect(),
        });
        drop(hosts);
        let around = wire::KdHeartbeatAnswer {
            features: FEATURES,
            cluster: self.cluster,
            session: 0,
            node: 0,
            orders: Vec::new(),
            report: false,
            now_ms: Self::token_time(),
            members,
        };
        let log = point_to_wire(answer.log);
        Ok(wire::KdBeatAnswer { answer: heartbeat_answer_to_wire(&answer, around), log })
    }
}
