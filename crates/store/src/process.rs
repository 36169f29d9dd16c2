//! State that each process has once. A forked child starts with its own.
//!
//! A child has none of its parent's threads, may have copies of locks that these threads held, and shares
//! the parent's connections. So it must not touch its parent's state, not even to drop it.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use strait_fork::Process;

/// A value that each process makes at its first use. A forked child leaks its copy of its parent's
/// value, and makes its own.
#[derive(Debug)]
pub struct PerProcess<T>(AtomicPtr<Owned<T>>);

#[derive(Debug)]
struct Owned<T> {
    process: Process,
    value: T,
}

impl<T> PerProcess<T> {
    /// A cell without a value.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// This process's value, if it has one. Takes no lock.
    pub fn get(&self) -> Option<&T> {
        // SAFETY: it is null or a leaked box. Only `drop` frees it, when there are no references.
        let owned = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        owned.filter(|owned| owned.process.is_this()).map(|owned| &owned.value)
    }

    /// This process's value. If there is none, `make` makes it. If several threads make one at the same
    /// time, all of them get the first one.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.get() {
            return Ok(value);
        }
        let parents = self.0.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        if unsafe { parents.as_ref() }.is_some_and(|owned| owned.process.is_this()) {
            // Another thread was faster.
            return self.get_or_make(make);
        }
        let made = Box::into_raw(Box::new(Owned { process: Process::this(), value: make()? }));
        let first = match self.0.compare_exchange(parents, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
        // SAFETY: as in `get`; a thread of this process put it there, since a value changes only
        // from the parent's to this process's.
        Ok(unsafe { &(*first).value })
    }

    /// Takes this process's value out.
    pub fn take(&mut self) -> Option<T> {
        let current = std::mem::replace(self.0.get_mut(), null_mut());
        // SAFETY: as in `get`.
        let is_own = unsafe { current.as_ref() }.is_some_and(|owned| owned.process.is_this());
        // SAFETY: there are no references any more.
        is_own.then(|| unsafe { Box::from_raw(current) }.value)
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    fn made<T>(value: T) -> Result<T, Infallible> {
        Ok(value)
    }

    #[test]
    fn all_threads_get_the_first_value_and_it_is_dropped_once() {
        struct Counted {
            number: usize,
            drops: Arc<AtomicUsize>,
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                self.drops.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (slot, drops, makes) = (PerProcess::new(), Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        let number = makes.fetch_add(1, Ordering::Relaxed);
                        made(Counted { number, drops: drops.clone() })
                    };
                    let first = slot.get_or_make(make).unwrap().number;
                    assert_eq!(first, slot.get().unwrap().number);
                });
            }
        });
        drop(slot);
        assert_eq!(drops.load(Ordering::Relaxed), makes.load(Ordering::Relaxed));
    }

    #[test]
    fn a_failure_leaves_it_without_a_value() {
        let mut slot = PerProcess::new();
        assert_eq!(slot.get_or_make(|| Err::<u8, _>("no")), Err("no"));
        assert_eq!(slot.get(), None);
        assert_eq!(slot.get_or_make(|| made(1)), Ok(&1));
        assert_eq!(slot.take(), Some(1));
    }
}
