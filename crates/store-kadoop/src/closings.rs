//! Files whose writers were dropped, until they are closed.

use tokio::sync::watch;

/// Counts these files.
pub(super) struct Closings {
    under_way: watch::Sender<usize>,
}

/// One file; dropped when it is closed.
pub(super) struct Closing {
    under_way: watch::Sender<usize>,
}

impl Default for Closings {
    fn default() -> Self {
        Self { under_way: watch::Sender::new(0) }
    }
}

impl Closings {
    pub(super) fn begin(&self) -> Closing {
        self.under_way.send_modify(|count| *count += 1);
        Closing { under_way: self.under_way.clone() }
    }

    /// Waits until all are closed.
    pub(super) async fn none(&self) {
        // This can't fail, since the sender is here.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.under_way.send_modify(|count| *count -= 1);
    }
}
