//! Lets threads of a C program call one of the C libraries. Signals stay the program's matter, and a
//! calling thread may be about to end.

use nix::libc::SIGPIPE;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use std::future::Future;
use tokio::runtime::{Handle, Runtime};

/// Waits for `work`, even in a thread that is ending.
pub fn wait<T: Send>(runtime: &Runtime, work: impl Future<Output = T> + Send) -> T {
    let _quiet = NoSigpipe::begin();
    here_or_elsewhere(|| runtime.block_on(work))
}

/// As [`wait`], for work that must stay in this thread. None if the thread is ending.
pub fn wait_here<T>(runtime: &Runtime, work: impl Future<Output = T>) -> Option<T> {
    let _quiet = NoSigpipe::begin();
    (!is_ending()).then(|| runtime.block_on(work))
}

/// Drops a value whose destructor may start tasks.
pub fn drop_on<T: Send>(runtime: &Runtime, value: T) {
    here_or_elsewhere(|| {
        let _inside = runtime.enter();
        drop(value);
    });
}

/// Call this in each thread of a runtime, so that the program's signals reach only the program's threads.
pub fn leave_signals_to_the_program() {
    let _ = SigSet::all().thread_block();
}

/// Runs `work` in another thread if this one is ending.
fn here_or_elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if !is_ending() {
        return work();
    }
    // The join waits for the thread, so the scope needn't: an ending thread can't park.
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Whether the thread has destroyed its thread-local values, without which no runtime works. Destructors
/// of a C program's own values (pthread_key_create(3), C++'s `thread_local`) run after that.
fn is_ending() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// Keeps SIGPIPE from a program that hasn't asked for it, without a handler. A write to a connection
/// that is lost raises the signal in the writing thread, which may be the program's own.
struct NoSigpipe {
    /// The thread's signal mask before the call. None if the thread itself blocks SIGPIPE.
    before: Option<SigSet>,
}

impl NoSigpipe {
    fn begin() -> Self {
        let mut pipe = SigSet::empty();
        pipe.add(Signal::SIGPIPE);
        let mut before = SigSet::empty();
        let blocked = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&pipe), Some(&mut before));
        Self { before: (blocked.is_ok() && !before.contains(Signal::SIGPIPE)).then_some(before) }
    }
}

impl Drop for NoSigpipe {
    fn drop(&mut self) {
        let Some(before) = &self.before else { return };
        take_pending();
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(before), None);
    }
}

/// Takes a pending SIGPIPE. The call raised it: the mask would have delivered an earlier one.
fn take_pending() {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let now = nix::libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are valid; the caller wants no details of the signal.
    let taken = unsafe { nix::libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &raw const now) };
    debug_assert!(taken == SIGPIPE || taken == -1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;
    use strait_testkit::wait::pause_task;
    use tokio::runtime::Builder;

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn a_thread_that_is_ending_can_wait_and_drop() {
        type Seen = Arc<Mutex<Vec<(bool, u8, Option<u8>)>>>;
        struct AtEnd(Arc<Runtime>, Seen);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                let later = async {
                    pause_task("so that the thread has to wait", Duration::from_millis(1)).await;
                    7
                };
                let waited = wait(&self.0, later);
                drop_on(&self.0, ());
                self.1.lock().unwrap().push((is_ending(), waited, wait_here(&self.0, async { 8 })));
            }
        }
        thread_local!(static KEPT: RefCell<Option<AtEnd>> = const { RefCell::new(None) });

        let (runtime, seen) = (Arc::new(runtime()), Seen::default());
        let (theirs, kept) = (runtime.clone(), AtEnd(runtime, seen.clone()));
        let thread = std::thread::spawn(move || {
            // The runtime's thread-local values are made after this one, and so destroyed before it.
            KEPT.set(Some(kept));
            assert_eq!((wait(&theirs, async { 1 }), wait_here(&theirs, async { 2 })), (1, Some(2)));
        });
        thread.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), [(true, 7, None)]);
    }
}
