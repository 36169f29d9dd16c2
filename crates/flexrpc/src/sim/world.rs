//! The virtual clock, its events, and the final checks.

use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::frame::{Head, flags};
use crate::sim::callers::Caller;
use crate::sim::frames::Frames;
use crate::sim::network::{Owner, Path, Random, Stream, Victim, Weather, damage};
use crate::sim::servers::{Job, Server};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Small worlds, many of them: a fault needs few parts to show.
pub(super) const SERVERS: usize = 3;
const CALLERS: usize = 4;
const CALLS_OF_A_CALLER: u32 = 6;

/// A schedule that doesn't end also counts as a violation.
const MOST_EVENTS: u64 = 200_000;

pub(super) enum Event {
    Datagram {
        to_server: Option<usize>,
        caller: usize,
        bytes: Vec<u8>,
    },
    /// A copy from a stranger without the key.
    Forged {
        server: usize,
        victim: Victim,
        bytes: Vec<u8>,
    },
    ToServer {
        stream: usize,
        bytes: Vec<u8>,
    },
    /// A chain call's head and payload, without the proof that it is whole.
    HeadToServer {
        stream: usize,
        bytes: Vec<u8>,
    },
    ToOwner {
        stream: usize,
        bytes: Vec<u8>,
    },
    /// A transmission's last byte leaves.
    LastByte {
        caller: usize,
        stamp: u64,
        stream: usize,
        bytes: Vec<u8>,
    },
    Timer {
        caller: usize,
        stamp: u64,
    },
    Cut {
        stream: usize,
    },
    CutSeen {
        stream: usize,
    },
    Ran {
        server: usize,
        incarnation: u64,
        job: Job,
    },
    RelayLate {
        server: usize,
        incarnation: u64,
        relay: u64,
    },
    /// The last byte leaves towards the next callee.
    RelaySends {
        server: usize,
        incarnation: u64,
        relay: u64,
        stream: usize,
    },
    Restart {
        server: usize,
    },
    Sweep {
        server: usize,
    },
    /// Changes a server's forwarding rule.
    Flip {
        server: usize,
    },
    NextCall {
        caller: usize,
    },
}

/// A caller's claim about a call at one callee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Value(Vec<u8>),
    NotExecuted,
    Unknown,
}

/// How often the schedules reached states in which faults hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) values: u64,
    pub(super) refused: u64,
    pub(super) unknown: u64,
    pub(super) duplicates: u64,
    pub(super) evicted: u64,
    pub(super) sessions_lost: u64,
    pub(super) relayed: u64,
    pub(super) resent: u64,
    pub(super) forged: u64,
    pub(super) denied: u64,
    pub(super) pooled: u64,
    /// Refusals that the server sent without asking the cache.
    pub(super) unasked: u64,
}

impl std::ops::AddAssign for Reached {
    fn add_assign(&mut self, other: Self) {
        self.values += other.values;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.duplicates += other.duplicates;
        self.evicted += other.evicted;
        self.sessions_lost += other.sessions_lost;
        self.relayed += other.relayed;
        self.resent += other.resent;
        self.forged += other.forged;
        self.denied += other.denied;
        self.pooled += other.pooled;
        self.unasked += other.unasked;
    }
}

pub(super) struct World {
    pub(super) now: Micros,
    pub(super) events: u64,
    pub(super) random: Random,
    pub(super) weather: Weather,
    pub(super) frames: Frames,
    queue: BinaryHeap<Reverse<(Micros, u64)>>,
    pending: HashMap<u64, Event>,
    next_event: u64,
    pub(super) streams: Vec<Stream>,
    pub(super) servers: Vec<Server>,
    pub(super) callers: Vec<Caller>,
    /// Executions of each call at each server. They survive the server's restarts.
    pub(super) executed: BTreeMap<(u64, usize), u64>,
    pub(super) claims: Vec<(u64, usize, Claim)>,
    pub(super) next_tag: u64,
    pub(super) reached: Reached,
    /// Whether to print the events: the run examines a single seed.
    told: bool,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let weather = Weather::of(&mut random);
        let servers = (0..SERVERS).map(|_| Server::new(&weather, &mut random)).collect();
        let callers = (0..CALLERS).map(|index| Caller::new(index, CALLS_OF_A_CALLER)).collect();
        let mut world = Self {
            now: 1_000_000,
            events: 0,
            random,
            weather,
            frames: Frames::new(weather.keyed),
            queue: BinaryHeap::new(),
            pending: HashMap::new(),
            next_event: 0,
            streams: Vec::new(),
            servers,
            callers,
            executed: BTreeMap::new(),
            claims: Vec::new(),
            next_tag: 1,
            reached: Reached::default(),
            told: std::env::var_os("FLEXRPC_SIM_SEED").is_some(),
        };
        world.tell(|| format!("{weather:?}"));
        for caller in 0..CALLERS {
            world.after(1000, Event::NextCall { caller });
        }
        for server in 0..SERVERS {
            world.after(50_000, Event::Sweep { server });
            for _ in 0..world.weather.restarts {
                world.after(2_000_000, Event::Restart { server });
            }
            for _ in 0..world.weather.flips {
                world.after(2_000_000, Event::Flip { server });
            }
        }
        world
    }

    /// Runs until no event is left; the error names the violation.
    pub(super) fn run(&mut self) -> Result<(), String> {
        while let Some(Reverse((time, number))) = self.queue.pop() {
            self.now = time;
            self.events += 1;
            if self.events > MOST_EVENTS {
                return Err("the schedule doesn't end".to_owned());
            }
            if let Some(event) = self.pending.remove(&number) {
                self.happen(event);
            }
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        for ((tag, server), times) in &self.executed {
            if *times > 1 {
                return Err(format!("call {tag} was executed {times} times at {server}"));
            }
        }
        if let Some(caller) = self.callers.iter().find(|caller| !caller.is_done()) {
            return Err(format!("caller {} never ended", caller.index));
        }
        for (tag, server, claim) in &self.claims {
            let times = self.executed.get(&(*tag, *server)).copied().unwrap_or(0);
            let true_claim = match claim {
                Claim::Value(value) => times == 1 && *value == tag.to_be_bytes(),
                Claim::NotExecuted => times == 0,
                Claim::Unknown => true,
            };
            if !true_claim {
                return Err(format!(
                    "call {tag} at {server}: {claim:?} was said, {times} times it was executed"
                ));
            }
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Datagram { to_server: Some(server), caller, bytes } => {
                self.serve(server, bytes, Path::Datagram(caller));
            }
            Event::Datagram { to_server: None, caller, bytes } => self.answer_arrives(caller, &bytes, None),
            Event::Forged { server, victim, bytes } => self.serve(server, bytes, Path::Stranger(victim)),
            Event::ToServer { stream, bytes } => {
                let Stream { server, incarnation, .. } = self.streams[stream];
                if incarnation == self.servers[server].incarnation {
                    self.serve(server, bytes, Path::Stream(stream));
                }
            }
            Event::HeadToServer { stream, bytes } => {
                let Stream { server, incarnation, alive, .. } = self.streams[stream];
                if alive && incarnation == self.servers[server].incarnation {
                    self.head_arrives(server, stream, &bytes);
                }
            }
            Event::ToOwner { stream, bytes } => {
                if self.streams[stream].alive {
                    match self.streams[stream].owner {
                        Owner::Caller(caller) => self.answer_arrives(caller, &bytes, Some(stream)),
                        Owner::Relay(server, relay) => self.relay_answered(server, relay, &bytes),
                        Owner::Stranger(victim) => self.hand_on(victim, bytes),
                    }
                }
            }
            Event::LastByte { caller, stamp, stream, bytes } => self.last_byte(caller, stamp, stream, bytes),
            Event::Timer { caller, stamp } => self.on_timer(caller, stamp),
            Event::Cut { stream } => self.cut(stream),
            Event::CutSeen { stream } => match self.streams[stream].owner {
                Owner::Caller(caller) => self.caller_sees_cut(caller, stream),
                Owner::Relay(server, relay) => self.relay_sees_cut(server, relay, stream),
                Owner::Stranger(_) => {}
            },
            Event::Ran { server, incarnation, job } => {
                if self.servers[server].incarnation == incarnation {
                    self.ran(server, job);
                }
            }
            Event::RelayLate { server, incarnation, relay } => {
                if self.servers[server].incarnation == incarnation {
                    self.relay_late(server, relay);
                }
            }
            Event::RelaySends { server, incarnation, relay, stream } => {
                if self.servers[server].incarnation == incarnation {
                    self.relay_sends(server, relay, stream);
                }
            }
            Event::Restart { server } => self.restart(server),
            Event::Flip { server } => self.servers[server].forwards ^= true,
            Event::Sweep { server } => {
                self.servers[server].admission.sweep(self.now);
                // Stops after the last caller; else the schedule would never end.
                if self.callers.iter().any(|caller| !caller.is_done()) {
                    self.after(100_000, Event::Sweep { server });
                }
            }
            Event::NextCall { caller } => self.next_call(caller),
        }
    }

    /// Prints a line of the examined schedule.
    pub(super) fn tell(&self, line: impl FnOnce() -> String) {
        if self.told {
            println!("{:>9} {}", self.now, line());
        }
    }

    /// Schedules an event at most `most` µs from now.
    pub(super) fn after(&mut self, most: Micros, event: Event) {
        let delay = self.random.below(most.max(1)) + 1;
        self.at(self.now + delay, event);
    }

    pub(super) fn at(&mut self, time: Micros, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.pending.insert(number, event);
        self.queue.push(Reverse((time.max(self.now), number)));
    }

    /// Sends a datagram, which may be lost, damaged, duplicated or late.
    pub(super) fn datagram(&mut self, to_server: Option<usize>, caller: usize, bytes: &[u8]) {
        if let Some(server) = to_server {
            self.forge(server, Victim::Caller(caller), bytes);
        }
        let copies = 1 + u64::from(self.random.percent(self.weather.duplication));
        for _ in 0..copies {
            if self.random.percent(self.weather.loss) {
                continue;
            }
            let mut bytes = bytes.to_vec();
            if self.random.percent(self.weather.damage) {
                damage(&mut bytes, &mut self.random);
            }
            self.after(self.weather.longest_delay, Event::Datagram { to_server, caller, bytes });
        }
    }

    /// A stranger without the key sees a request and sends a copy: damaged, with an altered tag, or
    /// unchanged. It uses either transport, and replays the answer to the true caller.
    fn forge(&mut self, server: usize, victim: Victim, bytes: &[u8]) {
        if !self.frames.are_keyed() || !self.random.percent(self.weather.forgeries) {
            return;
        }
        let Some(head) = Head::decode(bytes).ok().flatten() else { return };
        let mut bytes = bytes.to_vec();
        match self.random.below(3) {
            0 => damage(&mut bytes[head.head_len()..], &mut self.random),
            1 => *bytes.last_mut().unwrap_or(&mut 0) ^= 1,
            _ => {}
        }
        if self.random.percent(50) {
            let stream = self.connect(Owner::Stranger(victim), server);
            self.stream_to_server(stream, bytes, head.has(flags::CHAIN));
        } else {
            self.after(self.weather.longest_delay, Event::Forged { server, victim, bytes });
        }
    }

    /// Replays only frames that the caller may believe: any other would end the connection.
    fn hand_on(&mut self, victim: Victim, bytes: Vec<u8>) {
        if !self.frames.parse(&bytes).is_some_and(|frame| frame.authentic) {
            return;
        }
        match victim {
            Victim::Caller(caller) => self.after(1_000, Event::Datagram { to_server: None, caller, bytes }),
            Victim::Stream(stream) => self.after(1_000, Event::ToOwner { stream, bytes }),
        }
    }

    /// Sends a frame to the server, in order; a chain's head runs ahead.
    pub(super) fn stream_to_server(&mut self, stream: usize, bytes: Vec<u8>, is_chain: bool) {
        if !matches!(self.streams[stream].owner, Owner::Stranger(_)) {
            self.forge(self.streams[stream].server, Victim::Stream(stream), &bytes);
        }
        let bytes = self.damaged_payload(bytes);
        let delay = self.random.below(2_000) + 1;
        let arrival = self.streams[stream].to_server.max(self.now) + delay;
        if is_chain {
            let head = self.streams[stream].to_server.max(self.now) + self.random.below(delay);
            self.at(head, Event::HeadToServer { stream, bytes: bytes.clone() });
        }
        self.streams[stream].to_server = arrival;
        self.at(arrival, Event::ToServer { stream, bytes });
    }

    pub(super) fn stream_to_owner(&mut self, stream: usize, bytes: Vec<u8>) {
        let bytes = self.damaged_payload(bytes);
        let arrival = self.streams[stream].to_owner.max(self.now) + self.random.below(2_000) + 1;
        self.streams[stream].to_owner = arrival;
        self.at(arrival, Event::ToOwner { stream, bytes });
    }

    /// Damage that TCP's own checksum misses. A damaged head would end the connection, which cuts
    /// do already.
    fn damaged_payload(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        let head = Head::decode(&bytes).ok().flatten().map_or(0, |head| head.head_len());
        if bytes.len() > head && self.random.percent(self.weather.damage) {
            damage(&mut bytes[head..], &mut self.random);
        }
        bytes
    }

    pub(super) fn connect(&mut self, owner: Owner, server: usize) -> usize {
        let incarnation = self.servers[server].incarnation;
        let (to_server, to_owner) = (self.now, self.now);
        self.streams.push(Stream { alive: true, owner, server, incarnation, to_server, to_owner });
        let stream = self.streams.len() - 1;
        if self.random.percent(self.weather.cuts) {
            self.after(30_000, Event::Cut { stream });
        }
        stream
    }

    pub(super) fn cut(&mut self, stream: usize) {
        if std::mem::replace(&mut self.streams[stream].alive, false) {
            self.tell(|| format!("stream {stream} is cut: {:?}", self.streams[stream]));
            // Bytes on their way to the server may have arrived already. The server then handles
            // them though their caller is gone, so they stay scheduled.
            self.after(2_000, Event::CutSeen { stream });
        }
    }

    fn restart(&mut self, server: usize) {
        self.tell(|| format!("server {server} restarts"));
        self.servers[server].restart(&self.weather, &mut self.random);
        for stream in 0..self.streams.len() {
            if self.streams[stream].server == server {
                self.cut(stream);
            }
        }
        // The old incarnation's relays are gone, and so are their connections.
        for stream in 0..self.streams.len() {
            if matches!(self.streams[stream].owner, Owner::Relay(of, _) if of == server) {
                self.streams[stream].alive = false;
            }
        }
    }

    /// Sends an answer back on its request's way.
    pub(super) fn answer(&mut self, path: Path, bytes: &[u8]) {
        self.tell(|| {
            let head = Head::decode(bytes).ok().flatten();
            let head = head.map(|head| (head.kind, head.status, head.id));
            format!("answer by {path:?}: {head:?}")
        });
        match path {
            Path::Datagram(caller) => self.datagram(None, caller, bytes),
            Path::Stranger(victim) => self.hand_on(victim, bytes.to_vec()),
            Path::Stream(stream) => {
                if self.streams[stream].alive {
                    self.stream_to_owner(stream, bytes.to_vec());
                }
            }
        }
    }

    pub(super) fn transport(path: Path) -> Transport {
        match path {
            Path::Datagram(_) | Path::Stranger(_) => Transport::Udp,
            Path::Stream(_) => Transport::Tcp,
        }
    }
}
