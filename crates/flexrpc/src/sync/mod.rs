//! What threads share, and what they wait for, where they hand work to each other:
//! the standard library's and the kernel's. Tests built with `--cfg shuttle` get
//! what is in [`modelled`] instead, under which shuttle decides who runs next, at
//! every step, and tries thousands of orders.

#[cfg(not(all(test, shuttle)))]
pub(crate) use self::real::*;

#[cfg(all(test, shuttle))]
pub(crate) use self::modelled::*;

#[cfg(not(all(test, shuttle)))]
mod real {
    use crate::proto::Micros;
    pub(crate) use rustix::event::{epoll, poll};
    pub(crate) use rustix::net::{recv, recvfrom};
    use rustix::time::{ClockId, clock_gettime};
    use std::sync::OnceLock;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use std::thread;
    use std::time::{Duration, Instant};

    /// Microseconds of the system's monotonic clock. In one place: inlined, each of the
    /// dozen looks on a call's way would have its own copy of what finds the clock.
    #[inline(never)]
    pub(crate) fn now() -> Micros {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
    }

    /// That point in time, not long past, for who knows the standard library's clock alone.
    pub(crate) fn instant(at: Micros) -> Option<Instant> {
        static BOTH: OnceLock<(Micros, Instant)> = OnceLock::new();
        // In this order: should this thread stand still in between, deadlines are early, not late.
        let both = || {
            let instant = Instant::now();
            (now(), instant)
        };
        let (micros, instant) = *BOTH.get_or_init(both);
        instant.checked_add(Duration::from_micros(at.saturating_sub(micros)))
    }
}

#[cfg(all(test, shuttle))]
mod modelled;

#[cfg(all(test, shuttle))]
mod orders;
