//! Kinds of trouble, and their effects.

use super::{
    network::{Host, NAMENODE},
    world::{CLUSTER, DIRECTORIES, Event, HOSTS, NODES, World},
};
use crate::{disk::SimDisk, namespace::someone};
use std::collections::BTreeSet;
use strait_kadoop_core::{
    ChunkId,
    messages::{Mutation, Read, ReplicaReport, ReplicaState, RequestId},
    namenode::{save, write_checkpoint},
};

/// Number of kinds; a run has some of them.
const KINDS: u64 = 14;

/// The name of a sealed replica's file.
pub fn sealed_name(of: &ReplicaReport) -> String {
    format!("{:016x}_{:016x}_{:08x}.data", of.chunk.0, of.stamp.0, of.length)
}

impl World {
    pub fn trouble(&mut self) {
        if self.healed {
            return;
        }
        let kind = self.random.below(KINDS);
        if self.mood >> kind & 1 == 1 {
            self.befall(kind);
        }
        self.meddle();
        let pause = 50 + self.random.below(400);
        self.at(self.now + pause, Event::Trouble);
    }

    fn befall(&mut self, kind: u64) {
        let node = 1 + self.random.below(NODES as u64) as Host;
        let (host, other) = (self.any_host(), self.any_host());
        let soon = self.random.below(8);
        if self.trace {
            eprintln!("{:>7} trouble {kind}: datanode {node}, hosts {host} and {other}", self.now);
        }
        match kind {
            0 => self.crash(node),
            1 if self.random.one_in(4) => (0..=NODES).for_each(|host| self.crash(host)),
            1 | 2 => self.crash(NAMENODE),
            3 => {
                let pause = if self.random.one_in(4) { 12_000 } else { 3_500 };
                self.stalls[host] = self.now + self.random.below(if host > NODES { pause } else { 3_500 });
            }
            4 => self.part(host, other),
            5 => {
                // Cuts one host off from all others, or in one direction only.
                for other in (0..HOSTS).filter(|other| *other != host) {
                    self.part(host, other);
                }
            }
            6 => self.skews[host] += self.random.below(4_000),
            7 => self.fail_disk(node, soon),
            8 => self.disk.fail_after(soon),
            9 => {
                let full = self.random.one_in(2);
                self.nodes[node - 1].disks.iter().for_each(|disk| disk.set_full(full));
            }
            13 => self.steal(),
            10 => self.rot(),
            11 => self.lose_directory(node),
            _ if self.random.one_in(3) => self.crash(NODES + 1 + (node % (HOSTS - NODES - 1))),
            _ => self.checkpoint(),
        }
    }

    fn any_host(&mut self) -> Host {
        self.random.below(HOSTS as u64) as Host
    }

    fn part(&mut self, from: Host, to: Host) {
        let until = self.now + self.random.below(4_000);
        self.cut.insert((from, to));
        self.at(until, Event::Mend(from, to));
        if !self.random.one_in(4) {
            self.cut.insert((to, from));
            self.at(until, Event::Mend(to, from));
        }
    }

    /// Makes a disk fail and, soon after, the whole machine.
    fn fail_disk(&mut self, node: Host, soon: u64) {
        let directory = self.random.below(DIRECTORIES as u64) as usize;
        self.nodes[node - 1].disks[directory].fail_after(soon);
    }

    /// Has another client ask for a file whose writer is alive.
    pub fn steal(&mut self) {
        let files: Vec<String> = self.model.files.keys().cloned().collect();
        if files.is_empty() {
            return;
        }
        let path = files[self.random.below(files.len() as u64) as usize].clone();
        self.recover(path);
    }

    pub fn recover(&mut self, path: String) {
        let (user, now) = (someone("kadoop"), self.clock(NAMENODE));
        self.ask(|namenode| {
            let request = RequestId { client: namenode.join_client(now), number: 1, done_below: 1 };
            let _ = namenode.mutate(&user, request, &Mutation::RecoverLease { path }, &[], now, 0);
        });
    }

    pub fn checkpoint(&mut self) {
        let Some((namenode, _)) = &self.namenode else { return };
        let save = if self.unreadable { write_checkpoint } else { save };
        let saved = save(&self.disk, CLUSTER, &self.config, namenode.state());
        if saved.is_err() && self.disk.is_off() {
            self.crash(NAMENODE);
        }
    }

    /// The replica's bytes, if all are present and agree with their checksums.
    pub fn bytes_of(&self, node: usize, replica: &ReplicaReport) -> Option<Vec<u8>> {
        let running = self.nodes[node].running.as_ref()?;
        let (chunk, stamp) = (replica.chunk, replica.stamp);
        let mut bytes = Vec::new();
        while (bytes.len() as u32) < replica.length {
            let offset = bytes.len() as u32;
            let read = Read { chunk, stamp, offset, length: self.config.write_bytes, acknowledged: 0 };
            let piece = running.read(&read).ok()?;
            let careful = super::world::config(None);
            let checked = strait_kadoop_core::client::Checked::of(&read, piece.clone(), &careful).is_ok();
            if !checked || piece.bytes.is_empty() {
                return None;
            }
            bytes.extend_from_slice(&piece.bytes);
        }
        Some(bytes)
    }

    /// Datanodes with a sound replica of the chunk as logged.
    pub fn sound(&self, chunk: ChunkId) -> BTreeSet<usize> {
        let Some((namenode, _)) = &self.namenode else { return BTreeSet::new() };
        let Some(logged) = namenode.state().chunks.get(&chunk) else { return BTreeSet::new() };
        let fits = |node: &usize| {
            let replica = self.nodes[*node].running.as_ref().and_then(|running| running.replica(chunk));
            replica.is_some_and(|replica| {
                replica.state == ReplicaState::Sealed
                    && (replica.stamp, replica.length) == (logged.stamp, logged.length)
                    && self.bytes_of(*node, &replica).is_some()
            })
        };
        (0..NODES).filter(fits).collect()
    }

    /// Whether the chunk survives the loss of any one replica, and the namenode doesn't want fewer
    /// of them, nor is about to.
    fn spare(&self, chunk: ChunkId) -> bool {
        let Some((namenode, _)) = &self.namenode else { return false };
        if !namenode.state().chunks.get(&chunk).is_some_and(|logged| logged.ended) {
            return false;
        }
        if self.rotten.contains(&chunk) {
            return false;
        }
        let user = someone("kadoop");
        let sound = self.sound(chunk);
        let mut counted = None;
        for path in self.model.files.keys() {
            let located = namenode.locate(&user, path, 0, u64::MAX);
            let chunks = located.into_iter().flat_map(|located| located.chunks);
            let nodes = chunks.filter(|located| located.chunk == chunk).map(|located| located.nodes).next();
            if nodes.is_some() && self.is_being_thinned(path) {
                return false;
            }
            counted = counted.or(nodes);
        }
        let counted: BTreeSet<usize> =
            counted.into_iter().flatten().filter_map(|node| self.numbers.get(&node).copied()).collect();
        sound.len() >= 2 && sound == counted && sound.len() <= self.wanted(chunk)
    }

    /// Whether the chunk is being written, and another unbroken member of its pipeline has it: the
    /// same replica if this host's is sealed, since the writer may count on that. The pipeline must
    /// not exceed the wanted number: otherwise the namenode might keep this replica, or one that it
    /// doesn't know to be lost.
    fn open_elsewhere(&self, host: Host, own: ReplicaReport) -> bool {
        let chunk = own.chunk;
        let Some((namenode, _)) = &self.namenode else { return false };
        let open = namenode.state().open.values().flat_map(|open| &open.chunks);
        let few = |members: &[_]| members.len() <= self.wanted(chunk);
        let open = open.filter(|open| open.chunk == chunk && few(&open.pipeline));
        let members = open.flat_map(|open| &open.pipeline);
        let mut others = members.filter_map(|member| {
            let other = *self.numbers.get(&member.node)?;
            let running = self.nodes[other].running.as_ref()?;
            let unbroken = running.incarnation() == member.incarnation;
            let theirs = running.replica(chunk)?;
            let as_much = own.state != ReplicaState::Sealed || theirs == own;
            (unbroken && as_much).then_some(other)
        });
        !self.rotten.contains(&chunk) && others.any(|other| other + 1 != host)
    }

    /// Wanted number of replicas of the chunk's file.
    pub fn wanted(&self, chunk: ChunkId) -> usize {
        let Some((namenode, _)) = &self.namenode else { return 0 };
        let state = namenode.state();
        let inode = state.chunks.get(&chunk).and_then(|chunk| state.inodes.get(chunk.inode));
        inode.map_or(0, |inode| inode.replication().into())
    }

    /// Flips a bit on a disk.
    fn rot(&mut self) {
        let node = self.random.below(NODES as u64) as usize;
        let replicas = self.sealed_on(node);
        if replicas.is_empty() {
            return;
        }
        let replica = replicas[self.random.below(replicas.len() as u64) as usize];
        if self.can_be_damaged(node, replica) {
            let at = self.random.below(replica.length.into()) as usize;
            self.damage(node, replica, |disk, name| disk.damage(name, at));
        }
    }

    pub fn sealed_on(&self, node: usize) -> Vec<ReplicaReport> {
        let replicas = self.nodes[node].running.iter().flat_map(|running| running.replicas());
        replicas.filter(|replica| replica.state == ReplicaState::Sealed).collect()
    }

    /// Whether damage to this replica loses no bytes.
    pub fn can_be_damaged(&self, node: usize, replica: ReplicaReport) -> bool {
        self.spare(replica.chunk) && self.sound(replica.chunk).contains(&node)
    }

    pub fn damage(&mut self, node: usize, replica: ReplicaReport, how: impl Fn(&SimDisk, &str)) {
        if self.trace {
            eprintln!("{:>7} damage of {replica:?} of datanode {}", self.now, node + 1);
        }
        let name = sealed_name(&replica);
        self.rotten.insert(replica.chunk);
        self.nodes[node].disks.iter().filter(|disk| disk.has(&name)).for_each(|disk| how(disk, &name));
    }

    /// Loses a data directory, unless bytes would be lost for good.
    fn lose_directory(&mut self, host: Host) {
        let Some(running) = &self.nodes[host - 1].running else { return };
        let Some((namenode, _)) = &self.namenode else { return };
        let all: Vec<ReplicaReport> = running.replicas().collect();
        let safe = all.iter().all(|replica| {
            let known = namenode.state().chunks.contains_key(&replica.chunk);
            !known || self.spare(replica.chunk) || self.open_elsewhere(host, *replica)
        });
        if !safe {
            return;
        }
        let directory = self.random.below(DIRECTORIES as u64) as usize;
        if self.trace {
            eprintln!("{:>7} directory {directory} of datanode {host} is lost, of {all:?}", self.now);
        }
        self.rotten.extend(all.iter().map(|replica| replica.chunk));
        let node = &mut self.nodes[host - 1];
        node.disks[directory] = SimDisk::default();
        if let Some(running) = &mut node.running {
            running.lose_directory(directory);
            node.incarnation = running.incarnation();
            if running.directories() == 0 {
                self.crash(host);
            }
        }
    }
}
