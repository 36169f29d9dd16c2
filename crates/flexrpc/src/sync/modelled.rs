//! Shuttle's locks, atomics and threads, and what it lacks: timeouts, time, epoll.

pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::thread;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::LockResult;
use std::time::Duration;

/// Of waits that may time out, one in so many does so at once.
const TIMEOUTS: u32 = 4;

fn times_out() -> bool {
    use shuttle::rand::{Rng, thread_rng};
    thread_rng().gen_ratio(1, TIMEOUTS)
}

/// Shuttle's, whose guard knows its lock: a wait that times out takes it anew.
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

    /// A panic fails the test anyway.
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

/// One that may time out whenever it is allowed to.
#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { lock, guard } = guard;
        Ok(lock.guard(self.0.wait(guard)))
    }

    /// What tells whether the time is over is the clock: nobody here asks else.
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        patience: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        if !times_out() {
            return Ok((self.wait(guard).expect("no poison"), ()));
        }
        let lock = guard.lock;
        drop(guard);
        pass(patience);
        Ok((lock.lock().expect("no poison"), ()))
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

thread_local!(static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) });

/// So much time passes, in which others may do anything.
fn pass(time: Duration) {
    NOW.set(NOW.get().saturating_add(time));
    thread::yield_now();
}

/// By a clock that only timeouts move on. All of shuttle's threads run on one.
#[derive(Clone, Copy)]
pub(crate) struct Instant(Duration);

impl Instant {
    pub(crate) fn now() -> Self {
        Self(NOW.get())
    }

    pub(crate) fn elapsed(self) -> Duration {
        NOW.get().saturating_sub(self.0)
    }
}

/// The kernel's own, asked again and again: a real wait would stop all threads, since
/// they are one.
pub(crate) mod epoll {
    use super::{pass, times_out};
    pub(crate) use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags, add, create, modify};
    use rustix::event::{Timespec, epoll};
    use rustix::fd::OwnedFd;
    use std::time::Duration;

    pub(crate) fn wait(
        epoll: &OwnedFd,
        events: &mut [Event],
        timeout: Option<&Timespec>,
    ) -> rustix::io::Result<usize> {
        loop {
            let ready = epoll::wait(epoll, &mut *events, Some(&Timespec::default()))?;
            if ready > 0 || (timeout.is_some() && times_out()) {
                return Ok(ready);
            }
            pass(Duration::ZERO);
        }
    }
}
