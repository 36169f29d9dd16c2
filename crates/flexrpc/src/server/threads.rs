//! Counts a server's threads, so that a shutdown can wait for their end.

use crate::net::clock;
use crate::sync::{Condvar, Mutex, thread};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Stack of a thread, as large as that of a C program's main thread. SunRPC's servers run their procedures in the
/// main thread, and such procedures may have large arguments by value. The size is only address space: a thread
/// occupies only the memory that it uses.
#[cfg(not(all(test, shuttle)))]
const STACK_BYTES: usize = 8 << 20;

#[derive(Clone, Default)]
pub(crate) struct Threads(Arc<(Mutex<usize>, Condvar)>);

impl Threads {
    /// Starts a thread; `false` if the system has no resources for it.
    pub(crate) fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> bool {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let counted = Counted(self.clone());
        let thread = thread::Builder::new().name(name.to_owned());
        // Shuttle's stacks are memory.
        #[cfg(not(all(test, shuttle)))]
        let thread = thread.stack_size(STACK_BYTES);
        // If the thread doesn't start, dropping the closure uncounts it.
        thread
            .spawn(move || {
                let _counted = counted;
                body();
            })
            .is_ok()
    }

    /// Waits until all have ended; `false` if some run for longer than `patience`.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let (count, changed) = &*self.0;
        let since = clock::now();
        let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count > 0 {
            let left = patience.saturating_sub(clock::since(since));
            if left.is_zero() {
                return false;
            }
            count = changed.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

struct Counted(Threads);

impl Drop for Counted {
    fn drop(&mut self) {
        let (count, changed) = &*self.0.0;
        *count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        changed.notify_all();
    }
}
