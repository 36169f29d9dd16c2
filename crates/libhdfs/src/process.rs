//! What a process has once: a runtime, and its open stores.

use crate::failure::{Failure, Outcome};
use nix::libc::{EAGAIN, SIGPIPE};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use strait_store::process::PerProcess;
use strait_store::{FileSystem, StoreUri};
use strait_store_any::OpenOptions;
use tokio::runtime::{Builder, Runtime};

/// Threads for the network. Callers wait on their own.
const THREADS: usize = 2;

/// The state of one process.
pub struct Process {
    runtime: Runtime,
    stores: Mutex<HashMap<String, Weak<dyn FileSystem>>>,
}

/// The calling process's state.
pub fn current() -> Outcome<&'static Process> {
    static CURRENT: PerProcess<Process> = PerProcess::new();
    CURRENT.get_or_make(Process::new)
}

impl Process {
    fn new() -> Outcome<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .thread_name("libhdfs")
            .on_thread_start(leave_signals_to_the_program)
            .build();
        let failed = |error| Failure::new(EAGAIN, format!("the process can't start threads: {error}"));
        Ok(Self { runtime: runtime.map_err(failed)?, stores: Mutex::default() })
    }

    /// Waits for `work`.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        let _quiet = NoSigpipe::begin();
        self.runtime.block_on(work)
    }

    /// Drops a value that may start work for that.
    pub fn drop<T>(&self, value: T) {
        let _inside = self.runtime.enter();
        drop(value);
    }

    /// The store, shared by all connections with the same `key`.
    pub fn store(&self, key: &str, uri: &StoreUri, options: &OpenOptions) -> Outcome<Arc<dyn FileSystem>> {
        if let Some(store) = self.stores().get(key).and_then(Weak::upgrade) {
            return Ok(store);
        }
        // Two threads may both open it. The last one's is shared afterwards.
        let opened = self.wait(strait_store_any::open(uri, options))?;
        let mut stores = self.stores();
        stores.retain(|_, store| store.strong_count() > 0);
        stores.insert(key.to_owned(), Arc::downgrade(&opened));
        Ok(opened)
    }

    fn stores(&self) -> MutexGuard<'_, HashMap<String, Weak<dyn FileSystem>>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The program's signals reach only threads of the program.
fn leave_signals_to_the_program() {
    let _ = SigSet::all().thread_block();
}

/// Keeps SIGPIPE from a program that hasn't asked for it, without a handler. A lost server's
/// connection raises it in the thread that writes, which may be the program's own.
struct NoSigpipe {
    /// The thread's mask before; none if it blocks the signal itself.
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

/// Takes a pending SIGPIPE, which came during the call: the mask let an earlier one through.
fn take_pending() {
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let now = nix::libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the set and the time are valid; the caller wants no details of the signal.
    let taken = unsafe { nix::libc::sigtimedwait(pipe.as_ref(), std::ptr::null_mut(), &raw const now) };
    debug_assert!(taken == SIGPIPE || taken == -1);
}
