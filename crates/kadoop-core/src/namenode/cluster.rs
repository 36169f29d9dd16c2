//! The namenode's knowledge of its datanodes. It isn't logged, so a restart loses it.

use super::{Namenode, balance::Balance, intake::Intake, orders::Orders, recovery::Round, state::State};
use crate::{
    ChunkId, ClientId, Error, FileId, Identity, Incarnation, Millis, NodeId, Stamp,
    faults::Fault,
    messages::{Order, Point, ReplicaReport, Space},
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

/// Datanodes, their replicas, the ages of leases, and recoveries under way.
#[derive(Debug)]
pub(super) struct Cluster {
    pub nodes: BTreeMap<NodeId, Node>,
    /// For each chunk, the datanodes with a good replica: sealed, with the logged stamp and length.
    /// Includes dead datanodes.
    pub good: FxHashMap<ChunkId, SmallVec<[NodeId; 4]>>,
    /// All other reported replicas.
    pub odd: BTreeMap<ChunkId, Vec<Odd>>,
    /// Chunks with too few replicas, by priority; 0 is the most urgent.
    pub needy: BTreeSet<(u8, ChunkId)>,
    /// The chunk at which the next search among the least urgent chunks begins.
    pub needy_from: ChunkId,
    pub superfluous: BTreeSet<ChunkId>,
    /// Chunks whose replicas still have to be reviewed.
    pub unreviewed: Vec<ChunkId>,
    /// Ended chunks of open files with fewer live replicas than the file's minimum.
    pub short: BTreeSet<ChunkId>,
    /// Reported chunks that no file has.
    pub orphans: BTreeSet<ChunkId>,
    pub copies: BTreeMap<ChunkId, Copying>,
    /// The latest rebalance since this namenode started.
    pub balance: Option<Balance>,
    /// Time of each client's latest request or renewal of its leases.
    pub renewed: BTreeMap<ClientId, Millis>,
    pub rounds: BTreeMap<FileId, Round>,
    /// Open files whose pipelines have lost members, by their writers' clients.
    pub broken: BTreeSet<(ClientId, FileId)>,
    /// Time of the latest tick.
    pub ticked: Millis,
    /// Time of the latest tick that came late because this process had been stopped.
    pub awake_since: Millis,
    /// Time when safe mode ended. Leases and orphans age from then on.
    pub safe_until: Option<Millis>,
    /// Time when enough datanodes or chunks were reported.
    pub enough_since: Option<Millis>,
    /// Number of ended chunks, for safe mode.
    pub ended: usize,
    /// Whether a datanode that had joined before this start has begun a session since, or no such
    /// datanode is expected.
    pub heard: bool,
    /// Datanodes with urgent orders, which shouldn't wait for the next heartbeat.
    pub roused: BTreeSet<NodeId>,
    /// Datanodes refused for their history. They stay here until an operator admits them, or they no
    /// longer show another history.
    refused: BTreeMap<Identity, Refused>,
    /// See [`Cluster::behind`].
    behind: Option<u64>,
    random: u64,
    sessions: u64,
}

/// A datanode that was refused because it belongs to another history than the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    pub why: Error,
    pub seen: Point,
    /// The highest chunk and stamp that it has reported.
    pub highest: (ChunkId, Stamp),
}

/// From this size on, chunks are placed evenly. If a datanode is lost, many others then share the work of
/// copying. Random choice spreads many smaller chunks well enough.
const EVEN_FROM_BYTES: u64 = 1 << 20;

/// Most refused datanodes remembered.
const MAX_REFUSED: usize = 1_000;

/// A datanode.
#[derive(Debug)]
pub(super) struct Node {
    pub incarnation: Incarnation,
    pub session: u64,
    /// Number of the latest heartbeat that was accepted.
    pub number: u64,
    /// Time of the latest heartbeat.
    pub heard: Millis,
    pub dead: bool,
    /// Whether it has reported all its replicas in this session.
    pub reported: bool,
    /// Its full report, while the namenode processes it.
    pub report: Option<Intake>,
    pub comeback: Comeback,
    /// Number of chunks placed on it, by which placement spreads chunks evenly.
    pub placed: u64,
    pub space: Space,
    /// Chunks of its replicas. In a new session, those of the former session stay until the full report.
    pub held: BTreeSet<ChunkId>,
    /// Replicas that it was ordered to delete and hasn't reported deleted. They don't count.
    pub leaving: BTreeMap<ChunkId, Stamp>,
    pub orders: Orders,
}

impl Node {
    /// Whether the processed part of its full report in this session covers the chunk. Then the namenode
    /// knows whether it has a replica.
    pub(super) fn has_told(&self, chunk: ChunkId) -> bool {
        self.reported || self.report.as_ref().is_some_and(|report| chunk <= report.upto)
    }

    /// Ends the wait for a full report after a cancelled decommission. Returns whether the namenode had
    /// requested one.
    pub(super) fn ends_comeback(&mut self) -> bool {
        let waited = self.comeback == Comeback::Asked;
        if waited {
            self.comeback = Comeback::Over;
        }
        waited
    }
}

/// Progress of a datanode whose decommission was cancelled. An operator may have removed it before
/// that, and the namenode notices that only after a while. So its replicas don't count until it
/// reports them again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comeback {
    /// It has reported its replicas, or its decommission was never cancelled.
    Over,
    /// It hasn't sent a heartbeat since the cancellation.
    Unheard,
    /// The namenode has requested all its replicas.
    Asked,
}

/// A replica that doesn't count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Odd {
    pub node: NodeId,
    pub report: ReplicaReport,
    pub corrupt: bool,
}

/// A copy under way.
#[derive(Debug, Clone)]
pub(super) struct Copying {
    pub to: NodeId,
    /// Session of the datanode that copies.
    pub session: u64,
    pub from: NodeId,
    pub until: Millis,
}

impl Cluster {
    pub(super) fn new(state: &State, now: Millis, random: u64) -> Self {
        let written = state.open.values().flat_map(|open| {
            let chunks = state.inodes.get(open.inode).and_then(|inode| inode.chunks()).unwrap_or_default();
            chunks.iter().filter(|chunk| **chunk >= open.since && open.place(**chunk).is_none())
        });
        let short = written.copied().collect();
        Self {
            nodes: BTreeMap::new(),
            good: FxHashMap::default(),
            odd: BTreeMap::new(),
            needy: BTreeSet::new(),
            needy_from: ChunkId(0),
            superfluous: BTreeSet::new(),
            unreviewed: Vec::new(),
            short,
            orphans: BTreeSet::new(),
            copies: BTreeMap::new(),
            balance: None,
            renewed: BTreeMap::new(),
            rounds: BTreeMap::new(),
            broken: BTreeSet::new(),
            ticked: now,
            awake_since: now,
            safe_until: None,
            // An empty cluster needn't wait for anything.
            enough_since: (state.nodes.is_empty() && state.chunks.is_empty()).then_some(now),
            ended: state.chunks.values().filter(|chunk| chunk.ended).count(),
            heard: state.nodes.keys().all(|node| state.decommissioned.contains(node)),
            roused: BTreeSet::new(),
            refused: BTreeMap::new(),
            behind: None,
            // xorshift stays at 0 if it starts there.
            random: random | 1,
            sessions: random,
        }
    }

    pub(super) fn in_safe_mode(&self) -> bool {
        self.safe_until.is_none() || self.behind.is_some()
    }

    /// The highest record that a refused datanode knows of, if the log ends before it.
    pub(super) fn behind(&self) -> Option<u64> {
        self.behind
    }

    /// Remembers a refusal, and returns its reason.
    pub(super) fn refuse(
        &mut self,
        identity: Identity,
        why: Error,
        seen: Point,
        highest: (ChunkId, Stamp),
    ) -> Error {
        if self.refused.len() < MAX_REFUSED || self.refused.contains_key(&identity) {
            self.refused.insert(identity, Refused { why, seen, highest });
        }
        self.look_behind();
        why
    }

    pub(super) fn refusal(&self, identity: Identity) -> Option<Refused> {
        self.refused.get(&identity).copied()
    }

    pub(super) fn refusals(&self) -> impl Iterator<Item = (Identity, Error)> {
        self.refused.iter().map(|(identity, refused)| (*identity, refused.why))
    }

    pub(super) fn forget_refusal(&mut self, identity: Identity) {
        if self.refused.remove(&identity).is_some() {
            self.look_behind();
        }
    }

    fn look_behind(&mut self) {
        let behind = self.refused.values().filter(|refused| refused.why == Error::LogBehind);
        self.behind = behind.map(|refused| refused.seen.record).max();
    }

    /// A session number that no other namenode process has issued: they count from random numbers.
    pub(super) fn new_session(&mut self) -> u64 {
        self.sessions = self.sessions.wrapping_add(1).max(1);
        self.sessions
    }

    /// The next pseudo-random number (xorshift64): for choices, not secrets.
    pub(super) fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Live datanodes with a good replica of the chunk.
    pub(super) fn live_good(&self, chunk: ChunkId) -> SmallVec<[NodeId; 4]> {
        let holders = self.good.get(&chunk).into_iter().flatten().copied();
        holders.filter(|node| self.tells(*node, chunk)).collect()
    }

    /// Whether the datanode is alive, and the namenode knows from its current session whether it has a
    /// replica of the chunk.
    pub(super) fn tells(&self, node: NodeId, chunk: ChunkId) -> bool {
        self.nodes.get(&node).is_some_and(|node| !node.dead && node.has_told(chunk))
    }

    /// The chunk's replicas that don't count, as reported in their datanodes' current sessions.
    pub(super) fn odd_of(&self, chunk: ChunkId) -> impl Iterator<Item = &Odd> {
        let told = move |odd: &&Odd| self.nodes.get(&odd.node).is_some_and(|node| node.has_told(chunk));
        self.odd.get(&chunk).into_iter().flatten().filter(told)
    }

    /// Queues an order for a datanode. Fences, seals and copies are urgent: clients wait for recoveries,
    /// and files are in danger until they are copied. Other orders can wait for the next heartbeat.
    pub(super) fn order(&mut self, node: NodeId, order: Order) {
        let Some(known) = self.nodes.get_mut(&node) else { return };
        if matches!(order, Order::Copy(_) | Order::Fence { .. } | Order::Seal { .. }) {
            self.roused.insert(node);
        }
        known.orders.add(order);
    }

    /// Number of copies from each datanode, and to each.
    pub(super) fn streams(&self) -> (FxHashMap<NodeId, usize>, FxHashMap<NodeId, usize>) {
        let (mut from, mut to) = (FxHashMap::default(), FxHashMap::default());
        for copy in self.copies.values() {
            *from.entry(copy.from).or_default() += 1;
            *to.entry(copy.to).or_default() += 1;
        }
        (from, to)
    }

    /// Whether the datanode takes part in a copy.
    pub(super) fn copies_at(&self, node: NodeId) -> bool {
        self.copies.values().any(|copy| copy.to == node || copy.from == node)
    }
}

impl Namenode {
    /// Whether the datanode has reported its replicas, and has sent a heartbeat within `stale_ms`.
    pub(super) fn usable(&self, node: NodeId, now: Millis) -> bool {
        self.cluster.nodes.get(&node).is_some_and(|node| {
            node.reported && !node.dead && now.saturating_sub(node.heard) < self.config.stale_ms
        })
    }

    /// Whether the datanode can take a new replica of this size.
    pub(super) fn takes(&self, node: NodeId, bytes: u64, now: Millis) -> bool {
        self.usable(node, now)
            && !self.state.decommissioned.contains(&node)
            && self.cluster.nodes.get(&node).is_some_and(|node| node.space.has_room(bytes))
    }

    /// Chooses datanodes for `count` replicas of size `bytes`, in addition to those in `taken`. While all
    /// are on one rack, the next goes to another rack. A third one goes to the second one's rack, others
    /// go anywhere. Each choice is random. For a large chunk, it is the better of two random choices: the
    /// datanode with fewer placed chunks. Returns fewer than `count` if no more datanodes fit.
    pub(super) fn place(
        &mut self,
        count: usize,
        taken: &[NodeId],
        avoid: &[NodeId],
        bytes: u64,
        now: Millis,
    ) -> Vec<NodeId> {
        let mut free: Vec<NodeId> = self.cluster.nodes.keys().copied().collect();
        free.retain(|node| !taken.contains(node) && !avoid.contains(node) && self.takes(*node, bytes, now));
        let mut chosen: Vec<NodeId> = taken.to_vec();
        while chosen.len() < taken.len() + count && !free.is_empty() {
            let wanted: Vec<usize> = match chosen[..] {
                [first, ref others @ ..]
                    if others.iter().all(|other| self.rack(*other) == self.rack(first)) =>
                {
                    self.indices(&free, |rack| rack != self.rack(first))
                }
                [_, second] => self.indices(&free, |rack| rack == self.rack(second)),
                _ => Vec::new(),
            };
            let random = self.cluster.random();
            let any = wanted.is_empty() || self.config.faults.has(Fault::RacksIgnored);
            let one = |random: u64| match any {
                true => random as usize % free.len(),
                false => wanted[random as usize % wanted.len()],
            };
            let (first, second) = (one(random), one(random >> 32));
            let placed = |at: usize| self.cluster.nodes.get(&free[at]).map_or(0, |node| node.placed);
            let evens = bytes >= EVEN_FROM_BYTES && placed(second) < placed(first);
            chosen.push(free.swap_remove(if evens { second } else { first }));
        }
        chosen.split_off(taken.len())
    }

    /// Counts a chunk that is placed on the datanode.
    pub(super) fn note_placed(&mut self, node: NodeId) {
        if let Some(node) = self.cluster.nodes.get_mut(&node) {
            node.placed += 1;
        }
    }

    /// Chooses at random one of `nodes` that can take a replica of size `bytes` and isn't in `avoid`.
    pub(super) fn one_of(
        &mut self,
        nodes: &[NodeId],
        avoid: &[NodeId],
        bytes: u64,
        now: Millis,
    ) -> Option<NodeId> {
        let fits = |node: &&NodeId| !avoid.contains(node) && self.takes(**node, bytes, now);
        let free: Vec<NodeId> = nodes.iter().filter(fits).copied().collect();
        if free.is_empty() {
            return None;
        }
        Some(free[self.cluster.random() as usize % free.len()])
    }

    pub(super) fn rack(&self, node: NodeId) -> &str {
        self.state.nodes.get(&node).map_or("", |node| node.rack.as_str())
    }

    fn indices(&self, nodes: &[NodeId], fits: impl Fn(&str) -> bool) -> Vec<usize> {
        (0..nodes.len()).filter(|at| fits(self.rack(nodes[*at]))).collect()
    }

    /// The time at which the next datanode counts as dead, if no heartbeat comes before.
    pub fn next_death(&self) -> Option<Millis> {
        let alive = self.cluster.nodes.values().filter(|node| !node.dead);
        alive.map(|node| node.heard + self.config.dead_ms).min()
    }

    /// Datanodes that got urgent orders since the last call. The caller can ask them for a heartbeat at
    /// once: its answer carries the orders.
    pub fn roused(&mut self) -> BTreeSet<NodeId> {
        match self.config.faults.has(Fault::NobodyRoused) {
            true => BTreeSet::new(),
            false => std::mem::take(&mut self.cluster.roused),
        }
    }

    /// Marks datanodes that were silent for too long as dead, and those that came back as alive.
    pub(super) fn watch_nodes(&mut self, now: Millis) {
        let dead_ms = self.config.dead_ms;
        let mut turned = Vec::new();
        for node in self.cluster.nodes.values_mut() {
            let dead = now.saturating_sub(node.heard) >= dead_ms;
            if dead != node.dead {
                node.dead = dead;
                turned.extend(node.held.iter().copied());
            }
        }
        self.review_all(turned);
    }

    /// Ends safe mode `safe_mode_extra_ms` after all datanodes, or nearly all chunks, are reported.
    pub(super) fn watch_safe_mode(&mut self, now: Millis) {
        if !self.cluster.in_safe_mode() {
            return;
        }
        let since = match self.cluster.enough_since {
            Some(since) => since,
            None => {
                let nodes = &self.cluster.nodes;
                // A decommissioned datanode may be gone.
                let mut expected =
                    self.state.nodes.keys().filter(|node| !self.state.decommissioned.contains(node));
                let all = expected.all(|node| nodes.get(node).is_some_and(|node| node.reported));
                let covered = || {
                    let known = self.cluster.good.iter();
                    let told = |chunk, node: &NodeId| {
                        nodes.get(node).is_some_and(|node: &Node| node.has_told(chunk))
                    };
                    let enough = |(chunk, who): &(&ChunkId, &SmallVec<[NodeId; 4]>)| {
                        who.iter().filter(|node| told(**chunk, node)).count() >= self.least_of(**chunk)
                    };
                    known.filter(enough).count()
                };
                // 99.9 %, as HDFS (`dfs.namenode.safemode.threshold-pct`).
                if !all && (self.cluster.ended == 0 || covered() * 1_000 < self.cluster.ended * 999) {
                    return;
                }
                *self.cluster.enough_since.insert(now)
            }
        };
        if now >= since + self.config.safe_mode_extra_ms {
            self.cluster.safe_until = Some(now);
            let chunks: Vec<ChunkId> = self.state.chunks.keys().copied().collect();
            self.review_all(chunks);
        }
    }
}
