//! Distinguishes a process from the children that were forked from it, without a system call for each question.
//!
//! ```text
//!   fork(2) ── handler of pthread_atfork, in the child ── FORKS + 1
//!                                                           │
//!   a value of its maker ── Process ── is_this()? ──────────┘
//! ```
//!
//! Process ids aren't enough: in a new PID namespace, a child may have the same id as its parent. And
//! getpid(2) is a system call.
//!
//! The handler also works in a library that `dlopen` loads: glibc links `pthread_atfork` into the library
//! itself, so it registers the handler as this library's, and `dlclose` removes it before it unmaps the
//! code. A library that is loaded again begins with fresh statics, and registers its handler again.
//!
//! vfork(2), `_Fork` and direct system calls run no handlers, so this crate doesn't notice their children.
//! In these children, and in the fork handlers of other libraries, POSIX allows only async-signal-safe
//! functions. Code that relies on this crate must not run there.
//!
//! This crate must never take a lock, because another thread of the parent may hold it at the fork. After
//! the first question, it must make no system call, unless the handler couldn't be registered.
//!
//! ```
//! use strait_fork::Process;
//!
//! let maker = Process::this();
//! assert!(maker.is_this()); // until a child asks
//! ```

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Number of forks between the process that loaded this code and this one.
static FORKS: Count = Count(AtomicU32::new(0));

/// The counter has its own cache line: each remote call reads it, and writes to a neighbouring value would
/// slow these reads.
#[repr(align(64))]
struct Count(AtomicU32);

/// Identifies a process, and distinguishes it from its children that fork(2) made.
#[derive(Debug, Clone, Copy)]
pub struct Process(Told);

#[derive(Debug, Clone, Copy)]
enum Told {
    /// By the number of forks.
    Forks(u32),
    /// By the process id, because the handler couldn't be registered.
    Id(u32),
}

impl Process {
    /// The current process. If there is no memory for the handler, the process id identifies it instead:
    /// then each question costs a system call, and a child with the same id isn't noticed.
    pub fn this() -> Self {
        Self::watched().unwrap_or_else(|_| Self(Told::Id(std::process::id())))
    }

    /// The current process. Registers the handler, if that hasn't happened yet.
    ///
    /// # Errors
    /// There is no memory for the handler.
    pub fn watched() -> io::Result<Self> {
        // If two threads call this at once, both may register the handler. A child's count then rises by
        // two, so it still differs from its parent's.
        static WATCHED: AtomicBool = AtomicBool::new(false);
        if !WATCHED.load(Ordering::Acquire) {
            // SAFETY: in the child the handler only changes an atomic, which is async-signal-safe. The
            // handler lives as long as this code is loaded.
            match unsafe { libc::pthread_atfork(None, None, Some(count)) } {
                0 => WATCHED.store(true, Ordering::Release),
                error => return Err(io::Error::from_raw_os_error(error)),
            }
        }
        Ok(Self(Told::Forks(FORKS.0.load(Ordering::Relaxed))))
    }

    /// Whether this is the current process.
    #[inline]
    pub fn is_this(self) -> bool {
        match self.0 {
            Told::Forks(forks) => forks == FORKS.0.load(Ordering::Relaxed),
            Told::Id(id) => id == std::process::id(),
        }
    }
}

extern "C" fn count() {
    FORKS.0.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_testkit::Forked;

    #[test]
    fn without_a_handler_the_id_tells_a_child_from_its_parent() {
        let parent = Process(Told::Id(std::process::id()));
        assert!(parent.is_this());
        assert!(Forked::start(|| !parent.is_this()).ended_well());
    }
}
