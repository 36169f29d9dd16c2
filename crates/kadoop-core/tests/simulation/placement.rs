//! The placement of a chunk's replicas.

use crate::{namespace::someone, told};
use std::collections::{BTreeMap, BTreeSet};
use strait_kadoop_core::{
    ChunkId, ClientId, Config, FileId, Identity, Incarnation, NodeId,
    messages::{Answer, Attributes, End, Heartbeat, Mutation, NewChunk, RequestId, Space},
    namenode::{Namenode, State},
};

/// Datanodes that have sent one heartbeat, at time 0, with an empty report.
struct Cluster {
    namenode: Namenode,
    nodes: Vec<NodeId>,
    sessions: Vec<u64>,
    client: ClientId,
    number: u64,
}

impl Cluster {
    /// A cluster with a datanode for each of the racks.
    fn new(racks: &[&str]) -> Self {
        let config = Config::default();
        let mut namenode = Namenode::new(config.clone(), State::new(&config), 0, 1);
        let client = namenode.join_client(0);
        let (nodes, sessions) =
            (1..).zip(racks).map(|(number, rack)| join(&mut namenode, number, rack)).unzip();
        Self { namenode, nodes, sessions, client, number: 0 }
    }

    /// Gives these less room than a chunk takes; the others report no capacity.
    fn fill(&mut self, full: &[usize]) {
        for at in 0..self.nodes.len() {
            let space = match full.contains(&at) {
                true => Space { capacity_bytes: 1 << 40, used_bytes: (1 << 40) - (1 << 26) + 1 },
                false => Space::default(),
            };
            let (identity, incarnation) = (Identity(at as u64 + 1), Incarnation(at as u64 + 1));
            let (session, number) = (self.sessions[at], 3 + self.number);
            let (full, changes) = (None, Vec::new());
            let (seen, highest) = Default::default();
            let beat =
                Heartbeat { identity, incarnation, session, number, space, seen, highest, full, changes };
            self.namenode.heartbeat(&beat, "", 0).unwrap();
        }
    }

    fn ask(&mut self, mutation: &Mutation, near: &[NodeId], now: u64) -> Answer {
        self.number += 1;
        let request = RequestId { client: self.client, number: self.number, done_below: self.number };
        self.namenode.mutate(&someone("kadoop"), request, mutation, near, now, 0).unwrap()
    }

    fn create(&mut self, replication: u16) -> FileId {
        let (path, overwrite, mode, chunk_bytes) = (format!("/{}", self.number), false, 0o644, 1 << 26);
        match self.ask(
            &Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas: 0 },
            &[],
            0,
        ) {
            Answer::Opened { file, .. } => file,
            other => panic!("{other:?}"),
        }
    }

    /// A file's next chunk; the one before is abandoned.
    fn add(
        &mut self,
        file: FileId,
        before: Option<&NewChunk>,
        avoid: &[NodeId],
        near: &[NodeId],
    ) -> NewChunk {
        let end = |new: &NewChunk| End { chunk: new.chunk, length: 0, durable: Vec::new() };
        let ends = before.map(end).into_iter().collect();
        match self.ask(&Mutation::AddChunk { file, ends, next: true, avoid: avoid.to_vec() }, near, 0) {
            Answer::Chunk { next: Some(new), .. } => new,
            other => panic!("{other:?}"),
        }
    }

    /// Pipelines of many chunks, so that an invariable result isn't chance.
    fn pipelines(&mut self, replication: u16, avoid: &[NodeId], near: &[NodeId]) -> Vec<Vec<NodeId>> {
        let file = self.create(replication);
        let mut before = None;
        let mut next = || {
            let new = self.add(file, before.as_ref(), avoid, near);
            let pipeline = new.pipeline.iter().map(|member| member.node).collect();
            before = Some(new);
            pipeline
        };
        (0..50).map(|_| next()).collect()
    }
}

/// Has the datanode of that identity report its rack and no replicas. Returns its number and
/// session.
fn join(namenode: &mut Namenode, number: u64, rack: &str) -> (NodeId, u64) {
    let (identity, incarnation) = (Identity(number), Incarnation(number));
    let (space, changes) = (Space::default(), Vec::new());
    let (seen, highest) = Default::default();
    let hello =
        Heartbeat { identity, incarnation, session: 0, number: 1, space, seen, highest, full: None, changes };
    let taken = namenode.heartbeat(&hello, rack, 0).unwrap();
    let report = Heartbeat { session: taken.session, number: 2, full: Some(Vec::new()), ..hello };
    namenode.heartbeat(&report, rack, 0).unwrap();
    (taken.node, taken.session)
}

/// Once, it stayed on the rack of its first registration.
#[test]
fn a_datanode_that_was_moved_is_on_its_new_rack_and_keeps_its_number() {
    let mut cluster = Cluster::new(&["/a", "/a", "/a"]);
    let moved = cluster.nodes[2];
    let before = cluster.namenode.sequence();
    assert_eq!(join(&mut cluster.namenode, 3, "/a").0, moved);
    assert_eq!(cluster.namenode.sequence(), before, "nothing is logged where nothing has changed");
    assert_eq!(join(&mut cluster.namenode, 1, "/b").0, cluster.nodes[0]);
    assert_eq!(join(&mut cluster.namenode, 3, "/b").0, moved);
    assert!(!cluster.nodes.contains(&join(&mut cluster.namenode, 4, "/a").0), "a number is one datanode's");
    let near = [cluster.nodes[1]];
    for pipeline in cluster.pipelines(2, &[], &near) {
        assert!([cluster.nodes[0], moved].contains(&pipeline[1]), "{pipeline:?}");
    }
    let mut replayed = State::new(&Config::default());
    for transaction in &cluster.namenode.outbox {
        replayed.apply(transaction, &mut Vec::new()).unwrap();
    }
    assert_eq!(&replayed, cluster.namenode.state());
}

#[test]
fn the_first_replica_is_on_the_writers_own_host_and_the_second_on_another_rack() {
    const RACKS: [&str; 5] = ["a", "a", "b", "b", "c"];
    let mut cluster = Cluster::new(&RACKS);
    let racks: BTreeMap<NodeId, &str> = cluster.nodes.iter().copied().zip(RACKS).collect();
    for near in cluster.nodes.clone() {
        for pipeline in cluster.pipelines(3, &[], &[near]) {
            assert_eq!((pipeline[0], pipeline.len()), (near, 3));
            assert_ne!(racks[&pipeline[1]], racks[&near]);
        }
    }
}

#[test]
fn a_host_with_several_datanodes_uses_all_of_them() {
    let mut cluster = Cluster::new(&["a", "a", "a", "a"]);
    let near = [cluster.nodes[1], cluster.nodes[3]];
    let pipelines = cluster.pipelines(1, &[], &near);
    assert!(pipelines.iter().all(|pipeline| near.contains(&pipeline[0])));
    assert!(near.iter().all(|node| pipelines.contains(&vec![*node])));
}

#[test]
fn a_near_datanode_that_the_writer_lost_or_that_nobody_knows_isnt_waited_for() {
    let mut cluster = Cluster::new(&["a", "a", "b"]);
    let near = cluster.nodes[0];
    assert!(cluster.pipelines(2, &[near], &[near]).iter().all(|pipeline| !pipeline.contains(&near)));
    assert!(cluster.pipelines(2, &[], &[NodeId(77)]).iter().all(|pipeline| pipeline.len() == 2));
}

#[test]
fn a_writer_beside_no_datanode_has_its_first_replicas_anywhere() {
    let mut cluster = Cluster::new(&["a", "a", "b"]);
    let pipelines = cluster.pipelines(1, &[], &[]);
    assert!(cluster.nodes.iter().all(|node| pipelines.contains(&vec![*node])));
}

#[test]
fn a_datanode_without_room_for_a_chunk_is_passed_over_unless_there_is_no_other() {
    let mut cluster = Cluster::new(&["a", "a", "b"]);
    cluster.fill(&[0]);
    let full = cluster.nodes[0];
    assert!(
        cluster
            .pipelines(3, &[], &[full])
            .iter()
            .all(|pipeline| { pipeline.len() == 2 && !pipeline.contains(&full) })
    );
    cluster.fill(&[0, 1, 2]);
    // A chunk may stay shorter than its largest size.
    assert!(cluster.pipelines(3, &[], &[]).iter().all(|pipeline| pipeline.len() == 3));
}

/// Racks with a replica of the file, after its replication was changed to `replication`.
fn racks_after(cluster: &mut told::Cluster, chunk: ChunkId, replication: u16) -> BTreeSet<&'static str> {
    let attributes = Attributes { replication: Some(replication), ..Attributes::default() };
    cluster.ask(Mutation::SetAttributes { path: "/f".to_owned(), attributes }).unwrap();
    cluster.pass(5_000, &[]);
    let holders = cluster.holders(chunk);
    assert_eq!(holders.len(), usize::from(replication));
    holders.into_iter().map(|at| cluster.nodes[at].rack).collect()
}

#[test]
fn the_last_replica_on_a_rack_isnt_the_superfluous_one() {
    let mut cluster = told::Cluster::on_racks(&["a", "b", "b"], None);
    // The only datanode of its rack holds more than the others.
    cluster.pass(5_000, &[1, 2]);
    cluster.write(1, &[10; 3]);
    let (from, to) = ("/f".to_owned(), "/g".to_owned());
    cluster.ask(Mutation::Rename { from, to, replace: false }).unwrap();
    let chunk = cluster.write(3, &[10])[0].chunk;
    assert_eq!(racks_after(&mut cluster, chunk, 2).len(), 2);
}

#[test]
fn replicas_that_are_all_on_one_rack_get_another_elsewhere() {
    let racks = [["a"; 9].as_slice(), &["b"]].concat();
    let mut cluster = told::Cluster::on_racks(&racks, None);
    // Nothing is written to a datanode that was silent for this time.
    cluster.pass(5_000, &[9]);
    let chunk = cluster.write(2, &[10])[0].chunk;
    assert_eq!(racks_after(&mut cluster, chunk, 3).len(), 2);
}

/// Once, chance gave one datanode up to half of a file's other replicas, and if the writer's was lost,
/// all copies waited for that one's link.
#[test]
fn the_chunks_of_a_file_are_spread_evenly_over_the_datanodes_beside_its_writers() {
    let mut cluster = Cluster::new(&[""; 6]);
    let near = [cluster.nodes[0]];
    let mut held = BTreeMap::<NodeId, usize>::new();
    for pipeline in cluster.pipelines(2, &[], &near) {
        assert_eq!(pipeline[0], near[0]);
        *held.entry(pipeline[1]).or_default() += 1;
    }
    assert_eq!(held.len(), 5);
    assert!(held.values().all(|chunks| (7..=13).contains(chunks)), "{held:?}");
}
