//! Several racks, and datanodes that move to another one.

use super::world::{NODES, World};
use crate::{namespace::someone, random::Random};
use std::collections::BTreeSet;
use strait_kadoop_core::{
    Identity, Millis, NodeId,
    messages::{Answer, Mutation, RequestId},
};

const RACKS: [&str; 3] = ["/a", "/b", "/c"];
/// Time within which a file has its new number of replicas.
const REPLICATED_MS: Millis = 15_000;
/// The file that shows where the namenode places replicas.
const PROBE: &str = "/probe";

/// Has its own random numbers, so that runs with one rack keep their schedules.
pub struct Racks {
    random: Random,
    of: Vec<&'static str>,
    several: bool,
    /// Whether a file gets more replicas at the end, and then fewer.
    thins: bool,
}

impl Racks {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.rotate_left(24) ^ 0xacc5);
        let several = random.one_in(3);
        let thins = several && random.one_in(4);
        let racks = 2 + random.below(2);
        let draw = |_| if several { RACKS[random.below(racks) as usize] } else { "" };
        let of = (0..NODES).map(draw).collect();
        Self { random, of, several, thins }
    }
}

impl World {
    pub fn rack_of(&self, identity: Identity) -> &'static str {
        let at = self.nodes.iter().position(|node| node.identity == identity);
        at.map_or("", |at| self.racks.of[at])
    }

    /// Moves a datanode that is down to another rack now and then.
    pub fn move_rack(&mut self, node: usize) {
        if self.racks.several && self.racks.random.one_in(4) {
            self.racks.of[node] = RACKS[self.racks.random.below(RACKS.len() as u64) as usize];
        }
    }

    /// Gives a file all replicas that it can have and then two, if this run does so. Call it when
    /// all is well; [`World::check_racks`] checks the result.
    pub fn thin(&mut self) -> Result<(), String> {
        if !self.racks.thins || !self.all_serve() {
            return Ok(());
        }
        let Some(path) = self.thinned() else { return Ok(()) };
        for replication in [NODES as u16, 2] {
            let wanted = strait_kadoop_core::messages::Attributes {
                replication: Some(replication),
                ..Default::default()
            };
            if !self.demand(Mutation::SetAttributes { path: path.clone(), attributes: wanted }) {
                return Err(format!("{path}: {replication} replicas are refused"));
            }
            if let Some(file) = self.model.files.get_mut(&path) {
                file.replication = replication;
            }
            self.run_until(self.now + REPLICATED_MS)?;
        }
        Ok(())
    }

    fn thinned(&self) -> Option<String> {
        self.model.files.iter().find(|(_, file)| !file.bytes.is_empty()).map(|(path, _)| path.clone())
    }

    /// Whether all datanodes are in service, and on several racks.
    fn all_serve(&self) -> bool {
        let Some((namenode, _)) = &self.namenode else { return false };
        let racks: BTreeSet<_> = self.racks.of.iter().collect();
        let leaving = &namenode.state().decommissioned;
        let serves = |number: Option<NodeId>| number.is_some_and(|number| !leaving.contains(&number));
        racks.len() > 1 && self.nodes.iter().all(|node| serves(node.number))
    }

    /// Checks that new replicas go to two racks, and that the replicas that stay are on two.
    pub fn check_racks(&mut self) -> Result<(), String> {
        if !self.all_serve() {
            return Ok(());
        }
        let user = someone("kadoop");
        if let Some(path) = self.thinned().filter(|_| self.racks.thins) {
            let (namenode, _) = self.namenode.as_ref().ok_or("the namenode is down")?;
            let located = namenode.locate(&user, &path, 0, u64::MAX).map_err(|error| error.to_string())?;
            // [`super::check`] has counted the replicas: of a chunk with fewer, they were lost with a disk.
            for chunk in located.chunks.iter().filter(|chunk| chunk.nodes.len() > 1) {
                if self.racks_of(&chunk.nodes).len() < 2 {
                    return Err(format!("{path}: {chunk:?} is on one rack of {:?}", self.racks.of));
                }
            }
        }
        let now = self.clock(super::network::NAMENODE);
        let create = Mutation::Create {
            path: PROBE.to_owned(),
            overwrite: false,
            mode: 0o644,
            replication: 2,
            chunk_bytes: 64,
            min_replicas: 1,
        };
        let placed = self.ask(|namenode| {
            let client = namenode.join_client(now);
            let request = |number| RequestId { client, number, done_below: 1 };
            let Ok(Answer::Opened { file, .. }) = namenode.mutate(&user, request(1), &create, &[], now, 0)
            else {
                return Vec::new();
            };
            let add = Mutation::AddChunk { file, ends: Vec::new(), next: true, avoid: Vec::new() };
            match namenode.mutate(&user, request(2), &add, &[], now, 0) {
                Ok(Answer::Chunk { next: Some(new), .. }) => {
                    new.pipeline.iter().map(|member| member.node).collect()
                }
                _ => Vec::new(),
            }
        });
        match placed {
            Some(placed) if self.racks_of(&placed).len() < 2 => {
                Err(format!("new replicas go to {placed:?}, of the racks {:?}", self.racks.of))
            }
            _ => Ok(()),
        }
    }

    fn racks_of(&self, nodes: &[NodeId]) -> BTreeSet<&'static str> {
        let of = |node: &NodeId| self.numbers.get(node).map(|index| self.racks.of[*index]);
        nodes.iter().filter_map(of).collect()
    }
}
