//! Leases, recovery and replication, driven by reports of simulated datanodes.

use crate::{namespace::someone, told::Cluster};
use strait_kadoop_core::{
    ChunkId, Config, Error, FileId, Stamp,
    faults::Fault,
    messages::{Answer, Change, End, Mutation, NewChunk, Order, ReplicaReport, ReplicaState},
    namenode::State,
};

/// A writer dies with 10 bytes at both members. One of them restarts and has 4 left.
fn one_member_returned(fault: Option<Fault>) -> (u64, bool) {
    let mut cluster = Cluster::new(2, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 4, ReplicaState::Returned);
    cluster.pass(400_000, &[]);
    cluster.length()
}

#[test]
fn a_member_that_restarted_cant_shorten_a_file() {
    assert_eq!(one_member_returned(None), (10, false));
    assert_eq!(one_member_returned(Some(Fault::ReturnedBelieved)), (4, false));
}

#[test]
fn of_members_that_ran_unbroken_the_shortest_decides() {
    let mut cluster = Cluster::new(3, None);
    let file = cluster.create(3);
    let new = cluster.add(file, Vec::new());
    for (at, length) in [(0, 10), (1, 8), (2, 12)] {
        cluster.hold(&new, at, length, ReplicaState::Open);
    }
    cluster.pass(400_000, &[]);
    assert_eq!(cluster.length(), (8, false));
    assert_eq!(cluster.sealed(), 3, "each of them has as much");
}

/// A member restarts with nothing left. The other, unbroken, is away for a while.
fn absence(fault: Option<Fault>) -> (u64, bool) {
    let mut cluster = Cluster::new(2, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 0, ReplicaState::Returned);
    let (away, restarted) = (cluster.index(new.pipeline[0].node), cluster.index(new.pipeline[1].node));
    cluster.nodes[restarted].replicas.clear();
    cluster.pass(500_000, &[away]);
    cluster.pass(30_000, &[]);
    cluster.length()
}

#[test]
fn a_restarted_member_without_a_replica_proves_nothing() {
    assert_eq!(absence(None), (10, false));
    assert_eq!(absence(Some(Fault::AbsenceBelieved)), (0, false));
    assert_eq!(absence(Some(Fault::SilenceBelieved)), (0, false));
}

#[test]
fn an_unbroken_member_that_never_saw_the_chunk_proves_that_nothing_was_acknowledged() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.pass(400_000, &[]);
    assert_eq!(cluster.length(), (0, false));
    assert_eq!(cluster.sealed(), 0);
}

#[test]
fn what_an_earlier_round_sealed_from_returned_replicas_doesnt_outweigh_an_unbroken_member() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    // Sealed by a round whose end was never logged.
    let earlier = NewChunk { stamp: Stamp(new.stamp.0 + 1), ..new.clone() };
    cluster.ask(Mutation::RecoverLease { path: "/f".into() }).unwrap_err();
    cluster.hold(&earlier, 1, 4, ReplicaState::Sealed);
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.length(), (10, false));
}

#[test]
fn with_no_member_alive_recovery_waits() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 10, ReplicaState::Open);
    cluster.pass(900_000, &[0, 1]);
    assert_eq!(cluster.length(), (0, true));
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.length(), (10, false));
}

/// The machine of one member is gone for good, and the other member has restarted without a replica.
fn gone_for_good(decommissioned: bool, fault: Option<Fault>) -> (u64, bool) {
    let mut cluster = Cluster::new(2, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 0, ReplicaState::Returned);
    let (gone, restarted) = (cluster.index(new.pipeline[0].node), cluster.index(new.pipeline[1].node));
    cluster.nodes[restarted].replicas.clear();
    if decommissioned {
        cluster.namenode.decommission(&someone("kadoop"), new.pipeline[0].node, false).unwrap();
    }
    cluster.pass(500_000, &[gone]);
    cluster.length()
}

/// Else the file stays open for ever (seed 1049 of the cluster with lost datanodes).
#[test]
fn recovery_stops_waiting_for_a_member_that_an_operator_has_given_up() {
    assert_eq!(gone_for_good(false, None), (0, true));
    assert_eq!(gone_for_good(true, None), (0, false));
    assert_eq!(gone_for_good(true, Some(Fault::GoneAwaited)), (0, true));
}

/// The operator's call and another client's come in before the heartbeats that waited with them. Once, a
/// decommissioned datanode was then taken for gone (seed 80,668 of the cluster).
#[test]
fn a_namenode_that_was_stopped_gives_up_no_member_before_it_can_hear_it() {
    let mut cluster = Cluster::new(1, None);
    let file = cluster.create(1);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    let recover = Mutation::RecoverLease { path: "/f".into() };
    cluster.ask(recover.clone()).unwrap_err();
    cluster.now += 120_000;
    cluster.namenode.decommission(&someone("kadoop"), new.pipeline[0].node, false).unwrap();
    cluster.ask(recover.clone()).unwrap_err();
    cluster.namenode.tick(cluster.now);
    cluster.ask(recover).unwrap_err();
    cluster.pass(10_000, &[]);
    assert_eq!(cluster.length(), (10, false));
}

/// The member has bytes that the other has lost, and is alive. Once, the namenode stopped waiting
/// for it because a minute had passed since the recovery began (seeds 10,236,724 and 10,691,780 of
/// the cluster).
#[test]
fn a_member_that_is_heard_is_waited_for_though_its_answers_dont_come() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 4, ReplicaState::Returned);
    let late = cluster.index(new.pipeline[0].node);
    cluster.pass(1_000, &[]);
    for _ in 0..600 {
        cluster.pass(1_000, &[late]);
        // The namenode hears it, but its orders are lost.
        cluster.send(late, None, Vec::new()).unwrap();
    }
    assert!(cluster.length().1, "it is waited for");
    cluster.pass(30_000, &[]);
    assert_eq!(cluster.length(), (10, false));
}

/// The writer is silent while the namenode takes its lease, and then continues.
fn zombie(fault: Option<Fault>) -> Result<Answer, Error> {
    let mut cluster = Cluster::new(2, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.pass(305_000, &[0, 1]);
    let ends = vec![End { chunk: new.chunk, length: 3, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::Complete { file, ends })
}

#[test]
fn a_writer_whose_lease_was_taken_closes_nothing() {
    assert_eq!(zombie(None), Err(Error::LeaseLost));
    assert_eq!(zombie(Some(Fault::LeaseNotChecked)), Ok(Answer::Completed(true)));
}

/// A writer has 10 bytes acknowledged at both members, which restart with `left` bytes. Returns the
/// answers to the writer's request, each second, to end the chunk there.
fn both_restarted(left: [u32; 2], fault: Option<Fault>) -> (Cluster, FileId, Vec<Result<Answer, Error>>) {
    let mut cluster = Cluster::new(2, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    for (at, left) in left.into_iter().enumerate() {
        cluster.hold(&new, at, left, ReplicaState::Returned);
    }
    cluster.pass(1_000, &[]);
    let answers = (0..4).map(|_| {
        cluster.pass(1_000, &[]);
        cluster.ask(Mutation::EndChunk { file, chunk: new.chunk, length: 10 })
    });
    let answers = answers.collect();
    (cluster, file, answers)
}

#[test]
fn a_writer_whose_members_have_all_restarted_goes_on_behind_what_is_left_if_that_is_all() {
    for left in [[10, 10], [12, 10], [4, 11], [12, 0]] {
        let (mut cluster, file, answers) = both_restarted(left, None);
        assert_eq!(answers[0], Err(Error::Unavailable), "{left:?}");
        assert_eq!(answers[2..], [Ok(Answer::Done), Ok(Answer::Done)], "{left:?}");
        assert_eq!(cluster.length(), (10, true), "it has its lease");
        let next = cluster.add(file, Vec::new());
        cluster.hold(&next, 0, 5, ReplicaState::Sealed);
        let ends = vec![End { chunk: next.chunk, length: 5, durable: vec![next.pipeline[0].node] }];
        assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
        assert_eq!(cluster.length(), (15, false));
    }
}

#[test]
fn a_writer_is_told_if_nobody_has_all_that_was_acknowledged_and_recovery_keeps_what_there_is() {
    let (mut cluster, _, answers) = both_restarted([4, 7], None);
    assert_eq!(answers[2..], [Err(Error::BytesLost), Err(Error::BytesLost)]);
    assert_eq!(cluster.length(), (0, true), "nothing was decided");
    cluster.ask(Mutation::RecoverLease { path: "/f".into() }).unwrap_err();
    cluster.pass(10_000, &[]);
    assert_eq!(cluster.length(), (7, false));
    let (.., answers) = both_restarted([4, 7], Some(Fault::LossHidden));
    assert_eq!(answers[3], Ok(Answer::Done));
}

#[test]
fn a_silent_writers_file_is_closed_early_if_all_members_have_restarted() {
    for (states, closed) in [
        ([ReplicaState::Returned, ReplicaState::Returned], true),
        ([ReplicaState::Open, ReplicaState::Returned], false),
    ] {
        let mut cluster = Cluster::new(2, None);
        let file = cluster.create(2);
        let new = cluster.add(file, Vec::new());
        states.into_iter().enumerate().for_each(|(at, state)| cluster.hold(&new, at, 10, state));
        cluster.pass(2_000, &[]);
        assert!(cluster.length().1, "its writer may still be there");
        cluster.pass(3_000, &[]);
        assert_eq!(cluster.length(), if closed { (10, false) } else { (0, true) });
    }
}

#[test]
fn a_client_learns_which_of_its_pipelines_have_lost_members_while_others_have_the_bytes() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    let broken = |cluster: &Cluster| cluster.namenode.broken_pipelines(cluster.client);
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 10, ReplicaState::Open);
    cluster.pass(1_000, &[]);
    assert_eq!(broken(&cluster), []);
    cluster.hold(&new, 1, 10, ReplicaState::Returned);
    cluster.pass(1_000, &[]);
    assert_eq!(broken(&cluster), [file]);
    assert_eq!(cluster.namenode.broken_pipelines(strait_kadoop_core::ClientId(99)), []);
    let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::AddChunk { file, ends, next: false, avoid: Vec::new() }).unwrap();
    cluster.pass(1_000, &[]);
    assert_eq!(broken(&cluster), []);
}

#[test]
fn a_member_that_is_away_may_have_what_the_others_lost() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, 4, ReplicaState::Returned);
    let away = cluster.index(new.pipeline[0].node);
    let demand = Mutation::EndChunk { file, chunk: new.chunk, length: 10 };
    for _ in 0..100 {
        cluster.pass(1_000, &[away]);
        assert_eq!(cluster.ask(demand.clone()), Err(Error::Unavailable));
    }
    cluster.pass(10_000, &[]);
    assert_eq!(cluster.ask(demand), Ok(Answer::Done));
    assert_eq!(cluster.length(), (10, true));
}

#[test]
fn who_has_no_lease_or_moves_an_end_ends_no_chunk() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    let claim = End { chunk: new.chunk, length: 10, durable: Vec::new() };
    let next = cluster.add(file, vec![claim]);
    let mut demand = |chunk, length| cluster.ask(Mutation::EndChunk { file, chunk, length });
    for (chunk, length) in [(new.chunk, 9), (next.chunk, 0), (next.chunk, u32::MAX), (ChunkId(99), 1)] {
        assert!(matches!(demand(chunk, length), Err(Error::Invalid(_))), "{chunk:?}, {length}");
    }
    let chunk = new.chunk;
    cluster.ask(Mutation::RecoverLease { path: "/f".into() }).unwrap_err();
    assert_eq!(cluster.ask(Mutation::EndChunk { file, chunk, length: 10 }), Err(Error::LeaseLost));
}

/// A file of one chunk, closed by its writer and sealed at both members.
fn closed(nodes: usize, fault: Option<Fault>) -> (Cluster, NewChunk) {
    let mut cluster = Cluster::new(nodes, fault);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    for at in 0..2 {
        cluster.hold(&new, at, 10, ReplicaState::Sealed);
    }
    let durable = new.pipeline.iter().map(|member| member.node).collect();
    let ends = vec![End { chunk: new.chunk, length: 10, durable }];
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
    cluster.pass(3_000, &[]);
    (cluster, new)
}

#[test]
fn a_file_closes_only_when_its_last_chunk_is_durable() {
    for (fault, closes) in [(None, false), (Some(Fault::CompleteNotDurable), true)] {
        let mut cluster = Cluster::new(2, fault);
        let file = cluster.create(2);
        let new = cluster.add(file, Vec::new());
        let ends = vec![End { chunk: new.chunk, length: 10, durable: Vec::new() }];
        assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(closes)));
    }
}

/// A file with a minimum of two replicas, closed when one datanode has sealed its chunk.
fn closes_with_one_replica(fault: Option<Fault>) -> Result<Answer, Error> {
    let mut cluster = Cluster::new(2, fault);
    let (path, overwrite, mode, chunk_bytes) = ("/f".to_owned(), false, 0o644, 1 << 26);
    let create = Mutation::Create { path, overwrite, mode, replication: 2, chunk_bytes, min_replicas: 2 };
    let Ok(Answer::Opened { file, .. }) = cluster.ask(create) else { panic!("not opened") };
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::Complete { file, ends })
}

#[test]
fn a_file_closes_only_with_its_minimum_of_replicas() {
    assert_eq!(closes_with_one_replica(None), Ok(Answer::Completed(false)));
    assert_eq!(closes_with_one_replica(Some(Fault::DurableOnce)), Ok(Answer::Completed(true)));
}

#[test]
fn a_lost_datanodes_chunks_are_copied_and_removed_again_when_it_is_back() {
    let (mut cluster, new) = closed(3, None);
    assert_eq!(cluster.sealed(), 2);
    let lost = cluster.index(new.pipeline[0].node);
    cluster.pass(20_000, &[lost]);
    assert_eq!(cluster.sealed(), 3, "the lost one's, and two that count");
    cluster.pass(20_000, &[]);
    assert_eq!(cluster.sealed(), 2);
}

/// A third replica appears. The datanode with the order to delete one is slow.
fn slow_deletion(fault: Option<Fault>) -> usize {
    let (mut cluster, new) = closed(3, fault);
    let extra = cluster.nodes.iter().position(|node| !node.replicas.contains_key(&new.chunk)).unwrap();
    let replica = *cluster.nodes[cluster.index(new.pipeline[0].node)].replicas.get(&new.chunk).unwrap();
    cluster.nodes[extra].replicas.insert(new.chunk, replica);
    cluster.send(extra, None, vec![Change::Has(replica)]).unwrap();
    // The order is queued but not yet sent. The decisions of these ticks rely on each other.
    for _ in 0..5 {
        cluster.namenode.tick(cluster.now);
    }
    cluster.pass(2_000, &[]);
    cluster.sealed()
}

#[test]
fn deletions_under_way_count_as_done() {
    assert_eq!(slow_deletion(None), 2);
    assert!(slow_deletion(Some(Fault::DeletionNotCounted)) < 2);
}

/// The only remaining datanodes have a replica of another length.
fn only_stale_left(fault: Option<Fault>) -> usize {
    let (mut cluster, new) = closed(2, fault);
    for node in &mut cluster.nodes {
        node.replicas.get_mut(&new.chunk).unwrap().length = 7;
        node.session = 0;
    }
    cluster.pass(20_000, &[]);
    cluster.sealed()
}

#[test]
fn a_stale_replica_is_kept_while_no_good_one_is_known() {
    assert_eq!(only_stale_left(None), 2);
    assert_eq!(only_stale_left(Some(Fault::LastReplicaDeleted)), 0);
}

/// A recovery seals a chunk of 10 bytes at one member, which then loses its disk. The other member was
/// away, and has a replica under the writer's stamp. Returns whether that one counts in the end.
fn only_replaced_stamp_left(length: u32, state: ReplicaState) -> bool {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(2);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Open);
    cluster.hold(&new, 1, length, ReplicaState::Sealed);
    let [lost, left] = [0, 1].map(|at| cluster.index(new.pipeline[at].node));
    cluster.ask(Mutation::RecoverLease { path: "/f".into() }).unwrap_err();
    cluster.pass(60_000, &[left]);
    assert_eq!(cluster.length(), (10, false));
    cluster.nodes[lost].replicas.clear();
    cluster.nodes[lost].session = 0;
    cluster.hold(&new, 1, length, state);
    cluster.nodes[left].session = 0;
    cluster.pass(20_000, &[]);
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 10).unwrap();
    located.chunks[0].nodes.len() == 2
}

/// Seeds 13,311 and 23,868 of the cluster.
#[test]
fn a_replica_under_a_replaced_stamp_counts_again_if_it_is_the_last_with_all_bytes() {
    assert!(only_replaced_stamp_left(10, ReplicaState::Sealed));
    assert!(only_replaced_stamp_left(10, ReplicaState::Returned));
    assert!(only_replaced_stamp_left(12, ReplicaState::Returned));
    for state in [ReplicaState::Sealed, ReplicaState::Returned] {
        assert!(!only_replaced_stamp_left(9, state), "{state:?}");
    }
    assert!(!only_replaced_stamp_left(12, ReplicaState::Sealed), "its bytes never change");
}

#[test]
fn a_stale_replica_doesnt_count() {
    let copies = |fault| {
        let (mut cluster, new) = closed(3, fault);
        let stale = cluster.index(new.pipeline[0].node);
        cluster.nodes[stale].replicas.get_mut(&new.chunk).unwrap().length = 7;
        cluster.nodes[stale].session = 0;
        cluster.pass(20_000, &[]);
        let replicas = cluster.nodes.iter().filter_map(|node| node.replicas.get(&new.chunk));
        replicas.filter(|replica| replica.length == 10).count()
    };
    assert_eq!(copies(None), 2);
    assert_eq!(copies(Some(Fault::StaleReplicaCounted)), 1);
}

#[test]
fn an_append_copies_a_short_chunk_and_replaces_it_only_when_the_new_one_has_ended() {
    for (fault, length) in [(None, 10), (Some(Fault::ReplacedEarly), 0)] {
        let (mut cluster, old) = closed(2, fault);
        let Ok(Answer::Opened { file, length: 10, .. }) = cluster.ask(Mutation::Append { path: "/f".into() })
        else {
            panic!("the append isn't granted");
        };
        let new = cluster.add(file, Vec::new());
        assert_eq!(new.continues.as_ref().map(|source| (source.chunk, source.length)), Some((old.chunk, 10)));
        // The writer dies before any member has the copy.
        cluster.pass(400_000, &[]);
        let (found, open) = cluster.length();
        assert!(!open);
        let good = cluster.sealed() as u64 * 5;
        assert_eq!(found.min(good), length, "{fault:?}");
    }
}

#[test]
fn an_overtaken_heartbeat_is_ignored() {
    let (mut cluster, new) = closed(2, None);
    let at = cluster.index(new.pipeline[0].node);
    let replica = cluster.nodes[at].replicas[&new.chunk];
    cluster.send(at, None, vec![Change::Gone { chunk: new.chunk, stamp: new.stamp }]).unwrap();
    cluster.nodes[at].number -= 2;
    cluster.send(at, None, vec![Change::Has(replica)]).unwrap();
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 10).unwrap();
    assert_eq!(located.chunks[0].nodes, [new.pipeline[1].node]);
}

#[test]
fn a_datanode_with_what_was_never_handed_out_is_refused() {
    let mut cluster = Cluster::new(1, None);
    let report =
        ReplicaReport { chunk: ChunkId(99), stamp: Stamp(1), length: 1, state: ReplicaState::Sealed };
    assert_eq!(cluster.send(0, Some(vec![report]), Vec::new()).unwrap_err(), Error::ForeignData);
}

#[test]
fn a_truncated_file_shows_no_more_than_its_length() {
    for (fault, shown) in [(None, 4), (Some(Fault::TruncationForgotten), 10)] {
        let (mut cluster, _) = closed(2, fault);
        let truncate = Mutation::Truncate { path: "/f".into(), length: 4 };
        assert_eq!(cluster.ask(truncate), Ok(Answer::Changed(true)));
        let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 100).unwrap();
        assert_eq!((located.length, located.chunks[0].length), (4, shown));
    }
}

/// Two of three members restarted with fewer bytes than the third has sealed. Only one more
/// datanode exists.
#[test]
fn a_returned_replica_that_is_too_short_gives_way_to_a_copy() {
    let mut cluster = Cluster::new(3, None);
    let file = cluster.create(3);
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 10, ReplicaState::Sealed);
    cluster.hold(&new, 1, 4, ReplicaState::Returned);
    cluster.hold(&new, 2, 4, ReplicaState::Returned);
    let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.sealed(), 3);
}

/// An append ends on one of two datanodes, which is lost before there is a copy.
fn lost_after_append(fault: Option<Fault>) -> Vec<(u32, usize)> {
    let (mut cluster, _) = closed(2, fault);
    let Ok(Answer::Opened { file, .. }) = cluster.ask(Mutation::Append { path: "/f".into() }) else {
        panic!("the append isn't granted");
    };
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 15, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length: 15, durable: vec![new.pipeline[0].node] }];
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
    let lost = cluster.index(new.pipeline[0].node);
    cluster.nodes.iter_mut().for_each(|node| node.copies_fail = true);
    cluster.pass(30_000, &[lost]);
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 100).unwrap();
    located.chunks.iter().map(|chunk| (chunk.length, chunk.nodes.len())).collect()
}

#[test]
fn what_an_append_has_replaced_is_kept_until_the_new_chunk_has_its_replicas() {
    assert_eq!(lost_after_append(None), [(10, 1), (5, 0)]);
    assert_eq!(lost_after_append(Some(Fault::KeptDroppedEarly)), [(15, 0)]);
    // If nothing is lost, the old chunk is dropped.
    let (mut cluster, _) = closed(2, None);
    let Ok(Answer::Opened { file, .. }) = cluster.ask(Mutation::Append { path: "/f".into() }) else {
        panic!("the append isn't granted");
    };
    let new = cluster.add(file, Vec::new());
    cluster.hold(&new, 0, 15, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length: 15, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::Complete { file, ends }).unwrap();
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.sealed(), 2, "two of the new, none of the old");
}

/// Appends in a chunk on a single datanode, and then loses that one.
fn append_on(
    cluster: &mut Cluster,
    lost: Option<strait_kadoop_core::NodeId>,
    length: u32,
) -> strait_kadoop_core::NodeId {
    let Ok(Answer::Opened { file, .. }) = cluster.ask(Mutation::Append { path: "/f".into() }) else {
        panic!("the append isn't granted");
    };
    let new = cluster.add(file, Vec::new());
    let at = lost.map_or(0, |lost| new.pipeline.iter().position(|member| member.node == lost).unwrap());
    cluster.hold(&new, at, length, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length, durable: vec![new.pipeline[at].node] }];
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
    cluster.pass(2_000, &[]);
    new.pipeline[at].node
}

/// Found by seed 5,479,921. The file was truncated between two appends. After both new chunks were
/// lost, readers saw the truncated bytes again, from the first chunk.
#[test]
fn of_what_was_replaced_no_more_is_read_than_its_successor_had_when_it_was_replaced() {
    let (mut cluster, _) = closed(2, None);
    cluster.nodes.iter_mut().for_each(|node| node.copies_fail = true);
    let node = append_on(&mut cluster, None, 15);
    cluster.ask(Mutation::Truncate { path: "/f".into(), length: 3 }).unwrap();
    append_on(&mut cluster, Some(node), 12);
    let lost = cluster.index(node);
    cluster.pass(30_000, &[lost]);
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 100).unwrap();
    let parts: Vec<_> = located.chunks.iter().map(|chunk| (chunk.length, chunk.nodes.len())).collect();
    assert_eq!(parts, [(3, 1), (9, 0)]);
}

/// Found by seed 6,017,871. A datanode with the old chunk was away. The new chunk and the old one
/// then both had one known replica, on the same datanode.
#[test]
fn what_an_append_has_replaced_is_kept_while_one_crash_would_take_the_new_chunk() {
    let (mut cluster, _) = closed(2, None);
    cluster.nodes.iter_mut().for_each(|node| node.copies_fail = true);
    let node = append_on(&mut cluster, None, 15);
    let (holder, other) = (cluster.index(node), 1 - cluster.index(node));
    cluster.pass(30_000, &[other]);
    cluster.pass(3_000, &[]);
    cluster.pass(30_000, &[holder]);
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 100).unwrap();
    let parts: Vec<_> = located.chunks.iter().map(|chunk| (chunk.length, chunk.nodes.len())).collect();
    assert_eq!(parts, [(10, 1), (5, 0)]);
}

/// Writes and closes a file of this many chunks with two replicas each.
fn closed_with_chunks(cluster: &mut Cluster, chunks: usize) {
    let file = cluster.create(2);
    let mut ends = Vec::new();
    for _ in 0..chunks {
        let new = cluster.add(file, std::mem::take(&mut ends));
        (0..2).for_each(|at| cluster.hold(&new, at, 10, ReplicaState::Sealed));
        let durable = new.pipeline.iter().map(|member| member.node).collect();
        ends.push(End { chunk: new.chunk, length: 10, durable });
    }
    assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
}

/// Number of the file's chunks with this many counted replicas.
fn with_replicas(cluster: &Cluster, replicas: usize) -> usize {
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, u64::MAX).unwrap();
    located.chunks.iter().filter(|chunk| chunk.nodes.len() == replicas).count()
}

#[test]
fn a_copy_that_is_given_up_is_ordered_anew_long_before_its_time_is_over() {
    let mut cluster = Cluster::new(3, None);
    closed_with_chunks(&mut cluster, 1);
    let lost = cluster.nodes.iter().position(|node| !node.replicas.is_empty()).unwrap();
    cluster.nodes.iter_mut().for_each(|node| node.gives_up = true);
    cluster.pass(20_000, &[lost]);
    assert_eq!(with_replicas(&cluster, 1), 1);
    cluster.nodes.iter_mut().for_each(|node| node.gives_up = false);
    cluster.pass(3_000, &[lost]);
    assert_eq!(with_replicas(&cluster, 2), 1);
}

/// A member of a broken pipeline has a part of a chunk that it hasn't reported. It is the only
/// possible target for a copy of the chunk, or one of two.
#[test]
fn an_open_replica_in_the_way_of_a_copy_is_sealed_or_gone_round_at_once() {
    for length in [10, 4] {
        let mut cluster = Cluster::new(3, None);
        let file = cluster.create(2);
        let new = cluster.add(file, Vec::new());
        cluster.hold(&new, 0, 10, ReplicaState::Sealed);
        for at in 0..3 {
            let open = cluster.nodes[at].replicas.is_empty() && cluster.nodes[at].id != new.pipeline[0].node;
            if open && (length == 10 || cluster.nodes[at].id == new.pipeline[1].node) {
                let report =
                    ReplicaReport { chunk: new.chunk, stamp: new.stamp, length, state: ReplicaState::Open };
                cluster.nodes[at].replicas.insert(new.chunk, report);
            }
        }
        let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
        assert_eq!(cluster.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
        cluster.pass(5_000, &[]);
        assert_eq!(with_replicas(&cluster, 2), 1, "{length} bytes were in the way");
    }
}

#[test]
fn a_copy_that_ends_makes_room_for_the_next_at_once() {
    const CHUNKS: usize = 40;
    let mut cluster = Cluster::new(3, None);
    // The chunks are written to the first two datanodes; the third is the target of the copies.
    cluster.pass(4_000, &[2]);
    closed_with_chunks(&mut cluster, CHUNKS);
    cluster.pass(9_000, &[0]);
    assert_eq!(with_replicas(&cluster, 2), CHUNKS, "it isn't taken for dead yet");
    cluster.pass(3_000, &[0]);
    assert_eq!(with_replicas(&cluster, 2), CHUNKS);
    assert_eq!(cluster.nodes[2].replicas.len(), CHUNKS, "copies, all in a second or two");
}

/// Once, each datanode had two, and the next ones waited for its next heartbeat.
#[test]
fn a_datanode_is_ordered_more_copies_at_once_than_it_makes_at_a_time() {
    let mut cluster = Cluster::new(3, None);
    // The chunks are written to the first two datanodes; the third is the target of the copies.
    cluster.pass(4_000, &[2]);
    closed_with_chunks(&mut cluster, 20);
    let mut ordered = 0;
    for _ in 0..13 {
        cluster.pass(1_000, &[0, 2]);
        let answer = cluster.send(2, Some(Vec::new()), Vec::new()).unwrap();
        ordered += answer.orders.iter().filter(|order| matches!(order, Order::Copy(_))).count();
    }
    let Config { copies_per_node, copies_ordered, .. } = Config::default();
    assert_eq!(ordered, copies_ordered);
    assert!(ordered > copies_per_node);
}

/// A datanode dies. The others send heartbeats only if they are roused.
fn copied_without_heartbeats(fault: Option<Fault>) -> usize {
    const CHUNKS: usize = 40;
    let mut cluster = Cluster::new(4, fault);
    closed_with_chunks(&mut cluster, CHUNKS);
    cluster.pass(1_000, &[]);
    let died = cluster.now;
    cluster.pass(9_000, &[0]);
    let noticed = died + Config::default().dead_ms;
    assert_eq!(cluster.namenode.next_death(), Some(noticed));
    cluster.now = noticed;
    cluster.namenode.tick(noticed);
    loop {
        let roused = cluster.namenode.roused();
        if roused.is_empty() {
            return with_replicas(&cluster, 2);
        }
        roused.into_iter().for_each(|node| cluster.beat(cluster.index(node)));
    }
}

#[test]
fn copies_of_a_lost_datanodes_chunks_wait_for_no_heartbeat() {
    assert_eq!(copied_without_heartbeats(None), 40);
    assert!(copied_without_heartbeats(Some(Fault::NobodyRoused)) < 40);
}

#[test]
fn deletions_and_comparisons_rouse_nobody() {
    let mut cluster = Cluster::new(2, None);
    closed_with_chunks(&mut cluster, 1);
    cluster.pass(1_000, &[]);
    cluster.namenode.roused();
    let located = cluster.namenode.locate(&someone("kadoop"), "/f", 0, 1).unwrap();
    let chunk = &located.chunks[0];
    cluster.namenode.suspect(chunk.nodes[0], chunk.chunk, chunk.stamp);
    let delete = Mutation::Delete { path: "/f".to_owned(), recursive: false };
    assert_eq!(cluster.ask(delete), Ok(Answer::Changed(true)));
    assert!(cluster.namenode.roused().is_empty());
}

/// Once, such a transaction was logged and couldn't be replayed, so every start failed.
#[test]
fn an_end_that_is_told_twice_is_refused() {
    let mut cluster = Cluster::new(1, None);
    let file = cluster.create(1);
    let new = cluster.add(file, Vec::new());
    let end = |length| End { chunk: new.chunk, length, durable: vec![new.pipeline[0].node] };
    for ends in [[end(10), end(10)], [end(0), end(10)]] {
        let refused = cluster.ask(Mutation::Complete { file, ends: ends.to_vec() });
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }
    assert_eq!(cluster.ask(Mutation::Complete { file, ends: vec![end(10)] }), Ok(Answer::Completed(true)));
    let mut replayed = State::new(&Config::default());
    for transaction in &cluster.namenode.outbox {
        assert_eq!(replayed.apply(transaction, &mut Vec::new()), Ok(()));
    }
}

/// Members of a pipeline report a replica when it is sealed, so the namenode knows those of an open chunk by its
/// record alone.
#[test]
fn replicas_of_an_open_chunk_are_deleted_with_it() {
    for with_file in [false, true] {
        let mut cluster = Cluster::new(3, None);
        let file = cluster.create(3);
        let new = cluster.add(file, Vec::new());
        (0..3).for_each(|at| cluster.hold(&new, at, 10, ReplicaState::Open));
        cluster.pass(2_000, &[]);
        assert_eq!(cluster.holders(new.chunk).len(), 3);
        let ends = vec![End { chunk: new.chunk, length: 0, durable: Vec::new() }];
        let deletion = match with_file {
            false => Mutation::Complete { file, ends },
            true => Mutation::Delete { path: "/f".into(), recursive: false },
        };
        cluster.ask(deletion).unwrap();
        cluster.pass(2_000, &[]);
        assert_eq!(cluster.holders(new.chunk), []);
    }
}
