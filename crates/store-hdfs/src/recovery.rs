//! Frees an abandoned file, so that it can be written again.
//!
//! If a writer dies, the namenode frees the file at the soft limit if another client wants it, and otherwise
//! at the hard limit. It never frees the file while the same client renews its lease for other files. This
//! process knows its own abandoned writers, so it frees their files at once, in the background.

use super::errors::{Effect, from_library, is_about_the_namenode};
use super::retry::{Backoff, LONGEST_PAUSE};
use hdfs_native::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strait_store::work::query;
use strait_store::{ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

/// An abandoned file is writable again within this time. It covers the namenode's soft limit for a writer
/// whose whole process died (`HdfsConstants.LEASE_SOFTLIMIT_PERIOD`, 60 s), and the time in which datanodes
/// agree on the length. If that process left several files, the namenode renews their lease whenever it
/// recovers one of them (`FSNamesystem.internalReleaseLease`). So each further file takes as long again.
pub(super) const RECOVERY_LIMIT: Duration = Duration::from_secs(90);

/// A recovery waits at most this long for a namenode that can't be reached: longer than any outage that this
/// process survives. Giving up earlier could leave a file open, since its lease lives for as long as its
/// holder writes other files.
pub(super) const OUTAGE_LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// Time for which a user waits for the recovery of another user's file at the path. Most recoveries take
/// less. After that, the namenode rejects the user's request if the file is still open.
const WAIT_FOR_OTHERS: Duration = Duration::from_secs(5);

/// Recoveries that call the namenode at the same time. Others queue, since each dropped writer may cause one.
const MOST_AT_A_TIME: usize = 16;

/// The running recoveries, by path.
#[derive(Debug)]
pub(super) struct Recoveries {
    running: Mutex<HashMap<String, Running>>,
    asking: Semaphore,
}

#[derive(Debug, Clone)]
struct Running {
    /// The user whose writer left the file.
    user: String,
    /// Closed at the end of the recovery.
    end: watch::Receiver<()>,
    /// Whether the recovery would also close a new file at the path.
    by_path: bool,
}

impl Default for Recoveries {
    fn default() -> Self {
        Self { running: Mutex::default(), asking: Semaphore::new(MOST_AT_A_TIME) }
    }
}

impl Recoveries {
    /// Recovers `path`, which a writer of the library's `client` left open. The library names files by their
    /// paths. So if another program has a new file open there, that file's writer loses it.
    pub fn run_by_library(self: &Arc<Self>, client: Client, user: String, path: String, runtime: &Handle) {
        let (at, recoveries) = (path.clone(), Arc::clone(self));
        let recovery = async move {
            let ask = || async {
                client.recover_lease(&at).await.map_err(|error| from_library(error, Effect::Read))
            };
            recoveries.until_recovered(&at, ask).await;
        };
        self.spawn((user, path), true, recovery, runtime);
    }

    /// Runs the recovery of the file that `user` had at `path`, for which others can wait. `recovery` must
    /// not affect another file there.
    pub fn run(
        self: &Arc<Self>,
        user: String,
        path: String,
        recovery: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) {
        self.spawn((user, path), false, recovery, runtime);
    }

    fn spawn(
        self: &Arc<Self>,
        (user, path): (String, String),
        by_path: bool,
        recovery: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) {
        let (done, end) = watch::channel(());
        self.lock().insert(path.clone(), Running { user, end: end.clone(), by_path });
        let recoveries = Arc::clone(self);
        runtime.spawn(async move {
            recovery.await;
            let mut running = recoveries.lock();
            // A later recovery of the same path has its own entry.
            if running.get(&path).is_some_and(|entry| entry.end.same_channel(&end)) {
                running.remove(&path);
            }
            drop(running);
            drop(done);
        });
    }

    /// Waits for a running recovery of `path` before `user` opens it: the namenode would take the user's new
    /// writer for the abandoned one. Waits at most [`RECOVERY_LIMIT`], and less for another user's recovery.
    ///
    /// # Errors
    /// TimedOut: the caller's deadline passed before.
    pub async fn wait(&self, user: &str, path: &str) -> Result<()> {
        let running = self.lock().get(path).cloned();
        if let Some(running) = running {
            running.wait(user).await?;
        }
        Ok(())
    }

    /// As [`Self::wait`], for a creation that replaces the file. Most recoveries don't affect a new file.
    pub async fn wait_to_replace(&self, user: &str, path: &str) -> Result<()> {
        let running = self.lock().get(path).filter(|running| running.by_path).cloned();
        if let Some(running) = running {
            running.wait(user).await?;
        }
        Ok(())
    }

    /// Repeats `ask` until the file at `path` is recovered, for at most [`RECOVERY_LIMIT`] since the start or
    /// since the namenode was last out of reach. After [`OUTAGE_LIMIT`], such an outage no longer extends the
    /// time.
    pub async fn until_recovered<F>(&self, path: &str, ask: impl Fn() -> F)
    where
        F: Future<Output = Result<bool>>,
    {
        let mut backoff = Backoff::within(RECOVERY_LIMIT);
        let end = Instant::now() + OUTAGE_LIMIT;
        loop {
            let answer = {
                // The semaphore is never closed.
                let _place = self.asking.acquire().await;
                ask().await
            };
            match answer {
                Ok(true) => return,
                // The file was removed or renamed, so there is nothing to recover.
                Err(error) if error.kind() == ErrorKind::NotFound => return,
                Ok(false) => {}
                Err(error) if is_about_the_namenode(error.kind()) && Instant::now() < end => {
                    tracing::debug!(path, %error, "lease recovery waits for the namenode");
                    backoff = Backoff::starting_at(LONGEST_PAUSE, RECOVERY_LIMIT);
                }
                Err(error) => tracing::debug!(path, %error, "lease recovery continues"),
            }
            if !backoff.pause().await {
                return tracing::warn!(
                    path,
                    "an abandoned file is still open after {} s; the namenode frees it when this process has closed \
                     its other files; to free it now, run `hdfs debug recoverLease -path {path}`",
                    RECOVERY_LIMIT.as_secs()
                );
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    async fn wait(mut self, user: &str) -> Result<()> {
        let limit = if self.user == user { RECOVERY_LIMIT } else { WAIT_FOR_OTHERS };
        // The end of the recovery drops the sender, which ends this loop.
        let ended = async { while self.end.changed().await.is_ok() {} };
        let waited = async {
            let _ = timeout(limit, ended).await;
            Ok(())
        };
        query(waited).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use strait_store::Error;
    use strait_testkit::wait::pause_task;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_recovered_after_a_long_outage_of_the_namenode_and_nobody_waits_so_long() {
        let (recoveries, recovered) = (Arc::new(Recoveries::default()), Arc::new(AtomicBool::new(false)));
        let (begin, is_recovered) = (Instant::now(), Arc::clone(&recovered));
        let outage = 20 * RECOVERY_LIMIT;
        let own = Arc::clone(&recoveries);
        let recovery = async move {
            let ask = || async {
                match begin.elapsed() < outage {
                    true => Err(Error::new(ErrorKind::Unavailable, "no namenode")),
                    false => Ok(is_recovered.swap(true, Ordering::Relaxed)),
                }
            };
            own.until_recovered("/f", ask).await;
        };
        recoveries.run("alice".to_owned(), "/f".to_owned(), recovery, &Handle::current());
        recoveries.wait_to_replace("alice", "/f").await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO, "a new file isn't concerned");
        recoveries.wait("bob", "/f").await.unwrap();
        assert!(begin.elapsed() < 2 * WAIT_FOR_OTHERS, "{:?}: it is none of his", begin.elapsed());
        recoveries.wait("alice", "/f").await.unwrap();
        assert!(begin.elapsed() < 2 * RECOVERY_LIMIT, "{:?}", begin.elapsed());
        pause_task("the outage", outage).await;
        assert!(
            recovered.load(Ordering::Relaxed),
            "the holder renews its leases as long as it writes other files"
        );
        assert!(recoveries.lock().is_empty());
    }
}
