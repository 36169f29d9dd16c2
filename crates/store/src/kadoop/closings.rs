//! Files whose writers were dropped, until they are closed.

use tokio::sync::watch;

/// Counts them.
pub(super) struct Closings {
    under_way: watch::Sender<usize>,
}

/// One of them; dropped when it is done.
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

    /// Waits until there are none.
    pub(super) async fn none(&self) {
        // The sender is here: this can't fail.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.under_way.send_modify(|count| *count -= 1);
    }
}
