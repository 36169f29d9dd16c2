//! The state of one process: a runtime, and the open stores.

use crate::failure::{Failure, Outcome};
use nix::libc::{EAGAIN, ENOTSUP};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use strait_store::callers;
use strait_store::process::PerProcess;
use strait_store::{FileSystem, StoreUri};
use strait_store_any::OpenOptions;
use tokio::runtime::{Builder, Runtime};

/// Threads for the network. Callers wait in their own threads.
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
            .on_thread_start(callers::leave_signals_to_the_program)
            .build();
        let failed = |error| Failure::new(EAGAIN, format!("the process can't start threads: {error}"));
        Ok(Self { runtime: runtime.map_err(failed)?, stores: Mutex::default() })
    }

    /// Runs `work` to its end. Works also in a thread that is ending.
    pub fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        callers::wait(&self.runtime, work)
    }

    /// As [`Process::wait`], for work that must stay in this thread. In a thread that is ending, it fails.
    pub fn wait_here<T>(&self, work: impl Future<Output = T>) -> Outcome<T> {
        let ending = || Failure::new(ENOTSUP, "the thread is ending; it can only connect or use open files");
        callers::wait_here(&self.runtime, work).ok_or_else(ending)
    }

    /// Drops a value whose destructor may start tasks.
    pub fn drop<T: Send>(&self, value: T) {
        callers::drop_on(&self.runtime, value);
    }

    /// The store, shared by all connections with the same `key`.
    pub fn store(&self, key: &str, uri: &StoreUri, options: &OpenOptions) -> Outcome<Arc<dyn FileSystem>> {
        if let Some(store) = self.stores().get(key).and_then(Weak::upgrade) {
            return Ok(store);
        }
        // Two threads may both open the store. Then later callers share the one that was opened last.
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
