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
    pub(crate) use rustix::event::epoll;
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use std::thread;
    pub(crate) use std::time::Instant;
}

#[cfg(all(test, shuttle))]
mod modelled;

#[cfg(all(test, shuttle))]
mod orders;
