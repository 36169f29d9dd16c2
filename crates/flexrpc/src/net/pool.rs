//! The handle manager (section IV.B): idle handles, pooled by callee address, port and transport.
//! At the limit the pool closes the least recently used handle. If a handle breaks, the pool closes
//! all handles to its callee.

use crate::proto::call::Transport;
use crate::sync::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::PoisonError;

/// A callee's address and transport.
pub(crate) type Callee = (SocketAddr, Transport);

/// The idle handles of a client, for all of its threads.
pub(crate) struct Handles<T>(Mutex<Pool<T>>);

impl<T> Handles<T> {
    /// Keeps up to `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self(Mutex::new(Pool::new(most)))
    }

    /// Takes a handle for one caller, until that caller returns it.
    pub(crate) fn check_out(&self, callee: Callee) -> Option<T> {
        self.pool().check_out(callee)
    }

    /// Takes a handle back; `None` if it isn't usable. If its connection terminated abnormally, the
    /// pool closes all handles to its callee (section IV.B).
    pub(crate) fn give_back(&self, callee: Callee, handle: Option<T>, broke: bool) {
        let mut pool = self.pool();
        let mut closed = if broke { pool.invalidate(callee) } else { Vec::new() };
        closed.extend(handle.and_then(|handle| pool.check_in(callee, handle)));
        drop(pool);
        // Each close is a system call, so it happens outside the pool's lock.
        drop(closed);
    }

    /// Removes all handles, unless another thread holds the lock.
    pub(crate) fn try_drain(&self) -> Vec<T> {
        self.0.try_lock().map_or_else(|_| Vec::new(), |mut pool| pool.drain())
    }

    /// Handles in the pool.
    pub(crate) fn len(&self) -> usize {
        self.pool().len()
    }

    fn pool(&self) -> MutexGuard<'_, Pool<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Idle handles of a client, or idle connections of a callee that passes chain calls on.
pub(crate) struct Pool<T> {
    most: usize,
    count: usize,
    clock: u64,
    idle: HashMap<Callee, VecDeque<(u64, T)>>,
}

impl<T> Pool<T> {
    /// Keeps up to `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, count: 0, clock: 0, idle: HashMap::new() }
    }

    /// Takes the callee's most recently used handle: its state is in the CPU's caches. Handles that
    /// aren't needed stay unused, and so get evicted.
    pub(crate) fn check_out(&mut self, callee: Callee) -> Option<T> {
        let handles = self.idle.get_mut(&callee)?;
        let (_, handle) = handles.pop_back()?;
        self.count -= 1;
        if handles.is_empty() {
            self.idle.remove(&callee);
        }
        Some(handle)
    }

    /// Takes a handle back. Returns the handle that it evicts for this, if any.
    pub(crate) fn check_in(&mut self, callee: Callee, handle: T) -> Option<T> {
        if self.most == 0 {
            return Some(handle);
        }
        let evicted = if self.count >= self.most { self.evict() } else { None };
        self.clock += 1;
        self.count += 1;
        self.idle.entry(callee).or_default().push_back((self.clock, handle));
        evicted
    }

    /// Removes all handles to a callee.
    pub(crate) fn invalidate(&mut self, callee: Callee) -> Vec<T> {
        let removed: Vec<T> =
            self.idle.remove(&callee).into_iter().flatten().map(|(_, handle)| handle).collect();
        self.count -= removed.len();
        removed
    }

    /// Removes all handles.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.count = 0;
        std::mem::take(&mut self.idle).into_values().flatten().map(|(_, handle)| handle).collect()
    }

    /// Handles in the pool.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    fn evict(&mut self) -> Option<T> {
        let oldest = self
            .idle
            .iter()
            .filter_map(|(callee, handles)| Some((handles.front()?.0, *callee)))
            .min_by_key(|(used, _)| *used)?
            .1;
        let handles = self.idle.get_mut(&oldest)?;
        let (_, handle) = handles.pop_front()?;
        self.count -= 1;
        if handles.is_empty() {
            self.idle.remove(&oldest);
        }
        Some(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn callee(port: u16) -> Callee {
        (([127, 0, 0, 1], port).into(), Transport::Tcp)
    }

    #[test]
    fn handles_are_found_by_address_port_and_transport() {
        let mut pool = Pool::new(10);
        pool.check_in(callee(1), "tcp 1");
        pool.check_in((callee(1).0, Transport::Udp), "udp 1");
        assert_eq!(pool.check_out(callee(2)), None);
        assert_eq!(pool.check_out(callee(1)), Some("tcp 1"));
        assert_eq!(pool.check_out(callee(1)), None, "checked out: nobody else gets it");
        assert_eq!(pool.len(), 1);
    }

    #[test]
    fn at_the_limit_the_least_recently_used_handle_goes() {
        let mut pool = Pool::new(2);
        assert_eq!(pool.check_in(callee(1), "a"), None);
        assert_eq!(pool.check_in(callee(2), "b"), None);
        let a = pool.check_out(callee(1)).unwrap();
        assert_eq!(pool.check_in(callee(1), a), None);
        assert_eq!(pool.check_in(callee(3), "c"), Some("b"));
        assert_eq!(pool.len(), 2);
        assert_eq!(Pool::new(0).check_in(callee(1), "d"), Some("d"));
    }

    #[test]
    fn one_broken_handle_invalidates_all_of_its_callee() {
        let mut pool = Pool::new(10);
        pool.check_in(callee(1), "a");
        pool.check_in(callee(1), "b");
        pool.check_in(callee(2), "c");
        assert_eq!(pool.invalidate(callee(1)), ["a", "b"]);
        assert_eq!((pool.len(), pool.check_out(callee(2))), (1, Some("c")));
        assert!(pool.invalidate(callee(1)).is_empty());
    }
}
