//! The library's blocking calls, on tokio's blocking pool.

use std::sync::Arc;
use strait_store::work::blocking;
use strait_store::{Error, ErrorKind, Result};
use tokio::sync::Semaphore;

/// Calls of one store at a time; further ones wait. As many as the namenode accepts requests of one
/// client, and as many again for reads and writes: a quarter of tokio's usual 512 threads, which all
/// stores of a process share. A gateway has a fair queue of its own before this one, lets no more
/// through, and has a thread for each.
const MAX_CALLS: usize = 128;

/// A limit on calls: see the module.
pub(super) struct Calls {
    permits: Arc<Semaphore>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_CALLS)) }
    }

    /// Runs `step`, which may block, to its end, even if the caller leaves. A step that hasn't
    /// begun when its caller leaves doesn't begin.
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
