//! Memory that several files share.

use std::sync::{
    Weak,
    atomic::{AtomicU64, Ordering},
};
use strait_kadoop_core::client::{Budget, Holder};

/// A budget with a fixed number of bytes.
#[derive(Debug)]
pub struct Purse {
    most: u64,
    taken: AtomicU64,
}

impl Purse {
    pub fn of(most: u64) -> Self {
        Self { most, taken: AtomicU64::new(0) }
    }

    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Budget for Purse {
    fn take(&self, bytes: u64) -> bool {
        let fits = self.taken() + bytes <= self.most;
        if fits {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        fits
    }

    fn give_back(&self, bytes: u64) {
        assert!(self.taken.fetch_sub(bytes, Ordering::Relaxed) >= bytes, "more than was taken");
    }

    fn register(&self, _: Weak<dyn Holder>) {}
}
