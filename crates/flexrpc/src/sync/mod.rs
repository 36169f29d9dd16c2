//! Locks, atomics, threads and waits: those of the standard library and the kernel. The tests in `tests/orders`, with
//! `cfg(shuttle)`, get those of [`modelled`] instead. There, shuttle chooses the next thread at every step, and tries
//! thousands of orders.

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

    /// Microseconds of the system's monotonic clock. This isn't inlined: otherwise the code of each
    /// call would contain a dozen copies of the clock lookup.
    #[inline(never)]
    pub(crate) fn now() -> Micros {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec.unsigned_abs() * 1_000_000 + now.tv_nsec.unsigned_abs() / 1_000
    }

    /// The time `at`, which must be recent, in the standard library's clock.
    pub(crate) fn instant(at: Micros) -> Option<Instant> {
        static BOTH: OnceLock<(Micros, Instant)> = OnceLock::new();
        // The order matters: if this thread pauses between the two reads, deadlines come early, not late.
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
