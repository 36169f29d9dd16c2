//! Outcomes of recent mutations, to answer repetitions without executing them again.

use crate::errors::Exception;
use futures::FutureExt;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use strait_store::{Error, ErrorKind, fail};
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
        /// At least this many replicas hold it, if the store reports a number.
        replicas: Option<u32>,
    },
}

/// The result of a mutation, as remembered.
pub type Result = std::result::Result<Outcome, DfsError>;

/// A client's name for one mutation: 16 bytes chosen at random.
pub type RequestId = [u8; 16];

/// The part of a mutation to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Its answer.
    Answer,
    /// The mutation while it runs. Afterwards the file's position shows its outcome.
    UnderWay,
}

/// Bytes of one remembered answer, beside an error's texts: its entry, and its request id in the map
/// and in the queue.
const ENTRY_BYTES: usize = 256;
/// Bytes of answers that each session can always remember.
const OWN_BYTES: usize = 128 * ENTRY_BYTES;
/// A session forgets at most this many answers when it adds one: enough to keep up, and few enough to
/// delay nobody.
const FORGOTTEN_AT_ONCE: usize = 16;
/// Each [`Mutations::forget_aged`] forgets at most this many answers.
const FORGOTTEN_A_SWEEP: usize = 4_096;

/// The memory of all sessions' mutations.
pub struct Remembered {
    bytes: AtomicUsize,
    limit: usize,
    age: Duration,
}

impl Remembered {
    /// At most `limit` bytes, beyond the bytes that each session may always have. Answers older
    /// than `age` are forgotten.
    pub fn new(limit: usize, age: Duration) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(0), limit, age })
    }

    fn free(&self) -> usize {
        self.limit.saturating_sub(self.bytes.load(Ordering::Acquire))
    }
}

/// A session's latest mutations. It forgets finished ones by age, and earlier if they hold more bytes
/// than are free, so that one session has at most half of all. A retry of a forgotten mutation is
/// decided by the state of the store, or refused, never executed blindly.
pub struct Mutations {
    known: Mutex<Known>,
    all: Arc<Remembered>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<RequestId, Arc<Entry>>,
    /// The finished ones and the times when they finished, earliest first.
    finished: VecDeque<(RequestId, Instant)>,
    bytes: usize,
}

/// A mutation that runs or has finished. A repetition that holds this gets the outcome, even if the
/// session forgets the mutation meanwhile.
pub struct Entry {
    method: &'static str,
    outcome: OnceCell<Result>,
}

impl Mutations {
    /// No mutations yet. Later ones count in the memory of `all`.
    pub fn new(all: Arc<Remembered>) -> Self {
        Self { known: Mutex::default(), all }
    }

    /// Whether it remembers no mutation.
    pub fn is_empty(&self) -> bool {
        self.lock().by_id.is_empty()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // A poisoned lock is harmless: every critical section leaves map and queue in agreement.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mutation with this id, if it has been requested before.
    pub fn find(&self, id: &RequestId) -> Option<Arc<Entry>> {
        self.lock().by_id.get(id).cloned()
    }

    /// Executes `mutation` if it is new: not `found` before, and not requested since. Otherwise gives
    /// the first execution's outcome, and waits for it if it still runs. The caller must run the
    /// future to its end, in a task of its own, so that a lost connection doesn't cut it short. A
    /// mutation that panics has an unknown outcome.
    pub async fn once(
        &self,
        id: RequestId,
        found: Option<Arc<Entry>>,
        method: &'static str,
        keep: Keep,
        mutation: impl Future<Output = Result>,
    ) -> strait_store::Result<Result> {
        let entry = found.unwrap_or_else(|| self.entry(id, method));
        if entry.method != method {
            let message = format!("this request id was used for {} before", entry.method);
            return fail(ErrorKind::InvalidArgument, message);
        }
        let outcome = entry.outcome.get_or_init(|| async {
            let outcome = AssertUnwindSafe(mutation).catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!(method, "a change panicked");
                let message = "the gateway failed during the operation";
                Err(DfsError::of(&Error::new(ErrorKind::OutcomeUnknown, message)))
            });
            match keep {
                Keep::Answer => self.finished(id, text_bytes(&outcome)),
                Keep::UnderWay => self.ended(&id),
            }
            outcome
        });
        Ok(outcome.await.clone())
    }

    fn entry(&self, id: RequestId, method: &'static str) -> Arc<Entry> {
        let mut known = self.lock();
        if let Some(entry) = known.by_id.get(&id) {
            return entry.clone();
        }
        self.forget(&mut known, Instant::now(), FORGOTTEN_AT_ONCE);
        let entry = Arc::new(Entry { method, outcome: OnceCell::new() });
        known.by_id.insert(id, entry.clone());
        self.count(&mut known, ENTRY_BYTES);
        entry
    }

    fn finished(&self, id: RequestId, texts: usize) {
        let mut known = self.lock();
        known.finished.push_back((id, Instant::now()));
        self.count(&mut known, texts);
    }

    fn ended(&self, id: &RequestId) {
        let mut known = self.lock();
        if known.by_id.remove(id).is_some() {
            known.bytes = known.bytes.saturating_sub(ENTRY_BYTES);
            self.all.bytes.fetch_sub(ENTRY_BYTES, Ordering::AcqRel);
        }
    }

    /// Forgets answers that are too old.
    pub fn forget_aged(&self, now: Instant) {
        let mut known = self.lock();
        self.forget(&mut known, now, FORGOTTEN_A_SWEEP);
        if known.finished.capacity() > 4 * known.finished.len() {
            known.finished.shrink_to_fit();
            known.by_id.shrink_to_fit();
        }
    }

    /// Forgets up to `most` of the mutations that finished first, while they are too old or too
    /// many. One still under way is never forgotten: it could be executed twice.
    fn forget(&self, known: &mut Known, now: Instant, most: usize) {
        for _ in 0..most {
            let Some((id, end)) = known.finished.front().copied() else { return };
            let too_many = known.bytes > OWN_BYTES && known.bytes > self.all.free();
            if !too_many && now.saturating_duration_since(end) < self.all.age {
                return;
            }
            known.finished.pop_front();
            let forgotten = known.by_id.remove(&id);
            let texts = forgotten.and_then(|entry| entry.outcome.get().map(text_bytes)).unwrap_or(0);
            let bytes = ENTRY_BYTES + texts;
            known.bytes = known.bytes.saturating_sub(bytes);
            self.all.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
    }

    fn count(&self, known: &mut Known, bytes: usize) {
        known.bytes += bytes;
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

    async fn append(mutations: &Mutations, id: RequestId, run: impl Future<Output = Result>) -> Result {
        mutations.once(id, mutations.find(&id), "append", Keep::Answer, run).await.unwrap()
    }

    async fn done() -> Result {
        Ok(Outcome::Done)
    }

    fn id(number: usize) -> RequestId {
        (number as u128).to_be_bytes()
    }

    #[tokio::test]
    async fn a_repetition_is_answered_and_not_executed() {
        let mutations = Mutations::new(Remembered::new(1 << 20, Duration::MAX));
        let runs = AtomicUsize::new(0);
        let run = || async {
            runs.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Outcome::Position(9))
        };
        let (a, b) = futures::join!(append(&mutations, id(1), run()), append(&mutations, id(1), run()));
        assert_eq!(a, b);
        assert_eq!(runs.load(Ordering::Relaxed), 1, "also while the first is under way");
        assert!(
            mutations.once(id(1), None, "rename", Keep::Answer, run()).await.is_err(),
            "not for another method"
        );
    }

    #[tokio::test]
    async fn a_mutation_that_panics_is_not_executed_again() {
        let mutations = Mutations::new(Remembered::new(1 << 20, Duration::MAX));
        let failed = append(&mutations, id(1), async { panic!("a defect in a store, meant by this test") });
        let failed = failed.await.unwrap_err();
        assert_eq!(failed.kind.as_deref(), Some("OutcomeUnknown"));
        assert_eq!(append(&mutations, id(1), done()).await, Err(failed));
    }

    #[tokio::test]
    async fn an_answer_is_forgotten_by_age_unless_a_repetition_has_it() {
        let (age, now) = (Duration::from_secs(120), Instant::now());
        let mutations = Mutations::new(Remembered::new(1 << 20, age));
        append(&mutations, id(1), done()).await.unwrap();
        mutations.forget_aged(now + age / 2);
        let found = mutations.find(&id(1));
        assert!(found.is_some());
        mutations.forget_aged(Instant::now() + age);
        assert!(mutations.is_empty());
        let again = mutations.once(id(1), found, "append", Keep::Answer, async { panic!("executed again") });
        assert_eq!(again.await.unwrap(), Ok(Outcome::Done));
    }

    #[tokio::test]
    async fn a_session_that_changes_much_leaves_memory_to_others() {
        let all = Remembered::new(4_000 * ENTRY_BYTES, Duration::MAX);
        let (busy, second) = (Mutations::new(all.clone()), Mutations::new(all));
        for number in 0..10_000 {
            append(&busy, id(number), done()).await.unwrap();
        }
        assert!(busy.lock().bytes.abs_diff(2_000 * ENTRY_BYTES) <= 2 * ENTRY_BYTES, "half of all");
        assert!(busy.find(&id(9_999 - 1_900)).is_some(), "its latest ones");
        for number in 0..1_200 {
            append(&second, id(number), done()).await.unwrap();
            append(&busy, id(10_000 + number), done()).await.unwrap();
        }
        assert!(second.find(&id(0)).is_some(), "and as many for the next");
    }
}
