//! The state of one process: a runtime, and the open stores.

use crate::failure::{Cause, because};
use std::collections::HashMap;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::process::PerProcess;
use strait_store::{Error, ErrorKind, FileSystem, Principal, Result, StorePath, StoreUri, callers};
use strait_store_any::OpenOptions;
use tokio::runtime::{Builder, Runtime};

/// Threads for the network. Callers wait in their own threads.
const THREADS: usize = 2;

/// The state of one process. A child after fork(2) makes a new one: the parent's threads don't exist in the
/// child, and the parent's locks may be locked forever.
pub struct Process {
    runtime: Runtime,
    stores: Mutex<HashMap<String, Opened>>,
    /// The latest effective user, by its number: a look-up can be a request to another host.
    user: Mutex<Option<(nix::unistd::Uid, Principal)>>,
}

/// An open store.
#[derive(Clone)]
struct Opened {
    fs: Arc<dyn FileSystem>,
    /// The user that STRAIT_USER named at the opening, if the store tells users apart: calls act as this user, and
    /// otherwise as the process's.
    user: Option<Principal>,
}

static CURRENT: PerProcess<Process> = PerProcess::new();

/// The calling process's state.
fn current() -> Result<&'static Process> {
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
        Ok(Self { runtime: runtime.map_err(failed)?, stores: Mutex::default(), user: Mutex::default() })
    }

    /// Fails if another process made this state.
    pub fn check(&self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(because(Cause::BadHandle, OF_A_PARENT)) }
    }

    fn is_current(&self) -> bool {
        CURRENT.get().is_some_and(|current| std::ptr::eq(current, self))
    }

    /// The user of this process, for stores that trust the name that a client gives.
    fn user(&self) -> Principal {
        let id = nix::unistd::geteuid();
        let mut known = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, user)) = known.as_ref().filter(|(known, _)| *known == id) {
            return user.clone();
        }
        let named = nix::unistd::User::from_uid(id).ok().flatten();
        let user = Principal::new(&named.map_or_else(|| id.to_string(), |user| user.name));
        known.insert((id, user)).1.clone()
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
    async fn store(&self, uri: &StoreUri) -> Result<Opened> {
        let name = uri.store();
        let stores = || self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores().get(&name) {
            return Ok(store.clone());
        }
        // Two threads may both open the store. Then all use the one that was opened first.
        let options = OpenOptions::from_environment(None)?;
        let fs = strait_store_any::open(uri, &options).await?;
        let user = options.strait.user.filter(|_| fs.capabilities().per_user);
        let opened = Opened { fs, user: user.as_deref().map(Principal::new) };
        Ok(stores().entry(name).or_insert(opened).clone())
    }
}

/// The error message if a process uses a handle that another process opened.
const OF_A_PARENT: &str = "the parent process opened it; open it again in this process";

/// The value behind a handle. Only the process that opened it can use and drop it.
pub struct Owned<T: Send> {
    process: &'static Process,
    value: ManuallyDrop<T>,
}

impl<T: Send> Owned<T> {
    pub fn new(process: &'static Process, value: T) -> Self {
        Self { process, value: ManuallyDrop::new(value) }
    }

    /// The process's state, and the value.
    pub fn get(&self) -> Result<(&'static Process, &T)> {
        self.process.check()?;
        Ok((self.process, &*self.value))
    }
}

impl<T: Send> Drop for Owned<T> {
    fn drop(&mut self) {
        // In a child process nothing can be dropped: the parent's runtime doesn't run there.
        if self.process.is_current() {
            // SAFETY: nobody uses the value after this.
            self.process.drop(unsafe { ManuallyDrop::take(&mut self.value) });
        }
    }
}

/// A path in an open store, and the user for whom calls act.
pub struct Place {
    pub process: &'static Process,
    pub fs: Arc<dyn FileSystem>,
    pub who: Principal,
    pub path: StorePath,
}

impl Place {
    /// The place that a URI names.
    pub fn of(text: &str) -> Result<Self> {
        Self::at(&uri(text)?)
    }

    /// The place that `from` names, and the path of `to` in the same store.
    pub fn and_target(from: &str, to: &str, operation: &'static str) -> Result<(Self, StorePath)> {
        let (source, target) = (uri(from)?, uri(to)?);
        if source.store() != target.store() {
            let message = format!("both must be in one store; this one is in {}", source.store());
            return Err(because(Cause::TwoStores, message).at(operation, to));
        }
        Ok((Self::at(&source)?, target.path().clone()))
    }

    fn at(uri: &StoreUri) -> Result<Self> {
        let process = current()?;
        let Opened { fs, user } = process.wait(process.store(uri))?;
        let who = user.unwrap_or_else(|| process.user());
        Ok(Self { process, fs, who, path: uri.path().clone() })
    }
}

/// Parses a URI. If it names no namenode, Hadoop's configuration does.
fn uri(text: &str) -> Result<StoreUri> {
    strait_store_any::with_host(StoreUri::parse(text)?, None)
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
