//! Files whose writers were dropped, until they are closed.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// Files that are closed at a time. Each takes a thread from calls, for 45 s if its datanodes are
/// lost.
const AT_ONCE: usize = 8;
/// A file waits so long for the closes of others. Many closes take milliseconds each, so only lost
/// datanodes make it longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts these files.
pub(super) struct Closings {
    under_way: watch::Sender<usize>,
    turns: Arc<Semaphore>,
}

/// One file; dropped when it is closed.
pub(super) struct Closing {
    under_way: watch::Sender<usize>,
    turns: Arc<Semaphore>,
}

impl Default for Closings {
    fn default() -> Self {
        Self { under_way: watch::Sender::new(0), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

impl Closings {
    pub(super) fn begin(&self) -> Closing {
        self.under_way.send_modify(|count| *count += 1);
        Closing { under_way: self.under_way.clone(), turns: self.turns.clone() }
    }

    /// Waits until all are closed.
    pub(super) async fn none(&self) {
        // This can't fail, since the sender is here.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Closing {
    /// Waits for the file's turn; None if that takes too long.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        timeout(PATIENCE, self.turns.clone().acquire_owned()).await.ok()?.ok()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.under_way.send_modify(|count| *count -= 1);
    }
}
