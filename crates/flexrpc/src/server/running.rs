//! The number of running calls, for which a shutdown waits.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of counters: enough that threads seldom share one.
const STRIPES: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// A counter on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicUsize);

/// Counters by thread. With a single counter, every call would fetch its cache line from the thread
/// that wrote last.
pub(crate) struct Running([Stripe; STRIPES]);

impl Running {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Stripe::default()))
    }

    /// Counts a call until the result is dropped.
    #[inline]
    pub(crate) fn begin(&self) -> Ran<'_> {
        let stripe = &self.0[STRIPE.with(|stripe| *stripe)].0;
        stripe.fetch_add(1, Ordering::AcqRel);
        Ran(stripe)
    }

    /// Whether a call is running. Can miss a call that begins during the check.
    pub(crate) fn any(&self) -> bool {
        self.0.iter().any(|Stripe(count)| count.load(Ordering::Acquire) > 0)
    }
}

pub(crate) struct Ran<'a>(&'a AtomicUsize);

impl Drop for Ran<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_over_all_threads() {
        let running = Running::new();
        assert!(!running.any());
        let mine = running.begin();
        std::thread::scope(|scope| {
            scope.spawn(|| drop((running.begin(), running.begin())));
        });
        assert!(running.any());
        drop(mine);
        assert!(!running.any());
    }
}
