//! The network. Calls take time, overtake each other, get lost and arrive twice. Hosts can't reach
//! each other, or stall.

use super::world::{Event, NODES, Then, World};
use strait_kadoop_core::{
    ChunkId, ClientId, Error, FileId, Member, Millis, NodeId, Stamp,
    messages::{
        Answer, Continue, Heartbeat, HeartbeatAnswer, Located, Mutation, Piece, Read, RequestId, Status,
        Write,
    },
};

/// The namenode is 0; datanodes follow, then clients.
pub type Host = usize;
pub const NAMENODE: Host = 0;

#[derive(Clone, Debug)]
pub enum Request {
    // To the namenode.
    Join,
    Renew(ClientId),
    /// With the host of the client, whose session survives its crashes.
    Mutate(Host, RequestId, Mutation),
    Locate {
        path: String,
        offset: u64,
        length: u64,
    },
    Status(String),
    Suspect {
        node: NodeId,
        chunk: ChunkId,
        stamp: Stamp,
    },
    Beat(Heartbeat),
    // To a datanode.
    Write(Write),
    Probe(Member),
    Begin(Continue),
    Publish {
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
    Sync {
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
    Seal {
        chunk: ChunkId,
        stamp: Stamp,
        length: u32,
    },
    Read(Read),
}

#[derive(Clone, Debug)]
pub enum Reply {
    Joined(ClientId),
    Done(Result<(), Error>),
    Answer(Result<Answer, Error>),
    Located(Result<Located, Error>),
    Status(Result<Status, Error>),
    Beat(Result<HeartbeatAnswer, Error>),
    Broken(Vec<FileId>),
    Piece(Result<Piece, Error>),
    NotExecuted,
}

/// A call under way: to one host, or along a chain of them.
pub struct Call {
    pub from: Host,
    pub life: u64,
    /// The client's task at the time of its call.
    pub task: u64,
    pub hops: Vec<Host>,
    pub replies: Vec<Option<Reply>>,
    pub then: Then,
}

impl World {
    /// Calls `hops`; each of them forwards the request to the next.
    pub fn call(&mut self, from: Host, hops: Vec<Host>, request: &Request, within: Millis, then: Then) {
        self.last_call += 1;
        let id = self.last_call;
        let replies = vec![None; hops.len()];
        let (life, task) = (self.lives[from], self.task_of(from));
        self.calls.insert(id, Call { from, life, task, hops: hops.clone(), replies, then });
        self.at(self.now + within, Event::Timeout(id));
        let (mut at, mut before) = (self.now, from);
        for (hop, host) in hops.into_iter().enumerate() {
            if !self.passes(before, host) {
                if self.random.one_in(2) {
                    let when = at + 1 + self.random.below(within.max(2));
                    self.at(when, Event::Reply { id, hop, reply: Reply::NotExecuted });
                }
                return;
            }
            at += self.delay();
            let request = request.clone();
            self.at(at, Event::Deliver { id, hop, host, request: Box::new(request.clone()) });
            if !self.healed && self.random.one_in(40) {
                let again = at + 1 + self.random.below(3_000);
                self.at(again, Event::Deliver { id: 0, hop, host, request: Box::new(request) });
            }
            before = host;
        }
    }

    /// Sends a host's answer back along the path of the request.
    pub fn reply(&mut self, id: u64, hop: usize, reply: Reply) {
        let Some(call) = self.calls.get(&id) else { return };
        let mut way = vec![call.from];
        way.extend(&call.hops[..=hop]);
        let mut at = self.now;
        for pair in way.windows(2).rev() {
            if !self.passes(pair[1], pair[0]) {
                return;
            }
            at += self.delay();
        }
        self.at(at, Event::Reply { id, hop, reply });
    }

    /// Handles a reply. The call ends once all have arrived.
    pub fn on_reply(&mut self, id: u64, hop: usize, reply: Reply) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let from = call.from;
        if let Some(until) = self.stalled(from) {
            return self.at(until, Event::Reply { id, hop, reply });
        }
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.replies[hop].get_or_insert(reply);
        if call.replies.iter().all(Option::is_some) {
            self.finish(id);
        }
    }

    pub fn on_timeout(&mut self, id: u64) {
        let Some(call) = self.calls.get(&id) else { return };
        match self.stalled(call.from) {
            Some(until) => self.at(until, Event::Timeout(id)),
            None => self.finish(id),
        }
    }

    fn finish(&mut self, id: u64) {
        let Some(call) = self.calls.remove(&id) else { return };
        if self.lives[call.from] == call.life && self.task_of(call.from) == call.task {
            self.on_done(call.from, call.then, call.replies);
        }
    }

    fn task_of(&self, host: Host) -> u64 {
        host.checked_sub(NODES + 1).map_or(0, |client| self.clients[client].tasks)
    }

    fn passes(&mut self, from: Host, to: Host) -> bool {
        !self.cut.contains(&(from, to)) && (self.healed || !self.lossy || !self.random.one_in(60))
    }

    fn delay(&mut self) -> Millis {
        match self.random.below(200) {
            _ if self.healed => 1,
            0 => 500 + self.random.below(2_500),
            1..10 => 20 + self.random.below(300),
            _ => 1 + self.random.below(4),
        }
    }

    pub fn stalled(&self, host: Host) -> Option<Millis> {
        Some(self.stalls[host]).filter(|until| *until > self.now)
    }
}
