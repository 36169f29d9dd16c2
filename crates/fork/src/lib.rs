//! Tells a process from the children that were forked from it, without a system call for each question.
//!
//! ```text
//!   fork(2) ── handler of pthread_atfork, in the child ── FORKS + 1
//!                                                           │
//!   a value of its maker ── Process ── is_this()? ──────────┘
//! ```
//!
//! Process ids don't tell: in a PID namespace of its own, a child may have its parent's. And asking for
//! the id is a system call.
//!
//! The handler also works in a library that `dlopen` loads: glibc links `pthread_atfork` into the library
//! itself, so it registers the handler as this library's, and `dlclose` removes it before it unmaps the
//! code. A library that is loaded again begins with fresh statics, and registers its handler again.
//!
//! vfork(2), `_Fork` and the bare system calls run no handlers. POSIX leaves their children, and the
//! handlers of others, only the async-signal-safe functions. So they must not use what relies on this
//! crate.
//!
//! It must never take a lock, which a thread of the parent could hold at a fork, or call the system after
//! the first question.
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

/// A cache line of its own: each remote call reads it, and no value beside it is to slow that by its
/// writes.
#[repr(align(64))]
struct Count(AtomicU32);

/// A process, as told apart from those that it was forked from.
#[derive(Debug, Clone, Copy)]
pub struct Process(Told);

#[derive(Debug, Clone, Copy)]
enum Told {
    /// By its number of forks.
    Forks(u32),
    /// By its id, for want of a handler.
    Id(u32),
}

impl Process {
    /// The current process. If there is no memory for the handler, the process id tells it from its
    /// children: with a system call for each question, and not if they have the same id.
    pub fn this() -> Self {
        Self::watched().unwrap_or_else(|_| Self(Told::Id(std::process::id())))
    }

    /// The current process, with the handler in place.
    ///
    /// # Errors
    /// There is no memory for the handler.
    pub fn watched() -> io::Result<Self> {
        // Two threads at once may register the handler twice. A child's count then rises by two, and
        // differs all the same.
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
