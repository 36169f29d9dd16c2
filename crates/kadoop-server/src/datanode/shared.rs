//! State shared by all threads of a datanode.

use super::{DatanodeOptions, directories::Directories, order_watch::OrderWatch, space::Space};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};
use strait_flexrpc::stub::ServiceError;
use strait_kadoop_core::{
    ChunkId, Config, Identity, Millis, NodeId, Stamp,
    datanode::{Datanode, Fetch, Sealing},
    disk::{DiskFile, Grouped, RealDisk},
    error::{Error, Result},
};
use strait_kadoop_wire::{
    Host,
    clock::{Clock, wall},
    proofs::{self, Call, Procedure, Witness},
    stop::Stop,
    tokens::{Right, TOKEN_MS, Token, TokenKey},
    wire::KdContinue,
};

/// Shortest interval between two heartbeats that are sent early because a caller named an unknown
/// datanode's address. Callers could name any number of addresses.
const ASK_MS: Millis = 100;

/// Size from which writing a replica's bytes dominates the time of its sync.
const LARGE_BYTES: u32 = 1 << 20;

/// The path of the lender's socket, and a number that identifies this run of the datanode.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub path: PathBuf,
    pub run: u64,
}

/// A datanode's state and its knowledge of the cluster.
pub(super) struct Shared {
    core: RwLock<Datanode<RealDisk>>,
    directories: Mutex<Directories>,
    /// A call met a disk's error, so the next tick tests the directories.
    suspicious: AtomicBool,
    tokens: TokenKey,
    /// The identity that its answers prove.
    pub identity: Identity,
    /// The lender's socket for programs on this host; unset if the datanode doesn't lend.
    lender: OnceLock<Place>,
    members: RwLock<Members>,
    waiting: Waiting,
    /// None once the datanode ends: dropping the sender wakes the threads that wait for fetches.
    fetches: Mutex<Option<mpsc::Sender<Fetch>>>,
    beating: Stop,
    /// Sends a heartbeat at once when the namenode has orders.
    pub order_watch: OrderWatch,
    others: Mutex<Vec<Stop>>,
    ended: AtomicBool,
    pub config: Config,
    /// Number of datanodes on the same disks.
    pub sharing: u64,
    clock: Clock,
    /// When it last sent an early heartbeat because of an unknown datanode.
    asked_ms: AtomicU64,
    /// How far the namenode's clock is ahead of this host's.
    ahead_ms: AtomicU64,
}

/// The cluster's datanodes, from the namenode's list.
#[derive(Default)]
pub(super) struct Members {
    pub edition: u64,
    nodes: BTreeMap<NodeId, (SocketAddr, Identity)>,
    addresses: HashSet<SocketAddr>,
}

/// Callers that wait for the end of their operations, each with a number and, once known, the result.
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
            order_watch: OrderWatch::default(),
            others: Mutex::default(),
            ended: AtomicBool::new(false),
            config: options.config.clone(),
            sharing: options.sharing,
            clock: Clock::start(),
            asked_ms: AtomicU64::new(0),
            ahead_ms: AtomicU64::new(0),
        }
    }

    /// Locks the core for reading.
    ///
    /// # Panics
    /// As [`Shared::change`].
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Datanode<RealDisk>> {
        self.core.read().unwrap_or_else(|_| half_changed())
    }

    /// Whether the datanode is unusable, so that the process should end: a thread panicked during a
    /// change, or no data directory works.
    pub(super) fn has_failed(&self) -> bool {
        self.core.is_poisoned() || self.directories().usable() == 0
    }

    /// Changes the core, and then does what the core demands: wakes callers, starts fetches, and sends a
    /// heartbeat if there is news.
    ///
    /// # Panics
    /// If an earlier change panicked.
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
                // The receiver lives as long as the datanode.
                let _ = queue.send(fetch);
            }
        }
        if news {
            self.beating.nudge();
        }
        value
    }

    /// Begins an operation, and waits for its end.
    ///
    /// # Errors
    /// OutcomeUnknown: it hasn't ended at `until`; otherwise the operation's.
    pub(super) fn wait_for(
        &self,
        begin: impl FnOnce(&mut Datanode<RealDisk>, u64),
        until: Instant,
    ) -> Result<()> {
        let caller = self.waiting.begin();
        self.change(|core| begin(core, caller));
        self.waiting.wait(caller, until)
    }

    /// Syncs a large replica's bytes outside the lock. The core syncs later under the lock, which blocks all
    /// callers; then few bytes are left.
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

    /// Begins a seal with `begin`, syncs outside the lock, so that other callers aren't blocked, and ends it.
    pub(super) fn seal(
        &self,
        begin: impl FnOnce(&mut Datanode<RealDisk>) -> Result<Option<Sealing<Grouped<RealDisk>>>>,
    ) -> Result<()> {
        match self.change(begin)? {
            None => Ok(()),
            Some(sealing) => {
                let synced = sealing.sync();
                self.change(|core| core.finish_seal(synced))
            }
        }
    }

    /// Returns `result`. If it is a disk's error, the next tick tests all directories.
    pub(super) fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Disk)) {
            self.suspicious.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Does the periodic work, once a second: scrubs and checks the directories.
    pub(super) fn tick(&self) {
        let suspicious = self.suspicious.swap(false, Ordering::Relaxed);
        // After this time, the callers of an operation on the disk have timed out long ago.
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
        // Ignore errors: as after a power failure, an older point is then on disk.
        let memory = self.change(|core| core.unsynced_memory());
        memory.iter().for_each(|file| drop(file.sync_data()));
    }

    pub(super) fn space(&self) -> Space {
        self.directories().space()
    }

    pub(super) fn directories(&self) -> MutexGuard<'_, Directories> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the cluster's number, unless one is recorded already.
    ///
    /// # Errors
    /// An I/O error of a disk.
    pub(super) fn join(&self, cluster: u64) -> io::Result<()> {
        self.directories().join(cluster)?;
        if self.read().cluster() == 0 {
            self.change(|core| core.join(cluster));
        }
        Ok(())
    }

    /// Sleeps for `time`, or until a heartbeat is due early. True if the datanode ends.
    pub(super) fn sleep(&self, time: std::time::Duration) -> bool {
        self.beating.sleep(time)
    }

    /// Registers another thread's stop signal, which [`Shared::end`] sets.
    pub(super) fn also_stop(&self, stop: Stop) {
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(stop);
    }

    /// Ends the fetches, and stops the threads whose signals are registered.
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

    /// Replaces the list of the cluster's datanodes.
    pub(super) fn set_members(&self, edition: u64, hosts: &[Host]) {
        let place = |host: &Host| (host.node, (host.address, host.identity));
        let nodes: BTreeMap<NodeId, (SocketAddr, Identity)> = hosts.iter().map(place).collect();
        let addresses = nodes.values().map(|(address, _)| canonical(*address)).collect();
        *self.members.write().unwrap_or_else(PoisonError::into_inner) = Members { edition, nodes, addresses };
    }

    /// The edition of the current list.
    pub(super) fn members_edition(&self) -> u64 {
        self.members.read().unwrap_or_else(PoisonError::into_inner).edition
    }

    /// Whether a datanode of the cluster serves at the address.
    pub(super) fn is_member(&self, address: SocketAddr) -> bool {
        let members = self.members.read().unwrap_or_else(PoisonError::into_inner);
        let known = members.addresses.contains(&canonical(address));
        let now = self.clock.now();
        if !known && now >= self.asked_ms.load(Ordering::Relaxed) + ASK_MS {
            // It may have joined since the last heartbeat. The answer to an early one shows that.
            self.asked_ms.store(now, Ordering::Relaxed);
            self.beating.nudge();
        }
        known
    }

    /// A datanode's address, and the identity that it has to prove.
    pub(super) fn place_of(&self, node: NodeId) -> Option<(SocketAddr, Identity)> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).nodes.get(&node).copied()
    }

    /// Records the namenode's current time.
    pub(super) fn set_time(&self, namenode_ms: Millis) {
        self.ahead_ms.store(namenode_ms.wrapping_sub(wall()), Ordering::Relaxed);
    }

    /// The current time by the namenode's clock.
    pub(super) fn time(&self) -> Millis {
        wall().wrapping_add(self.ahead_ms.load(Ordering::Relaxed))
    }

    /// Sets the lender's socket, if the datanode lends.
    pub(super) fn lends_at(&self, place: Option<&Place>) {
        if let Some(place) = place {
            // Only the start sets it.
            let _ = self.lender.set(place.clone());
        }
    }

    pub(super) fn lender(&self) -> Option<&Place> {
        self.lender.get()
    }

    /// Checks a call's tag, and whether its token gives the right.
    pub(super) fn witness(
        &self,
        call: &impl Call,
        procedure: Procedure,
        right: Right,
    ) -> std::result::Result<Witness, ServiceError> {
        proofs::witness(&self.tokens, self.identity, call, (procedure, right), self.time())
    }

    /// Refuses unless the token for the source gives the right to read it.
    pub(super) fn demand_source(&self, call: &KdContinue) -> Result<()> {
        proofs::demand_source(&self.tokens, self.identity, call, self.time())
    }

    /// A token to read a chunk at another datanode. Any holder of the cluster's key can make tokens.
    pub(super) fn token(&self, chunk: ChunkId, stamp: Stamp) -> Token {
        Token::new(&self.tokens.token(chunk, stamp, Right::Read, self.time() + TOKEN_MS))
    }
}

/// Panics, since an earlier panic left the core half changed. So the datanode sends no answers and no
/// heartbeats from that state. A new start reads the state from the disks.
fn half_changed() -> ! {
    panic!("this datanode panicked during an earlier change, so its state can't be used: restart it")
}

/// The address, as IPv4 if it is an IPv4 address that was mapped to IPv6.
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
            // A caller that timed out has removed its entry.
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
                // The datanode may still apply the write later. The caller finds out by retrying.
                return Err(Error::OutcomeUnknown);
            }
            map = self.changed.wait_timeout(map, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<u64, Option<Result<()>>>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
