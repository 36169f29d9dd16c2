//! Replicas move from full datanodes to emptier ones.

use crate::{namespace::someone, told::Cluster};
use std::collections::BTreeSet;
use strait_kadoop_core::{ChunkId, Error, faults::Fault, namenode::Rebalancing};

const CAPACITY_BYTES: u64 = 1_000;

impl Cluster {
    /// A cluster with chunks of 10 bytes on the first datanodes, one per rack in `full`, followed
    /// by the datanodes of `empty`.
    fn uneven(
        full: &[&'static str],
        empty: &[&'static str],
        replication: u16,
        fault: Option<Fault>,
    ) -> (Self, Vec<ChunkId>) {
        let mut cluster = Self::on_racks(&[full, empty].concat(), fault);
        let newcomers: Vec<usize> = (full.len()..cluster.nodes.len()).collect();
        cluster.pass(15_000, &newcomers);
        let written = cluster.write(replication, &[10; 40]);
        for node in &mut cluster.nodes {
            node.capacity_bytes = CAPACITY_BYTES;
        }
        cluster.pass(15_000, &[]);
        (cluster, written.iter().map(|new| new.chunk).collect())
    }

    fn rebalance(&mut self, threshold_percent: u32) {
        self.namenode.rebalance(&someone("kadoop"), Some(threshold_percent)).unwrap();
    }

    fn rebalancing(&self) -> Rebalancing {
        self.namenode.rebalancing().unwrap()
    }

    fn used(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| node.replicas.len() * 10).collect()
    }
}

/// The least number of replicas of any chunk meanwhile, and the bytes used on each datanode at the
/// end.
fn even_out() -> (usize, Vec<usize>) {
    let (mut cluster, chunks) = Cluster::uneven(&["", ""], &["", ""], 2, None);
    assert_eq!(cluster.used(), [400, 400, 0, 0]);
    cluster.rebalance(5);
    let mut fewest = usize::MAX;
    for _ in 0..100 {
        cluster.pass(1_000, &[]);
        let replicas = chunks.iter().map(|chunk| cluster.holders(*chunk).len());
        fewest = fewest.min(replicas.min().unwrap());
    }
    assert!(!cluster.rebalancing().running);
    (fewest, cluster.used())
}

#[test]
fn it_ends_with_all_near_the_mean_and_no_chunk_ever_short_of_a_replica() {
    let (fewest, used) = even_out();
    assert_eq!(fewest, 2);
    assert!(used.iter().all(|used| (150..=250).contains(used)), "{used:?}");
    assert_eq!(used.iter().sum::<usize>(), 800);
}

#[test]
fn it_tells_how_far_it_is_and_stops_when_it_is_told_to() {
    let (mut cluster, _) = Cluster::uneven(&[""], &[""], 1, None);
    assert_eq!(cluster.namenode.rebalancing(), None);
    cluster.rebalance(1);
    cluster.pass(5_000, &[]);
    let told = cluster.rebalancing();
    assert!(told.running && told.moved_chunks > 0 && told.moved_bytes == told.moved_chunks * 10, "{told:?}");
    cluster.namenode.rebalance(&someone("kadoop"), None).unwrap();
    cluster.pass(5_000, &[]);
    let stopped = cluster.used();
    cluster.pass(20_000, &[]);
    assert!(!cluster.rebalancing().running);
    assert_eq!((cluster.used(), stopped.iter().sum::<usize>()), (stopped, 400));
}

#[test]
fn a_chunk_stays_on_as_many_racks_as_it_was() {
    let (mut cluster, chunks) = Cluster::uneven(&["a", "b"], &["a"], 2, None);
    cluster.rebalance(1);
    cluster.pass(100_000, &[]);
    for chunk in chunks {
        let racks: BTreeSet<&str> = cluster.holders(chunk).iter().map(|at| cluster.nodes[*at].rack).collect();
        assert_eq!(racks.len(), 2);
    }
    assert_eq!(cluster.used()[1], 400, "there is no other of its rack");
    assert!(!cluster.rebalancing().running && cluster.used()[2] > 100, "{:?}", cluster.used());
}

/// Bytes used on each datanode after a rebalance of 400 bytes in which all copies fail.
fn no_copy(fault: Option<Fault>) -> Vec<usize> {
    let (mut cluster, _) = Cluster::uneven(&[""], &[""], 1, fault);
    cluster.nodes[1].gives_up = true;
    cluster.rebalance(10);
    cluster.pass(600_000, &[]);
    assert!(!cluster.rebalancing().running);
    cluster.used()
}

#[test]
fn where_no_copy_succeeds_nothing_is_deleted_and_it_ends() {
    assert_eq!(no_copy(None), [400, 0]);
    assert!(no_copy(Some(Fault::MovedEarly))[0] < 400);
}

#[test]
fn a_datanode_that_is_to_go_takes_no_part() {
    let (mut cluster, _) = Cluster::uneven(&["", ""], &[""], 1, None);
    let going = cluster.nodes[2].id;
    cluster.namenode.decommission(&someone("kadoop"), going, false).unwrap();
    cluster.rebalance(1);
    cluster.pass(60_000, &[]);
    assert_eq!(cluster.used()[2], 0);
}

#[test]
fn the_superuser_alone_asks_for_it_and_within_reason() {
    let mut cluster = Cluster::new(1, None);
    let namenode = &mut cluster.namenode;
    assert_eq!(namenode.rebalance(&someone("ada"), Some(10)), Err(Error::PermissionDenied));
    for wrong in [0, 101] {
        assert!(matches!(namenode.rebalance(&someone("kadoop"), Some(wrong)), Err(Error::Invalid(_))));
    }
}
