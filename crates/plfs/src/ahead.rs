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

/// The first window of a run, 512 KiB: little is lost if the run is short.
const FIRST_WINDOW: u64 = 512 << 10;
/// Windows double up to this, 4 MiB: half a megabyte of each of eight logs, for one round trip.
const LARGEST_WINDOW: u64 = 4 << 20;
/// Where memory is short, they shrink to this, so that it suffices for more runs.
const SMALLEST_WINDOW: u64 = 256 << 10;
/// A read begins a run if it begins at the end of another one, or at most this far behind it, 4 KiB.
const NEAR: u64 = 4 << 10;
/// A read belongs to a run with windows if it begins at most this far behind it: a kernel that reads ahead has
/// several requests of 1 MiB under way, in any order.
const GAP: u64 = 1 << 20;
/// A run whose windows have so many times more bytes than its reads, and [`LARGEST_WINDOW`], is none.
const WASTE: u64 = 3;
/// Runs at once: of the programs that read the file through one mount, or of several parts.
const RUNS: usize = 64;
/// A run that wasn't read for so long gives its windows to others.
const IDLE: Duration = Duration::from_secs(1);

/// The bytes of a window, once they are there. None if they couldn't be read: the caller's own read tells why.
type Filled = watch::Receiver<Option<Option<Bytes>>>;

/// The runs of one reader.
pub(crate) struct Ahead {
    memory: Arc<Share>,
    runs: Arc<Mutex<Runs>>,
}

/// The one that was used last at the end.
#[derive(Default)]
struct Runs(VecDeque<Run>);

/// Reads that follow one another.
struct Run {
    /// End of the reads so far.
    end: u64,
    /// Next to each other, in order: the one before, for callers slightly out of order, the current one, and
    /// the next.
    windows: VecDeque<Window>,
    /// Length of the next window.
    length: u64,
    /// Bytes that were read, and that windows were begun for.
    read: u64,
    fetched: u64,
    last_read: Instant,
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
    fn at(wanted: &Range<u64>) -> Self {
        Self {
            end: wanted.end,
            windows: VecDeque::new(),
            length: FIRST_WINDOW,
            read: wanted.end - wanted.start,
            fetched: 0,
            last_read: Instant::now(),
        }
    }

    /// Whether a read belongs to this run.
    fn goes_on_at(&self, offset: u64) -> bool {
        match self.windows.front() {
            Some(window) => (window.range.start..=self.end.saturating_add(GAP)).contains(&offset),
            None => (self.end..=self.end.saturating_add(NEAR)).contains(&offset),
        }
    }

    fn is_wasteful(&self) -> bool {
        self.fetched > WASTE * self.read + LARGEST_WINDOW
    }

    /// The place behind its windows.
    fn ahead(&self) -> Option<u64> {
        self.windows.back().map(|window| window.range.end)
    }
}

impl Runs {
    fn give_up(&mut self, idle: Duration) {
        self.0.retain(|run| run.last_read.elapsed() < idle);
    }
}

impl Ahead {
    /// With memory from `memory` for windows.
    pub fn new(memory: Arc<Share>) -> Self {
        let runs = Arc::new(Mutex::new(Runs::default()));
        memory.register(Arc::downgrade(&runs), |runs: &Mutex<Runs>, idle: Duration| {
            // The holder of the lock is about to read.
            if let Ok(mut runs) = runs.try_lock() {
                runs.give_up(idle);
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
        let Some(at) = runs.0.iter().rposition(|run| run.goes_on_at(wanted.start)) else {
            if runs.0.len() == RUNS {
                runs.0.pop_front();
            }
            runs.0.push_back(Run::at(wanted));
            return None;
        };
        let mut run = runs.0.remove(at)?;
        run.end = run.end.max(wanted.end);
        run.read += wanted.end - wanted.start;
        run.last_read = Instant::now();
        let is_failed = |window: &Window| matches!(*window.filled.borrow(), Some(None));
        let is_left_behind = run.ahead().is_some_and(|ahead| ahead.saturating_add(GAP) < wanted.start);
        if is_left_behind || run.windows.iter().any(is_failed) {
            run.windows.clear();
        }
        if run.is_wasteful() {
            run = Run::at(wanted);
        } else {
            self.extend(&mut run, wanted, length, &mut runs, fetch);
        }
        let has_all = run.windows.front().is_some_and(|window| window.range.start <= wanted.start)
            && run.ahead().is_some_and(|ahead| ahead >= wanted.end);
        let overlaps = |window: &&Window| window.range.start < wanted.end && wanted.start < window.range.end;
        let of_read = |window: &Window| (window.range.clone(), window.filled.clone());
        let windows = run.windows.iter().filter(overlaps).map(of_read).collect();
        runs.0.push_back(run);
        has_all.then_some(windows)
    }

    /// Begins windows until the read has all of its own, and one behind it once it has reached the last one, as
    /// far as there is memory.
    fn extend<F>(
        &self,
        run: &mut Run,
        wanted: &Range<u64>,
        length: u64,
        others: &mut Runs,
        fetch: impl Fn(Range<u64>) -> F,
    ) where
        F: Future<Output = Result<Bytes>> + Send + 'static,
    {
        // All but one of those that the reads have passed.
        while run.windows.get(1).is_some_and(|second| second.range.end <= wanted.start) {
            run.windows.pop_front();
        }
        let had_windows = !run.windows.is_empty();
        loop {
            let last = run.windows.back().map_or(wanted.start..wanted.start, |window| window.range.clone());
            let is_next_due = had_windows && wanted.end > last.start;
            if last.end >= length || (last.end >= wanted.end && !is_next_due) {
                return;
            }
            let Some(memory) = self.reserve(run, last.end, length, others) else { return };
            let range = last.end..last.end.saturating_add(run.length).min(length);
            let (sender, filled) = watch::channel(None);
            let fetching = fetch(range.clone());
            let fetch = tokio::spawn(async move {
                let _ = sender.send(Some(fetching.await.ok()));
            });
            run.fetched += range.end - range.start;
            run.windows.push_back(Window { range, filled, fetch, _memory: memory });
            run.length = (run.length * 2).min(LARGEST_WINDOW);
        }
    }

    /// Memory for the next window of a run, which may become shorter for that.
    fn reserve(&self, run: &mut Run, from: u64, length: u64, others: &mut Runs) -> Option<Reserved> {
        loop {
            let bytes = run.length.min(length - from);
            if let Some(memory) = self.memory.reserve(bytes) {
                return Some(memory);
            }
            if run.length == SMALLEST_WINDOW {
                others.give_up(IDLE);
                return self.memory.reserve(bytes);
            }
            run.length = (run.length / 2).max(SMALLEST_WINDOW);
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
    async fn a_short_run_fetches_less_than_a_large_window() {
        let scene = Scene::new(32 << 20);
        for at in 0..4 {
            scene.read((10 << 20) + at * STEP, STEP).await;
        }
        assert!(scene.fetched() < LARGEST_WINDOW, "{} bytes", scene.fetched());
    }

    #[tokio::test]
    async fn reads_that_jump_about_fetch_little_more_than_they_ask_for() {
        let scene = Scene::new(32 << 20);
        let (mut at, mut asked) = (1, 0);
        for _ in 0..5_000 {
            at = (at * 6_364_136_223_846_793_005_u128 + 1_442_695_040_888_963_407) % (1 << 64);
            scene.read(at as u64 % FILE, 4_096).await;
            asked += 4_096;
        }
        assert!(scene.fetched() <= 4 * asked, "{} bytes for {asked}", scene.fetched());
        // Each read begins far behind the one before.
        let scene = Scene::new(32 << 20);
        for at in 0..FILE / (2 << 20) {
            assert!(scene.read(at * (2 << 20), 65_536).await.is_none());
        }
        assert_eq!(scene.fetched(), 0);
    }

    #[tokio::test]
    async fn many_runs_share_the_memory_and_idle_ones_give_theirs() {
        let scene = Scene::new(8 << 20);
        let mut alone = 0;
        for at in 0..48 {
            for run in 0..8 {
                let offset = ((run * 8) << 20) + at * (STEP / 2);
                alone += u32::from(scene.read(offset, STEP / 2).await.is_none());
            }
        }
        assert!(alone <= 48, "{alone} of 384 reads found no window");
        assert!(scene.fetched() <= 3 * 48 * 8 * (STEP / 2), "{} bytes", scene.fetched());
    }

    #[tokio::test]
    async fn runs_beside_each_other_and_requests_out_of_order_are_runs() {
        let scene = Scene::new(32 << 20);
        let mut alone = 0;
        for at in 0..32 {
            for begin in [0, 20 << 20, 40 << 20] {
                for place in [0, 2, 1, 3] {
                    let offset = begin + (4 * at + place) * (STEP / 2);
                    alone += u32::from(scene.read(offset, STEP / 2).await.is_none());
                }
            }
        }
        assert!(alone <= 9, "{alone} reads found no window");
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
