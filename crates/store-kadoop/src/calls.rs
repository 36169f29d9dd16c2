//! The library's blocking calls, on tokio's blocking pool.

use std::sync::Arc;
use strait_store::work::blocking;
use strait_store::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;

/// Maximum number of concurrent calls of one store; further ones wait. Half of it equals the number of
/// requests that the namenode accepts from one client; the other half is for reads and writes. All is a
/// quarter of tokio's usual 512 threads, which all stores of a process share. A gateway has its own fair
/// queue, which lets no more calls through than this, and has a thread for each.
const MAX_CALLS: usize = 128;

/// Limits the number of concurrent calls.
pub(super) struct Calls {
    permits: Arc<Semaphore>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CALLS)) }
    }

    /// Runs `step`, which may block. Once begun, it runs to its end, even if the caller drops the future.
    /// A step that hasn't begun by then never begins.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permits = Arc::clone(&self.permits);
        let permit = permits
            .acquire_owned()
            .await
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        blocking(move || {
            let done = step();
            drop(permit);
            done
        })
        .await
    }
}
