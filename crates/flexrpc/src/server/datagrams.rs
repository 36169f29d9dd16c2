//! UDP: one socket, with as many receivers as its datagrams keep busy.
//!
//! A receiver executes the calls that it receives, since handing a call to another thread costs
//! more than most calls. Usually one thread receives and the others are parked. If datagrams queue
//! up, a receiver calls (wakes) a parked thread as another receiver. Receivers that find no
//! datagram park again. One parked thread is the standby: it checks whether slow calls occupy all
//! receivers, and then calls another.

use crate::net::buffer::{self, Buffer};
use crate::net::clock;
use crate::net::reader::{Frame, Piece};
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::net::wire::Security;
use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::server::core::{Core, Origin, Response};
use crate::server::registry;
use crate::server::threads::Threads;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{self, Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the standby checks. A datagram waits behind slow calls for at most twice this.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long the only waiting receiver sleeps in a receive before it dozes, which is a sleep until a
/// datagram comes. Until then the standby checks regularly; during a doze, no thread wakes up.
const ATTENTIVE: Duration = Duration::from_millis(4);

/// How often a receiver checks whether datagrams queue up, so that it must call another thread. The
/// check is a system call, and a called thread needs this long to begin.
const LOOK_US: Micros = 50;

/// Longest doze; correctness doesn't depend on it.
const LONGEST_DOZE: Duration = Duration::from_secs(60);

pub(crate) struct Datagrams {
    core: Arc<Core>,
    fd: OwnedFd,
    stop: OwnedFd,
    roles: Mutex<Roles>,
    /// Parked threads wait here until one is called. The standby waits on `watch` instead, so a
    /// call always wakes one of the others.
    called: Condvar,
    watch: Condvar,
    /// Receivers that wait for a datagram; those that execute one don't count.
    waiting: AtomicUsize,
    /// Datagrams received.
    received: AtomicU64,
    last_look: AtomicU64,
    dozing: AtomicBool,
    count: AtomicUsize,
    threads: Threads,
    stopping: AtomicBool,
}

#[derive(Clone, Copy, Default)]
struct Roles {
    /// Number of calls to parked threads to which none has responded yet.
    calls: usize,
    parked: usize,
    standby: bool,
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
            called: Condvar::new(),
            watch: Condvar::new(),
            waiting: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            last_look: AtomicU64::new(0),
            dozing: AtomicBool::new(false),
            count: AtomicUsize::new(0),
            threads,
            stopping: AtomicBool::new(false),
        })
    }

    /// Starts a receiver and parked threads.
    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        self.roles().calls = 1;
        for _ in 0..self.least() {
            if !self.spawn() {
                return Err(io::Error::other("can't start a thread for datagrams"));
            }
        }
        Ok(())
    }

    /// Ends all workers after their present calls.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        // The lock ensures that no thread is between its check and its wait, where it would miss
        // this.
        let _roles = self.roles();
        self.called.notify_all();
        self.watch.notify_all();
    }

    /// At least a receiver and a standby.
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
        buffer::keep_one();
        let mut buffer = Some(Buffer::take(UDP_DATAGRAM_BYTES));
        while self.park() {
            self.receive_until_idle(&mut buffer);
            registry::forget_last();
        }
    }

    /// Parks until called as a receiver; `false` if the thread must end.
    fn park(self: &Arc<Self>) -> bool {
        let dormant = self.core.options.workers.dormant;
        let since = clock::now();
        let mut roles = self.roles();
        while !self.stopping.load(Ordering::Acquire) {
            if roles.calls > 0 {
                roles.calls -= 1;
                if !roles.standby {
                    self.called.notify_one();
                }
                return true;
            }
            let standby = !roles.standby;
            let seen = self.received.load(Ordering::Acquire);
            let watchful = standby && !self.dozing.load(Ordering::Acquire);
            roles.standby |= standby;
            roles.parked += 1;
            let patience = if watchful { PATIENCE } else { dormant };
            let place = if standby { &self.watch } else { &self.called };
            let (woken, timeout) =
                place.wait_timeout(roles, patience).unwrap_or_else(PoisonError::into_inner);
            roles = woken;
            roles.parked -= 1;
            if standby {
                roles.standby = false;
                let slow = watchful
                    && timeout.timed_out()
                    && self.waiting.load(Ordering::Acquire) == 0
                    && self.received.load(Ordering::Acquire) == seen;
                if slow {
                    drop(roles);
                    self.call();
                    roles = self.roles();
                }
            } else if clock::since(since) >= dormant && self.may_end() {
                return false;
            }
        }
        drop(roles);
        self.count.fetch_sub(1, Ordering::AcqRel);
        false
    }

    fn may_end(&self) -> bool {
        let ended = self.count.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |count| {
            (count > self.least()).then_some(count - 1)
        });
        ended.is_ok()
    }

    /// Calls one more receiver, and ensures that a standby remains.
    fn call(self: &Arc<Self>) {
        let Roles { parked, standby, .. } = {
            let mut roles = self.roles();
            roles.calls += 1;
            *roles
        };
        if parked > usize::from(standby) {
            self.called.notify_one()
        } else {
            self.watch.notify_one()
        }
        if parked < 2 {
            self.spawn();
        }
    }

    fn receive_until_idle(self: &Arc<Self>, buffer: &mut Option<Buffer>) {
        let mut spinner = Spinner::new(self.core.options.spin);
        self.waiting.fetch_add(1, Ordering::AcqRel);
        while !self.stopping.load(Ordering::Acquire) {
            let mut into = buffer.take().unwrap_or_else(|| Buffer::take(UDP_DATAGRAM_BYTES));
            let Received { piece, peer, slept } = match self.receive(&mut into, &mut spinner) {
                Waited::Received(received) => received,
                Waited::Nothing => {
                    *buffer = Some(into);
                    continue;
                }
                Waited::NotNeeded => return *buffer = Some(into),
            };
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            self.received.fetch_add(1, Ordering::AcqRel);
            // The datagram that wakes a sleeping receiver is the first, so no others are queued
            // yet.
            if !slept {
                self.call_if_more_wait(piece.at);
            }
            self.execute(into, &piece, peer, buffer);
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
        self.waiting.fetch_sub(1, Ordering::AcqRel);
    }

    fn call_if_more_wait(self: &Arc<Self>, now: Micros) {
        let last = self.last_look.load(Ordering::Relaxed);
        // Another receiver already waits, and will take queued datagrams.
        if self.waiting.load(Ordering::Acquire) > 0 || now.saturating_sub(last) < LOOK_US {
            return;
        }
        let mine = self.last_look.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine && rustix::io::ioctl_fionread(&self.fd).is_ok_and(|bytes| bytes > 0) {
            self.call();
        }
    }

    fn execute(&self, received: Buffer, piece: &Piece, peer: SocketAddr, spare: &mut Option<Buffer>) {
        let (transport, security) = (Transport::Udp, Security::Plain);
        let origin = Origin { peer, transport, security, user: None, connection: 0 };
        let response = match Frame::of_datagram(received, piece) {
            Ok(frame) => self.core.handle(frame, origin, |buffer| *spare = buffer),
            // Plain ONC RPC, or foreign, or damaged: there may be no caller to answer.
            Err(buffer) => self.core.answer_datagram(buffer, piece.len, origin, |buffer| *spare = buffer),
        };
        if let Response::Send(answer) = response {
            // If the system can't send the answer, it counts as lost: the caller asks again.
            let _ = rustix::net::sendto(&self.fd, &answer, rustix::net::SendFlags::NOSIGNAL, &peer);
        }
    }

    fn receive(&self, into: &mut Buffer, spinner: &mut Spinner) -> Waited {
        use rustix::net::RecvFlags;
        let mut attempt = |flags: RecvFlags| match sync::recvfrom(&self.fd, into.as_mut(), flags) {
            Ok((_, len, Some(peer))) => Some((len, SocketAddr::try_from(peer).ok()?)),
            _ => None,
        };
        // A second spinning receiver would only take the CPU from the sender.
        let alone = self.waiting.load(Ordering::Acquire) <= 1;
        let spun = if alone {
            let spun = spinner.spin(|| attempt(RecvFlags::DONTWAIT));
            spun.map(|(len, peer)| (Piece { len, at: spinner.looked() }, peer))
        } else {
            attempt(RecvFlags::DONTWAIT).map(|(len, peer)| (Piece::now(len), peer))
        };
        if let Some((piece, peer)) = spun {
            return Waited::Received(Received { piece, peer, slept: false });
        }
        // One waiting receiver is enough.
        let spared = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |waiting| {
            (waiting > 1).then_some(waiting - 1)
        });
        if spared.is_ok() {
            return Waited::NotNeeded;
        }
        let start = clock::now();
        let received = attempt(RecvFlags::empty());
        let at = spinner.slept_since(start);
        if let Some((len, peer)) = received {
            return Waited::Received(Received { piece: Piece { len, at }, peer, slept: true });
        }
        self.doze();
        attempt(RecvFlags::DONTWAIT).map_or(Waited::Nothing, |(len, peer)| {
            Waited::Received(Received { piece: Piece::now(len), peer, slept: false })
        })
    }

    /// Sleeps until a datagram arrives. The standby doesn't check during this sleep.
    fn doze(&self) {
        self.dozing.store(true, Ordering::Release);
        registry::forget_last();
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
        let _ = socket::poll(&mut fds, Some(clock::after(clock::now(), LONGEST_DOZE)));
        self.dozing.store(false, Ordering::Release);
        // By now the standby sleeps for long: wake it, so that it checks again.
        let _roles = self.roles();
        self.watch.notify_all();
    }

    fn roles(&self) -> MutexGuard<'_, Roles> {
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of waiting for a datagram.
enum Waited {
    Received(Received),
    Nothing,
    /// Another receiver waits, so this one was uncounted.
    NotNeeded,
}

struct Received {
    piece: Piece,
    peer: SocketAddr,
    /// Whether the receiver had to sleep for it.
    slept: bool,
}
