//! What all threads of a datanode work on.

use super::{
    DatanodeOptions,
    directories::{Directories, Space},
    lender::Place,
};
use crate::{
    ChunkId, Config, Identity, Millis, NodeId, Stamp,
    datanode::{Datanode, Fetch},
    disk::{DiskFile, RealDisk},
    error::{Error, Result},
    service::{
        Host,
        clock::{Clock, wall},
        proofs::{self, Call, Procedure, Witness},
        stop::Stop,
        tokens::{Right, TOKEN_MS, Token, TokenKey},
    },
    wire::KdContinue,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::SocketAddr,
    sync::{
        Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};
use strait_flexrpc::stub::ServiceError;

/// The namenode isn't asked for unknown datanodes more often than this, whatever callers
/// name.
const ASK_MS: Millis = 100;

/// From here on it takes the disk longer to write a replica than to begin and end a sync.
const LARGE_BYTES: u32 = 1 << 20;

/// A datanode's state and what it knows of its cluster.
pub(super) struct Shared {
    core: RwLock<Datanode<RealDisk>>,
    directories: Mutex<Directories>,
    /// Somebody met a disk's error: the directories are to be tried.
    suspicious: AtomicBool,
    tokens: TokenKey,
    /// What it proves to be.
    pub identity: Identity,
    /// Where programs on this host borrow; unset where they don't.
    lender: OnceLock<Place>,
    members: RwLock<Members>,
    waiting: Waiting,
    /// None once the datanode ends, which wakes those who wait for fetches.
    fetches: Mutex<Option<mpsc::Sender<Fetch>>>,
    beating: Stop,
    others: Mutex<Vec<Stop>>,
    ended: AtomicBool,
    pub config: Config,
    /// Datanodes on the same disks.
    pub sharing: u64,
    clock: Clock,
    /// When the namenode was last asked for datanodes that aren't known.
    asked_ms: AtomicU64,
    /// What the namenode's clock is ahead of this host's.
    ahead_ms: AtomicU64,
}

/// The cluster's datanodes, as the namenode told.
#[derive(Default)]
pub(super) struct Members {
    pub edition: u64,
    nodes: BTreeMap<NodeId, (SocketAddr, Identity)>,
    addresses: HashSet<SocketAddr>,
}

/// Callers whose writes wait for their turn.
#[derive(Default)]
struct Waiting {
    last: AtomicU64,
    settled: Mutex<HashMap<u64, Option<Result<()>>>>,
    changed: Condvar,
}

impl Shared {
    pub(super) fn new(
        mut core: Datanode<RealDisk>,
        options: &DatanodeOptions,
        (identity, tokens): (Identity, TokenKey),
        directories: Directories,
        beating: Stop,
        fetches: mpsc::Sender<Fetch>,
    ) -> Self {
        core.set_room(&directories.room());
        Self {
            core: RwLock::new(core),
            directories: Mutex::new(directories),
            suspicious: AtomicBool::new(false),
            tokens,
            identity,
            lender: OnceLock::new(),
            members: RwLock::default(),
            waiting: Waiting::default(),
            fetches: Mutex::new(Some(fetches)),
            beating,
            others: Mutex::default(),
            ended: AtomicBool::new(false),
            config: options.config.clone(),
            sharing: options.sharing,
            clock: Clock::start(),
            asked_ms: AtomicU64::new(0),
            ahead_ms: AtomicU64::new(0),
        }
    }

    /// Looks at the core.
    ///
    /// # Panics
    /// As [`Shared::change`].
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Datanode<RealDisk>> {
        self.core.read().unwrap_or_else(|_| half_changed())
    }

    /// Whether it is of no use any more, and the process should end: it panicked in mid-change,
    /// or no data directory works.
    pub(super) fn has_failed(&self) -> bool {
        self.core.is_poisoned() || self.directories().usable() == 0
    }

    /// Changes the core, and sees to what follows: callers that were waiting, fetches to
    /// make, news for the namenode.
    ///
    /// # Panics
    /// If a change panicked before.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Datanode<RealDisk>) -> T) -> T {
        let mut core = self.core.write().unwrap_or_else(|_| half_changed());
        let known = core.has_news();
        let value = change(&mut core);
        let settled = core.settled();
        let mut fetches = Vec::new();
        while let Some(fetch) = core.next_fetch() {
            fetches.push(fetch);
        }
        let news = core.has_news() && !known;
        let discarded = core.discarded();
        drop(core);
        drop(discarded);
        self.waiting.settle(settled);
        if !fetches.is_empty()
            && let Some(queue) = &*self.fetches()
        {
            for fetch in fetches {
                // The other end goes only with the datanode.
                let _ = queue.send(fetch);
            }
        }
        if news {
            self.beating.nudge();
        }
        value
    }

    /// Does something whose end comes later, and waits for it.
    pub(super) fn wait_for(
        &self,
        begin: impl FnOnce(&mut Datanode<RealDisk>, u64),
        until: Instant,
    ) -> Result<()> {
        let caller = self.waiting.begin();
        self.change(|core| begin(core, caller));
        self.waiting.wait(caller, until)
    }

    /// Puts what is written of a large replica on disk, while others go on: what the core
    /// syncs afterwards, with everybody waiting, is little then.
    pub(super) fn sync_ahead(&self, chunk: ChunkId) -> Result<()> {
        let core = self.read();
        let large = core.replica(chunk).is_some_and(|replica| replica.length >= LARGE_BYTES);
        let files = if large { core.unsynced(chunk) } else { Vec::new() };
        drop(core);
        if files.iter().all(|file| file.sync_data().is_ok()) {
            return Ok(());
        }
        self.change(|core| core.distrust(chunk));
        Err(Error::Disk)
    }

    /// Notes what a call met: a disk's error makes all directories suspicious.
    pub(super) fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Disk)) {
            self.suspicious.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Once a second: scrubs, looks after the directories.
    pub(super) fn tick(&self) {
        let suspicious = self.suspicious.swap(false, Ordering::Relaxed);
        // Whoever waited for it has long given up.
        let patience = Duration::from_millis(self.config.disk_ms);
        let failing = self.directories().tick(suspicious, patience);
        for index in &failing {
            self.change(|core| core.lose_directory(*index));
        }
        if !failing.is_empty() {
            self.beating.nudge();
        }
        let (room, now) = (self.directories().room(), self.clock.now());
        self.change(|core| {
            core.set_room(&room);
            core.tick(now);
        });
    }

    pub(super) fn space(&self) -> Space {
        self.directories().space()
    }

    pub(super) fn directories(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps until the next heartbeat is due; true if there is none any more.
    pub(super) fn sleep(&self, time: std::time::Duration) -> bool {
        self.beating.sleep(time)
    }

    /// Another thread's, to be stopped at the end.
    pub(super) fn also_stop(&self, stop: Stop) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(stop);
    }

    /// Nothing more will come.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.fetches().take();
        self.others.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(Stop::stop);
    }

    fn fetches(&self) -> MutexGuard<'_, Option<mpsc::Sender<Fetch>>> {
        self.fetches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Takes up the cluster's datanodes.
    pub(super) fn set_members(&self, edition: u64, hosts: &[Host]) {
        let place = |host: &Host| (host.node, (host.address, host.identity));
        let nodes: BTreeMap<NodeId, (SocketAddr, Identity)> = hosts.iter().map(place).collect();
        let addresses = nodes.values().map(|(address, _)| canonical(*address)).collect();
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = Members { edition, nodes, addresses };
    }

    /// The edition of the list that is known.
    pub(super) fn members_edition(&self) -> u64 {
        self.members.read().unwrap_or_else(PoisonError::into_inner).edition
    }

    /// Whether a datanode of the cluster serves there.
    pub(super) fn is_member(&self, address: SocketAddr) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let known = members.addresses.contains(&canonical(address));
        let now = self.clock.now();
        if !known && now >= self.asked_ms.load(Ordering::Relaxed) + ASK_MS {
            // Perhaps it has joined since the last heartbeat: the next one tells.
            self.asked_ms.store(now, Ordering::Relaxed);
            self.beating.nudge();
        }
        known
    }

    /// Where a datanode serves, and what it has to prove to be.
    pub(super) fn place_of(&self, node: NodeId) -> Option<(SocketAddr, Identity)> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).nodes.get(&node).copied()
    }

    /// The namenode's clock showed this just now.
    pub(super) fn set_time(&self, namenode_ms: Millis) {
        self.ahead_ms.store(namenode_ms.wrapping_sub(wall()), Ordering::Relaxed);
    }

    /// By the namenode's clock.
    pub(super) fn time(&self) -> Millis {
        wall().wrapping_add(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Says where programs on this host borrow, once it is known.
    pub(super) fn lends_at(&self, place: Option<&Place>) {
        if let Some(place) = place {
            // Only its start says so.
            let _ = self.lender.set(place.clone());
        }
    }

    pub(super) fn lender(&self) -> Option<&Place> {
        self.lender.get()
    }

    /// Looks at a call's tag, and at whether its token gives the right.
    pub(super) fn witness(
        &self,
        call: &impl Call,
        procedure: Procedure,
        right: Right,
    ) -> std::result::Result<Witness, ServiceError> {
        proofs::witness(&self.tokens, self.identity, call, (procedure, right), self.time())
    }

    /// Refuses unless the source's token gives the right to read it.
    pub(super) fn demand_source(&self, call: &KdContinue) -> Result<()> {
        proofs::demand_source(&self.tokens, self.identity, call, self.time())
    }

    /// A token for another datanode: whoever has the cluster's key may read.
    pub(super) fn token(&self, chunk: ChunkId, stamp: Stamp) -> Token {
        Token::new(&self.tokens.token(chunk, stamp, Right::Read, self.time() + TOKEN_MS))
    }
}

/// Nobody is answered from what a panic left half changed, and the namenode hears no more of it:
/// only a new start knows what is on disk.
fn half_changed() -> ! {
    panic!("this datanode panicked in the midst of a change before")
}

/// An IPv4 address as such, also if it came mapped.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Waiting {
    fn begin(&self) -> u64 {
        let caller = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.map().insert(caller, None);
        caller
    }

    fn settle(&self, settled: Vec<(u64, Result<()>)>) {
        if settled.is_empty() {
            return;
        }
        let mut map = self.map();
        for (caller, result) in settled {
            // One that waits no more has gone.
            if let Some(place) = map.get_mut(&caller) {
                *place = Some(result);
            }
        }
        drop(map);
        self.changed.notify_all();
    }

    fn wait(&self, caller: u64, until: Instant) -> Result<()> {
        let mut map = self.map();
        loop {
            if let Some(Some(result)) = map.get(&caller) {
                let result = *result;
                map.remove(&caller);
                return result;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                map.remove(&caller);
                // What is held may still be applied: the caller learns it by asking again.
                return Err(Error::OutcomeUnknown);
            }
            map = self.changed.wait_timeout(map, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<u64, Option<Result<()>>>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
