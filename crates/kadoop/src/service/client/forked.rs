//! Whether this is still the process that made a client.

use super::super::failure::Failure;
use crate::error::Error;
use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};

/// Forks between the process that this one began as and itself. A call for the process's number
/// takes half a microsecond; a cached read takes one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that a client is of. A forked child has none of its threads, and may have locks
/// that these held; it would also speak with the parent's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    forks: u32,
}

impl Process {
    /// This one.
    pub(super) fn this() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: `forked` is there for as long as the process, and does no more in the child
            // than change an atomic, which is async-signal-safe. If there is no memory for it,
            // forks go unnoticed, as they would without.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is it.
    pub(super) fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Refuses in any other. To be asked before any lock is taken.
    pub(super) fn demand(self) -> Result<(), Failure> {
        if self.is_this() {
            return Ok(());
        }
        let why = "the client is of the process that was forked; connect anew in this one";
        Err(Failure::new(Error::Invalid("of another process"), why))
    }
}

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
