//! Listening, accepting, sweeping and shutting down.

use crate::config::{Config, SWEEP_PERIOD, processors};
use crate::connection;
use crate::http;
use crate::listings::Listings;
use crate::memory::Budget;
use crate::pace::Pace;
use crate::peer::Peer;
use crate::places::Places;
use crate::processor;
use crate::refusal::{self, Reserve};
use crate::session::Sessions;
use crate::shared::{GatewayNumbers, Shared};
use crate::temporary::Temporaries;
use crate::turns::{Queued, Turns};
use rustix::io::Errno;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;
use strait_store::FileSystem;
use strait_telemetry::{Calls, Seldom};
use strait_wire::Call;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::task::JoinSet;

const MIN_SWEEP_PERIOD: Duration = Duration::from_millis(50);
/// Time for the removal of unfinished uploads at the end.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, so that a lasting failure isn't a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The store's name in metrics for [`Config::local_root`].
const LOCAL_ROOT: &str = "local-root";
/// Connections that may wait to be accepted. The kernel drops further attempts, and their clients try
/// again after a second.
const BACKLOG: u32 = 4_096;

/// Connections at a time that get a refusal for lack of places. Each costs a descriptor for a
/// moment.
const MAX_REFUSALS: usize = 16;
/// The message for refused connections.
const NO_PLACE: &str =
    "the gateway, or this client's address or user, has its maximum of connections; try again later";

/// A gateway that listens and doesn't serve yet.
pub struct Gateway {
    listener: TcpListener,
    local: SocketAddr,
    shared: Arc<Shared>,
    reload: Reload,
}

/// Makes a gateway read its files again, whether they look changed or not.
#[derive(Clone, Default)]
pub struct Reload(Arc<Notify>);

impl Reload {
    /// Makes the gateway read its files now.
    pub fn now(&self) {
        self.0.notify_one();
    }
}

impl Gateway {
    /// Listens on `address`.
    ///
    /// # Errors
    /// The address is in use or isn't this host's. The configuration has no store, or lacks the store
    /// that it names for programs of 2009.
    pub async fn bind(address: SocketAddr, mut config: Config) -> io::Result<Self> {
        if config.stores.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no store is configured"));
        }
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // With this, the kernel's records of an earlier gateway's connections don't make `bind` fail.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let local = listener.local_addr()?;
        let limits = config.limits.clone();
        let service_2009 = config.service_2009.clone();
        let mut turns = Vec::new();
        let mut queue = |name: &str, fs: &mut Arc<dyn FileSystem>| {
            let of_store = Turns::new(&limits);
            *fs = Arc::new(Queued::new(fs.clone(), of_store.clone()));
            turns.push((name.to_owned(), of_store));
        };
        for store in &mut config.stores {
            queue(&store.name, &mut store.fs);
        }
        if let Some(root) = &mut config.local_root {
            queue(LOCAL_ROOT, &mut root.fs);
        }
        let operations: Vec<_> = Call::METHODS.iter().copied().chain(http::rest::operations()).collect();
        let shared = Shared {
            budget: Budget::new(&limits),
            pace: Pace::new(&limits),
            handshakes: processor::for_handshakes(processors()),
            ready: processor::for_requests(processors()),
            listings: Listings::new(&limits),
            temporaries: Temporaries::new(),
            local_root: config.local_root.clone(),
            turns,
            tls: config.tls.clone(),
            http: config.http.clone(),
            calls: Calls::new(&operations, config.slow_call),
            sessions: Arc::new(Sessions::new(config)),
            service_2009,
            limits,
        };
        if let Some(name) = &shared.service_2009.store {
            let known = shared.sessions.store(name);
            known.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        }
        Ok(Self { listener, local, shared: Arc::new(shared), reload: Reload::default() })
    }

    /// The address that it listens on, with the real port if 0 was requested.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// A handle that tells it to read passwords and certificates again while it serves.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// Its metrics, readable while it serves and after.
    pub fn numbers(&self) -> GatewayNumbers {
        GatewayNumbers(self.shared.clone())
    }

    /// Serves until `shutdown` is done. Then lets requests in flight end (within [`Limits::drain`](crate::Limits::drain))
    /// and closes open files.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, shared, reload, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let room = Places::new(shared.limits.connections);
        let mut connections = JoinSet::new();
        let refusals = Arc::new(Semaphore::new(MAX_REFUSALS));
        let mut reserve = Reserve::new();
        let reading = Arc::new(Mutex::new(()));
        let mut sweep =
            tokio::time::interval(SWEEP_PERIOD.min(shared.limits.session_linger).max(MIN_SWEEP_PERIOD));
        let mut shutdown = std::pin::pin!(shutdown);
        loop {
            tokio::select! {
                // Ended connections come before new ones: each holds its task's memory until it is
                // joined.
                biased;
                () = &mut shutdown => break,
                _ = sweep.tick() => look(&shared, &reading, Look::IfChanged),
                () = reload.0.notified() => look(&shared, &reading, Look::Always),
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        let peer = Peer::of(&stream, address);
                        match room.take(peer.origin()) {
                            Some(place) => {
                                let served = connection::serve(shared.clone(), stream, peer, stopped.clone());
                                connections.spawn(async move {
                                    served.await;
                                    drop(place);
                                });
                            }
                            None => {
                                log_refused(peer);
                                // Beyond `MAX_REFUSALS`, the gateway disconnects clients without an answer.
                                if let Ok(place) = refusals.clone().try_acquire_owned() {
                                    connections.spawn(async move {
                                        refusal::refuse(stream, NO_PLACE).await;
                                        drop(place);
                                    });
                                }
                            }
                        }
                    }
                    Err(error) => {
                        log_failed_accept(&error);
                        if is_short_of_descriptors(&error) {
                            reserve.refuse_next(&listener).await;
                        } else {
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    }
                },
            }
        }
        drop(listener);
        let _ = stop.send(true);
        let all_done = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(shared.limits.drain, all_done).await.is_err() {
            tracing::warn!("shutdown: closed the connections whose requests didn't end in time");
            connections.shutdown().await;
        }
        shared.temporaries.end(REMOVAL_PATIENCE).await;
        shared.sessions.close_all(shared.limits.drain).await;
    }
}

fn is_short_of_descriptors(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| short.contains(&number))
}

fn log_failed_accept(error: &io::Error) {
    static FAILED: Seldom = Seldom::new();
    if let Some(left_out) = FAILED.may_write() {
        tracing::warn!(%error, left_out, "a connection couldn't be accepted");
    }
}

fn log_refused(peer: Peer) {
    static REFUSED: Seldom = Seldom::new();
    if let Some(left_out) = REFUSED.may_write() {
        let (peer, origin) = (peer.address, peer.origin());
        tracing::warn!(%peer, %origin, left_out, "connection refused: {NO_PLACE}");
    }
}

/// The files to read: those that have changed, or all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    IfChanged,
    Always,
}

/// Reads changed passwords and certificates, and ends sessions that have idled out or whose logins
/// are no longer valid. Runs on the blocking pool, since it reads files.
fn look(shared: &Arc<Shared>, reading: &Arc<Mutex<()>>, which: Look) {
    let (shared, reading) = (shared.clone(), reading.clone());
    tokio::task::spawn_blocking(move || {
        let turn = match which {
            Look::Always => Some(reading.lock().unwrap_or_else(PoisonError::into_inner)),
            // If a disk hangs, its file blocks one thread, and not one more at each check.
            Look::IfChanged => match reading.try_lock() {
                Err(TryLockError::WouldBlock) => None,
                Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
                Ok(turn) => Some(turn),
            },
        };
        if turn.is_some() {
            read_files(&shared, which);
        }
        drop(turn);
        shared.sessions.sweep();
    });
}

fn read_files(shared: &Shared, which: Look) {
    let (sessions, always) = (&shared.sessions, which == Look::Always);
    let passwords = if always { sessions.reload_passwords_now() } else { sessions.reload_passwords() };
    log_reading("password file", passwords);
    if let Some(tls) = &shared.tls {
        let certificates = if always { tls.reload().map(|()| true) } else { tls.reload_if_changed() };
        log_reading("TLS certificates", certificates);
    }
}

fn log_reading(what: &str, read: Result<bool, String>) {
    match read {
        Ok(true) => tracing::info!("reread the {what}"),
        Ok(false) => {}
        Err(problem) => {
            tracing::error!(problem, "{what}: rejected the new state; the old one stays in force")
        }
    }
}
