//! Concurrent copies, which make progress while the command prepares the next one.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::pin::pin;

/// Copies in progress, and the results of finished ones.
///
/// A copy that isn't polled may hold a resource that another call waits for, such as a place in a queue. So
/// the command runs every other future through [`Running::beside`].
pub struct Running<F: Future> {
    under_way: FuturesUnordered<F>,
    done: VecDeque<F::Output>,
}

impl<F: Future> Running<F> {
    /// No copies.
    pub fn new() -> Self {
        Self { under_way: FuturesUnordered::new(), done: VecDeque::new() }
    }

    /// Adds a copy.
    pub fn push(&mut self, copy: F) {
        self.under_way.push(copy);
    }

    /// Number of copies in progress.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Runs `work` while the copies make progress.
    pub async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result,
                Some(copied) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.done.push_back(copied);
                }
            }
        }
    }

    /// Waits for the next result; `None` if all results were returned.
    pub async fn next(&mut self) -> Option<F::Output> {
        match self.done.pop_front() {
            Some(copied) => Some(copied),
            None => self.under_way.next().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Mutex;

    #[tokio::test]
    async fn work_that_waits_for_what_a_copy_holds_gets_it() {
        let lock = Arc::new(Mutex::new(()));
        let mut running = Running::new();
        let held = lock.clone();
        running.push(async move {
            let _held = held.lock().await;
            tokio::task::yield_now().await;
        });
        // Starts the copy, which then holds the lock.
        running.beside(tokio::task::yield_now()).await;
        drop(running.beside(lock.lock()).await);
        assert_eq!((running.next().await, running.next().await), (Some(()), None));
    }
}
