//! Decommissioned datanodes.

use crate::{disk::SimDisk, namespace::someone, told::Cluster};
use strait_kadoop_core::{
    Config, Error, NodeId,
    faults::Fault,
    messages::{End, Mutation, ReplicaState},
    namenode::{Departure, Namenode, Standing, State, load, save},
};

impl Cluster {
    fn decommission(&mut self, at: usize, cancelled: bool) {
        let node = self.nodes[at].id;
        self.namenode.decommission(&someone("kadoop"), node, cancelled).unwrap();
    }

    fn standing(&self, at: usize) -> Standing {
        standing(&self.namenode, self.nodes[at].id)
    }
}

fn standing(namenode: &Namenode, node: NodeId) -> Standing {
    let mut departure = Departure::of(node);
    std::iter::repeat_with(|| departure.step(namenode)).flatten().next().unwrap()
}

#[test]
fn the_superuser_alone_takes_datanodes_out_of_service() {
    let mut cluster = Cluster::new(2, None);
    let node = cluster.nodes[0].id;
    let namenode = &mut cluster.namenode;
    assert_eq!(namenode.decommission(&someone("ada"), node, false), Err(Error::PermissionDenied));
    assert_eq!(namenode.decommission(&someone("kadoop"), NodeId(99), false), Err(Error::NotFound));
    assert_eq!(cluster.standing(0), Standing::InService);
}

/// Decommissions the datanodes of both replicas one after the other. Also returns the immediate
/// standing of the first.
fn leaving(fault: Option<Fault>) -> (Cluster, Standing) {
    let mut cluster = Cluster::new(4, fault);
    let new = &cluster.write(2, &[10])[0];
    let first = cluster.index(new.pipeline[0].node);
    cluster.decommission(first, false);
    let at_once = cluster.standing(first);
    cluster.pass(5_000, &[]);
    assert_eq!(cluster.standing(first), Standing::Decommissioned);
    (cluster, at_once)
}

#[test]
fn what_it_holds_is_copied_before_it_may_go() {
    let (cluster, at_once) = leaving(None);
    assert_eq!(at_once, Standing::Decommissioning { chunks: Some(1) });
    assert_eq!(cluster.sealed(), 3, "its own stays, to be read");
    let (careless, at_once) = leaving(Some(Fault::LeavingCounted));
    assert_eq!((at_once, careless.sealed()), (Standing::Decommissioned, 2));
}

#[test]
fn a_datanode_that_is_to_go_gets_no_chunks_and_no_copies() {
    let mut cluster = Cluster::new(3, None);
    cluster.decommission(0, false);
    let going = cluster.nodes[0].id;
    for new in cluster.write(3, &[10; 20]) {
        assert!(new.pipeline.iter().all(|member| member.node != going), "{new:?}");
    }
    cluster.pass(10_000, &[]);
    assert!(cluster.nodes[0].replicas.is_empty());
}

#[test]
fn where_nothing_is_left_to_copy_to_it_stays_and_keeps_all() {
    let mut cluster = Cluster::new(2, None);
    cluster.write(2, &[10, 20]);
    cluster.decommission(0, false);
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.standing(0), Standing::Decommissioning { chunks: Some(2) });
    assert_eq!(cluster.sealed(), 4);
}

#[test]
fn it_is_waited_for_until_its_open_chunks_have_their_ends() {
    let mut cluster = Cluster::new(2, None);
    let file = cluster.create(1);
    let new = cluster.add(file, Vec::new());
    let at = cluster.index(new.pipeline[0].node);
    cluster.decommission(at, false);
    cluster.pass(5_000, &[]);
    assert_eq!(cluster.standing(at), Standing::Decommissioning { chunks: Some(1) });
    cluster.hold(&new, 0, 10, ReplicaState::Sealed);
    let ends = vec![End { chunk: new.chunk, length: 10, durable: vec![new.pipeline[0].node] }];
    cluster.ask(Mutation::Complete { file, ends }).unwrap();
    assert_eq!(cluster.standing(at), Standing::Decommissioning { chunks: Some(1) });
    cluster.pass(5_000, &[]);
    assert_eq!(cluster.standing(at), Standing::Decommissioned);
    assert_eq!(cluster.holders(new.chunk).len(), 2);
}

#[test]
fn one_that_is_to_stay_after_all_leaves_nothing_superfluous() {
    let (mut cluster, _) = leaving(None);
    let at = (0..4).find(|at| cluster.standing(*at) == Standing::Decommissioned).unwrap();
    cluster.decommission(at, true);
    cluster.pass(5_000, &[]);
    assert_eq!((cluster.standing(at), cluster.sealed()), (Standing::InService, 2));
}

#[test]
fn nothing_is_deleted_for_one_that_was_thrown_away_before_it_was_to_stay() {
    assert_eq!(thrown_away(None), 2);
    assert_eq!(thrown_away(Some(Fault::ComebackBelieved)), 1);
}

/// Replicas left shortly after the loss, of two.
fn thrown_away(fault: Option<Fault>) -> usize {
    let (mut cluster, _) = leaving(fault);
    let at = (0..4).find(|at| cluster.standing(*at) == Standing::Decommissioned).unwrap();
    // The namenode hasn't missed it yet.
    cluster.nodes[at].replicas.clear();
    cluster.decommission(at, true);
    cluster.pass(3_000, &[at]);
    cluster.sealed()
}

#[test]
fn a_dead_datanodes_replicas_are_made_up_for_and_an_unknown_ones_arent_vouched_for() {
    let mut cluster = Cluster::new(3, None);
    let new = &cluster.write(2, &[10])[0];
    let at = cluster.index(new.pipeline[0].node);
    cluster.pass(60_000, &[at]);
    cluster.decommission(at, false);
    assert_eq!(cluster.standing(at), Standing::Decommissioned);
    let again = Namenode::new(Config::default(), cluster.namenode.state().clone(), 0, 2);
    assert_eq!(standing(&again, cluster.nodes[at].id), Standing::Decommissioning { chunks: None });
}

#[test]
fn a_restart_knows_who_is_to_go_from_the_log_and_from_a_checkpoint() {
    let mut cluster = Cluster::new(3, None);
    (0..2).for_each(|at| cluster.decommission(at, false));
    cluster.decommission(1, true);
    let config = Config::default();
    let mut replayed = State::new(&config);
    for transaction in &cluster.namenode.outbox {
        replayed.apply(transaction, &mut Vec::new()).unwrap();
    }
    assert_eq!(replayed.decommissioned, [cluster.nodes[0].id].into());
    let disk = SimDisk::default();
    save(&disk, 7, &config, &replayed).unwrap();
    assert_eq!(load(&disk, 7, &config).unwrap().state, replayed);
}
