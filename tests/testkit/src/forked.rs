//! Child processes that tests fork without exec.

use crate::wait::wait_until;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Longest time that a child may run. It needs milliseconds, so after this time it hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A child that runs one function. The kernel ends it with the thread that forked it.
#[must_use]
pub struct Forked(Pid);

impl Forked {
    /// Forks a child that runs only `body`. The child has only a copy of this thread, and copies of the locks
    /// that other threads hold. It succeeds if `body` returns true.
    pub fn start(body: impl FnOnce() -> bool) -> Self {
        // SAFETY: the child takes no lock that another thread may have held at the fork, unless that is the
        // test's subject. glibc handles the locks of its allocator.
        match unsafe { libc::fork() } {
            0 => {
                let bound = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
                let well = bound && catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
                // SAFETY: this ends the child, without destructors of its parent's values.
                unsafe { libc::_exit(i32::from(!well)) }
            }
            child => Self(Pid::from_raw(child).filter(|_| child > 0).expect("a process more")),
        }
    }

    /// As [`Forked::start`], but the child is process 1 of a new PID namespace below the caller's. Call this
    /// once per thread. Afterwards, the calling thread can't start threads.
    pub fn start_as_first(body: impl FnOnce() -> bool) -> Self {
        Self::divide().expect("a PID namespace");
        Self::start(body)
    }

    /// Whether this host permits PID namespaces.
    pub fn can_be_first() -> bool {
        Self::start(|| Self::divide().is_ok()).ended_well()
    }

    /// Makes a new PID namespace for the children that this thread forks from now on.
    fn divide() -> rustix::io::Result<()> {
        let both = UnshareFlags::NEWUSER | UnshareFlags::NEWPID;
        // SAFETY: these change no memory or descriptors, and nothing of other threads.
        unsafe { unshare_unsafe(UnshareFlags::NEWPID).or_else(|_| unshare_unsafe(both)) }
    }

    /// Waits for the child's end, and kills the child if it hangs. Returns whether its function returned
    /// true.
    pub fn ended_well(self) -> bool {
        let mut ended = None;
        wait_until(PATIENCE, || {
            ended = waitpid(Some(self.0), WaitOptions::NOHANG).expect("a child");
            ended.is_some()
        });
        let status = ended.or_else(|| {
            kill_process(self.0, Signal::KILL).expect("a child");
            waitpid(Some(self.0), WaitOptions::empty()).expect("a child")
        });
        status.is_some_and(|(_, status)| status.exit_status() == Some(0))
    }
}
