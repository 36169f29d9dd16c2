//! Converts heartbeats, reports and orders.

use super::{source_from_wire, source_to_wire};
use crate::wire::{self, KdChange, KdOrder, KdReplicaState};
use strait_kadoop_core::{
    ChunkId, Identity, Incarnation, NodeId, Stamp,
    messages::{Change, Heartbeat, HeartbeatAnswer, Order, Point, ReplicaReport, ReplicaState, Space},
};

/// A replica's report, to the wire.
pub fn replica_to_wire(report: &ReplicaReport) -> wire::KdReplica {
    let state = match report.state {
        ReplicaState::Open => KdReplicaState::KdReplicaOpen,
        ReplicaState::Returned => KdReplicaState::KdReplicaReturned,
        ReplicaState::Sealed => KdReplicaState::KdReplicaSealed,
    };
    wire::KdReplica { chunk: report.chunk.0, stamp: report.stamp.0, length: report.length, state }
}

/// A replica's report, from the wire.
pub fn replica_from_wire(report: &wire::KdReplica) -> ReplicaReport {
    let state = match report.state {
        KdReplicaState::KdReplicaOpen => ReplicaState::Open,
        KdReplicaState::KdReplicaReturned => ReplicaState::Returned,
        KdReplicaState::KdReplicaSealed => ReplicaState::Sealed,
    };
    ReplicaReport { chunk: ChunkId(report.chunk), stamp: Stamp(report.stamp), length: report.length, state }
}

fn version_to_wire(chunk: ChunkId, stamp: Stamp) -> wire::KdVersion {
    wire::KdVersion { chunk: chunk.0, stamp: stamp.0 }
}

fn version_from_wire(version: &wire::KdVersion) -> (ChunkId, Stamp) {
    (ChunkId(version.chunk), Stamp(version.stamp))
}

/// A heartbeat, to the wire: fills in the fields of `around`, which has those that the core doesn't know.
pub fn beat_to_wire<'a>(beat: &Heartbeat, mut around: wire::KdHeartbeat<'a>) -> wire::KdHeartbeat<'a> {
    let change = |change: &Change| match *change {
        Change::Has(report) => KdChange::KdHas(replica_to_wire(&report)),
        Change::Gone { chunk, stamp } => KdChange::KdGone(version_to_wire(chunk, stamp)),
        Change::Corrupt { chunk, stamp } => KdChange::KdCorrupt(version_to_wire(chunk, stamp)),
        Change::Fenced { chunk, stamp, replica } => KdChange::KdFenced(wire::KdFenced {
            of: version_to_wire(chunk, stamp),
            replica: replica.as_ref().map(replica_to_wire),
        }),
    };
    around.identity = beat.identity.0;
    around.incarnation = beat.incarnation.0;
    around.session = beat.session;
    around.number = beat.number;
    around.capacity_bytes = beat.space.capacity_bytes;
    around.used_bytes = beat.space.used_bytes;
    around.full = beat
        .full
        .as_ref()
        .map(|replicas| wire::KdReport { replicas: replicas.iter().map(replica_to_wire).collect() });
    around.changes = beat.changes.iter().map(change).collect();
    around
}

/// A heartbeat, from the wire.
pub fn beat_from_wire(beat: &wire::KdHeartbeat<'_>) -> Heartbeat {
    let change = |change: &KdChange| match change {
        KdChange::KdHas(report) => Change::Has(replica_from_wire(report)),
        KdChange::KdGone(of) => {
            let (chunk, stamp) = version_from_wire(of);
            Change::Gone { chunk, stamp }
        }
        KdChange::KdCorrupt(of) => {
            let (chunk, stamp) = version_from_wire(of);
            Change::Corrupt { chunk, stamp }
        }
        KdChange::KdFenced(fenced) => {
            let (chunk, stamp) = version_from_wire(&fenced.of);
            Change::Fenced { chunk, stamp, replica: fenced.replica.as_ref().map(replica_from_wire) }
        }
    };
    Heartbeat {
        identity: Identity(beat.identity),
        incarnation: Incarnation(beat.incarnation),
        session: beat.session,
        number: beat.number,
        space: Space { capacity_bytes: beat.capacity_bytes, used_bytes: beat.used_bytes },
        // `KdBeat` has these fields. An older datanode sends only a `KdHeartbeat`.
        seen: Point::default(),
        highest: Default::default(),
        full: beat.full.as_ref().map(|full| full.replicas.iter().map(replica_from_wire).collect()),
        changes: beat.changes.iter().map(change).collect(),
    }
}

/// The answer to a heartbeat, to the wire: fills in the fields of `around`, which has those that the core
/// doesn't know.
pub fn answer_to_wire<'a>(
    answer: &HeartbeatAnswer,
    mut around: wire::KdHeartbeatAnswer<'a>,
) -> wire::KdHeartbeatAnswer<'a> {
    let order = |order: &Order| match order {
        Order::Delete { chunk, stamp } => KdOrder::KdDrop(version_to_wire(*chunk, *stamp)),
        Order::Fence { chunk, stamp } => KdOrder::KdFence(version_to_wire(*chunk, *stamp)),
        Order::Seal { chunk, stamp, length } => {
            KdOrder::KdSeal(wire::KdSealOrder { of: version_to_wire(*chunk, *stamp), length: *length })
        }
        Order::Copy(source) => KdOrder::KdCopy(source_to_wire(source)),
        Order::Verify { chunk, stamp } => KdOrder::KdVerify(version_to_wire(*chunk, *stamp)),
    };
    around.session = answer.session;
    around.node = answer.node.0;
    around.orders = answer.orders.iter().map(order).collect();
    around.report = answer.report;
    around
}

/// The answer to a heartbeat, from the wire, without the log's point.
pub fn answer_from_wire(answer: &wire::KdHeartbeatAnswer<'_>) -> HeartbeatAnswer {
    let order = |order: &KdOrder| match order {
        KdOrder::KdDrop(of) => {
            let (chunk, stamp) = version_from_wire(of);
            Order::Delete { chunk, stamp }
        }
        KdOrder::KdFence(of) => {
            let (chunk, stamp) = version_from_wire(of);
            Order::Fence { chunk, stamp }
        }
        KdOrder::KdSeal(seal) => {
            let (chunk, stamp) = version_from_wire(&seal.of);
            Order::Seal { chunk, stamp, length: seal.length }
        }
        KdOrder::KdCopy(source) => Order::Copy(source_from_wire(source)),
        KdOrder::KdVerify(of) => {
            let (chunk, stamp) = version_from_wire(of);
            Order::Verify { chunk, stamp }
        }
    };
    HeartbeatAnswer {
        session: answer.session,
        node: NodeId(answer.node),
        orders: answer.orders.iter().map(order).collect(),
        report: answer.report,
        log: Point::default(),
    }
}

/// A point of the log, to the wire.
pub fn point_to_wire(point: Point) -> wire::KdPoint {
    wire::KdPoint { record: point.record, start: point.start }
}

/// A point of the log, from the wire.
pub fn point_from_wire(point: &wire::KdPoint) -> Point {
    Point { record: point.record, start: point.start }
}
