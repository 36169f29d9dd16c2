//! UDP: one socket, one leader that receives, followers that sleep.
//!
//! The leader executes what it receives itself, since handing a call to another
//! thread costs more than most calls. It gives the lead away before it executes
//! if more datagrams are waiting, and loses it to the standby if a call takes
//! longer than [`PATIENCE`]. Two leaders for a moment do no harm: each datagram is
//! received once.

use crate::net::buffer::Buffer;
use crate::net::clock;
use crate::net::reader::Frame;
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::proto::call::Transport;
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::server::core::{Core, Origin, Response};
use crate::server::threads::Threads;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the leader may execute a call before the standby takes the lead; at
/// most twice this is how long a datagram waits behind a slow call.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long the leader sleeps in a receive before it dozes: until then the
/// standby looks after it every [`PATIENCE`], afterwards nobody wakes up.
const ATTENTIVE: Duration = Duration::from_millis(4);

/// A waiting leader, whose calls need no looking after.
const DOZING: u64 = u64::MAX;

pub(crate) struct Datagrams {
    core: Arc<Core>,
    fd: OwnedFd,
    stop: OwnedFd,
    roles: Mutex<Roles>,
    changed: Condvar,
    /// Which leader leads: a leader that reads another number is deposed.
    reign: AtomicU64,
    /// The number of the datagram that the leader executes; even numbers are the
    /// waits between them, [`DOZING`] is a long one.
    progress: AtomicU64,
    count: AtomicUsize,
    threads: Threads,
    stopping: AtomicBool,
}

#[derive(Default)]
struct Roles {
    leader: bool,
    standby: bool,
    parked: usize,
}

impl Datagrams {
    pub(crate) fn new(core: Arc<Core>, fd: OwnedFd, threads: Threads) -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        socket::set_recv_timeout(&fd, ATTENTIVE)?;
        Ok(Self {
            core,
            fd,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            roles: Mutex::default(),
            changed: Condvar::new(),
            reign: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            threads,
            stopping: AtomicBool::new(false),
        })
    }

    /// Starts a leader and a standby.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        // A leader that finds itself alone starts a second one by itself.
        while self.count.load(Ordering::Acquire) < self.least() {
            if !self.spawn() && self.count.load(Ordering::Acquire) < self.least() {
                return Err(io::Error::other("no thread for a datagram worker"));
            }
        }
        Ok(())
    }

    /// Ends all workers, once they are done with what they do.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        // Under the lock, so that nobody falls asleep between looking and waiting.
        let _roles = self.roles();
        self.changed.notify_all();
    }

    /// A leader and a standby at least.
    fn least(&self) -> usize {
        self.core.options.workers.least.max(2)
    }

    fn spawn(self: &Arc<Self>) -> bool {
        let most = self.core.options.workers.most.max(2);
        let counted = self
            .count
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| (count < most).then_some(count + 1));
        if counted.is_err() {
            return false;
        }
        let datagrams = Arc::clone(self);
        let spawned = self.threads.spawn("flexrpc-udp", move || datagrams.work());
        if !spawned {
            self.count.fetch_sub(1, Ordering::AcqRel);
        }
        spawned
    }

    fn work(self: Arc<Self>) {
        let mut buffer = Some(Buffer::take(UDP_DATAGRAM_BYTES));
        while let Some(reign) = self.enlist() {
            self.lead(reign, &mut buffer);
        }
    }

    /// Waits to become the leader; `None` if the thread is to end.
    fn enlist(&self) -> Option<u64> {
        let dormant = self.core.options.workers.dormant;
        let mut roles = self.roles();
        let mut since = Instant::now();
        while !self.stopping.load(Ordering::Acquire) {
            if !roles.leader {
                return Some(self.crown(&mut roles));
            }
            if !roles.standby {
                roles.standby = true;
                let seen = self.progress.load(Ordering::Acquire);
                let patience = if seen == DOZING { dormant } else { PATIENCE };
                let (woken, waited) = self.wait(roles, patience);
                roles = woken;
                roles.standby = false;
                // An odd number is a call under execution; unchanged, a slow one.
                let slow = seen % 2 == 1 && seen != DOZING && self.progress.load(Ordering::Acquire) == seen;
                if waited && roles.leader && slow {
                    return Some(self.crown(&mut roles));
                }
                since = Instant::now();
                continue;
            }
            roles.parked += 1;
            let (woken, _) = self.wait(roles, dormant);
            roles = woken;
            roles.parked -= 1;
            if since.elapsed() >= dormant && self.may_end() {
                return None;
            }
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        None
    }

    fn wait<'a>(&self, roles: MutexGuard<'a, Roles>, patience: Duration) -> (MutexGuard<'a, Roles>, bool) {
        let (roles, timeout) =
            self.changed.wait_timeout(roles, patience).unwrap_or_else(PoisonError::into_inner);
        (roles, timeout.timed_out())
    }

    fn may_end(&self) -> bool {
        let ended = self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
            (count > self.least()).then_some(count - 1)
        });
        ended.is_ok()
    }

    fn crown(&self, roles: &mut Roles) -> u64 {
        roles.leader = true;
        self.progress.store(0, Ordering::Release);
        self.reign.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Gives the lead away, and makes sure that somebody can take it.
    fn abdicate(self: &Arc<Self>, reign: u64) {
        let mut roles = self.roles();
        if self.reign.load(Ordering::Acquire) != reign {
            return;
        }
        roles.leader = false;
        let nobody = !roles.standby && roles.parked == 0;
        drop(roles);
        if nobody {
            self.spawn();
        } else {
            self.changed.notify_all();
        }
    }

    fn lead(self: &Arc<Self>, reign: u64, buffer: &mut Option<Buffer>) {
        let mut spinner = Spinner::new(self.core.options.spin);
        // A lone leader has nobody to depose it when a call takes long.
        let alone = {
            let roles = self.roles();
            !roles.standby && roles.parked == 0
        };
        if alone {
            self.spawn();
        }
        let mut number = 1;
        while self.reign.load(Ordering::Acquire) == reign && !self.stopping.load(Ordering::Acquire) {
            let mut into = buffer.take().unwrap_or_else(|| Buffer::take(UDP_DATAGRAM_BYTES));
            let Some((len, peer)) = self.receive(&mut into, &mut spinner) else {
                *buffer = Some(into);
                continue;
            };
            self.progress.store(number, Ordering::Release);
            number += 1;
            let more = rustix::io::ioctl_fionread(&self.fd).is_ok_and(|bytes| bytes > 0);
            if more {
                self.abdicate(reign);
            }
            self.execute(into, len, peer, buffer);
            if more {
                return;
            }
            if self.reign.load(Ordering::Acquire) == reign {
                self.progress.store(number, Ordering::Release);
            }
            number += 1;
        }
        self.abdicate(reign);
    }

    fn execute(&self, received: Buffer, len: usize, peer: SocketAddr, spare: &mut Option<Buffer>) {
        let frame = match Frame::of_datagram(received, len) {
            Ok(frame) => frame,
            // Not ours, or damaged: nobody to answer to for sure.
            Err(buffer) => return *spare = Some(buffer),
        };
        let origin = Origin { peer, transport: Transport::Udp };
        if let Response::Send(answer) = self.core.handle(frame, origin, |buffer| *spare = buffer) {
            // Lost if it can't be sent: the caller asks again.
            let _ = rustix::net::sendto(&self.fd, &answer, rustix::net::SendFlags::NOSIGNAL, &peer);
        }
    }

    fn receive(&self, into: &mut Buffer, spinner: &mut Spinner) -> Option<(usize, SocketAddr)> {
        use rustix::net::RecvFlags;
        let mut attempt = |flags| match rustix::net::recvfrom(&self.fd, into.as_mut(), flags) {
            Ok((_, len, Some(peer))) => Some((len, SocketAddr::try_from(peer).ok()?)),
            _ => None,
        };
        if let Some(received) = spinner.spin(|| attempt(RecvFlags::DONTWAIT)) {
            return Some(received);
        }
        let start = Instant::now();
        let received = attempt(RecvFlags::empty());
        spinner.slept(start.elapsed());
        if received.is_some() {
            return received;
        }
        self.doze();
        attempt(RecvFlags::DONTWAIT)
    }

    /// Sleeps until there is something, with nobody looking after it.
    fn doze(&self) {
        let before = self.progress.swap(DOZING, Ordering::AcqRel);
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
        let until = clock::after(clock::now(), Duration::from_secs(60));
        let _ = socket::poll(&mut fds, Some(until));
        self.progress.store(before, Ordering::Release);
        if self.roles().standby {
            self.changed.notify_all();
        }
    }

    fn roles(&self) -> MutexGuard<'_, Roles> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Datagrams {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
