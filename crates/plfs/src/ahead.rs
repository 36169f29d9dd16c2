//! Reading ahead in the file's order, for callers that read one piece after the other.
//!
//! Such a run of reads gets *windows*: stretches of the file that are fetched while the caller still reads
//! what lies before them. A window takes the pieces of each log at once, so that logs see few and large
//! reads, and none beyond the window. Several runs may go on at once: a file's readers share a reader.

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::budget::{Pool, Reserved, Share};
use strait_store::{Error, ErrorKind, Result};
use tokio::task::JoinSet;

/// The first window of a run, and the largest. A window is a quarter of the run before it, so that little
/// is fetched for nothing.
const LEAST_WINDOW: u64 = 1 << 20;
const MOST_WINDOW: u64 = 4 << 20;
/// A run's windows: the one before (for callers slightly out of order), the current one, and the next.
const MOST_WINDOWS: usize = 3;
/// Runs at once. The one that wasn't read for longest gives way.
const MOST_RUNS: usize = 8;
/// A read belongs to a run if it begins at most this far from its end: several may be in flight.
const GAP: u64 = 256 << 10;

/// Bytes being fetched, for all callers that wait for them.
pub(crate) type Fetched = Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>;

/// Where the bytes of a read are: the log and the offset at which they begin, if they lie together.
pub(crate) type Place = Option<(u32, u64)>;

/// The runs of a reader.
pub(crate) struct Ahead {
    runs: Arc<Mutex<Runs<Fetched>>>,
    memory: Arc<Share>,
}

impl Ahead {
    /// With the memory that the user's files share.
    pub fn new(user: &str) -> Self {
        let (runs, memory) = (Arc::<Mutex<Runs<Fetched>>>::default(), Pool::of_process().share(user));
        memory.register(Arc::downgrade(&runs), give_up);
        Self { runs, memory }
    }

    /// The windows with all bytes of `range`, if it was read ahead. `fetch` begins another window.
    pub fn hit(
        &self,
        range: &Range<u64>,
        length: u64,
        fetch: impl Fn(Range<u64>) -> Fetched,
    ) -> Option<Vec<(Range<u64>, Fetched)>> {
        self.lock().hit(range, length, fetch, |bytes| self.memory.reserve(bytes))
    }

    /// Tells of a read that no window had.
    pub fn note(&self, range: &Range<u64>, place: Place, length: u64, fetch: impl Fn(Range<u64>) -> Fetched) {
        self.lock().note(range, place, length, fetch, |bytes| self.memory.reserve(bytes));
    }

    /// Drops all windows, after one failed.
    pub fn forget(&self) {
        self.lock().all.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Runs<Fetched>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to fetch at once. If all waiters drop it, it stops.
pub(crate) fn begin(fetch: impl Future<Output = Result<Bytes>> + Send + 'static) -> Fetched {
    let mut task = JoinSet::new();
    task.spawn(fetch);
    async move {
        match task.join_next().await {
            Some(Ok(fetched)) => fetched.map_err(Arc::new),
            _ => Err(Arc::new(Error::new(ErrorKind::Internal, "reading ahead has ended"))),
        }
    }
    .boxed()
    .shared()
}

/// Drops the windows, if the last read was at least `idle` ago.
fn give_up<F>(runs: &Mutex<Runs<F>>, idle: Duration) {
    // The holder of the lock is about to read.
    if let Ok(mut runs) = runs.try_lock() {
        runs.all.retain(|run| run.last_read.elapsed() < idle);
    }
}

/// Decides which windows to fetch, and when: free of I/O, for any kind of fetch `F`.
struct Runs<F> {
    all: Vec<Run<F>>,
}

impl<F> Default for Runs<F> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

struct Run<F> {
    begin: u64,
    end: u64,
    /// Bytes that were read of it.
    read: u64,
    /// Where its last read ended in a log. A read from there is left to the store, which reads ahead in a log.
    place: Place,
    jumps: bool,
    /// Next to each other, in order.
    windows: VecDeque<Window<F>>,
    last_read: Instant,
}

struct Window<F> {
    range: Range<u64>,
    data: F,
    _memory: Reserved,
}

impl<F: Clone> Runs<F> {
    fn hit(
        &mut self,
        range: &Range<u64>,
        length: u64,
        fetch: impl Fn(Range<u64>) -> F,
        reserve: impl Fn(u64) -> Option<Reserved>,
    ) -> Option<Vec<(Range<u64>, F)>> {
        let has = |run: &&mut Run<F>| run.windows.iter().any(|window| window.range.contains(&range.start));
        let run = self.all.iter_mut().find(has)?;
        (run.end, run.last_read) = (run.end.max(range.end), Instant::now());
        run.extend(range.end, length, &fetch, &reserve);
        let last = run.windows.back()?.range.clone();
        if last.end < range.end {
            // There is no memory for the rest.
            return None;
        }
        let windows = run.windows.iter();
        let windows = windows.filter(|it| it.range.start < range.end && range.start < it.range.end);
        let windows = windows.map(|window| (window.range.clone(), window.data.clone())).collect();
        if last.start < range.end {
            run.extend(last.end + 1, length, &fetch, &reserve);
        }
        while run.windows.len() > MOST_WINDOWS {
            run.windows.pop_front();
        }
        Some(windows)
    }

    fn note(
        &mut self,
        range: &Range<u64>,
        place: Place,
        length: u64,
        fetch: impl Fn(Range<u64>) -> F,
        reserve: impl Fn(u64) -> Option<Reserved>,
    ) {
        let bytes = range.end - range.start;
        let behind = place.map(|(log, offset)| (log, offset + bytes));
        let near = |run: &&mut Run<F>| range.start + GAP >= run.end && range.start <= run.end + GAP;
        let Some(run) = self.all.iter_mut().find(near) else {
            if self.all.len() >= MOST_RUNS {
                let oldest = self.all.iter().enumerate().min_by_key(|(_, run)| run.last_read);
                let oldest = oldest.map_or(0, |(at, _)| at);
                self.all.swap_remove(oldest);
            }
            let (begin, end, windows) = (range.start, range.end, VecDeque::new());
            let last_read = Instant::now();
            self.all.push(Run { begin, end, read: bytes, place: behind, jumps: false, windows, last_read });
            return;
        };
        run.jumps |= place.is_none() || place != run.place;
        (run.read, run.place, run.last_read) = (run.read + bytes, behind, Instant::now());
        run.end = run.end.max(range.end);
        let is_ahead = run.windows.iter().any(|window| window.range.contains(&run.end));
        // Most of it, or it is no run.
        if run.jumps && !is_ahead && 2 * run.read >= run.end - run.begin {
            run.windows.clear();
            run.extend(run.end + 1, length, &fetch, &reserve);
        }
    }
}

impl<F> Run<F> {
    /// Begins windows until one contains the byte before `end`, as far as there is memory.
    fn extend(
        &mut self,
        end: u64,
        length: u64,
        fetch: impl Fn(Range<u64>) -> F,
        reserve: impl Fn(u64) -> Option<Reserved>,
    ) {
        let mut from = self.windows.back().map_or(self.end, |window| window.range.end);
        while from < end.min(length) {
            let wanted = ((from - self.begin) / 4).clamp(LEAST_WINDOW, MOST_WINDOW);
            let sizes = [wanted, LEAST_WINDOW].map(|bytes| bytes.min(length - from));
            let found = sizes.into_iter().find_map(|bytes| Some((bytes, reserve(bytes)?)));
            let Some((bytes, memory)) = found else { return };
            let range = from..from + bytes;
            from = range.end;
            self.windows.push_back(Window { data: fetch(range.clone()), range, _memory: memory });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const FILE: u64 = 100 << 20;
    const READ: u64 = 128 << 10;

    struct Trace {
        runs: Runs<()>,
        memory: Arc<Share>,
        fetched: RefCell<Vec<Range<u64>>>,
        direct: Vec<Range<u64>>,
    }

    impl Trace {
        fn new(memory: u64) -> Self {
            let memory = Pool::new(2 * memory).share("user");
            Self { runs: Runs::default(), memory, fetched: RefCell::default(), direct: Vec::new() }
        }

        fn read(&mut self, range: Range<u64>, place: Place) {
            let fetch = |range| self.fetched.borrow_mut().push(range);
            let reserve = |bytes| self.memory.reserve(bytes);
            match self.runs.hit(&range, FILE, fetch, reserve) {
                Some(windows) => {
                    assert!(windows[0].0.start <= range.start, "{range:?}");
                    assert!(windows.last().unwrap().0.end >= range.end, "{range:?}");
                }
                None => {
                    self.runs.note(&range, place, FILE, fetch, reserve);
                    self.direct.push(range);
                }
            }
            let held =
                |run: &Run<()>| run.windows.iter().map(|it| it.range.end - it.range.start).sum::<u64>();
            assert!(self.runs.all.iter().map(held).sum::<u64>() <= 32 << 20);
        }

        fn bytes(&self) -> u64 {
            self.fetched.borrow().iter().map(|range| range.end - range.start).sum()
        }
    }

    fn steps(from: u64, count: u64) -> impl Iterator<Item = Range<u64>> {
        (0..count).map(move |step| from + step * READ..from + (step + 1) * READ)
    }

    #[test]
    fn runs_side_by_side_are_fetched_once_in_growing_windows() {
        let mut trace = Trace::new(32 << 20);
        for (left, right) in steps(0, 256).zip(steps(50 << 20, 256)) {
            trace.read(left, None);
            trace.read(right, None);
        }
        assert_eq!(trace.direct.len(), 4, "two reads show a run");
        let mut fetched = trace.fetched.borrow().clone();
        fetched.sort_by_key(|range| range.start);
        assert!(fetched.windows(2).all(|two| two[0].end <= two[1].start), "each byte once");
        let read = 2 * 256 * READ;
        assert!(trace.bytes() <= read + read / 2, "{} bytes for {read}", trace.bytes());
    }

    #[test]
    fn reads_out_of_order_stay_in_their_run() {
        let mut trace = Trace::new(32 << 20);
        let all: Vec<_> = steps(0, 256).collect();
        for four in all.chunks(4) {
            for at in [1, 0, 3, 2] {
                trace.read(four[at].clone(), None);
            }
        }
        assert!(trace.direct.len() <= 4, "{:?}", trace.direct);
    }

    #[test]
    fn reads_that_jump_about_and_reads_along_a_log_fetch_nothing() {
        let mut trace = Trace::new(32 << 20);
        for at in 1..1000 {
            let start = at * 7_919_777 % FILE;
            trace.read(start..start + 4096, None);
        }
        assert_eq!(trace.bytes(), 0);
        let mut trace = Trace::new(32 << 20);
        steps(0, 256).for_each(|range| trace.read(range.clone(), Some((3, 1000 + range.start))));
        assert_eq!(trace.bytes(), 0);
    }

    #[test]
    fn without_memory_nothing_is_fetched_ahead_and_the_idle_give_theirs_up() {
        let mut trace = Trace::new(1000);
        steps(0, 256).for_each(|range| trace.read(range, None));
        assert_eq!((trace.bytes(), trace.direct.len()), (0, 256));
        let mut trace = Trace::new(1 << 20);
        steps(0, 4).for_each(|range| trace.read(range, None));
        let (runs, memory) = (Mutex::new(trace.runs), trace.memory);
        assert!(memory.reserve(1 << 20).is_none());
        give_up(&runs, Duration::ZERO);
        assert!(memory.reserve(1 << 20).is_some());
    }
}
