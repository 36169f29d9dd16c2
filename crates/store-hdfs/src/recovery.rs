//! Frees an abandoned file, so that it can be written again.
//!
//! If a writer dies, the namenode frees its file only after its soft limit, and never while the
//! same client keeps renewing for other files. This process knows its own abandoned writers, so it
//! frees their files at once, in the background.

use super::errors::{Effect, from_library};
use super::retry::Backoff;
use hdfs_native::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strait_store::{ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

/// An abandoned file is writable again within this time: the namenode's soft limit
/// (`HdfsConstants.LEASE_SOFTLIMIT_PERIOD`, 60 s, for a writer whose whole process died), and the
/// time in which datanodes agree on the length.
pub(super) const RECOVERY_LIMIT: Duration = Duration::from_secs(90);

/// The running recoveries, by path.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    running: Mutex<HashMap<String, watch::Receiver<()>>>,
}

impl Recoveries {
    /// Recovers `path`, which a writer of the library's `client` left open.
    pub fn start(self: &Arc<Self>, client: Client, path: String, runtime: &Handle) {
        let at = path.clone();
        let recovery = async move {
            let ask = || async {
                client.recover_lease(&at).await.map_err(|error| from_library(error, Effect::Read))
            };
            recover(&at, ask).await;
        };
        self.run(path, recovery, runtime);
    }

    /// Runs the recovery of `path`, for which others wait.
    pub fn run(
        self: &Arc<Self>,
        path: String,
        recovery: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) {
        let (done, waiting) = watch::channel(());
        self.lock().insert(path.clone(), waiting.clone());
        let recoveries = Arc::clone(self);
        runtime.spawn(async move {
            recovery.await;
            let mut running = recoveries.lock();
            // A later recovery of the same path has an entry of its own.
            if running.get(&path).is_some_and(|entry| entry.same_channel(&waiting)) {
                running.remove(&path);
            }
            drop(running);
            drop(done);
        });
    }

    /// Waits for a running recovery of `path`: the namenode would mistake a new writer of the file
    /// for the abandoned one.
    pub async fn wait(&self, path: &str) {
        let waiting = self.lock().get(path).cloned();
        if let Some(mut waiting) = waiting {
            // The end of the recovery drops the sender, which ends this.
            while waiting.changed().await.is_ok() {}
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Receiver<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the namenode to recover the lease of `path` until that is done.
pub(super) async fn recover<F>(path: &str, ask: impl Fn() -> F)
where
    F: Future<Output = Result<bool>>,
{
    let mut backoff = Backoff::within(RECOVERY_LIMIT);
    loop {
        match ask().await {
            Ok(true) => return,
            // Removed or renamed meanwhile: there is nothing to recover.
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Ok(false) => {}
            Err(error) => tracing::debug!(path, %error, "lease recovery goes on"),
        }
        if !backoff.pause().await {
            tracing::warn!(path, "an abandoned file isn't recovered; the namenode will do it later");
            return;
        }
    }
}
