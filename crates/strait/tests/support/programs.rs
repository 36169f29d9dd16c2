//! Programs that use a mount all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use strait_testkit::wait::{pause, wait_until};

/// For a step and some of the store's waits, on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(180);

/// Pause after each step, except in the heavy tests (`MOUNT_ROUNDS`). Without it, programs of a store that answers at
/// once would take all processors from the tests beside them.
const PAUSE: Duration = Duration::from_millis(100);

/// Bytes that no two places share.
pub fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

/// A program that repeats a step until all are stopped. A failure shows when it is joined.
pub struct Program {
    name: &'static str,
    pub steps: Arc<AtomicU64>,
    pub thread: JoinHandle<()>,
}

impl Program {
    pub fn begin(
        name: &'static str,
        stop: &Arc<AtomicBool>,
        mut step: impl FnMut(u64) + Send + 'static,
    ) -> Self {
        let steps = Arc::new(AtomicU64::new(0));
        let (stop, done) = (stop.clone(), steps.clone());
        let is_heavy = std::env::var_os("MOUNT_ROUNDS").is_some();
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                step(done.load(Ordering::Relaxed));
                done.fetch_add(1, Ordering::Relaxed);
                if !is_heavy {
                    pause("for the tests beside", PAUSE);
                }
            }
        });
        Self { name, steps, thread }
    }

    /// Waits until it has done more, which shows that it isn't stuck.
    pub fn goes_on(&self) {
        let before = self.steps.load(Ordering::Relaxed);
        let goes_on = wait_until(DEADLINE, || {
            self.thread.is_finished() || self.steps.load(Ordering::Relaxed) > before + 1
        });
        assert!(goes_on, "{} is stuck after {before} steps", self.name);
        assert!(!self.thread.is_finished(), "{} failed", self.name);
    }
}
