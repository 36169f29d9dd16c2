//! Detects whether this is still the process that made a client.

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering},
};
use strait_kadoop_core::error::Error;
use strait_kadoop_wire::failure::Failure;

/// Number of forks between the original process and this one. A system call for the process id
/// takes half a microsecond; a cached read takes one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process of a client. A forked child has none of its threads, may have copies of locks that
/// they held, and would use the parent's request numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    forks: u32,
}

impl Process {
    /// The current process.
    pub(super) fn this() -> Self {
        static WATCH: Once = Once::new();
        WATCH.call_once(|| {
            // SAFETY: `forked` lives as long as the process. In the child it only changes an
            // atomic, which is async-signal-safe. Without memory for the handler, forks go
            // unnoticed, as they would without this call.
            unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        });
        Self { forks: FORKS.load(Ordering::Relaxed) }
    }

    /// Whether this is the current process.
    pub(super) fn is_this(self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Refuses in any other process. Call this before taking any lock.
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
