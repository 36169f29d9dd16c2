//! A namenode with simulated datanodes: they report their replicas and obey orders.

use crate::namespace::someone;
use std::collections::BTreeMap;
use strait_kadoop_core::{
    ChunkId, ClientId, Config, Error, FileId, Identity, Incarnation, NodeId,
    faults::{Fault, Faults},
    messages::{
        Answer, Caller, Change, End, Heartbeat, HeartbeatAnswer, Mutation, NewChunk, Order, ReplicaReport,
        ReplicaState, RequestId, Space,
    },
    namenode::{Namenode, State},
};

/// A datanode, as the namenode sees it.
pub struct Node {
    pub identity: Identity,
    pub incarnation: Incarnation,
    pub session: u64,
    pub number: u64,
    pub id: NodeId,
    pub replicas: BTreeMap<ChunkId, ReplicaReport>,
    pub rack: &'static str,
    /// Capacity of its disks; 0 isn't reported.
    pub capacity_bytes: u64,
    /// Whether its copies fail.
    pub copies_fail: bool,
    /// Whether it reports a failed copy.
    pub gives_up: bool,
}

pub struct Cluster {
    pub namenode: Namenode,
    pub nodes: Vec<Node>,
    pub now: u64,
    pub client: ClientId,
    pub number: u64,
}

impl Cluster {
    pub fn new(nodes: usize, fault: Option<Fault>) -> Self {
        Self::on_racks(&vec![""; nodes], fault)
    }

    /// A cluster with a datanode for each of the racks.
    pub fn on_racks(racks: &[&'static str], fault: Option<Fault>) -> Self {
        let faults = fault.map_or(Faults::NONE, Faults::planted);
        Self::with(racks, Config { faults, orphan_ms: 1_000, ..Config::default() })
    }

    /// As [`Cluster::on_racks`], with these settings.
    pub fn with(racks: &[&'static str], config: Config) -> Self {
        let mut namenode = Namenode::new(config.clone(), State::new(&config), 0, 1);
        let client = namenode.join_client(0);
        let node = |(n, rack): (u64, &&'static str)| Node {
            identity: Identity(100 + n),
            incarnation: Incarnation(n),
            session: 0,
            number: 0,
            id: NodeId(0),
            replicas: BTreeMap::new(),
            rack,
            capacity_bytes: 0,
            copies_fail: false,
            gives_up: false,
        };
        let nodes = (1..).zip(racks).map(node).collect();
        let mut cluster = Self { namenode, nodes, now: 0, client, number: 0 };
        cluster.pass(15_000, &[]);
        cluster
    }

    pub fn ask(&mut self, mutation: Mutation) -> Result<Answer, Error> {
        self.ask_as(&someone("kadoop"), self.client, &mutation)
    }

    /// As [`Cluster::ask`], by a client and caller of one's own.
    pub fn ask_as(
        &mut self,
        caller: &Caller,
        client: ClientId,
        mutation: &Mutation,
    ) -> Result<Answer, Error> {
        self.number += 1;
        let request = RequestId { client, number: self.number, done_below: self.number };
        self.namenode.mutate(caller, request, mutation, &[], self.now, 0)
    }

    pub fn create(&mut self, replication: u16) -> FileId {
        let (path, overwrite, mode, chunk_bytes) = ("/f".to_owned(), false, 0o644, 1 << 26);
        match self.ask(Mutation::Create { path, overwrite, mode, replication, chunk_bytes, min_replicas: 0 })
        {
            Ok(Answer::Opened { file, .. }) => file,
            other => panic!("{other:?}"),
        }
    }

    pub fn add(&mut self, file: FileId, ends: Vec<End>) -> NewChunk {
        match self.ask(Mutation::AddChunk { file, ends, next: true, avoid: Vec::new() }) {
            Ok(Answer::Chunk { next: Some(new), .. }) => new,
            other => panic!("{other:?}"),
        }
    }

    /// Gives the pipeline's `at`th member a replica, unless `length` is 0.
    pub fn hold(&mut self, new: &NewChunk, at: usize, length: u32, state: ReplicaState) {
        let report = ReplicaReport { chunk: new.chunk, stamp: new.stamp, length, state };
        let node = self.nodes.iter_mut().find(|node| node.id == new.pipeline[at].node).unwrap();
        node.replicas.insert(new.chunk, report);
        if state == ReplicaState::Returned {
            node.incarnation.0 += 1_000;
            node.session = 0;
        }
    }

    /// Lets time pass, second by second. Datanodes with an index in `silent` are away.
    pub fn pass(&mut self, ms: u64, silent: &[usize]) {
        for _ in 0..ms / 1_000 {
            self.now += 1_000;
            for at in (0..self.nodes.len()).filter(|at| !silent.contains(at)) {
                self.beat(at);
            }
            self.namenode.tick(self.now);
        }
    }

    pub fn beat(&mut self, at: usize) {
        let mut changes = Vec::new();
        // Carries out orders at once, and reports their results.
        for _ in 0..100 {
            let answer = self.send(at, None, std::mem::take(&mut changes));
            let answer = match answer {
                Ok(answer) if answer.report => {
                    let full = self.nodes[at].replicas.values().copied().collect();
                    self.send(at, Some(full), Vec::new()).unwrap()
                }
                Ok(answer) => answer,
                Err(_) => {
                    self.nodes[at].session = 0;
                    continue;
                }
            };
            self.nodes[at].session = answer.session;
            self.nodes[at].id = answer.node;
            changes = answer.orders.iter().filter_map(|order| self.nodes[at].obey(order)).collect();
            if changes.is_empty() {
                return;
            }
        }
    }

    pub fn send(
        &mut self,
        at: usize,
        full: Option<Vec<ReplicaReport>>,
        changes: Vec<Change>,
    ) -> Result<HeartbeatAnswer, Error> {
        let node = &mut self.nodes[at];
        node.number += 1;
        let Node { identity, incarnation, session, number, rack, capacity_bytes, .. } = *node;
        let replicas = if capacity_bytes > 0 { Some(&node.replicas) } else { None };
        let used_bytes = replicas.into_iter().flat_map(BTreeMap::values);
        let used_bytes = used_bytes.map(|replica| u64::from(replica.length)).sum();
        let space = Space { capacity_bytes, used_bytes };
        let (seen, highest) = Default::default();
        let beat = Heartbeat { identity, incarnation, session, number, space, seen, highest, full, changes };
        let answer = self.namenode.heartbeat(&beat, rack, self.now)?;
        self.nodes[at].session = answer.session;
        Ok(answer)
    }

    /// Writes chunks of these lengths to all members of their pipelines, and closes the file.
    pub fn write(&mut self, replication: u16, lengths: &[u32]) -> Vec<NewChunk> {
        let file = self.create(replication);
        let mut ends = Vec::new();
        let mut all = Vec::new();
        for length in lengths {
            let new = self.add(file, std::mem::take(&mut ends));
            (0..new.pipeline.len()).for_each(|at| self.hold(&new, at, *length, ReplicaState::Sealed));
            let durable = new.pipeline.iter().map(|member| member.node).collect();
            ends.push(End { chunk: new.chunk, length: *length, durable });
            all.push(new);
        }
        assert_eq!(self.ask(Mutation::Complete { file, ends }), Ok(Answer::Completed(true)));
        self.pass(1_000, &[]);
        all
    }

    /// Indices of the datanodes that hold the chunk.
    pub fn holders(&self, chunk: ChunkId) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].replicas.contains_key(&chunk)).collect()
    }

    pub fn length(&self) -> (u64, bool) {
        let status = self.namenode.view(&someone("kadoop")).stat("/f").unwrap();
        (status.length, status.open)
    }

    pub fn index(&self, node: NodeId) -> usize {
        self.nodes.iter().position(|known| known.id == node).unwrap()
    }

    pub fn sealed(&self) -> usize {
        let replicas = self.nodes.iter().flat_map(|node| node.replicas.values());
        replicas.filter(|replica| replica.state == ReplicaState::Sealed).count()
    }
}

impl Node {
    fn obey(&mut self, order: &Order) -> Option<Change> {
        match order {
            Order::Fence { chunk, stamp } => {
                let replica = self.replicas.get(chunk).copied();
                Some(Change::Fenced { chunk: *chunk, stamp: *stamp, replica })
            }
            Order::Seal { chunk, stamp, length } => {
                let replica = self.replicas.get_mut(chunk)?;
                (replica.stamp, replica.length, replica.state) = (*stamp, *length, ReplicaState::Sealed);
                Some(Change::Has(*replica))
            }
            Order::Delete { chunk, stamp } => {
                self.replicas.remove(chunk);
                Some(Change::Gone { chunk: *chunk, stamp: *stamp })
            }
            Order::Copy(source) if self.gives_up => {
                Some(Change::Gone { chunk: source.chunk, stamp: source.stamp })
            }
            Order::Copy(_) if self.copies_fail => None,
            // Its replica is in the way of the copy, so it reports the replica now.
            Order::Copy(source) if self.replicas.contains_key(&source.chunk) => {
                self.replicas.get(&source.chunk).copied().map(Change::Has)
            }
            Order::Copy(source) => {
                let (chunk, stamp, length) = (source.chunk, source.stamp, source.length);
                let report = ReplicaReport { chunk, stamp, length, state: ReplicaState::Sealed };
                self.replicas.insert(chunk, report);
                Some(Change::Has(report))
            }
            Order::Verify { .. } => None,
        }
    }
}
