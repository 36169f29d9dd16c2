//! Notices forks, without a system call for each remote call.
//!
//! A handler of `pthread_atfork` counts them in each child. This also holds for a program that loads
//! the library by `dlopen`: glibc links `pthread_atfork` into the library itself, so it registers the
//! handler as this library's, and `dlclose` removes it before it unmaps the code. A library that is
//! loaded again begins with fresh statics, and registers its handler again.
//!
//! vfork(2), `_Fork` and the bare system call run no handlers. Their children may not call the library
//! in any case: POSIX leaves them the async-signal-safe functions.

use nix::libc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of forks between the process that loaded the library and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A process, as told apart from those that it was forked from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// The current process. Forks are noticed from the first [`Process::watched`] on.
    pub fn this() -> Self {
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// The current process, with the handler in place.
    ///
    /// # Errors
    /// There is no memory for the handler.
    pub fn watched() -> Result<Self, String> {
        // No lock, which a thread of the parent could hold at a fork. Two threads at once register
        // the handler twice; a child's count then rises by two, and differs all the same.
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Acquire) {
            // SAFETY: in the child the handler only changes an atomic, which is async-signal-safe.
            // The handler lives as long as the library is loaded.
            match unsafe { libc::pthread_atfork(None, None, Some(count)) } {
                0 => WATCHED.store(true, Ordering::Release),
                error => {
                    let error = std::io::Error::from_raw_os_error(error);
                    return Err(format!("pthread_atfork, which notices forks: {error}"));
                }
            }
        }
        Ok(Self::this())
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
