//! Full reports that the namenode takes in parts, and what may happen between two of them.

use crate::{namespace::someone, told::Cluster};
use strait_kadoop_core::{
    ChunkId, Config, Error, Incarnation, NodeId, Stamp,
    faults::{Fault, Faults},
    messages::{
        Change, End, Heartbeat, HeartbeatAnswer, Mutation, NewChunk, Order, ReplicaReport, ReplicaState,
        Space,
    },
};

const LENGTH: u32 = 10;

/// A cluster that takes two replicas of a report at a time. Each of its datanodes holds all chunks of
/// a closed file.
fn cluster(nodes: usize, chunks: usize, fault: Option<Fault>) -> (Cluster, Vec<NewChunk>) {
    let faults = fault.map_or(Faults::NONE, Faults::planted);
    let config = Config { report_replicas: 2, faults, orphan_ms: 1_000, ..Config::default() };
    let mut cluster = Cluster::with(&vec![""; nodes], config);
    let written = cluster.write(nodes as u16, &vec![LENGTH; chunks]);
    (cluster, written)
}

/// The next heartbeat of a datanode, with all its replicas.
fn full(cluster: &mut Cluster, at: usize) -> Heartbeat {
    let node = &mut cluster.nodes[at];
    node.number += 1;
    Heartbeat {
        identity: node.identity,
        incarnation: node.incarnation,
        session: node.session,
        number: node.number,
        space: Space::default(),
        seen: Default::default(),
        highest: Default::default(),
        full: Some(node.replicas.values().copied().collect()),
        changes: Vec::new(),
    }
}

fn take(cluster: &mut Cluster, beat: &Heartbeat) -> Result<Option<HeartbeatAnswer>, Error> {
    cluster.namenode.take_heartbeat(beat, "", cluster.now)
}

/// Takes this many parts, none of which is the last.
fn take_some(cluster: &mut Cluster, beat: &Heartbeat, parts: usize) {
    for _ in 0..parts {
        assert!(matches!(take(cluster, beat), Ok(None)));
    }
}

fn take_rest(cluster: &mut Cluster, beat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
    loop {
        if let Some(answer) = take(cluster, beat)? {
            return Ok(answer);
        }
    }
}

/// Begins another session of a datanode, and doesn't report.
fn register(cluster: &mut Cluster, at: usize) {
    cluster.nodes[at].session = 0;
    cluster.nodes[at].number = 0;
    let answer = cluster.send(at, None, Vec::new()).unwrap();
    assert!(answer.report);
}

/// The datanodes that the namenode names to readers, by chunk.
fn located(cluster: &Cluster) -> Vec<Vec<NodeId>> {
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, u64::MAX).unwrap();
    located.chunks.into_iter().map(|chunk| chunk.nodes).collect()
}

/// Number of chunks that readers find.
fn found(cluster: &Cluster) -> usize {
    located(cluster).iter().filter(|nodes| !nodes.is_empty()).count()
}

fn remove(cluster: &mut Cluster) {
    cluster.ask(Mutation::Delete { path: "/f".into(), recursive: false }).unwrap();
}

#[test]
fn a_report_is_checked_and_then_taken_in_bounded_parts() {
    let (mut cluster, _) = cluster(1, 7, None);
    let beat = full(&mut cluster, 0);
    // The fourth of four checks takes the first two of seven.
    let parts = std::iter::from_fn(|| take(&mut cluster, &beat).unwrap().is_none().then_some(())).count();
    assert_eq!(parts, 3 + 3);
    // Lost replicas count as much as others.
    cluster.nodes[0].replicas.clear();
    let beat = full(&mut cluster, 0);
    let mut found_after = Vec::new();
    while take(&mut cluster, &beat).unwrap().is_none() {
        found_after.push(found(&cluster));
    }
    assert_eq!(found_after, [5, 3, 1]);
    assert_eq!(found(&cluster), 0);
}

#[test]
fn replicas_count_until_a_part_lacks_them_and_in_a_new_session_once_a_part_has_them() {
    let lost = |fault| {
        let (mut cluster, written) = cluster(1, 6, fault);
        cluster.nodes[0].replicas.remove(&written[3].chunk);
        let beat = full(&mut cluster, 0);
        take_some(&mut cluster, &beat, 3);
        assert_eq!(found(&cluster), 6, "not yet");
        take_rest(&mut cluster, &beat).unwrap();
        (0..6).filter(|at| located(&cluster)[*at].is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(lost(None), [3]);
    assert_eq!(lost(Some(Fault::ReportAdded)), [0; 0], "noticed");

    let new = |fault| {
        let (mut cluster, _) = cluster(1, 6, fault);
        register(&mut cluster, 0);
        let beat = full(&mut cluster, 0);
        let mut counts = vec![found(&cluster)];
        while take(&mut cluster, &beat).unwrap().is_none() {
            counts.push(found(&cluster));
        }
        counts
    };
    assert_eq!(new(None), [0, 0, 0, 2, 4, 6]);
    assert_eq!(new(Some(Fault::UnreportedCounted))[0], 6, "noticed");
}

#[test]
fn the_rest_of_a_report_is_refused_once_another_session_has_begun() {
    let run = |fault| {
        let (mut cluster, _) = cluster(1, 6, fault);
        let beat = full(&mut cluster, 0);
        take_some(&mut cluster, &beat, 4);
        // It has lost its replicas, and begins anew.
        cluster.nodes[0].replicas.clear();
        cluster.nodes[0].incarnation = Incarnation(77);
        register(&mut cluster, 0);
        let rest = take_rest(&mut cluster, &beat).map(drop);
        (rest, found(&cluster))
    };
    assert_eq!(run(None), (Err(Error::NotRegistered), 0));
    assert_eq!(run(Some(Fault::FormerReportContinued)), (Ok(()), 6), "noticed");
}

#[test]
fn a_repeated_heartbeat_goes_on_with_the_report_and_another_ends_the_session() {
    let (mut cluster, _) = cluster(1, 6, None);
    let beat = full(&mut cluster, 0);
    take_some(&mut cluster, &beat, 3);
    let repeated = beat.clone();
    assert!(take_rest(&mut cluster, &repeated).is_ok());
    assert!(take_rest(&mut cluster, &beat).is_ok(), "it is over");
    let overtaken = full(&mut cluster, 0);
    take_some(&mut cluster, &overtaken, 3);
    // The datanode calls again, so it has given up.
    let next = full(&mut cluster, 0);
    assert_eq!(take(&mut cluster, &next).map(drop), Err(Error::NotRegistered));
    register(&mut cluster, 0);
    let beat = full(&mut cluster, 0);
    assert!(!take_rest(&mut cluster, &beat).unwrap().report);
    assert_eq!(found(&cluster), 6);
}

#[test]
fn replicas_of_a_file_removed_between_two_parts_are_deleted_and_dont_count() {
    let (mut cluster, written) = cluster(1, 6, None);
    let beat = full(&mut cluster, 0);
    take_some(&mut cluster, &beat, 4);
    remove(&mut cluster);
    let answer = take_rest(&mut cluster, &beat).unwrap();
    let deleted: Vec<ChunkId> = answer
        .orders
        .iter()
        .filter_map(|order| match order {
            Order::Delete { chunk, .. } => Some(*chunk),
            _ => None,
        })
        .collect();
    assert_eq!(deleted, written.iter().map(|new| new.chunk).collect::<Vec<_>>());
    cluster.pass(3_000, &[]);
    assert!(cluster.nodes[0].replicas.is_empty());
}

#[test]
fn a_foreign_replica_in_the_last_part_refuses_all_before_one_counts() {
    let run = |fault| {
        let (mut cluster, _) = cluster(1, 6, fault);
        register(&mut cluster, 0);
        let mut beat = full(&mut cluster, 0);
        let foreign = ReplicaReport {
            chunk: ChunkId(1 << 50),
            stamp: Stamp(1 << 51),
            length: LENGTH,
            state: ReplicaState::Sealed,
        };
        beat.full.as_mut().unwrap().push(foreign);
        let mut most = 0;
        let taken = loop {
            match take(&mut cluster, &beat) {
                Ok(None) => most = most.max(found(&cluster)),
                other => break other.map(drop),
            }
        };
        assert_eq!((taken, found(&cluster)), (Err(Error::ForeignData), 0));
        // No number up to the highest foreign one is given after an operator has admitted it.
        cluster.namenode.admit(&someone("kadoop"), beat.identity).unwrap();
        assert!(cluster.namenode.state().next.chunk > foreign.chunk);
        most
    };
    assert_eq!(run(None), 0);
    assert!(run(Some(Fault::ReportUnchecked)) > 0, "noticed");
}

#[test]
fn a_replica_that_is_told_damaged_counts_in_no_part() {
    let run = |fault| {
        let (mut cluster, written) = cluster(1, 4, fault);
        let damaged = Change::Corrupt { chunk: written[0].chunk, stamp: written[0].stamp };
        cluster.send(0, None, vec![damaged]).unwrap();
        let mut beat = full(&mut cluster, 0);
        beat.changes.push(damaged);
        let mut counted = false;
        while take(&mut cluster, &beat).unwrap().is_none() {
            counted |= !located(&cluster)[0].is_empty();
        }
        assert!(located(&cluster)[0].is_empty());
        counted
    };
    assert!(!run(None));
    assert!(run(Some(Fault::DamageToldLate)), "noticed");
}

#[test]
fn a_report_doesnt_overrule_a_writers_later_word() {
    let run = |fault| {
        let (mut cluster, _) = cluster(1, 6, fault);
        cluster.ask(Mutation::Rename { from: "/f".into(), to: "/before".into(), replace: false }).unwrap();
        let file = cluster.create(1);
        let new = cluster.add(file, Vec::new());
        cluster.hold(&new, 0, LENGTH, ReplicaState::Open);
        let beat = full(&mut cluster, 0);
        take_some(&mut cluster, &beat, 4);
        cluster.hold(&new, 0, LENGTH, ReplicaState::Sealed);
        let ends = vec![End { chunk: new.chunk, length: LENGTH, durable: vec![new.pipeline[0].node] }];
        cluster.ask(Mutation::Complete { file, ends }).unwrap();
        assert_eq!(found(&cluster), 1);
        take_rest(&mut cluster, &beat).unwrap();
        found(&cluster)
    };
    assert_eq!(run(None), 1);
    assert_eq!(run(Some(Fault::WrittenForgotten)), 0, "noticed");
}

#[test]
fn a_writers_word_about_a_former_run_doesnt_overrule_a_report() {
    let run = |fault| {
        let (mut cluster, _) = cluster(1, 6, fault);
        cluster.ask(Mutation::Rename { from: "/f".into(), to: "/before".into(), replace: false }).unwrap();
        let file = cluster.create(1);
        let new = cluster.add(file, Vec::new());
        // It seals its replica, starts again and reports all before the writer tells of it.
        cluster.hold(&new, 0, LENGTH, ReplicaState::Sealed);
        cluster.nodes[0].incarnation = Incarnation(77);
        register(&mut cluster, 0);
        let beat = full(&mut cluster, 0);
        take_some(&mut cluster, &beat, 4);
        let ends = vec![End { chunk: new.chunk, length: LENGTH, durable: vec![new.pipeline[0].node] }];
        cluster.ask(Mutation::Complete { file, ends }).unwrap();
        take_rest(&mut cluster, &beat).unwrap();
        found(&cluster)
    };
    assert_eq!(run(None), 1);
    assert_eq!(run(Some(Fault::FormerRunOverrules)), 0, "noticed");
}

#[test]
fn a_replica_sealed_before_the_order_to_delete_it_is_sent_stays() {
    let (mut cluster, _) = cluster(3, 1, None);
    cluster.ask(Mutation::Rename { from: "/f".into(), to: "/before".into(), replace: false }).unwrap();
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    // The third holds a copy of which a part is missing: two are enough, so it is to be deleted.
    let third = (0..3).find(|at| new.pipeline.iter().all(|member| member.node != cluster.nodes[*at].id));
    let third = third.unwrap();
    let (chunk, stamp) = (new.chunk, new.stamp);
    let replica = |length, state| ReplicaReport { chunk, stamp, length, state };
    (0..2).for_each(|at| cluster.hold(&new, at, LENGTH, ReplicaState::Sealed));
    let durable = new.pipeline.iter().map(|member| member.node).collect();
    cluster.ask(Mutation::Complete { file, ends: vec![End { chunk, length: LENGTH, durable }] }).unwrap();
    cluster.namenode.tick(cluster.now);
    assert_eq!(found(&cluster), 1);
    // The answer would hold the order.
    let short = Change::Has(replica(LENGTH - 3, ReplicaState::Open));
    let whole = Change::Has(replica(LENGTH, ReplicaState::Sealed));
    let answer = cluster.send(third, None, vec![short, whole]).unwrap();
    assert_eq!(answer.orders, []);
    assert_eq!(located(&cluster)[0].len(), 3);
}

#[test]
fn a_datanode_that_dies_amid_its_report_doesnt_count_and_comes_back_with_it() {
    let (mut cluster, written) = cluster(2, 6, None);
    let beat = full(&mut cluster, 0);
    take_some(&mut cluster, &beat, 4);
    let node = cluster.nodes[0].id;
    cluster.pass(12_000, &[0]);
    assert!(located(&cluster).iter().all(|nodes| !nodes.contains(&node) && nodes.len() == 1));
    take_rest(&mut cluster, &beat).unwrap();
    cluster.pass(1_000, &[]);
    assert!(located(&cluster).iter().all(|nodes| nodes.len() == 2));
    assert_eq!(cluster.holders(written[0].chunk), [0, 1]);
}

#[test]
fn a_report_in_another_order_ends_the_same() {
    let (mut cluster, written) = cluster(1, 6, None);
    cluster.nodes[0].replicas.remove(&written[2].chunk);
    let mut beat = full(&mut cluster, 0);
    beat.full.as_mut().unwrap().reverse();
    take_rest(&mut cluster, &beat).unwrap();
    assert_eq!(located(&cluster).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0, 1, 1, 1]);
}

#[test]
fn a_cancelled_decommission_is_over_only_after_a_report_that_was_asked_for() {
    let (mut cluster, _) = cluster(2, 4, None);
    let (node, operator) = (cluster.nodes[0].id, someone("kadoop"));
    let decommission = |cluster: &mut Cluster, cancelled| {
        cluster.namenode.decommission(&operator, node, cancelled).unwrap();
    };
    let beat = full(&mut cluster, 0);
    take_some(&mut cluster, &beat, 3);
    // Between two parts it is given up and wanted again.
    decommission(&mut cluster, false);
    decommission(&mut cluster, true);
    assert!(take_rest(&mut cluster, &beat).unwrap().report, "it was sent before");
    let answer = cluster.send(0, None, Vec::new()).unwrap();
    assert!(answer.report);
    let beat = full(&mut cluster, 0);
    take_some(&mut cluster, &beat, 2);
    assert!(!take_rest(&mut cluster, &beat).unwrap().report);
}
