//! Outcomes of recent mutations, to answer repetitions without executing them again.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{ErrorKind, fail};
use strait_wire::DfsError;
use tokio::sync::OnceCell;

/// The outcome of a mutation, kept to answer repetitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done, with nothing to report.
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
    /// A file was closed.
    Closed {
        /// Its length.
        length: i64,
        /// Replicas that hold it, at least, if the store tells.
        replicas: Option<u32>,
    },
}

/// The result of a mutation, as remembered.
pub type Result = std::result::Result<Outcome, DfsError>;

/// A client's name for one mutation: 16 bytes chosen at random.
pub type RequestId = [u8; 16];

/// Bytes of one remembered answer, beside an error's texts.
const ENTRY_BYTES: usize = 256;
/// Bytes that a session may always remember: the 64 appends that a client may have under way,
/// twice.
const OWN_BYTES: usize = 128 * ENTRY_BYTES;

/// The memory of all sessions' mutations.
pub struct Remembered {
    bytes: AtomicUsize,
    limit: usize,
}

impl Remembered {
    /// At most `limit` bytes, beyond the bytes that each session may always have.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), limit })
    }
}

/// A session's latest mutations. Beyond a limit the oldest finished ones are forgotten. A retry of
/// a forgotten one is decided by the state of the store, or refused, never executed blindly.
pub struct Mutations {
    known: Mutex<Known>,
    limit: usize,
    all: Arc<Remembered>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<RequestId, Arc<Entry>>,
    order: VecDeque<RequestId>,
    bytes: usize,
}

struct Entry {
    method: &'static str,
    outcome: OnceCell<Result>,
}

impl Mutations {
    /// Remembers `limit` mutations, in the memory of `all`.
    pub fn new(limit: usize, all: Arc<Remembered>) -> Self {
        Self { known: Mutex::default(), limit, all }
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.lock().order.is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // Every critical section here leaves map and queue in agreement.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this mutation has been requested before.
    pub fn knows(&self, id: &RequestId) -> bool {
        self.lock().by_id.contains_key(id)
    }

    /// Executes `mutation` if it is new. Otherwise gives the first execution's outcome, and waits
    /// for it if it is still under way. The caller must not drop the future before it is done: it
    /// runs as a task of its own, so that a lost connection doesn't cut it short.
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
        let outcome = entry.outcome.get_or_init(|| async {
            let outcome = mutation.await;
            self.count(text_bytes(&outcome));
            outcome
        });
        Ok(outcome.await.clone())
    }

    fn entry(&self, id: RequestId, method: &'static str) -> Arc<Entry> {
        let mut known = self.lock();
        if let Some(entry) = known.by_id.get(&id) {
            return entry.clone();
        }
        let too_many = |known: &Known| {
            let short = self.all.bytes.load(Ordering::Acquire) > self.all.limit;
            known.order.len() >= self.limit || short && known.bytes > OWN_BYTES
        };
        while too_many(&known) && self.forget_oldest(&mut known) {}
        let entry = Arc::new(Entry { method, outcome: OnceCell::new() });
        known.by_id.insert(id, entry.clone());
        known.order.push_back(id);
        drop(known);
        self.count(ENTRY_BYTES);
        entry
    }

    /// Forgets the oldest finished mutation. One still under way could be executed twice. False if
    /// there is none.
    fn forget_oldest(&self, known: &mut Known) -> bool {
        let is_done = |id: &RequestId| known.by_id.get(id).is_some_and(|entry| entry.outcome.initialized());
        let Some(index) = known.order.iter().position(is_done) else { return false };
        let Some(id) = known.order.remove(index) else { return false };
        let forgotten = known.by_id.remove(&id);
        let texts = forgotten.and_then(|entry| entry.outcome.get().map(text_bytes)).unwrap_or(0);
        let bytes = ENTRY_BYTES + texts;
        known.bytes = known.bytes.saturating_sub(bytes);
        self.all.bytes.fetch_sub(bytes, Ordering::AcqRel);
        true
    }

    fn count(&self, bytes: usize) {
        self.lock().bytes += bytes;
        self.all.bytes.fetch_add(bytes, Ordering::AcqRel);
    }
}

impl Drop for Mutations {
    fn drop(&mut self) {
        self.all.bytes.fetch_sub(self.lock().bytes, Ordering::AcqRel);
    }
}

/// Bytes of an error's texts.
fn text_bytes(outcome: &Result) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    outcome.as_ref().err().map_or(0, |error| length(&error.message) + length(&error.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_repetition_is_answered_and_not_executed() {
        let mutations = Mutations::new(2, Remembered::new(1 << 20));
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
