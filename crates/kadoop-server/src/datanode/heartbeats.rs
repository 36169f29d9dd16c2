//! Heartbeats to the namenode: one at a time, each second, and at once if there is news.

use super::{DatanodeOptions, shared::Shared};
use std::{
    net::{SocketAddr, ToSocketAddrs},
    time::{Duration, Instant},
};
use strait_flexrpc::{self as flexrpc, ClusterKey, Transport};
use strait_kadoop_core::{
    Incarnation,
    error::{Error, Result},
    messages::{Heartbeat, HeartbeatAnswer, Order, Space},
};
use strait_kadoop_wire::{
    Host, Key, PEER_SILENCE,
    convert::{
        address_from_wire, beat_to_wire, heartbeat_answer_from_wire, host_from_wire, point_from_wire,
        point_to_wire,
    },
    failure::Lost,
    wire::{self, KadoopClusterV1Client, KadoopNamenodeV1Client},
};

/// Wait before a heartbeat, which gathers more news into it. So a namenode with many datanodes gets fewer
/// heartbeats.
const GATHER: Duration = Duration::from_millis(2);
/// Least time between two heartbeats. When many small files are sealed each second, each heartbeat then
/// reports many of them instead of few.
const APART: Duration = Duration::from_millis(10);
/// Pause after a failed heartbeat.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause after a failed heartbeat in the first [`SHORT_FOR`] after an answer: the namenode may be
/// restarting, and readers wait until it has its datanodes' heartbeats.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
const SHORT_FOR: Duration = Duration::from_secs(10);
/// Timeout of a heartbeat: longer than a slow sync of the namenode's log, and short enough to reconnect soon
/// after a connection broke without notice.
const PATIENCE: Duration = Duration::from_secs(3);
/// Additional timeout for each replica in a full report: a report of a million replicas takes seconds.
const PATIENCE_A_REPLICA: Duration = Duration::from_micros(30);
/// Most changes that the interface allows in one heartbeat. If there are more, the datanode sends a full
/// report instead.
const MAX_CHANGES: usize = wire::KD_CHANGES as usize;

/// The connection to the namenode, and the description of this datanode in its heartbeats.
pub(super) struct Namenode {
    name: String,
    as_client: flexrpc::Client,
    as_node: flexrpc::Client,
    call: Option<SocketAddr>,
    address: SocketAddr,
    host: String,
    rack: String,
    heartbeat: Duration,
    key: Key,
}

/// A client for calls to the namenode.
fn rpc(key: Option<ClusterKey>) -> flexrpc::Client {
    flexrpc::Client::new(flexrpc::ClientOptions {
        key,
        timeout: Some(PATIENCE),
        connect_timeout: PATIENCE,
        peer_silence: Some(PEER_SILENCE),
        ..Default::default()
    })
}

impl Namenode {
    pub(super) fn new(options: &DatanodeOptions, address: SocketAddr) -> Self {
        Self {
            name: options.namenode.clone(),
            as_client: rpc(options.key.for_clients().to_namenode()),
            as_node: rpc(options.key.between_nodes()),
            call: None,
            address,
            host: options.host.clone(),
            rack: options.rack.clone(),
            heartbeat: Duration::from_millis(options.config.heartbeat_ms),
            key: options.key.clone(),
        }
    }

    /// A separate client for watches, which take long.
    pub(super) fn for_watches(&self) -> flexrpc::Client {
        rpc(self.key.between_nodes())
    }

    /// The namenode's address for datanodes; asks for it at its address for clients if it is unknown.
    fn place(&mut self) -> Result<SocketAddr, Lost> {
        if let Some(address) = self.call {
            return Ok(address);
        }
        let unresolved = || Lost::Unknown(format!("the namenode's address {} can't be resolved", self.name));
        let at = self.name.to_socket_addrs().map_err(|_| unresolved())?.next().ok_or_else(unresolved)?;
        let handle = self.as_client.handle(at, Transport::Tcp)?;
        let told = KadoopNamenodeV1Client::new(handle).nn_datanodes()?;
        let mut address = address_from_wire(&told).map_err(|error| Lost::Unknown(error.to_string()))?;
        if address.ip().is_unspecified() {
            address.set_ip(at.ip());
        }
        self.call = Some(address);
        Ok(address)
    }

    fn send(&mut self, shared: &Shared, beat: &Heartbeat) -> Result<wire::KdBeatAnswer<'static>, Lost> {
        let cluster = shared.directories().cluster();
        let around = wire::KdHeartbeat {
            features: 0,
            cluster,
            identity: 0,
            incarnation: 0,
            session: 0,
            number: 0,
            address: self.address.to_string().into(),
            name: self.host.clone().into(),
            rack: self.rack.clone().into(),
            capacity_bytes: 0,
            used_bytes: 0,
            members: shared.members_edition(),
            full: None,
            changes: Vec::new(),
        };
        let told = wire::KdBeat {
            beat: beat_to_wire(beat, around),
            seen: point_to_wire(beat.seen),
            highest_chunk: beat.highest.0.0,
            highest_stamp: beat.highest.1.0,
        };
        let at = self.place()?;
        let answer = self.as_node.handle(at, Transport::Tcp).map_err(Lost::from).and_then(|handle| {
            let mut to = KadoopClusterV1Client::new(handle);
            let replicas = u32::try_from(told.beat.full.as_ref().map_or(0, |full| full.replicas.len()));
            to.options.timeout = Some(PATIENCE + PATIENCE_A_REPLICA * replicas.unwrap_or(u32::MAX));
            Ok(to.cl_beat(&told)?)
        });
        if !matches!(answer, Ok(_) | Err(Lost::Refused(_))) {
            // The namenode may have another address now: resolve and ask again.
            self.call = None;
        }
        answer
    }
}

/// Sends heartbeats until the datanode ends.
pub(super) fn run(shared: &Shared, mut namenode: Namenode) {
    let mut complaint = Complaint::default();
    let mut pause = Duration::ZERO;
    let mut registered: Option<Instant> = None;
    let mut last: Option<Instant> = None;
    let mut answered_at: Option<Instant> = None;
    while !shared.sleep(pause) {
        let apart = last.map_or(Duration::ZERO, |last| APART.saturating_sub(last.elapsed()));
        std::thread::sleep(GATHER.max(apart));
        last = Some(Instant::now());
        if shared.has_failed() {
            tracing::error!("this datanode has failed, and sends no more heartbeats");
            return;
        }
        let room = shared.space().share(shared.sharing);
        let used_bytes = room.capacity.saturating_sub(room.available);
        let space = Space { capacity_bytes: room.capacity, used_bytes };
        let beat = shared.change(|core| core.heartbeat(space));
        if beat.session == 0 {
            registered = Some(Instant::now());
        }
        let answer = if beat.changes.len() > MAX_CHANGES {
            Err(Error::Limit("changes in one heartbeat"))
        } else {
            let answer = namenode.send(shared, &beat);
            take(shared, &namenode.name, answer, &mut complaint)
        };
        pause = match &answer {
            // Begin a session at once, and send the full report at once after that. Pause before a repeated
            // registration.
            Err(Error::NotRegistered) => registered
                .map_or(Duration::ZERO, |at| PAUSE.min(namenode.heartbeat).saturating_sub(at.elapsed())),
            Ok(answer) if answer.report => Duration::ZERO,
            Ok(_) => namenode.heartbeat,
            Err(_) => pause_without(answered_at).min(namenode.heartbeat),
        };
        let answered = answer.is_ok();
        if let (Ok(answer), Some(at)) = (&answer, namenode.call) {
            answered_at = Some(Instant::now());
            shared.order_watch.note(at, answer.session);
        }
        let mut answer = answer;
        let orders = answer.as_mut().map_or_else(|_| Vec::new(), |answer| std::mem::take(&mut answer.orders));
        shared.change(|core| core.on_answer(&beat, answer));
        obey(shared, beat.incarnation, orders);
        // There is news from the time while the heartbeat was under way: send it at once.
        if answered && shared.read().has_news() {
            pause = Duration::ZERO;
        }
    }
}

/// The pause before the next attempt to reach a namenode whose latest answer came at `answered_at`.
fn pause_without(answered_at: Option<Instant>) -> Duration {
    match answered_at {
        Some(at) if at.elapsed() < SHORT_FOR => SHORT_PAUSE,
        _ => PAUSE,
    }
}

/// Obeys orders. Locks the core for each one separately, so that other threads get the lock in between, and
/// syncs large replicas outside the lock.
fn obey(shared: &Shared, incarnation: Incarnation, orders: Vec<Order>) {
    for order in orders {
        if let Order::Seal { chunk, stamp, length } = order {
            // Ignore a failure: a replica that can't be synced isn't sealed. The next round's fence reports
            // that.
            let _ = shared.noted(shared.sync_ahead(chunk));
            let _ = shared.noted(shared.seal(|core| match core.incarnation() == incarnation {
                true => core.begin_seal(chunk, stamp, length),
                false => Ok(None),
            }));
            continue;
        }
        shared.change(|core| {
            // If a directory was lost since, these orders are for an earlier incarnation: ignore them.
            if core.incarnation() == incarnation {
                core.obey(order);
            }
        });
    }
}

/// The latest logged reason why heartbeats fail. A reason is logged if it is of another kind than the
/// previous one.
#[derive(Default)]
struct Complaint(Option<Error>);

impl Complaint {
    fn is_news(&mut self, error: Error) -> bool {
        let kind = match error {
            // The datanode begins a new session by itself.
            Error::NotRegistered => return false,
            // For the operator, both mean that the namenode doesn't answer.
            Error::OutcomeUnknown => Error::Unavailable,
            other => other,
        };
        self.0.replace(kind) != Some(kind)
    }

    /// Records that the namenode has answered. True if the previous heartbeat failed with a logged reason.
    fn is_over(&mut self) -> bool {
        self.0.take().is_some()
    }
}

/// Handles a heartbeat's answer: logs a failure, and stores the cluster's number, the namenode's time and
/// the list of members. Returns the rest, which is for the core.
fn take(
    shared: &Shared,
    namenode: &str,
    answer: Result<wire::KdBeatAnswer<'static>, Lost>,
    complaint: &mut Complaint,
) -> Result<HeartbeatAnswer> {
    let wire::KdBeatAnswer { answer, log } = match answer {
        Ok(answer) => answer,
        Err(lost) => {
            let failure = lost.into_failure();
            if complaint.is_news(failure.error) {
                match failure.error {
                    Error::Busy => tracing::error!(
                        "the namenode refuses this datanode: shortly before, it received a heartbeat of the \
                         same datanode from another address. If another process serves as this datanode, \
                         end one; if its directories are a copy, give it empty ones"
                    ),
                    Error::Unauthenticated => tracing::error!(
                        namenode,
                        "the namenode rejects this datanode's key: start the datanode with the cluster's \
                         key, which the namenode has made (--key)"
                    ),
                    Error::Unavailable | Error::OutcomeUnknown => {
                        tracing::warn!(namenode, %failure, "the namenode can't be reached; retrying");
                    }
                    _ => tracing::warn!(namenode, %failure, "the namenode refuses this datanode; retrying"),
                }
            }
            return Err(match failure.error {
                Error::OutcomeUnknown => Error::Unavailable,
                error => error,
            });
        }
    };
    if complaint.is_over() {
        tracing::info!(namenode, "the namenode has accepted this datanode");
    }
    if let Err(error) = shared.join(answer.cluster) {
        tracing::error!(%error, "can't write the cluster's number to the data directories");
        return Err(Error::Disk);
    }
    shared.set_time(answer.now_ms);
    if let Some(members) = &answer.members {
        let hosts: Result<Vec<Host>> = members.hosts.iter().map(host_from_wire).collect();
        shared.set_members(members.edition, &hosts?);
    }
    Ok(HeartbeatAnswer { log: point_from_wire(&log), ..heartbeat_answer_from_wire(&answer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trouble_is_told_once_until_another_comes() {
        let mut complaint = Complaint::default();
        assert!(!complaint.is_over());
        assert!(complaint.is_news(Error::Unavailable));
        assert!(!complaint.is_news(Error::OutcomeUnknown), "it still can't be reached");
        assert!(!complaint.is_news(Error::NotRegistered));
        assert!(complaint.is_news(Error::ForeignData));
        assert!(!complaint.is_news(Error::ForeignData));
        assert!(complaint.is_news(Error::Unauthenticated));
        assert!(complaint.is_news(Error::Unavailable));
        assert!(complaint.is_over() && !complaint.is_over());
        assert!(complaint.is_news(Error::Unavailable));
    }
}
