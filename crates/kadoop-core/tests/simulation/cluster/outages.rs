//! Longer outages, so that hosts presumed dead are alive; and changes by other clients to files
//! that are being written.

use super::{
    client::Task,
    moments::Moment,
    network::{Host, NAMENODE},
    world::{Event, NODES, World},
};
use crate::{namespace::someone, random::Random};
use strait_kadoop_core::{
    Millis,
    messages::{Answer, Attributes, Mutation, RequestId},
};

/// Longest pause between two outages.
const PAUSE_MS: Millis = 4_000;
/// Duration of an outage: around the silences after which a datanode counts as dead, a lease as
/// ended, and a round of recovery as lost.
const LEAST_MS: Millis = 2_000;
const MOST_MS: Millis = 13_000;

/// Has its own random numbers, so that runs without outages keep their schedules.
pub struct Outages {
    random: Random,
    come: bool,
    /// Number of files taken from their writers.
    taken: u64,
}

impl Outages {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed.rotate_left(17) ^ 0x0a6e);
        let come = random.one_in(3);
        Self { random, come, taken: 0 }
    }
}

impl World {
    pub fn begin_outages(&mut self) {
        // In a stranding only one crash may go wrong.
        if self.outages.come && self.moment != Some(Moment::Stranding) {
            self.at(self.now + 1, Event::Outage);
        }
    }

    pub fn outage(&mut self) {
        if self.healed {
            return;
        }
        // The log's disk was full until now.
        self.disk.set_full(false);
        let random = &mut self.outages.random;
        let (pause, kind) = (1 + random.below(PAUSE_MS), random.below(10));
        let node = 1 + random.below(NODES as u64) as Host;
        let until = self.now + LEAST_MS + random.below(MOST_MS - LEAST_MS);
        let (one, other) = (random.one_in(4), random.one_in(2));
        if self.trace {
            eprintln!("{:>7} outage {kind}: datanode {node}, until {until}", self.now);
        }
        match kind {
            0 | 1 => self.stalls[if one { NAMENODE } else { node }] = until,
            2 | 3 => {
                let ways = [(node, NAMENODE), (NAMENODE, node)];
                let ways = if one { &ways[usize::from(other)..][..1] } else { &ways[..] };
                for (from, to) in ways.iter().copied() {
                    self.cut.insert((from, to));
                    self.at(until, Event::Mend(from, to));
                }
            }
            4 => self.end_process(if one { NAMENODE } else { node }),
            5 | 6 => self.want_replicas(),
            7 if !self.losses.is_single() => self.lose_sector(node - 1),
            7 => {}
            8 => self.disk.set_full(true),
            _ => self.take_away(),
        }
        self.at(self.now + pause, Event::Outage);
    }

    /// Changes the wanted number of replicas of a file.
    fn want_replicas(&mut self) {
        let paths: Vec<String> = self.model.files.keys().cloned().collect();
        if paths.is_empty() {
            return;
        }
        let path = paths[self.outages.random.below(paths.len() as u64) as usize].clone();
        // At most as many as remain while a datanode is decommissioned.
        let least = self.losses.least() as u64;
        let wanted = (least + self.outages.random.below(NODES as u64 - least)) as u16;
        if self.is_unsure(&path) || self.is_rotten(&path) {
            return;
        }
        let attributes = Attributes { replication: Some(wanted), ..Attributes::default() };
        let of = path.clone();
        if self.demand(Mutation::SetAttributes { path: of, attributes })
            && let Some(file) = self.model.files.get_mut(&path)
        {
            file.replication = wanted;
        }
    }

    /// Makes a part of a replica unreadable.
    fn lose_sector(&mut self, node: usize) {
        let replicas = self.sealed_on(node);
        if replicas.is_empty() {
            return;
        }
        let random = &mut self.outages.random;
        let replica = replicas[random.below(replicas.len() as u64) as usize];
        let at = random.below(replica.length.into()) as usize;
        if self.can_be_damaged(node, replica) {
            self.damage(node, replica, |disk, name| disk.make_unreadable(name, at));
        }
    }

    /// Whether an undetected damaged replica may exist. The namenode may then delete a sound one as
    /// superfluous.
    pub fn is_rotten(&self, path: &str) -> bool {
        let Some((namenode, _)) = &self.namenode else { return true };
        let located = namenode.locate(&someone("kadoop"), path, 0, u64::MAX);
        let chunks = located.into_iter().flat_map(|located| located.chunks);
        chunks.into_iter().any(|located| self.rotten.contains(&located.chunk))
    }

    /// Removes or renames a file that another client writes.
    fn take_away(&mut self) {
        let at = self.outages.random.below(self.clients.len() as u64) as usize;
        let Task::Writing(writing) = &self.clients[at].task else { return };
        let path = writing.path.clone();
        if self.is_unsure(&path) || !self.model.files.contains_key(&path) {
            return;
        }
        self.model.touch(&path, self.now);
        if self.outages.random.one_in(2) {
            if self.demand(Mutation::Delete { path: path.clone(), recursive: false }) {
                self.model.files.remove(&path);
            }
            return;
        }
        self.outages.taken += 1;
        let to = format!("{path}{}", self.outages.taken);
        let rename = Mutation::Rename { from: path.clone(), to: to.clone(), replace: false };
        if self.demand(rename)
            && let Some(file) = self.model.files.remove(&path)
            && let Task::Writing(writing) = &mut self.clients[at].task
        {
            self.model.files.insert(to.clone(), file);
            writing.path = to;
        }
    }

    /// Executes a mutation for another client; returns whether it succeeded. Refuses while the
    /// namenode's disk may fail amid it, which would leave the outcome unknown.
    pub fn demand(&mut self, mutation: Mutation) -> bool {
        if !self.disk.is_sound() || self.stalled(NAMENODE).is_some() {
            return false;
        }
        let (user, now) = (someone("kadoop"), self.clock(NAMENODE));
        let answer = self.ask(|namenode| {
            let request = RequestId { client: namenode.join_client(now), number: 1, done_below: 1 };
            namenode.mutate(&user, request, &mutation, &[], now, 0)
        });
        matches!(answer, Some(Ok(Answer::Done | Answer::Changed(true))))
    }
}
