//! The library's blocking calls, on tokio's blocking pool.

use crate::error::{Error, ErrorKind, Result};
use crate::work::blocking;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Calls of one store at a time; further ones wait. As many requests of one client as
/// the namenode takes, for reads and writes as much again: a quarter of the pool that
/// all stores of the process share (tokio's 512 threads). A gateway has its own, fair queue
/// before this one, and lets no more through.
const MAX_CALLS: usize = 128;

/// See the module.
pub(super) struct Calls {
    permits: Arc<Semaphore>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CALLS)) }
    }

    /// Does `step`, which may block, to its end, whether or not the caller still waits. One that
    /// hasn't begun when its caller leaves isn't begun.
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
