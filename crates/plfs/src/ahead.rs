//! Read-ahead for a logical file.
//!
//! The reader of one log can't predict the next read: in a strided file, successive reads go to different
//! logs. So the readers of logs don't read ahead. This module does, in the order of the logical file: it
//! fetches *windows* of the file, each from several logs at once. While the caller reads one window, it
//! fetches the next. For random reads, nothing is fetched ahead.

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
/// Windows double up to this size, 4 MiB: half a MiB from each of eight logs, in one round trip.
const LARGEST_WINDOW: u64 = 4 << 20;
/// If memory is short, windows shrink to this, so that the memory suffices for more runs.
const SMALLEST_WINDOW: u64 = 256 << 10;
/// Two reads make a run if the second begins where the first ends, or at most 4 KiB later.
const NEAR: u64 = 4 << 10;
/// A read belongs to a run that has windows if it begins at most this far past the run's end (8 MiB), and at
/// most as far as the run has read bytes. A kernel that reads ahead for a mount sends so much at once, in any
/// order.
const REACH: u64 = 8 << 20;
/// A run ends if its windows have more bytes than this many times the bytes of its reads, plus
/// [`LARGEST_WINDOW`].
const WASTE: u64 = 3;
/// Most runs at once: several programs may read the file through one mount, or one program several parts.
const RUNS: usize = 64;
/// If memory is short, a run that got no read for this long is dropped, with its windows.
const IDLE: Duration = Duration::from_secs(1);

/// The bytes of a window, once they are fetched. If neither the run nor a read needs the window any more, the
/// fetch is cancelled and its memory is released.
#[derive(Clone)]
struct Filled {
    /// Outer `None`: not fetched yet. Inner `None`: the fetch failed, and the caller's own read gets the
    /// error.
    bytes: watch::Receiver<Option<Option<Bytes>>>,
    _fetch: Arc<Fetch>,
}

struct Fetch {
    task: JoinHandle<()>,
    _memory: Reserved,
}

/// The runs of one reader.
pub(crate) struct Ahead {
    memory: Arc<Share>,
    runs: Arc<Mutex<Runs>>,
}

/// The most recently used run is at the end.
#[derive(Default)]
struct Runs(VecDeque<Run>);

/// Reads that each begin near the end of the earlier ones.
struct Run {
    /// End of the reads so far.
    end: u64,
    /// Adjacent windows, in order: one that was read, for callers slightly out of order; those that late
    /// requests may still ask for; and the next one.
    windows: VecDeque<Window>,
    /// Length of the next window.
    length: u64,
    /// Bytes of the reads so far, and of the windows begun so far.
    read: u64,
    fetched: u64,
    last_read: Instant,
}

struct Window {
    range: Range<u64>,
    filled: Filled,
    /// Bytes of the window that weren't read yet.
    unread: u64,
}

impl Drop for Fetch {
    fn drop(&mut self) {
        self.task.abort();
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

    /// Whether a read at `offset` belongs to this run.
    fn goes_on_at(&self, offset: u64) -> bool {
        let (from, reach) = match self.windows.front() {
            Some(window) => (window.range.start, self.reach()),
            None => (self.end, NEAR),
        };
        (from..=self.end.saturating_add(reach)).contains(&offset)
    }

    /// How far past the run's end a read still belongs to it, if the run has windows.
    fn reach(&self) -> u64 {
        self.read.clamp(NEAR, REACH)
    }

    fn is_wasteful(&self) -> bool {
        self.fetched > WASTE * self.read + LARGEST_WINDOW
    }

    /// Offset where the last window ends.
    fn ahead(&self) -> Option<u64> {
        self.windows.back().map(|window| window.range.end)
    }

    /// Drops the first window if it was read completely and another one follows. Returns whether it did.
    fn drop_read(&mut self) -> bool {
        let is_read = self.windows.len() > 1 && self.windows.front().is_some_and(|first| first.unread == 0);
        is_read && self.windows.pop_front().is_some()
    }

    /// Drops the windows that end before offset `reads`, except for the last of these. A window with unread
    /// bytes stays for late requests until the run's end is [`REACH`] past it.
    fn drop_passed(&mut self, reads: u64) {
        while let (Some(first), Some(second)) = (self.windows.front(), self.windows.get(1)) {
            let is_late = first.unread > 0 && first.range.end.saturating_add(REACH) > self.end;
            if is_late || second.range.end > reads {
                return;
            }
            self.windows.pop_front();
        }
    }
}

impl Runs {
    fn give_up(&mut self, idle: Duration) {
        self.0.retain(|run| run.last_read.elapsed() < idle);
    }
}

impl Ahead {
    /// Takes the memory for windows from `memory`.
    pub fn new(memory: Arc<Share>) -> Self {
        let runs = Arc::new(Mutex::new(Runs::default()));
        memory.register(Arc::downgrade(&runs), |runs: &Mutex<Runs>, idle: Duration| {
            // If the runs are locked, skip them: a read is using them.
            if let Ok(mut runs) = runs.try_lock() {
                runs.give_up(idle);
            }
        });
        Self { memory, runs }
    }

    /// Returns the bytes `wanted` of a file of this `length` from windows, which `fetch` fills. `None` if no
    /// windows have them: then the caller must read them itself.
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
            let filled = filled.bytes.wait_for(Option::is_some).await.ok()?.clone().flatten()?;
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

    /// The windows with these bytes, if the read continues a run.
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
        // Without memory for more windows, the reads have passed the last window.
        let is_left_behind = run.ahead().is_some_and(|ahead| ahead < run.end && ahead < wanted.start);
        run.end = run.end.max(wanted.end);
        run.read += wanted.end - wanted.start;
        run.last_read = Instant::now();
        let is_failed = |window: &Window| matches!(*window.filled.bytes.borrow(), Some(None));
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
        let mut windows = Vec::new();
        for window in &mut run.windows {
            let from = window.range.start.max(wanted.start);
            let read = window.range.end.min(wanted.end).saturating_sub(from);
            if read > 0 {
                window.unread = window.unread.saturating_sub(read);
                windows.push((window.range.clone(), window.filled.clone()));
            }
        }
        runs.0.push_back(run);
        has_all.then_some(windows)
    }

    /// Begins windows until they cover the read, and one more once a read reaches the last window. Stops
    /// early if no memory is left.
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
        run.drop_passed(wanted.start);
        let had_windows = !run.windows.is_empty();
        loop {
            let last = run.windows.back().map_or(wanted.start..wanted.start, |window| window.range.clone());
            let is_next_due = had_windows && wanted.end > last.start;
            if last.end >= length || (last.end >= wanted.end && !is_next_due) {
                return;
            }
            let Some(memory) = self.reserve(run, last.end, length, others) else { return };
            let range = last.end..last.end.saturating_add(run.length).min(length);
            let (sender, bytes) = watch::channel(None);
            let fetching = fetch(range.clone());
            let task = tokio::spawn(async move {
                let _ = sender.send(Some(fetching.await.ok()));
            });
            let filled = Filled { bytes, _fetch: Arc::new(Fetch { task, _memory: memory }) };
            let unread = range.end - range.start;
            run.fetched += unread;
            run.windows.push_back(Window { range, filled, unread });
            run.length = (run.length * 2).min(LARGEST_WINDOW);
        }
    }

    /// Reserves memory for the next window of a run. If memory is short, it shortens that window.
    fn reserve(&self, run: &mut Run, from: u64, length: u64, others: &mut Runs) -> Option<Reserved> {
        loop {
            let bytes = run.length.min(length - from);
            if let Some(memory) = self.memory.reserve(bytes) {
                return Some(memory);
            }
            if others.0.iter_mut().chain([&mut *run]).any(Run::drop_read) {
                continue;
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
    use std::task::Poll;
    use strait_store::budget::Pool;
    use strait_store::{ErrorKind, fail};

    const FILE: u64 = 64 << 20;
    const STEP: u64 = 256 << 10;
    const MIB: u64 = 1 << 20;

    /// A file with known bytes, and the ranges fetched from it.
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
        // Each read begins far past the end of the one before.
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

    /// Reads of 1 MiB, as a kernel with a read-ahead of 8 MiB sends them for each of these streams: up to 8
    /// together, and the next 8 once a program has the first of these 8. A mount's threads take them in any
    /// order.
    async fn read_as_a_kernel_does(
        scene: &Scene,
        streams: &[Range<u64>],
        order: impl Fn(&mut [u64]),
    ) -> usize {
        let mut under_way: Vec<VecDeque<_>> = streams.iter().map(|_| VecDeque::new()).collect();
        let (mut alone, mut at) = (0, 0);
        for together in [2, 4].into_iter().chain([8; 8]) {
            for (stream, under_way) in streams.iter().zip(&mut under_way) {
                let mut places: Vec<u64> =
                    (at..at + together).map(|place| stream.start + place * MIB).collect();
                order(&mut places);
                for place in places.into_iter().filter(|place| stream.contains(place)) {
                    let mut read = Box::pin(scene.read(place, MIB));
                    match futures::poll!(&mut read) {
                        Poll::Ready(read) => alone += usize::from(read.is_none()),
                        Poll::Pending => under_way.push_back(read),
                    }
                }
            }
            at += together;
            for under_way in &mut under_way {
                while under_way.len() > 7 {
                    alone += usize::from(under_way.pop_front().unwrap().await.is_none());
                }
            }
        }
        for read in under_way.into_iter().flatten() {
            alone += usize::from(read.await.is_none());
        }
        alone
    }

    #[tokio::test]
    async fn requests_of_a_kernel_that_reads_ahead_are_a_run_in_any_order() {
        let orders: [fn(&mut [u64]); 4] = [
            |_| (),
            |places| places.rotate_left(1),
            // Recorded at a mount with two threads: each thread took one half.
            |places| {
                let (first, second) = places.split_at(places.len() / 2);
                let halves = second.iter().zip(first).flat_map(|(second, first)| [*second, *first]);
                places.copy_from_slice(&halves.collect::<Vec<u64>>());
            },
            |places| places[1..].reverse(),
        ];
        for (number, order) in orders.into_iter().enumerate() {
            for streams in [std::slice::from_ref(&(0..FILE)), &[0..FILE / 2, FILE / 2..FILE]] {
                let scene = Scene::new(16 * MIB * (1 + streams.len() as u64));
                let alone = read_as_a_kernel_does(&scene, streams, order).await;
                let most = 4 * streams.len();
                assert!(alone <= most, "order {number}, {streams:?}: {alone} of 64 reads found no window");
                let fetched = scene.fetched();
                assert!(fetched <= FILE + most as u64 * MIB, "order {number}, {streams:?}: {fetched} bytes");
            }
        }
    }

    #[tokio::test]
    async fn a_run_that_skips_more_than_it_has_read_ends() {
        let scene = Scene::new(32 << 20);
        for at in 0..FILE / (4 * MIB) {
            for half in 0..2 {
                scene.read(at * 4 * MIB + half * STEP, STEP).await;
            }
        }
        assert!(scene.fetched() <= FILE / 4, "{} bytes", scene.fetched());
    }

    #[tokio::test]
    async fn a_window_that_a_read_waits_for_is_fetched_though_its_run_ends() {
        let scene = Scene::new(32 << 20);
        scene.read(0, STEP).await;
        let mut waiting = Box::pin(scene.read(STEP, 4 * MIB));
        assert!(futures::poll!(&mut waiting).is_pending());
        scene.ahead.lock().0.clear();
        assert!(waiting.await.is_some());
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
