//! The cluster's hosts and their next events.

use super::{
    client::Client,
    losses::Losses,
    model::Model,
    moments::{Moment, Strand},
    network::{Call, Host, NAMENODE, Reply, Request},
    operator::Operator,
    outages::Outages,
    parts::{Parts, Rest},
    racks::Racks,
    swaps::Swaps,
    syncs::Syncs,
};
use crate::{
    disk::{SimDisk, SimFile},
    random::Random,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    sync::Arc,
};
use strait_kadoop_core::{
    ChunkId, Config, Identity, Incarnation, Millis, NodeId,
    client::{Budget, CallId, Unbounded},
    datanode::{Datanode, Place, Placed, Sealing, Synced},
    disk::{DiskFile as _, Grouped},
    faults::{Fault, Faults},
    log::Journal,
    messages::{Heartbeat, Read, Write},
    namenode::{Namenode, load},
};

pub const CLUSTER: u64 = 11;
pub const NODES: usize = 4;
pub const CLIENTS: usize = 2;
pub const DIRECTORIES: usize = 2;
pub const HOSTS: usize = 1 + NODES + CLIENTS;

#[derive(Debug)]
pub enum Event {
    Deliver {
        id: u64,
        hop: usize,
        host: Host,
        request: Box<Request>,
    },
    Reply {
        id: u64,
        hop: usize,
        reply: Reply,
    },
    Timeout(u64),
    /// The namenode's tick, a datanode's heartbeat, a client's next step or the renewal of its
    /// leases. Each holds the host's life to which it belongs.
    Tick(Host, u64),
    Step(Host, u64),
    Wake(Host, u64),
    Renew(Host, u64),
    /// The namenode has orders for a datanode.
    Rouse(Host, u64),
    /// A datanode continues a write whose bytes are being put in their place, or a seal.
    Place(Host, u64, u64),
    Seal(Host, u64, u64),
    Restart(Host),
    Mend(usize, usize),
    Trouble,
    /// Another client wants the file that a client writes.
    Takeover,
    Strand(Box<Strand>),
    Stranded(Box<Strand>),
    /// The operator checks the cluster.
    Operate,
    /// The namenode takes another part of a full report.
    Part(Host, u64, Box<Rest>),
    /// A sync is going to fail.
    Syncs,
    /// A longer outage begins.
    Outage,
    /// Two replicas' files are swapped.
    Swap,
    /// Files are lost, damaged or replaced by older ones, or the operator looks after that.
    Loss,
}

/// The purpose of a call.
pub enum Then {
    Nothing,
    Renewed,
    Beat(Heartbeat),
    Fetched(u64),
    Joined,
    /// A client's own request or query.
    Asked,
    WriterAsk(CallId),
    Write(CallId),
    Member(CallId),
    Located(CallId),
    Read(CallId, Read),
}

/// The step that a write in its place has reached.
pub enum Placing {
    Given(Place<SimFile>),
    Filled(Placed),
}

/// The step that a seal has reached.
pub enum SealStep {
    Begun(Sealing<Grouped<SimDisk>>),
    Synced(Synced),
}

pub struct Node {
    pub disks: Vec<SimDisk>,
    /// 0 until it has joined.
    pub cluster: u64,
    pub running: Option<Datanode<SimDisk>>,
    /// Writes that wait for their turn: the call, and the place in its chain.
    pub held: BTreeMap<u64, (u64, usize)>,
    /// Writes whose bytes are being put in their place, by caller.
    pub placing: BTreeMap<u64, (Write, Placing)>,
    /// Seals under way, by caller.
    pub sealing: BTreeMap<u64, SealStep>,
    pub last_caller: u64,
    pub beating: bool,
    pub incarnation: Incarnation,
    pub identity: Identity,
    /// Its number, once it has joined.
    pub number: Option<NodeId>,
    /// The last record that it has certainly heard of, and when it last asked for a session.
    pub heard: u64,
    pub joined: Millis,
}

pub struct World {
    pub random: Random,
    pub config: Config,
    /// Memory shared by all clients' files.
    pub budget: Arc<dyn Budget>,
    pub now: Millis,
    order: u64,
    events: BinaryHeap<Reverse<(Millis, u64, usize)>>,
    what: Vec<Option<Event>>,
    /// Free places in `what`.
    free: Vec<usize>,
    pub calls: BTreeMap<u64, Call>,
    pub last_call: u64,
    /// For each host: number of starts, end of its stall, and how far its clock is ahead.
    pub lives: Vec<u64>,
    pub stalls: Vec<Millis>,
    /// Time after which all calls to stalled hosts have been taken.
    pub taken_from: Millis,
    pub skews: Vec<Millis>,
    /// Cut links, as (from, to).
    pub cut: BTreeSet<(Host, Host)>,
    pub lossy: bool,
    pub healed: bool,
    /// Time from which everything must be available.
    pub well_from: Millis,
    pub disk: SimDisk,
    pub namenode: Option<(Namenode, Journal<SimDisk>)>,
    pub nodes: Vec<Node>,
    pub clients: Vec<Client>,
    pub model: Model,
    /// Kinds of trouble in this run.
    pub mood: u64,
    /// Decommissions datanodes.
    pub operator: Operator,
    /// Makes syncs fail.
    pub syncs: Syncs,
    /// Makes longer outages.
    pub outages: Outages,
    /// Interrupts full reports.
    pub parts: Parts,
    /// Swaps replicas' files.
    pub swaps: Swaps,
    /// Loses and restores files.
    pub losses: Losses,
    pub racks: Racks,
    /// Whether clients join files. The schedules of all other seeds stay as they were before clients
    /// could, with the faults that they notice.
    pub joins: bool,
    /// Whether the namenode rouses datanodes: in a few seeds, for the same reason.
    pub rouses: bool,
    /// The last record that the namenode has surely on disk.
    pub logged: u64,
    /// Whether the namenode couldn't read a checkpoint when it started.
    pub unreadable: bool,
    /// The rare moment that this run provokes, if any.
    pub moment: Option<Moment>,
    /// Recent calls to datanodes.
    pub echoes: VecDeque<(Host, Request)>,
    /// A chunk that began with another's bytes, and their number.
    pub continued: Option<(ChunkId, u32)>,
    pub stranded: BTreeSet<ChunkId>,
    /// Index of the datanode with that number.
    pub numbers: BTreeMap<NodeId, usize>,
    /// Chunks with a damaged replica. No second replica is damaged while the first may exist.
    pub rotten: BTreeSet<ChunkId>,
    pub failure: Option<String>,
    /// Logs all events, for a seed that failed (`KADOOP_SIM_TRACE`).
    pub trace: bool,
}

pub fn config(fault: Option<Fault>) -> Config {
    Config {
        min_chunk_bytes: 1,
        unit_bytes: 16,
        write_bytes: 32,
        hold_bytes: 96,
        stage_bytes: 96,
        // Only the runs with little memory have idle writers, so all others keep their schedules.
        idle_ms: Millis::MAX,
        ahead_bytes: 128,
        reads_at_once: 2,
        continue_below_bytes: 64,
        // Writers close each other's files.
        open_replicas: 1,
        sweep_inodes: 1,
        stale_ms: 3_000,
        dead_ms: 5_000,
        lease_soft_ms: 5_000,
        lease_hard_ms: 9_000,
        recovery_patience_ms: 20_000,
        recovery_round_ms: 3_000,
        safe_mode_extra_ms: 1_000,
        orphan_ms: 3_000,
        copy_ms: 5_000,
        report_ms: 10_000,
        scrub_ms: 10_000,
        scrub_bytes: 4_096,
        write_ms: 1_000,
        probe_ms: 300,
        disk_ms: 1_500,
        read_ms: 500,
        retry_ms: 100,
        give_up_ms: 8_000,
        segment_bytes: 2_048,
        faults: fault.map_or(Faults::NONE, Faults::planted),
        ..Config::default()
    }
}

impl World {
    pub fn new(seed: u64, fault: Option<Fault>) -> Self {
        let node = |at: usize| Node {
            disks: (0..DIRECTORIES).map(|_| SimDisk::default()).collect(),
            cluster: 0,
            running: None,
            held: BTreeMap::new(),
            placing: BTreeMap::new(),
            sealing: BTreeMap::new(),
            last_caller: 0,
            beating: false,
            incarnation: Incarnation(0),
            identity: Identity(1 + at as u64),
            number: None,
            heard: 0,
            joined: 0,
        };
        let mut random = Random(seed);
        // Few kinds of trouble at a time: each alone goes deeper than all together.
        let mood = random.next() & random.next();
        let lossy = random.one_in(2);
        let mut world = Self {
            config: config(fault),
            budget: Arc::new(Unbounded),
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            what: Vec::new(),
            free: Vec::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            lives: vec![0; HOSTS],
            stalls: vec![0; HOSTS],
            taken_from: 0,
            skews: vec![0; HOSTS],
            cut: BTreeSet::new(),
            lossy,
            healed: true,
            well_from: Millis::MAX,
            disk: SimDisk::default(),
            namenode: None,
            nodes: (0..NODES).map(node).collect(),
            clients: (0..CLIENTS).map(Client::new).collect(),
            model: Model::default(),
            mood,
            operator: Operator::new(seed),
            syncs: Syncs::new(seed),
            outages: Outages::new(seed),
            parts: Parts::new(seed),
            swaps: Swaps::new(seed),
            losses: Losses::new(seed),
            racks: Racks::new(seed),
            joins: seed % 11 == 5,
            rouses: seed % 17 == 16,
            logged: 0,
            unreadable: false,
            moment: None,
            echoes: VecDeque::new(),
            continued: None,
            stranded: BTreeSet::new(),
            numbers: BTreeMap::new(),
            rotten: BTreeSet::new(),
            failure: None,
            trace: std::env::var_os("KADOOP_SIM_TRACE").is_some(),
            random,
        };
        world.draw_moment();
        world.draw_losses();
        world.begin_parts();
        world
    }

    pub fn at(&mut self, when: Millis, event: Event) {
        self.order += 1;
        let place = self.free.pop().unwrap_or(self.what.len());
        if place == self.what.len() {
            self.what.push(None);
        }
        self.what[place] = Some(event);
        self.events.push(Reverse((when.max(self.now), self.order, place)));
    }

    /// Time by the host's own clock.
    pub fn clock(&self, host: Host) -> Millis {
        self.now + self.skews[host]
    }

    pub fn fail(&mut self, why: String) {
        let at = self.now;
        self.failure.get_or_insert_with(|| format!("at {at} ms: {why}"));
    }

    /// Processes events until `end`.
    pub fn run_until(&mut self, end: Millis) -> Result<(), String> {
        while let Some(Reverse((when, _, place))) = self.events.peek().copied() {
            if when > end {
                break;
            }
            self.events.pop();
            self.now = when;
            self.free.push(place);
            if let Some(event) = self.what[place].take() {
                self.happen(event);
            }
            if let Some(why) = self.failure.take() {
                return Err(why);
            }
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        if self.trace {
            eprintln!("{:>7} {event:?}", self.now);
        }
        match event {
            Event::Deliver { id, hop, host, request } => match self.stalled(host) {
                Some(until) => {
                    self.taken_from = self.taken_from.max(until);
                    self.at(until, Event::Deliver { id, hop, host, request });
                }
                None => self.on_request(id, hop, host, *request),
            },
            Event::Reply { id, hop, reply } => self.on_reply(id, hop, reply),
            Event::Timeout(id) => self.on_timeout(id),
            Event::Tick(host, life)
            | Event::Step(host, life)
            | Event::Wake(host, life)
            | Event::Renew(host, life)
            | Event::Rouse(host, life)
            | Event::Place(host, life, _)
            | Event::Seal(host, life, _)
            | Event::Part(host, life, _)
                if self.lives[host] != life => {}
            Event::Place(host, _, caller) => self.on_placing(host, caller),
            Event::Seal(host, _, caller) => self.on_sealing(host, caller),
            Event::Tick(host, life) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Tick(host, life)),
                None => self.on_tick(host),
            },
            Event::Step(host, life) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Step(host, life)),
                None => self.step_client(host),
            },
            Event::Wake(host, life) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Wake(host, life)),
                None => self.wake_client(host),
            },
            Event::Renew(host, life) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Renew(host, life)),
                None => self.renew_leases(host),
            },
            Event::Part(host, life, rest) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Part(host, life, rest)),
                None => self.take_rest(*rest),
            },
            Event::Rouse(host, life) => match self.stalled(host) {
                Some(until) => self.at(until, Event::Rouse(host, life)),
                None => self.beat(host),
            },
            // The operator doesn't want anything else to happen now.
            Event::Trouble | Event::Operate | Event::Syncs | Event::Outage | Event::Swap
                if self.losses.is_mending() =>
            {
                self.at(self.now + 500, event);
            }
            Event::Restart(host) if host > NODES && self.losses.is_mending() => {
                self.at(self.now + 500, event);
            }
            Event::Restart(host) => self.start(host),
            Event::Mend(from, to) => drop(self.cut.remove(&(from, to))),
            Event::Trouble => self.trouble(),
            Event::Takeover if !self.healed => self.take_over(),
            Event::Takeover => {}
            Event::Strand(strand) => self.strand(strand),
            Event::Stranded(strand) => self.check_stranded(&strand),
            Event::Operate => self.operate(),
            Event::Syncs => self.fail_syncs(),
            Event::Outage => self.outage(),
            Event::Swap => self.swap(),
            Event::Loss => self.lose(),
        }
    }

    fn on_tick(&mut self, host: Host) {
        let (now, life) = (self.clock(host), self.lives[host]);
        if host == NAMENODE {
            self.ask(|namenode| namenode.tick(now));
            let mark = self.namenode.as_mut().and_then(|(_, journal)| journal.mark_to_sync());
            if let Some(mark) = mark {
                let _ = mark.sync_data();
            }
            self.at(self.now + 1_000, Event::Tick(host, life));
        } else if let Some(node) = &mut self.nodes[host - 1].running {
            node.tick(now);
            node.unsynced_memory().iter().for_each(|file| drop(file.sync_data()));
            self.beat(host);
            let pause = 900 + self.random.below(200);
            self.at(self.now + pause, Event::Tick(host, life));
        }
    }

    /// Asks the namenode; None if it can't answer, and then it is down.
    pub fn ask<T>(&mut self, ask: impl FnOnce(&mut Namenode) -> T) -> Option<T> {
        let (namenode, journal) = self.namenode.as_mut()?;
        let answer = ask(namenode);
        namenode.outbox.drain(..).for_each(|transaction| journal.push(transaction.encode()));
        let roused = if self.rouses { namenode.roused() } else { BTreeSet::new() };
        if journal.commit().is_err() {
            self.on_log_failed();
            return None;
        }
        self.logged = namenode.sequence();
        roused.into_iter().for_each(|node| self.rouse(node));
        self.watch_kept();
        Some(answer)
    }

    /// Has a datanode send a heartbeat soon, unless the network loses that.
    fn rouse(&mut self, node: NodeId) {
        for host in self.host_of(node) {
            if !(self.cut.contains(&(NAMENODE, host)) || self.lossy && self.random.one_in(4)) {
                let pause = 1 + self.random.below(20);
                self.at(self.now + pause, Event::Rouse(host, self.lives[host]));
            }
        }
    }

    /// Ends the namenode. If the power is still on, its machine keeps running.
    fn on_log_failed(&mut self) {
        match self.disk.is_off() {
            true => self.crash(NAMENODE),
            false => self.end_process(NAMENODE),
        }
    }

    /// Starts the host, unless it is running.
    pub fn start(&mut self, host: Host) {
        let life = self.lives[host];
        if host == NAMENODE && self.namenode.is_none() {
            let loaded = match load(&self.disk, CLUSTER, &self.config) {
                Ok(loaded) => loaded,
                Err(_) if self.put_files_back() => return,
                Err(error) => return self.fail(format!("the namenode doesn't start: {error}")),
            };
            let next = loaded.state.next.sequence + 1;
            if next <= self.logged {
                let logged = self.logged;
                return self.fail(format!("the namenode starts with record {next} of {logged} answered"));
            }
            self.unreadable = !loaded.unreadable.is_empty();
            let config = self.config.clone();
            let journal =
                Journal::start(self.disk.clone(), CLUSTER, next, config.segment_bytes, config.faults);
            let marked = journal.and_then(|mut journal| journal.keep_mark().map(|()| journal));
            match marked {
                Ok(journal) => {
                    let random = self.random.next();
                    let namenode = Namenode::new(config, loaded.state, self.clock(host), random);
                    self.namenode = Some((namenode, journal));
                    self.on_namenode_started();
                    self.at(self.now + 1_000, Event::Tick(host, life));
                    let drawn = self.random.next() | 1;
                    self.ask(|namenode| namenode.begin(drawn));
                }
                // The power or a sync failed; the next start may succeed.
                Err(error) => {
                    if self.trace {
                        eprintln!("{:>7} the log's start: {error}", self.now);
                    }
                    if self.disk.is_off() {
                        self.disk.crash(&mut self.random);
                    }
                    self.at(self.now + 1_000, Event::Restart(host));
                }
            }
        } else if (1..=NODES).contains(&host) && self.nodes[host - 1].running.is_none() {
            let incarnation = Incarnation(self.random.next());
            self.move_rack(host - 1);
            let Node { disks, cluster, identity, .. } = &self.nodes[host - 1];
            let (disks, cluster, identity) = (disks.clone(), *cluster, *identity);
            disks.iter().for_each(SimDisk::begin_use);
            match Datanode::start(self.config.clone(), disks, identity, cluster, incarnation) {
                Ok(node) => {
                    let this = &mut self.nodes[host - 1];
                    (this.running, this.beating, this.incarnation) = (Some(node), false, incarnation);
                    self.at(self.now + 1, Event::Tick(host, life));
                    self.on_started(host);
                }
                Err(_) => {
                    let disks = &self.nodes[host - 1].disks;
                    // One power supply serves all disks.
                    if disks.iter().any(SimDisk::is_off) {
                        disks.iter().for_each(|disk| disk.crash(&mut self.random));
                    }
                    self.at(self.now + 1_000, Event::Restart(host));
                }
            }
        } else if host > NODES && !self.clients[host - NODES - 1].running {
            self.start_client(host);
        }
    }

    /// Fails the power of a host. For a client, ends its process.
    pub fn crash(&mut self, host: Host) {
        let longest = if self.random.one_in(4) { 9_000 } else { 2_000 };
        let pause = 300 + self.random.below(longest);
        self.crash_for(host, pause);
    }

    /// As [`World::crash`], with a start after `pause`.
    pub fn crash_for(&mut self, host: Host, pause: Millis) {
        self.stop(host);
        if host == NAMENODE {
            self.disk.crash(&mut self.random);
        } else if host <= NODES {
            for disk in &self.nodes[host - 1].disks {
                disk.crash(&mut self.random);
            }
        }
        if !self.healed {
            self.at(self.now + pause, Event::Restart(host));
        }
    }

    /// Ends a host's process and starts it again soon. The machine keeps running.
    pub fn end_process(&mut self, host: Host) {
        self.stop(host);
        self.at(self.now + 300, Event::Restart(host));
    }

    fn stop(&mut self, host: Host) {
        self.lives[host] += 1;
        if host == NAMENODE {
            self.namenode = None;
        } else if host <= NODES {
            let node = &mut self.nodes[host - 1];
            (node.running, node.incarnation) = (None, Incarnation(0));
            node.heard = 0;
            node.held.clear();
            node.placing.clear();
            node.sealing.clear();
        } else {
            self.crash_client(host);
        }
    }
}
