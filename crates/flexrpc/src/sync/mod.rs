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
    pub(crate) use rustix::event::{epoll, poll};
    pub(crate) use rustix::net::{recv, recvfrom};
    use std::sync::OnceLock;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use std::thread;
    use std::time::Duration;
    pub(crate) use std::time::Instant;

    /// When the process first asked for it.
    pub(crate) fn origin() -> Instant {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        *ORIGIN.get_or_init(Instant::now)
    }

    /// So long after it, for who knows the standard library's clock alone.
    pub(crate) fn since_origin(passed: Duration) -> Option<Instant> {
        origin().checked_add(passed)
    }
}

#[cfg(all(test, shuttle))]
mod modelled;

#[cfg(all(test, shuttle))]
mod orders;
