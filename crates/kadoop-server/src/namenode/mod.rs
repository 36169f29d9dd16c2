//! The namenode as a process: one lock guards the core, and each change goes to the log.

mod answers;
mod attempts;
mod audit;
mod calls;
mod heartbeats;
mod hosts;
mod logins;
mod numbers;
mod operators;
mod refusals;
mod removal;
mod roll;
mod shares;
mod watches;

use super::{SLOW_CALL, checkpoints::checkpoint, commit::Commit, observed::Observed};
use crate::storage_directory::{CLUSTER, Role, StorageDirectory};
use hosts::Hosts;
use logins::Desk;
pub use logins::{Accounts, Logins};
pub use numbers::NamenodeNumbers;
use refusals::Refused;
use roll::Roll;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic::AtomicUsize},
    time::Duration,
};
use strait_flexrpc::{OwnKeys, Server, ServerOptions, ServerTls, WorkerLimits};
use strait_kadoop_core::{
    Config, Millis,
    disk::RealDisk,
    error::{Error, Result},
    log::{self, Journal, LogError, Tail},
    namenode::{Namenode, load},
};
use strait_kadoop_wire::wire::{KadoopClusterV1Server, KadoopLoginV1Server, KadoopNamenodeV1Server};
use strait_kadoop_wire::{
    clock::{Clock, wall},
    descriptors::Descriptors,
    keys::Key,
    random::random,
    stop::{Stop, Threads},
    tokens::{TOKEN_MS, TokenKey},
};
use strait_telemetry::{AuditLog, Calls};
use watches::{MAX_WATCHES, Watches};

/// Interval of the core's periodic work.
const TICK: Duration = Duration::from_secs(1);
/// Pause between two steps of a large removal, or of a full report, in which other calls get the lock.
const SWEEP_PAUSE: Duration = Duration::from_millis(2);
/// Interval at which the namenode checks whether a checkpoint is due.
const LOOK: Duration = Duration::from_secs(1);
/// Time from one checkpoint to the next if the log has new records, but too few for the limits below.
const CHECKPOINT_MS: Millis = 3_600_000;
/// If there are more log segments at a start, the namenode makes a checkpoint soon, which removes them.
const MAX_SEGMENTS: usize = 32;
/// Number of log records after which a namenode with few files makes a checkpoint: a start replays them
/// in a few tenths of a second.
const LEAST_RECORDS: u64 = 100_000;
/// A namenode with more files makes a checkpoint when the log has the number of its files, directories and
/// chunks, divided by this, as records. A checkpoint reads and writes all files, directories and chunks, and
/// mustn't cost more than the records did.
const ITEMS_A_RECORD: u64 = 2;
/// For this time after a start, no checkpoint begins in safe mode: it would delay the datanodes' reports,
/// for which clients wait.
const FIRST_MS: Millis = 60_000;
/// Largest call or answer for clients: a listing of 1,000 names of maximum length, and the chunks
/// of a file of 4 TiB.
const CLIENT_PAYLOAD_BYTES: usize = 16 << 20;
/// For all arriving calls of datanodes above 128 KiB: four of the largest. The memory is taken before the key of their
/// senders is checked.
const RECEIVE_BYTES: usize = 4 * strait_flexrpc::limits::MESSAGE_BYTES;
/// For all arriving calls of clients above 128 KiB. Hardly any call is that large.
const CLIENT_RECEIVE_BYTES: usize = 8 * CLIENT_PAYLOAD_BYTES;
/// Workers for clients. Each mutation holds one until its record is on disk.
const CLIENT_WORKERS: usize = 256;

/// Settings of a namenode.
#[derive(Debug, Clone)]
pub struct NamenodeOptions {
    /// Directory of log and checkpoints. The namenode makes it if it is missing.
    pub directory: PathBuf,
    /// Address for clients; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address for datanodes, which ask for it at `listen`; port 0 takes a free one.
    pub listen_datanodes: SocketAddr,
    /// The cluster's key.
    pub key: Key,
    /// Sizes and times of the cluster.
    pub config: Config,
    /// Number of log records after which the namenode makes a checkpoint at the latest. A start replays the
    /// records after the checkpoint: a million take some seconds. A namenode with few files makes
    /// checkpoints more often.
    pub checkpoint_records: u64,
    /// Lifetime of a chunk's token. A client requests a new one when it needs it.
    pub token_ms: Millis,
    /// Settings for users that log in without the clients' key; None: no logins.
    pub logins: Option<Logins>,
    /// How many file descriptors the namenode may use.
    pub descriptors: Descriptors,
    /// Duration from which a call is logged as slow.
    pub slow_call: Duration,
    /// The audit log of operations and their callers.
    pub audit: Option<Arc<AuditLog>>,
}

impl NamenodeOptions {
    /// On loopback, with all defaults.
    pub fn new(directory: impl Into<PathBuf>, key: Key) -> Self {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            directory: directory.into(),
            listen: loopback,
            listen_datanodes: loopback,
            key,
            config: Config::default(),
            checkpoint_records: 1_000_000,
            token_ms: TOKEN_MS,
            logins: None,
            descriptors: Descriptors::of_process(),
            slow_call: SLOW_CALL,
            audit: None,
        }
    }
}

/// A running namenode. Dropping this stops the namenode.
pub struct NamenodeServer {
    shared: Arc<Shared>,
    stop: Stop,
    threads: Threads,
    clients: Option<Server>,
    datanodes: Option<Server>,
    torn: Option<String>,
    _directory: StorageDirectory,
}

/// State shared by all calls.
struct Shared {
    namenode: RwLock<Namenode>,
    commit: Commit<RealDisk>,
    hosts: RwLock<Hosts>,
    refused: Mutex<Refused>,
    /// Number of calls that wait for a datanode that had joined before the start.
    waiting: AtomicUsize,
    /// Datanodes that wait for orders.
    watches: Watches,
    config: Config,
    cluster: u64,
    tokens: TokenKey,
    token_ms: Millis,
    /// The logins and credentials.
    desk: Option<Arc<Desk>>,
    clock: Clock,
    /// Address at which datanodes join.
    datanodes_call: RwLock<Option<SocketAddr>>,
    calls: Arc<Calls>,
    audit: Option<Arc<AuditLog>>,
}

impl NamenodeServer {
    /// Recovers the state in the directory, and serves.
    ///
    /// # Errors
    /// Another process holds the directory; it is a datanode's; the log or a checkpoint is damaged (the
    /// message says how to proceed); an address can't be bound.
    pub fn start(options: NamenodeOptions) -> io::Result<Self> {
        Role::Namenode.demand(&options.directory)?;
        let directory = StorageDirectory::take(&options.directory)?;
        let disk = RealDisk::open(directory.path())?;
        let cluster = cluster_number(&directory, &disk)?;
        let config = options.config.clone();
        let loaded = load(&disk, cluster, &config).map_err(damaged)?;
        for error in &loaded.unreadable {
            tracing::warn!(%error, "skipped an unreadable checkpoint and used an older one");
        }
        let torn = match &loaded.tail {
            Tail::Clean => None,
            Tail::Torn { segment, offset } => {
                Some(format!("{segment} ended at byte {offset} in a write that a crash cut short"))
            }
        };
        if let Some(torn) = &torn {
            tracing::warn!("{torn}; no client got an answer that depends on it");
        }
        let sequence = loaded.state.next.sequence;
        let checkpointed =
            log::checkpoints(&strait_kadoop_core::disk::Disk::list(&disk)?).last().copied().unwrap_or(0);
        let mut journal =
            Journal::start(disk.clone(), cluster, sequence + 1, config.segment_bytes, config.faults)?;
        journal.keep_mark()?;
        let clock = Clock::start();
        let shared = Arc::new(Shared {
            namenode: RwLock::new(Namenode::new(config.clone(), loaded.state, clock.now(), random()?)),
            commit: Commit::new(journal, sequence, sequence.saturating_sub(checkpointed)),
            hosts: RwLock::default(),
            refused: Mutex::default(),
            waiting: AtomicUsize::new(0),
            watches: Watches::default(),
            config,
            cluster,
            tokens: options.key.for_tokens()?,
            token_ms: options.token_ms,
            desk: options
                .logins
                .clone()
                .map(|logins| Arc::new(Desk::new(logins, options.key.for_credentials()))),
            clock,
            datanodes_call: RwLock::new(None),
            calls: Arc::new(Calls::new(&calls::names(), options.slow_call)),
            audit: options.audit.clone(),
        });
        shared.begin(random()?)?;
        let (datanodes, clients) = serve(&options, &shared)?;
        let (stop, mut threads) = (Stop::default(), Threads::default());
        let (this, until) = (Arc::clone(&shared), stop.clone());
        threads.spawn("kadoop-tick", move || this.tick(&until))?;
        let (this, until, records) = (Arc::clone(&shared), stop.clone(), options.checkpoint_records);
        // Open the directory again. Linux reports a failed sync once per open file description, and a
        // checkpoint mustn't consume the report that the log needs.
        let disk = RealDisk::open(directory.path())?;
        threads.spawn("kadoop-checkpoint", move || this.checkpoints(&disk, records, &until))?;
        Ok(Self {
            shared,
            stop,
            threads,
            clients: Some(clients),
            datanodes: Some(datanodes),
            torn,
            _directory: directory,
        })
    }

    /// The namenode's address for clients.
    pub fn address(&self) -> SocketAddr {
        // `clients` is Some until the drop.
        self.clients.as_ref().map_or_else(unspecified, Server::address)
    }

    /// The namenode's address for datanodes.
    pub fn datanodes_address(&self) -> SocketAddr {
        self.datanodes.as_ref().map_or_else(unspecified, Server::address)
    }

    /// The torn write that the start found at the log's end, if any.
    pub fn torn(&self) -> Option<&str> {
        self.torn.as_deref()
    }

    /// Whether the log has failed. The namenode then answers no call, and the process should end. The next
    /// start finds out which records are on disk.
    pub fn has_failed(&self) -> bool {
        self.shared.commit.has_failed()
    }

    /// Replaces the certificate for logins. It applies to new connections.
    ///
    /// # Errors
    /// The current settings demand certificates from callers, and `tls` doesn't.
    pub fn set_tls(&self, tls: ServerTls) -> io::Result<()> {
        self.clients.as_ref().map_or(Ok(()), |clients| clients.set_tls(tls, None))
    }

    /// The namenode's counters. They stay readable after the namenode has stopped.
    pub fn numbers(&self) -> NamenodeNumbers {
        NamenodeNumbers(Arc::clone(&self.shared))
    }

    /// Stops the namenode, as dropping it does.
    pub fn shutdown(self) {}
}

impl Drop for NamenodeServer {
    fn drop(&mut self) {
        self.stop.stop();
        self.shared.watches.end();
        self.clients.take();
        self.datanodes.take();
        self.threads.join();
        self.shared.commit.end();
    }
}

fn unspecified() -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, 0).into()
}

/// The cluster's number, drawn at random for a new directory.
fn cluster_number(directory: &StorageDirectory, disk: &RealDisk) -> io::Result<u64> {
    let names = strait_kadoop_core::disk::Disk::list(disk)?;
    let has_log = !log::segments(&names).is_empty() || !log::checkpoints(&names).is_empty();
    let refuse = |why| {
        let message = format!("{}: {why}", directory.path().display());
        Err(io::Error::new(io::ErrorKind::InvalidData, message))
    };
    if let Some([cluster]) = directory.read([CLUSTER])? {
        return match log::read_mark(disk, cluster).map_err(damaged)? {
            Some(_) => Ok(cluster),
            None if has_log => {
                tracing::warn!(
                    "the log's file `mark` is missing, so a loss of the last records can't be noticed now"
                );
                Ok(cluster)
            }
            None => refuse(
                "the directory has a namenode's file `identity` but no log: restore the log's files from a \
                 backup, or start a new cluster in another directory",
            ),
        };
    }
    if has_log {
        return refuse("the directory has a log but no file `identity`: restore that file");
    }
    let cluster = random()?;
    // Make the mark before the identity. An identity without a mark or log then shows that the log is lost.
    log::make_mark(disk, cluster)?;
    directory.write(&[(CLUSTER, cluster)])?;
    Ok(cluster)
}

fn damaged(error: LogError) -> io::Error {
    match error {
        LogError::Disk(error) => error,
        error => io::Error::new(io::ErrorKind::InvalidData, error),
    }
}

fn serve(options: &NamenodeOptions, shared: &Arc<Shared>) -> io::Result<(Server, Server)> {
    let short = || io::Error::other("the cluster's key is too short");
    let of = ServerOptions {
        udp: false,
        connections: options.descriptors.connections(),
        receive_bytes: RECEIVE_BYTES,
        ..ServerOptions::default()
    };
    let datanodes = ServerOptions {
        listen: options.listen_datanodes,
        key: Some(options.key.between_nodes().ok_or_else(short)?),
        workers: WorkerLimits { most: of.workers.most + MAX_WATCHES, ..of.workers },
        ..of.clone()
    };
    let datanodes = Server::builder(datanodes)
        .register(
            KadoopClusterV1Server::<()>::PROGRAM,
            KadoopClusterV1Server::<()>::VERSION,
            Observed {
                service: KadoopClusterV1Server(heartbeats::Heartbeats(Arc::clone(shared))),
                calls: Arc::clone(&shared.calls),
                operation: calls::of_cluster,
                about: calls::about_heartbeat,
                refused: |_, _| false,
            },
        )
        .start()?;
    *shared.datanodes_call.write().unwrap_or_else(PoisonError::into_inner) = Some(datanodes.address());
    let clients = ServerOptions {
        listen: options.listen,
        key: Some(options.key.for_clients().to_namenode().ok_or_else(short)?),
        own_keys: shared.desk.clone().map(|desk| OwnKeys(desk)),
        keyless_programs: shared.desk.iter().map(|_| KadoopLoginV1Server::<()>::PROGRAM).collect(),
        tls: shared.desk.as_ref().map(|desk| desk.tls()),
        payload_bytes: CLIENT_PAYLOAD_BYTES,
        receive_bytes: CLIENT_RECEIVE_BYTES,
        workers: WorkerLimits { most: CLIENT_WORKERS, ..of.workers },
        ..of
    };
    let clients = Server::builder(clients)
        .register(
            KadoopNamenodeV1Server::<()>::PROGRAM,
            KadoopNamenodeV1Server::<()>::VERSION,
            Observed {
                service: shares::Fair {
                    service: KadoopNamenodeV1Server(answers::Names(Arc::clone(shared))),
                    shares: shares::Shares::default(),
                },
                calls: Arc::clone(&shared.calls),
                operation: calls::operation,
                about: calls::about,
                refused: |_, _| false,
            },
        )
        .register(
            KadoopLoginV1Server::<()>::PROGRAM,
            KadoopLoginV1Server::<()>::VERSION,
            Observed {
                service: KadoopLoginV1Server(logins::LoginDesk(Arc::clone(shared))),
                calls: Arc::clone(&shared.calls),
                operation: calls::of_login,
                about: |_| String::new(),
                refused: |_, _| false,
            },
        )
        .start()?;
    Ok((datanodes, clients))
}

impl Shared {
    /// Writes a record of this start to the log.
    fn begin(&self, random: u64) -> io::Result<()> {
        let begun = self.change(|namenode, _| {
            namenode.begin(random);
            Ok(())
        });
        begun.map_err(|error| io::Error::other(format!("the start can't be logged: {error}")))
    }

    /// Runs a query. Returns its answer once all records whose effects it saw are on disk.
    fn ask<T>(&self, ask: impl FnOnce(&Namenode) -> Result<T>) -> Result<T> {
        let namenode = self.read();
        let answer = ask(&namenode);
        let seen = namenode.sequence();
        drop(namenode);
        self.commit.wait(seen)?;
        answer
    }

    /// Runs a change. Returns its answer once the change is on disk.
    fn change<T>(&self, change: impl FnOnce(&mut Namenode, Millis) -> Result<T>) -> Result<T> {
        let mut namenode = self.write();
        let answer = change(&mut namenode, self.clock.now());
        self.commit.push(&mut namenode.outbox);
        let (applied, roused) = (namenode.sequence(), namenode.roused());
        drop(namenode);
        // Wake them before the log is synced: the answers to their heartbeats wait for the log anyway.
        self.watches.rouse(roused);
        self.commit.wait(applied)?;
        answer
    }

    fn tick(&self, stop: &Stop) {
        let mut roll = Roll::new(self.read().in_safe_mode());
        while !stop.sleep(self.until_tick()) {
            let ticked = self.change(|namenode, now| {
                namenode.set_short_of_room(self.commit.is_short_of_room());
                namenode.tick(now);
                Ok(namenode.in_safe_mode())
            });
            let Ok(safe_mode) = ticked else { return };
            self.sweep(stop);
            let hosts = self.hosts.read().unwrap_or_else(PoisonError::into_inner);
            roll.call(hosts.iter(), self.clock.now(), self.config.dead_ms, safe_mode);
        }
    }

    /// Time until the next tick. A tick is due when a datanode becomes dead, so that the copies of its
    /// chunks begin at once.
    fn until_tick(&self) -> Duration {
        let left = self.read().next_death().map(|at| at.saturating_sub(self.clock.now()));
        left.map_or(TICK, |left| TICK.min(Duration::from_millis(left.max(1))))
    }

    /// Frees inodes of removed trees, for at most one tick. Requests get the lock between two steps.
    fn sweep(&self, stop: &Stop) {
        let until = self.clock.now() + TICK.as_millis() as Millis;
        while self.clock.now() < until
            && matches!(self.change(|namenode, _| Ok(namenode.sweep())), Ok(true))
            && !stop.sleep(SWEEP_PAUSE)
        {}
    }

    fn checkpoints(&self, disk: &RealDisk, records: u64, stop: &Stop) {
        let begun = self.clock.now();
        let mut last = begun;
        // Each start leaves a preallocated segment behind, however few records it holds.
        let mut many = strait_kadoop_core::disk::Disk::list(disk)
            .is_ok_and(|names| log::segments(&names).len() > MAX_SEGMENTS);
        while !stop.sleep(LOOK) {
            self.commit.look_for_room();
            self.commit.sync_mark();
            let written = self.commit.records();
            let (items, safe_mode) = {
                let namenode = self.read();
                let state = namenode.state();
                ((state.inodes.count() + state.chunks.len()) as u64, namenode.in_safe_mode())
            };
            if safe_mode && self.clock.now() < begun + FIRST_MS {
                continue;
            }
            let records = records.min(LEAST_RECORDS.max(items / ITEMS_A_RECORD));
            let due = self.clock.now().saturating_sub(last) >= CHECKPOINT_MS && written > 0;
            if written < records && !due && !std::mem::take(&mut many) {
                continue;
            }
            last = self.clock.now();
            match checkpoint(disk, self.cluster, &self.config, &self.commit) {
                Ok(sequence) => tracing::info!(sequence, "checkpoint written"),
                // The log has all records, so the next attempt may succeed.
                Err(error) => tracing::error!(%error, "can't write a checkpoint; the log keeps all records"),
            }
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Namenode> {
        self.namenode.read().unwrap_or_else(|poisoned| {
            self.commit.fail();
            poisoned.into_inner()
        })
    }

    fn write(&self) -> RwLockWriteGuard<'_, Namenode> {
        self.namenode.write().unwrap_or_else(|poisoned| {
            // A thread panicked during a change, so the state may be half changed. A new start restores it.
            self.commit.fail();
            poisoned.into_inner()
        })
    }

    /// The time by the clock that tokens' lifetimes refer to.
    fn token_time() -> Millis {
        wall()
    }

    fn datanodes_call(&self) -> Result<SocketAddr> {
        let address = *self.datanodes_call.read().unwrap_or_else(PoisonError::into_inner);
        address.ok_or(Error::Unavailable)
    }
}
