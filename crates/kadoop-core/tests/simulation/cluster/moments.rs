//! Trouble at the worst moment, which chance alone produces once in millions of runs.

use super::{
    client::Task,
    network::{Host, Request},
    world::{Event, HOSTS, NODES, World},
};
use std::collections::BTreeSet;
use strait_kadoop_core::{
    ChunkId, Millis,
    messages::{Answer, Mutation, ReplicaState, RequestId},
};

/// Calls to datanodes that the network may repeat long afterwards.
const ECHOES: usize = 16;
/// The bit of this trouble in a mood.
const DATANODES_CRASH: u64 = 1;
/// How long only the namenode can reach a member that is left out.
const LEFT_OUT_MS: Millis = 4_000;
/// How long the holders of a stranded chunk are away.
const STRANDED_MS: Millis = 4_000;

/// The moment that a run provokes; most runs provoke none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A datanode that has just started gets earlier calls again, and a file's writer loses its
    /// lease.
    Echo,
    /// A writer stalls just when it gets a chunk, and another client asks for its file.
    Surprise,
    /// The holder of a sealed chunk's token tries to shorten the chunk.
    Meddling,
    /// One member is left out of an append. When the chunk's end is logged, the others crash.
    /// Nothing else fails then, so the closed bytes must survive.
    Stranding,
}

/// A chunk that continued another, and has fewer replicas than the other had.
#[derive(Debug, Clone)]
pub struct Strand {
    chunk: ChunkId,
    kept: ChunkId,
    holders: BTreeSet<usize>,
}

impl World {
    /// Draws the moment of this run, along with its kinds of trouble.
    pub fn draw_moment(&mut self) {
        self.moment = match self.random.below(16) {
            0 => Some(Moment::Echo),
            1 => Some(Moment::Surprise),
            2 => Some(Moment::Meddling),
            3 => Some(Moment::Stranding),
            _ => None,
        };
        match self.moment {
            Some(Moment::Echo) => self.mood |= DATANODES_CRASH,
            Some(Moment::Stranding) => self.mood = 0,
            _ => {}
        }
    }

    /// Handles a call that arrives at a datanode.
    pub fn on_call(&mut self, host: Host, id: u64, request: &Request) {
        if self.healed || id == 0 {
            return;
        }
        match (self.moment, request) {
            (Some(Moment::Echo), Request::Write(_) | Request::Begin(_) | Request::Seal { .. }) => {
                self.echoes.push_back((host, request.clone()));
                if self.echoes.len() > ECHOES {
                    self.echoes.pop_front();
                }
            }
            (Some(Moment::Stranding), Request::Begin(begin)) => {
                self.continued = Some((begin.chunk, begin.source.length));
            }
            // By now bytes of its own have been acknowledged.
            (Some(Moment::Stranding), Request::Write(write))
                if self.continued.is_some_and(|(of, begin)| of == write.chunk && write.offset > begin) =>
            {
                self.continued = None;
                let members: Vec<Host> =
                    write.pipeline.iter().flat_map(|member| self.host_of(member.node)).collect();
                if let [_, .., last] = members[..] {
                    self.leave_out(last);
                }
            }
            _ => {}
        }
    }

    /// Cuts the host off from all but the namenode for a while.
    fn leave_out(&mut self, host: Host) {
        for other in (1..HOSTS).filter(|other| *other != host) {
            self.cut.insert((other, host));
            self.at(self.now + LEFT_OUT_MS, Event::Mend(other, host));
        }
    }

    /// Handles a datanode's start.
    pub fn on_started(&mut self, host: Host) {
        if self.moment != Some(Moment::Echo) || self.healed {
            return;
        }
        let echoes: Vec<Request> =
            self.echoes.iter().filter(|(to, _)| *to == host).map(|(_, request)| request.clone()).collect();
        for request in echoes {
            let when = self.now + 1 + self.random.below(1_500);
            if self.random.one_in(2) {
                self.at(when, Event::Deliver { id: 0, hop: 0, host, request: Box::new(request) });
            }
        }
        self.at(self.now + 1_600, Event::Takeover);
    }

    /// Makes another client ask for a file that is being written.
    pub fn take_over(&mut self) {
        let writing = self.clients.iter().filter_map(|client| match &client.task {
            Task::Writing(writing) => Some(writing.path.clone()),
            _ => None,
        });
        let paths: Vec<String> = writing.collect();
        if !paths.is_empty() {
            let path = paths[self.random.below(paths.len() as u64) as usize].clone();
            self.recover(path);
        }
    }

    /// Handles a client's mutation that the namenode has executed.
    pub fn on_mutated(&mut self, id: RequestId, mutation: &Mutation, answer: &Answer) {
        let begun = matches!(answer, Answer::Chunk { next: Some(_), .. });
        if self.moment != Some(Moment::Surprise) || self.healed || !begun || !self.random.one_in(3) {
            return;
        }
        let Mutation::AddChunk { .. } = mutation else { return };
        let has_asked =
            |at: &usize| self.clients[*at].requests.as_ref().is_some_and(|of| of.client() == id.client);
        let Some(at) = (0..self.clients.len()).find(has_asked) else { return };
        let Task::Writing(writing) = &self.clients[at].task else { return };
        let path = writing.path.clone();
        self.stalls[1 + NODES + at] = self.now + 2_500 + self.random.below(2_000);
        self.recover(path);
    }

    /// Tries to shorten a sealed replica.
    pub fn meddle(&mut self) {
        if self.moment != Some(Moment::Meddling) || !self.random.one_in(4) {
            return;
        }
        let index = self.random.below(NODES as u64) as usize;
        let Some((namenode, _)) = &self.namenode else { return };
        let Some(node) = &mut self.nodes[index].running else { return };
        let logged = |chunk: &ChunkId| namenode.state().chunks.get(chunk).filter(|logged| logged.ended);
        let fits = node.replicas().filter(|replica| {
            replica.state == ReplicaState::Sealed
                && replica.length > 1
                && logged(&replica.chunk).is_some_and(|logged| logged.stamp == replica.stamp)
        });
        let fits: Vec<_> = fits.collect();
        if fits.is_empty() {
            return;
        }
        let replica = fits[self.random.below(fits.len() as u64) as usize];
        let length = 1 + self.random.below(u64::from(replica.length) - 1) as u32;
        // If all is well, it is refused. Otherwise the files show the damage.
        let _ = node.seal(replica.chunk, replica.stamp, length);
        self.settle(index + 1);
    }

    /// Looks for a chunk that has replaced another and has fewer replicas than that.
    pub fn watch_kept(&mut self) {
        if self.moment != Some(Moment::Stranding) || self.healed {
            return;
        }
        let Some((namenode, _)) = &self.namenode else { return };
        let kept: Vec<(ChunkId, ChunkId)> =
            namenode.state().kept.iter().filter_map(|(chunk, old)| Some((*chunk, *old.last()?))).collect();
        for (chunk, kept) in kept {
            let holders = self.sound(chunk);
            let before = self.sound(kept).len().min(self.wanted(chunk));
            if holders.is_empty() || holders.len() >= before || !self.stranded.insert(chunk) {
                continue;
            }
            // The namenode has reviewed the chunk once more by then.
            let when = self.now + 1_100 + self.random.below(500);
            self.at(when, Event::Strand(Box::new(Strand { chunk, kept, holders })));
        }
    }

    /// Crashes all holders of the new chunk.
    pub fn strand(&mut self, strand: Box<Strand>) {
        // A second replica survives one crash.
        let all = self.nodes.iter().all(|node| node.running.is_some());
        if self.healed || !all || self.sound(strand.chunk) != strand.holders {
            return;
        }
        for node in &strand.holders {
            self.crash_for(node + 1, STRANDED_MS);
        }
        self.at(self.now + STRANDED_MS - 500, Event::Stranded(strand));
    }

    /// Checks that the bytes closed before the append survive, unless a newer chunk has replaced
    /// them.
    pub fn check_stranded(&mut self, strand: &Strand) {
        let Some((namenode, _)) = &self.namenode else { return };
        // Otherwise the file is gone, continues in another chunk, or was joined to one that wants no more
        // replicas than the chunk had. Nobody then promises that it survives the crash.
        let there = namenode.state().chunks.get(&strand.chunk).is_some_and(|logged| !logged.replaced);
        let there = there && self.wanted(strand.chunk) > strand.holders.len();
        if there && self.sound(strand.chunk).is_empty() && self.sound(strand.kept).is_empty() {
            self.fail(format!("{strand:?}: what the append continued is gone, and nothing has come for it"));
        }
    }
}
