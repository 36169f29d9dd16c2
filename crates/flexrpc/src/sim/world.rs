//! The world: its virtual clock and network, which callers, relays and servers share.

use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::frame::{Head, flags};
use crate::sim::frames::Frames;
use crate::sim::network::{Owner, Path, Random, Stream, Victim, Weather, damage};
use crate::sim::parts::{Caller, Claim, Event, SERVERS, Server};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

const CALLERS: usize = 4;
const CALLS_OF_A_CALLER: u32 = 6;

/// How often the schedules reached the states in which faults can hide.
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
    /// Refusals that the server sent without checking whether it had executed the call.
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
    pub(super) queue: BinaryHeap<Reverse<(Micros, u64)>>,
    pub(super) pending: HashMap<u64, Event>,
    next_event: u64,
    pub(super) streams: Vec<Stream>,
    pub(super) servers: Vec<Server>,
    pub(super) callers: Vec<Caller>,
    /// Executions of each call at each server. They survive the server's restarts.
    pub(super) executed: BTreeMap<(u64, usize), u64>,
    pub(super) claims: Vec<(u64, usize, Claim)>,
    pub(super) next_tag: u64,
    pub(super) reached: Reached,
    /// Whether to print the events, because the run examines a single seed.
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

    /// Replays only frames that the caller could believe. Any other frame would end the connection.
    pub(super) fn hand_on(&mut self, victim: Victim, bytes: Vec<u8>) {
        if !self.frames.parse(&bytes).is_some_and(|frame| frame.authentic) {
            return;
        }
        match victim {
            Victim::Caller(caller) => self.after(1_000, Event::Datagram { to_server: None, caller, bytes }),
            Victim::Stream(stream) => self.after(1_000, Event::ToOwner { stream, bytes }),
        }
    }

    /// Sends a frame to the server, in order; a chain call's head arrives earlier.
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

    /// Damages a payload, as faults do that TCP's own checksum misses. A damaged head would only
    /// end the connection, as cuts already do.
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
            // Bytes that were sent may have reached the server before the cut. The server then
            // handles them, though their caller is gone. So their events stay scheduled.
            self.after(2_000, Event::CutSeen { stream });
        }
    }

    pub(super) fn restart(&mut self, server: usize) {
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

    /// Sends an answer back along its request's path.
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
