//! Reading a logical file ahead, in its own order.
//!
//! A log's reader can't know where its caller goes on: a strided file's reader goes from log to log. So the
//! logs' readers read nothing ahead, and this does: *windows* of the file, each with one range of each log,
//! the next one while the caller reads this one. A caller that reads at random gets what it asks for.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::Result;
use strait_store::budget::{Reserved, Share};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The first window of a run, 1 MiB: little is lost if the run is short.
const FIRST_WINDOW: u64 = 1 << 20;
/// Windows double up to this, 4 MiB: half a megabyte of each of eight logs, for one round trip.
const LARGEST_WINDOW: u64 = 4 << 20;
/// Windows of a run: the one before, for callers slightly out of order, the current one, and the next.
const WINDOWS: usize = 3;
/// A read belongs to a run if it begins at most this far from it, 2 MiB: a kernel that reads ahead has several
/// requests under way, in any order.
const GAP: u64 = 2 << 20;
/// Runs at once: of the programs that read the file through one mount, or of several parts.
const RUNS: usize = 16;

/// The bytes of a window, once they are there. None if they couldn't be read: the caller's own read tells why.
type Filled = watch::Receiver<Option<Option<Bytes>>>;

/// The runs of one reader.
pub(crate) struct Ahead {
    memory: Arc<Share>,
    runs: Arc<Mutex<Runs>>,
}

#[derive(Default)]
struct Runs {
    /// The one that was used last at the end.
    all: VecDeque<Run>,
    last_read: Option<Instant>,
}

/// Reads that follow one another.
struct Run {
    /// End of the reads so far.
    end: u64,
    /// Next to each other, in order.
    windows: VecDeque<Window>,
    /// Length of the next window.
    length: u64,
}

struct Window {
    range: Range<u64>,
    filled: Filled,
    fetch: JoinHandle<()>,
    _memory: Reserved,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.fetch.abort();
    }
}

impl Run {
    /// Whether a read belongs to this run.
    fn goes_on_at(&self, offset: u64) -> bool {
        let first = self.windows.front().map_or(self.end, |window| window.range.start);
        (first.saturating_sub(GAP)..=self.end.saturating_add(GAP)).contains(&offset)
    }
}

impl Ahead {
    /// With memory from `memory` for windows.
    pub fn new(memory: Arc<Share>) -> Self {
        let runs = Arc::new(Mutex::new(Runs::default()));
        memory.register(Arc::downgrade(&runs), |runs: &Mutex<Runs>, idle: Duration| {
            // The holder of the lock is about to read.
            if let Ok(mut runs) = runs.try_lock()
                && runs.last_read.is_some_and(|last| last.elapsed() >= idle)
            {
                runs.all.clear();
            }
        });
        Self { memory, runs }
    }

    /// The bytes `wanted` of a file of this `length`, from windows that `fetch` fills. None if they are to be
    /// read on their own.
    pub async fn read<F>(
        &self,
        wanted: &Range<u64>,
        length: u64,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Option<Bytes>
    where
        F: Future<Output = Result<Bytes>> + Send + 'static,
    {
        let windows = self.plan(wanted, length, fetch)?;
        let mut whole = BytesMut::new();
        for (range, mut filled) in windows {
            let filled = filled.wait_for(Option::is_some).await.ok()?.clone().flatten()?;
            let (from, to) = (wanted.start.max(range.start), wanted.end.min(range.end));
            let piece = filled.slice((from - range.start) as usize..(to - range.start) as usize);
            // A slice keeps its whole window in memory, so a small one is copied.
            if to - from == wanted.end - wanted.start && piece.len() >= filled.len() / 2 {
                return Some(piece);
            }
            whole.reserve((wanted.end - from) as usize);
            whole.extend_from_slice(&piece);
        }
        Some(whole.freeze())
    }

    /// The windows with these bytes, if the read goes on with a run.
    fn plan<F>(
        &self,
        wanted: &Range<u64>,
        length: u64,
        fetch: impl Fn(Range<u64>) -> F,
    ) -> Option<Vec<(Range<u64>, Filled)>>
    where
        F: Future<Output = Result<Bytes>> + Send + 'static,
    {
        let mut runs = self.lock();
        runs.last_read = Some(Instant::now());
        let Some(at) = runs.all.iter().position(|run| run.goes_on_at(wanted.start)) else {
            if runs.all.len() == RUNS {
                runs.all.pop_front();
            }
            runs.all.push_back(Run { end: wanted.end, windows: VecDeque::new(), length: FIRST_WINDOW });
            return None;
        };
        let mut run = runs.all.remove(at)?;
        run.end = run.end.max(wanted.end);
        let is_failed = |window: &Window| matches!(*window.filled.borrow(), Some(None));
        if run.windows.iter().any(is_failed) {
            run.windows.clear();
        }
        self.extend(&mut run, wanted, length, fetch);
        let has_all = run.windows.front().is_some_and(|window| window.range.start <= wanted.start)
            && run.windows.back().is_some_and(|window| window.range.end >= wanted.end);
        let overlaps = |window: &&Window| window.range.start < wanted.end && wanted.start < window.range.end;
        let of_read = |window: &Window| (window.range.clone(), window.filled.clone());
        let windows = run.windows.iter().filter(overlaps).map(of_read).collect();
        while run.windows.len() > WINDOWS
            && run.windows.front().is_some_and(|window| window.range.end <= wanted.start)
        {
            run.windows.pop_front();
        }
        runs.all.push_back(run);
        has_all.then_some(windows)
    }

    /// Begins windows until the read has all of its own, and there is one behind it, as far as there is memory.
    fn extend<F>(&self, run: &mut Run, wanted: &Range<u64>, length: u64, fetch: impl Fn(Range<u64>) -> F)
    where
        F: Future<Output = Result<Bytes>> + Send + 'static,
    {
        loop {
            let last = run.windows.back().map_or(wanted.start..wanted.start, |window| window.range.clone());
            if wanted.end <= last.start || last.end >= length {
                return;
            }
            let range = last.end..last.end.saturating_add(run.length).min(length);
            let Some(memory) = self.memory.reserve(range.end - range.start) else {
                // A smaller one next time, so that the memory suffices for more readers.
                run.length = (run.length / 2).max(FIRST_WINDOW);
                return;
            };
            let (sender, filled) = watch::channel(None);
            let fetching = fetch(range.clone());
            let fetch = tokio::spawn(async move {
                let _ = sender.send(Some(fetching.await.ok()));
            });
            run.windows.push_back(Window { range, filled, fetch, _memory: memory });
            run.length = (run.length * 2).min(LARGEST_WINDOW);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::budget::Pool;
    use strait_store::{ErrorKind, fail};

    const FILE: u64 = 64 << 20;
    const STEP: u64 = 256 << 10;

    /// A file whose bytes are known, and what was fetched of it.
    struct Scene {
        ahead: Ahead,
        memory: Arc<Share>,
        fetched: Arc<Mutex<Vec<Range<u64>>>>,
    }

    fn bytes(range: Range<u64>) -> Bytes {
        range.map(|at| (at >> 12) as u8 ^ at as u8).collect()
    }

    impl Scene {
        fn new(memory: u64) -> Self {
            let memory = Pool::new(2 * memory).share("user");
            Self { ahead: Ahead::new(Arc::clone(&memory)), memory, fetched: Arc::default() }
        }

        async fn read(&self, offset: u64, length: u64) -> Option<Bytes> {
            let wanted = offset..(offset + length).min(FILE);
            let read = self.ahead.read(&wanted, FILE, |range| {
                self.fetched.lock().unwrap().push(range.clone());
                async move { Ok(bytes(range)) }
            });
            let read = read.await;
            assert!(read.as_ref().is_none_or(|read| *read == bytes(wanted.clone())), "{wanted:?}");
            read
        }

        fn fetched(&self) -> u64 {
            self.fetched.lock().unwrap().iter().map(|range| range.end - range.start).sum()
        }
    }

    #[tokio::test]
    async fn a_run_is_fetched_once_to_the_files_end_and_no_further() {
        let scene = Scene::new(32 << 20);
        assert!(scene.read(0, STEP).await.is_none(), "one read is no run");
        for at in 1..FILE / STEP {
            assert!(scene.read(at * STEP, STEP).await.is_some(), "{at}");
        }
        assert_eq!(scene.fetched(), FILE - STEP);
        let held = (1..=64).filter(|mib| scene.memory.reserve(mib << 20).is_none()).count();
        assert!(held >= 32, "windows take memory");
        drop(scene.ahead);
        assert!(scene.memory.reserve(32 << 20).is_some(), "and give it back");
    }

    #[tokio::test]
    async fn a_short_run_fetches_little_more_than_it_reads() {
        let scene = Scene::new(32 << 20);
        for at in 0..4 {
            scene.read(10 << 20 | at * STEP, STEP).await;
        }
        assert!(scene.fetched() <= 3 << 20, "{} bytes", scene.fetched());
    }

    #[tokio::test]
    async fn reads_that_jump_about_fetch_no_windows() {
        let scene = Scene::new(32 << 20);
        for place in [40, 0, 50, 20, 60, 30] {
            assert!(scene.read(place << 20, 4_096).await.is_none());
        }
        assert_eq!(scene.fetched(), 0);
    }

    #[tokio::test]
    async fn runs_beside_each_other_and_requests_out_of_order_are_runs() {
        let scene = Scene::new(32 << 20);
        let mut alone = 0;
        for at in 0..32 {
            for begin in [0, 20 << 20, 40 << 20] {
                for place in [1, 0, 3, 2] {
                    let offset = begin + (4 * at + place) * (STEP / 2);
                    alone += u32::from(scene.read(offset, STEP / 2).await.is_none());
                }
            }
        }
        assert!(alone <= 6, "{alone} reads found no window");
        assert!(scene.fetched() <= 3 * (32 * 2 * STEP + 3 * LARGEST_WINDOW), "{} bytes", scene.fetched());
    }

    #[tokio::test]
    async fn without_memory_or_after_a_failure_reads_are_on_their_own() {
        let scene = Scene::new(1_000);
        for at in 0..8 {
            assert!(scene.read(at * STEP, STEP).await.is_none());
        }
        let scene = Scene::new(32 << 20);
        let fails = async |offset: u64| {
            let failing = async || fail(ErrorKind::Unavailable, "the store is away");
            scene.ahead.read(&(offset..offset + STEP), FILE, |_| failing()).await
        };
        assert!(fails(0).await.is_none() && fails(STEP).await.is_none());
        assert!(scene.read(2 * STEP, STEP).await.is_some(), "the next one tries again");
    }
}
