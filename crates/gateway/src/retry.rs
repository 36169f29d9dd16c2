//! Mutations that were asked for before: answered again, not executed again.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{ErrorKind, fail};
use strait_wire::DfsError;
use tokio::sync::OnceCell;

/// What a mutation came to, so that it can be told twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done; nothing to tell.
    Done,
    /// A writer was opened.
    Opened {
        /// Its handle.
        handle: i64,
        /// The file's length.
        position: i64,
    },
    /// The file's length afterwards.
    Position(i64),
}

/// The result of a mutation, as it is remembered.
pub type Result = std::result::Result<Outcome, DfsError>;

/// A client's name for one mutation: 16 bytes chosen at random.
pub type RequestId = [u8; 16];

/// A session's latest mutations. The oldest are forgotten beyond a limit;
/// a retry of one of these is told apart by what the store looks like, or
/// refused, never executed blindly.
pub struct Mutations {
    known: Mutex<Known>,
    limit: usize,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<RequestId, Arc<Entry>>,
    order: VecDeque<RequestId>,
}

struct Entry {
    method: &'static str,
    outcome: OnceCell<Result>,
}

impl Mutations {
    /// Remembers `limit` of them.
    pub fn new(limit: usize) -> Self {
        Self { known: Mutex::default(), limit }
    }

    /// Whether this one has been asked for.
    pub fn knows(&self, id: &RequestId) -> bool {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).by_id.contains_key(id)
    }

    /// Executes `mutation` if it is new; gives the first execution's outcome
    /// if it isn't, waiting for it where it is still under way. The caller
    /// must not drop the future before it is done: it runs as a task of its
    /// own, so that a lost connection doesn't cut it short.
    pub async fn once(
        &self,
        id: RequestId,
        method: &'static str,
        mutation: impl Future<Output = Result>,
    ) -> strait_store::Result<Result> {
        let entry = self.entry(id, method);
        if entry.method != method {
            let message = format!("this request id was used for {} before", entry.method);
            return fail(ErrorKind::InvalidArgument, message);
        }
        Ok(entry.outcome.get_or_init(|| mutation).await.clone())
    }

    fn entry(&self, id: RequestId, method: &'static str) -> Arc<Entry> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = known.by_id.get(&id) {
            return entry.clone();
        }
        if known.order.len() >= self.limit
            && let Some(oldest) = known.order.pop_front()
        {
            known.by_id.remove(&oldest);
        }
        let entry = Arc::new(Entry { method, outcome: OnceCell::new() });
        known.by_id.insert(id, entry.clone());
        known.order.push_back(id);
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_repetition_is_answered_and_not_executed() {
        let mutations = Mutations::new(2);
        let runs = AtomicUsize::new(0);
        let run = || async {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Outcome::Position(9))
        };
        let (a, b) = futures::join!(
            mutations.once([1; 16], "append", run()),
            mutations.once([1; 16], "append", run())
        );
        assert_eq!(a.unwrap(), b.unwrap());
        assert_eq!(runs.load(Ordering::Relaxed), 1, "also while the first is under way");
        assert!(mutations.once([1; 16], "rename", run()).await.is_err(), "not for another method");
        for id in 2..4 {
            mutations.once([id; 16], "append", run()).await.unwrap().unwrap();
        }
        assert!(!mutations.knows(&[1; 16]) && mutations.knows(&[3; 16]), "the oldest is forgotten");
    }
}
