//! Files whose writers were dropped. They stay here until they are closed.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// Files that are closed at the same time. Each takes a thread away from calls, for 45 s if the file's
/// datanodes are lost.
const AT_ONCE: usize = 8;
/// Longest wait of a file for the closes of others. A close usually takes milliseconds, so the wait gets
/// longer only if datanodes are lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Counts the files that aren't closed yet.
pub(super) struct Closings {
    under_way: watch::Sender<usize>,
    turns: Arc<Semaphore>,
}

/// One file. Dropped when the file is closed.
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

    /// Waits until every file is closed.
    pub(super) async fn none(&self) {
        // This can't fail, because `self` owns the sender.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Closing {
    /// Waits for the file's turn. None if the turn doesn't come in time.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        timeout(PATIENCE, self.turns.clone().acquire_owned()).await.ok()?.ok()
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.under_way.send_modify(|count| *count -= 1);
    }
}
