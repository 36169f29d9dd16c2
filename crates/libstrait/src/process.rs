//! The state of one process: a runtime, and the open stores.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::process::PerProcess;
use strait_store::{Error, ErrorKind, FileSystem, Principal, Result, StoreUri, callers};
use strait_store_any::OpenOptions;
use tokio::runtime::{Builder, Runtime};

/// Threads for the network. Callers wait in their own threads.
const THREADS: usize = 2;

/// The state of one process. A child after fork(2) makes a new one: the parent's threads don't exist in the
/// child, and the parent's locks may be locked forever.
pub struct Process {
    runtime: Runtime,
    stores: Mutex<HashMap<String, Arc<dyn FileSystem>>>,
}

static CURRENT: PerProcess<Process> = PerProcess::new();

/// The calling process's state.
pub fn current() -> Result<&'static Process> {
    CURRENT.get_or_make(Process::new)
}

impl Process {
    fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .thread_name("strait")
            .on_thread_start(callers::leave_signals_to_the_program)
            .build();
        let failed = |error| Error::new(ErrorKind::Busy, "the process can't start threads").caused_by(error);
        Ok(Self { runtime: runtime.map_err(failed)?, stores: Mutex::default() })
    }

    /// Whether this is the state of the calling process.
    pub fn is_current(&self) -> bool {
        CURRENT.get().is_some_and(|current| std::ptr::eq(current, self))
    }

    /// Runs `work` to its end. Works also in a thread that is ending.
    pub fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        callers::wait(&self.runtime, work)
    }

    /// Drops a value whose destructor may start tasks.
    pub fn drop<T: Send>(&self, value: T) {
        callers::drop_on(&self.runtime, value);
    }

    /// The store of a URI. The first use opens it.
    pub async fn store(&self, uri: &StoreUri) -> Result<Arc<dyn FileSystem>> {
        let name = uri.store();
        let stores = || self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores().get(&name) {
            return Ok(store.clone());
        }
        // Two threads may both open the store. Then all use the one that was opened first.
        let opened = strait_store_any::open(uri, &OpenOptions::from_environment(None)?).await?;
        Ok(stores().entry(name).or_insert(opened).clone())
    }
}

/// Parses a URI. If it names no namenode, Hadoop's configuration does.
pub fn uri(text: &str) -> Result<StoreUri> {
    strait_store_any::with_host(StoreUri::parse(text)?, None)
}

/// The user of this process, for stores that trust the name that a client gives.
pub fn user() -> Principal {
    let id = nix::unistd::geteuid();
    let named = nix::unistd::User::from_uid(id).ok().flatten();
    Principal::new(&named.map_or_else(|| id.to_string(), |user| user.name))
}

/// The number of users and groups that this host doesn't know, as in NFS.
const NOBODY: u32 = 65_534;

/// A user's number on this host. If the host doesn't know the name, it can itself be a number.
pub fn user_id(name: &str) -> u32 {
    let known = nix::unistd::User::from_name(name).ok().flatten();
    known.map(|user| user.uid.as_raw()).or_else(|| name.parse().ok()).unwrap_or(NOBODY)
}

/// A group's number on this host, by the same rules.
pub fn group_id(name: &str) -> u32 {
    let known = nix::unistd::Group::from_name(name).ok().flatten();
    known.map(|group| group.gid.as_raw()).or_else(|| name.parse().ok()).unwrap_or(NOBODY)
}
