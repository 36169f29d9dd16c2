//! Service workers (section IV.C): threads that watch all connections by epoll, instead of the
//! paper's select(), and execute calls. Their number follows the load: if none is idle, another
//! starts; a worker that has been idle for long ends.
//!
//! While another worker watches the other connections, a worker stays with the connection that it
//! served last. It first spins, then sleeps in a receive. This saves a busy connection an epoll
//! round for each call. Idle connections occupy no thread.

use crate::net::origin::Origin;
use crate::net::{buffer, clock, socket};
use crate::server::chain::{Adopted, Carried, Chains, carry};
use crate::server::connection::{Connection, ConnectionTable, IN_A_ROW, MayStay, Parked};
use crate::server::core::Core;
use crate::server::registry;
use crate::server::threads::Threads;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use crate::sync::{Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How many connections a worker accepts before it serves others again.
const ACCEPTED_AT_ONCE: usize = 64;

/// How long to wait before the next accept if the system has no descriptors left.
const NO_DESCRIPTORS: Duration = Duration::from_millis(10);

const LISTENER: u64 = 0;
const STOP: u64 = 1;
const JOBS: u64 = 2;
const FIRST_CONNECTION: u64 = 16;

pub(crate) struct Workers {
    pub(crate) core: Arc<Core>,
    epoll: OwnedFd,
    stop: OwnedFd,
    listener: Option<OwnedFd>,
    pub(crate) chains: Arc<Chains>,
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    next_token: AtomicU64,
    idle: AtomicUsize,
    count: AtomicUsize,
    pub(crate) threads: Threads,
    pub(crate) stopping: AtomicBool,
}

impl Workers {
    pub(crate) fn new(core: Arc<Core>, listener: Option<OwnedFd>, threads: Threads) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let chains = Arc::new(Chains::new()?);
        epoll::add(&epoll, &chains.jobs, EventData::new_u64(JOBS), EventFlags::IN)?;
        if let Some(listener) = &listener {
            epoll::add(&epoll, listener, EventData::new_u64(LISTENER), once(EventFlags::IN))?;
        }
        Ok(Self {
            core,
            epoll,
            stop,
            listener,
            chains,
            connections: Mutex::default(),
            next_token: AtomicU64::new(FIRST_CONNECTION),
            idle: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            threads,
            stopping: AtomicBool::new(false),
        })
    }

    /// Starts the least number of workers.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        for _ in 0..self.core.options.workers.least.max(1) {
            if !self.spawn() {
                return Err(io::Error::other("can't start a thread for a service worker"));
            }
        }
        Ok(())
    }

    /// Ends all workers after their present calls.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // No thread reads this eventfd, so it wakes every worker.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Stops accepting connections. New callers are refused at once, instead of waiting in the
    /// queue of the listener. The port is free immediately, even if a thread still holds the
    /// descriptor.
    pub(crate) fn stop_listening(&self) {
        if let Some(listener) = &self.listener {
            let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
    }

    /// A descriptor that becomes readable when the server stops.
    pub(crate) fn stopped(&self) -> impl AsFd + '_ {
        &self.stop
    }

    /// The number of workers.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The number of connections.
    pub(crate) fn connection_count(&self) -> usize {
        self.connections().len()
    }

    fn spawn(self: &Arc<Self>) -> bool {
        let most = self.core.options.workers.most.max(1);
        let counted = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| (count < most).then_some(count + 1));
        if counted.is_err() {
            return false;
        }
        let workers = Arc::clone(self);
        let spawned = self.threads.spawn("flexrpc-service", move || workers.work());
        if !spawned {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        spawned
    }

    fn work(self: &Arc<Self>) {
        let dormant = socket::timespec(self.core.options.workers.dormant);
        buffer::keep_one();
        while !self.stopping.load(Ordering::Acquire) {
            let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
            buffer::give_up_kept();
            registry::forget_last();
            self.idle.fetch_add(1, Ordering::AcqRel);
            let woken = epoll::wait(&self.epoll, &mut events, Some(&dormant));
            let others = self.idle.fetch_sub(1, Ordering::AcqRel) - 1;
            match woken {
                // The only watching worker stays, however long the others are busy.
                Ok(0) if others > 0 && self.may_end() => return,
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    if others == 0 {
                        self.spawn();
                    }
                    self.on_event(events[0].data.u64());
                }
                // Waiting in epoll fails only by a programming error.
                Err(_) => break,
            }
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether this dormant worker may end, because there are more than the least number. If so, it
    /// is no longer counted.
    fn may_end(&self) -> bool {
        let least = self.core.options.workers.least.max(1);
        let ended = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| (count > least).then_some(count - 1));
        ended.is_ok()
    }

    fn on_event(&self, token: u64) {
        match token {
            STOP => {}
            JOBS => self.run_job(),
            LISTENER => self.accept(),
            token => {
                let connection = self.connections().get(&token).cloned();
                if let Some(connection) = connection {
                    self.serve(&connection);
                }
            }
        }
    }

    fn serve(&self, connection: &Arc<Connection>) {
        for chains in 1usize.. {
            let mut line = connection.line.lock().unwrap_or_else(PoisonError::into_inner);
            let parked = connection.serve(&mut line, &self.core, self);
            // From here on another worker may serve the connection.
            drop(line);
            match parked {
                Parked::Readable => return self.rearm(connection, EventFlags::IN),
                Parked::Writable => return self.rearm(connection, EventFlags::OUT),
                Parked::Closed => return self.forget(connection.token),
                Parked::Chain(frame) => match carry(connection, frame, &self.core, &self.chains, self) {
                    Carried::Over if chains < IN_A_ROW || self.may_stay() => {}
                    Carried::Over => return self.resume(connection),
                    Carried::Closed => return self.forget(connection.token),
                    Carried::Left => return,
                },
            }
        }
    }

    /// Watches the connection again.
    pub(crate) fn rearm(&self, connection: &Connection, mut flags: EventFlags) {
        // Epoll doesn't see bytes that TLS has already read from the socket. But the socket is
        // usually writable, so waiting for that wakes a worker.
        if connection.fd.has_more() {
            flags |= EventFlags::OUT;
        }
        if epoll::modify(&self.epoll, &connection.fd, EventData::new_u64(connection.token), once(flags))
            .is_err()
        {
            self.forget(connection.token);
        }
    }

    /// Executes a chain call that the forwarder owns.
    fn run_job(&self) {
        if let Some(job) = self.chains.jobs.take_one() {
            let ended = self.core.run(&job.head, job.args, job.caller, job.origin, job.arrived);
            self.chains.adopt(Adopted::Ran(job.call, ended));
        }
    }

    fn accept(&self) {
        let Some(listener) = &self.listener else { return };
        for _ in 0..ACCEPTED_AT_ONCE {
            match rustix::net::acceptfrom_with(listener, SocketFlags::CLOEXEC) {
                Ok((fd, peer)) => {
                    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
                    // Dropping the descriptor closes a connection that can't be served.
                    let _ = peer.map(|peer| self.add(fd, peer));
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    std::thread::sleep(NO_DESCRIPTORS);
                    break;
                }
                // The connection broke before it was accepted.
                Err(_) => {}
            }
        }
        if !self.core.draining.load(Ordering::Acquire) {
            let _ = epoll::modify(&self.epoll, listener, EventData::new_u64(LISTENER), once(EventFlags::IN));
        }
    }

    fn add(&self, fd: OwnedFd, peer: SocketAddr) -> io::Result<()> {
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::new(Connection::new(fd, token, peer, &self.core));
        if !self.has_room_for(connection.source) {
            return Err(io::Error::other("at the limit of connections"));
        }
        socket::prepare_tcp(&connection.fd)?;
        socket::set_recv_timeout(&connection.fd, crate::server::connection::STICK)?;
        self.connections().insert(token, Arc::clone(&connection));
        let data = EventData::new_u64(token);
        if let Err(error) = epoll::add(&self.epoll, &connection.fd, data, once(EventFlags::IN)) {
            self.forget(token);
            return Err(error.into());
        }
        Ok(())
    }

    /// Whether a host or local user may have one more connection: only while it has fewer than are
    /// free.
    fn has_room_for(&self, source: Origin) -> bool {
        let (connections, most) = (self.connections(), self.core.options.connections);
        let free = most.saturating_sub(connections.len());
        // While less than half are in use, no source can have more than are free.
        if connections.len() < most / 2 {
            return free > 0;
        }
        let of_source = connections.values().filter(|connection| connection.source == source);
        of_source.take(free).count() < free
    }

    /// Closes connections that were idle for too long, unless a worker serves them.
    pub(crate) fn close_idle(&self) {
        let options = &self.core.options;
        let old = |connection: &Arc<Connection>| {
            connection.line.try_lock().is_ok_and(|line| {
                if line.lent {
                    return false;
                }
                let idle = clock::since(line.active);
                let begun = line.is_mid_message() || connection.fd.is_handshaking();
                let stalled = begun && idle > options.message_stall;
                let patience = if line.known { options.connection_idle } else { options.greeting };
                idle > patience.min(options.connection_idle) || stalled || line.is_overdue(&self.core)
            })
        };
        // The shutdown wakes the thread that watches the connection by epoll, which then closes it.
        for connection in self.connections().values().filter(|connection| old(connection)) {
            let _ = rustix::net::shutdown(&connection.fd, rustix::net::Shutdown::Both);
        }
    }

    /// Closes all connections.
    pub(crate) fn close_all(&self) {
        self.connections().clear();
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<Connection>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable for Workers {
    // If the caller has already sent its next call, this process may have read it from the socket,
    // where epoll no longer sees it. So the connection waits to be writable.
    fn resume(&self, connection: &Connection) {
        let ahead = {
            let mut line = connection.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.answered = false;
            line.is_mid_message()
        };
        self.rearm(connection, if ahead { EventFlags::OUT } else { EventFlags::IN });
    }

    fn forget(&self, token: u64) {
        self.connections().remove(&token);
    }
}

impl MayStay for Workers {
    fn may_stay(&self) -> bool {
        self.idle.load(Ordering::Relaxed) > 0 && !self.stopping.load(Ordering::Relaxed)
    }
}

/// Wakes one worker at a time, which rearms the descriptor when it is done.
fn once(flags: EventFlags) -> EventFlags {
    flags | EventFlags::ONESHOT
}
