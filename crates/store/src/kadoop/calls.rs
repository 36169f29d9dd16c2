//! The library's blocking calls, on tokio's blocking pool.

use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use strait_telemetry::RequestId;
use tokio::sync::Semaphore;

/// Calls of one store at a time; further ones wait. As many requests of one client as
/// the namenode takes, for reads and writes as much again: a quarter of the pool that
/// all stores of the process share (tokio's 512 threads).
const MAX_CALLS: usize = 128;

/// See the module.
pub(super) struct Calls {
    permits: Arc<Semaphore>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CALLS)) }
    }

    /// Does `work`, which may block, to its end, whether or not the caller still waits.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let internal = |why: String| Error::new(ErrorKind::Internal, why);
        let permits = Arc::clone(&self.permits);
        let permit = permits.acquire_owned().await.map_err(|error| internal(error.to_string()))?;
        // Whoever works for no request begins one.
        let request = RequestId::current().unwrap_or_else(RequestId::next);
        let working = tokio::task::spawn_blocking(move || {
            let _working = RequestId::enter(Some(request));
            let done = work();
            drop(permit);
            done
        });
        working.await.map_err(|error| internal(error.to_string()).caused_by(error))?
    }
}
