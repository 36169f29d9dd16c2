//! Shuttle's locks, atomics and threads, and models of the parts that it lacks: timeouts, time, and
//! waiting for sockets.

use crate::proto::Micros;
use rustix::event::{PollFd, Timespec};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketAddrAny};
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LockResult, TryLockError, TryLockResult};
use std::time::Duration;

/// Of this many waits with a timeout, one times out at once, on average.
const TIMEOUTS: u32 = 4;

fn times_out() -> bool {
    use shuttle::rand::{Rng, thread_rng};
    thread_rng().gen_ratio(1, TIMEOUTS)
}

/// Shuttle's mutex, with a guard that knows its lock: a wait that times out locks it again.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

pub(crate) struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    guard: shuttle::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        Ok(self.guard(self.0.lock()))
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = self.0.try_lock().map_err(|_| TryLockError::WouldBlock)?;
        Ok(MutexGuard { lock: self, guard })
    }

    /// Expects an unpoisoned lock: a panic fails the test anyway.
    fn guard<'a>(&'a self, locked: LockResult<shuttle::sync::MutexGuard<'a, T>>) -> MutexGuard<'a, T> {
        MutexGuard { lock: self, guard: locked.expect("no thread has panicked") }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A condition variable whose timeouts pass in any order, but do pass.
#[derive(Default)]
pub(crate) struct Condvar {
    forever: shuttle::sync::Condvar,
    waiting_forever: AtomicUsize,
    /// For each wait with a timeout, whether it was woken.
    patient: std::sync::Mutex<Vec<Arc<AtomicBool>>>,
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { lock, guard } = guard;
        self.waiting_forever.fetch_add(1, Ordering::Relaxed);
        let woken = self.forever.wait(guard);
        self.waiting_forever.fetch_sub(1, Ordering::Relaxed);
        Ok(lock.guard(woken))
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        let (lock, woken) = (guard.lock, Arc::new(AtomicBool::new(false)));
        self.patient().push(Arc::clone(&woken));
        drop(guard);
        let done =
            ask(Some(patience.max(Duration::from_nanos(1))), || woken.load(Ordering::Relaxed).then_some(()));
        self.patient().retain(|other| !Arc::ptr_eq(other, &woken));
        Ok((lock.lock().expect("no poison"), TimedOut(done.is_none())))
    }

    pub(crate) fn notify_all(&self) {
        self.patient().drain(..).for_each(|patient| patient.store(true, Ordering::Relaxed));
        self.forever.notify_all();
    }

    /// Wakes any waiting thread.
    pub(crate) fn notify_one(&self) {
        use shuttle::rand::{Rng, thread_rng};
        let mut patient = self.patient();
        let waiting = patient.len() + self.waiting_forever.load(Ordering::Relaxed);
        let chosen = if waiting == 0 { 0 } else { thread_rng().gen_range(0..waiting) };
        if chosen < patient.len() {
            patient.swap_remove(chosen).store(true, Ordering::Relaxed);
        } else {
            drop(patient);
            self.forever.notify_one();
        }
    }

    /// No thread lets another one run while it holds this lock.
    fn patient(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicBool>>> {
        self.patient.lock().expect("no poison")
    }
}

/// Whether a wait ended by its timeout.
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

thread_local!(static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) });

/// Lets `time` pass. Other threads may run during it.
fn pass(time: Duration) {
    NOW.set(NOW.get().saturating_add(time));
    thread::yield_now();
}

/// A clock that only timeouts advance. All of shuttle's threads run on one system thread.
pub(crate) fn now() -> Micros {
    NOW.get().as_micros() as Micros
}

/// Always `None`: services know only the standard library's clock, so they get no deadline here.
pub(crate) fn instant(_at: Micros) -> Option<std::time::Instant> {
    None
}

/// Asks until `ready` returns a value, the time is over, or other threads have run often enough. A
/// real wait would stop all threads, since they are one.
fn ask<T>(timeout: Option<Duration>, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    loop {
        if let Some(ready) = ready() {
            return Some(ready);
        }
        match timeout {
            Some(Duration::ZERO) => return None,
            Some(timeout) if times_out() => {
                pass(timeout);
                return None;
            }
            _ => pass(Duration::ZERO),
        }
    }
}

fn duration(timeout: Option<&Timespec>) -> Option<Duration> {
    timeout.map(|timeout| Duration::new(timeout.tv_sec as u64, timeout.tv_nsec as u32))
}

/// The kernel's poll.
pub(crate) fn poll(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> rustix::io::Result<usize> {
    let attempt = || match rustix::event::poll(fds, Some(&Timespec::default())) {
        Ok(0) => None,
        told => Some(told),
    };
    ask(duration(timeout), attempt).unwrap_or(Ok(0))
}

/// The receive timeout that sockets are set to.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(4);

fn ask_socket<T>(
    flags: RecvFlags,
    mut receive: impl FnMut(RecvFlags) -> rustix::io::Result<T>,
) -> rustix::io::Result<T> {
    let timeout = if flags.contains(RecvFlags::DONTWAIT) { Duration::ZERO } else { RECEIVE_TIMEOUT };
    let attempt = || match receive(flags | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => None,
        told => Some(told),
    };
    ask(Some(timeout), attempt).unwrap_or(Err(Errno::AGAIN))
}

/// The kernel's recv.
pub(crate) fn recv(fd: impl AsFd, into: &mut [u8], flags: RecvFlags) -> rustix::io::Result<(usize, usize)> {
    ask_socket(flags, |flags| rustix::net::recv(&fd, &mut *into, flags))
}

/// The kernel's recvfrom.
pub(crate) fn recvfrom(
    fd: impl AsFd,
    into: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, usize, Option<SocketAddrAny>)> {
    ask_socket(flags, |flags| rustix::net::recvfrom(&fd, &mut *into, flags))
}

/// The kernel's epoll.
pub(crate) mod epoll {
    use super::{ask, duration};
    pub(crate) use rustix::event::epoll::{
        CreateFlags, Event, EventData, EventFlags, add, create, delete, modify,
    };
    use rustix::event::{Timespec, epoll};
    use rustix::fd::OwnedFd;

    pub(crate) fn wait(
        epoll: &OwnedFd,
        events: &mut [Event],
        timeout: Option<&Timespec>,
    ) -> rustix::io::Result<usize> {
        let attempt = || match epoll::wait(epoll, &mut *events, Some(&Timespec::default())) {
            Ok(0) => None,
            told => Some(told),
        };
        ask(duration(timeout), attempt).unwrap_or(Ok(0))
    }
}
