//! Reads ahead for callers that read in small pieces, one after the other.
//!
//! For such a reader, this fetches *windows*: whole ranges of the file. It fetches the next window while the
//! caller still reads the current one. For a caller that reads at random, it fetches exactly the requested
//! bytes, so that no bytes are fetched in vain.

use super::datanode::BlockStream;
use super::replicas::Sequence;
use super::source::Source;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::budget::{Reserved, Share};
use strait_store::{Error, Result};
use tokio::sync::oneshot;

/// The first window of a run. It is small, so that little is lost if the run is short.
const FIRST_WINDOW_BYTES: u64 = 128 << 10;
/// Windows double up to this. Two windows of 1 MiB in flight reach the speed of a stream
/// (`docs/decisions/2026-11-21-hdfs-reads-without-the-library.md`).
const LARGEST_WINDOW_BYTES: u64 = 1 << 20;
/// The previous window (for callers that read slightly out of order), the current one, and the next one:
/// at most 3 MiB per reader.
const MAX_WINDOWS: usize = 3;
/// A read is in sequence if it begins at most this far after the end of the previous one. So several
/// small reads can be in flight, in any order.
const MAX_GAP_BYTES: u64 = 256 << 10;
/// A read of at least this length is its own window, because its caller itself reads ahead in large requests.
const LARGE_READ_BYTES: u64 = 1 << 20;
/// Share of the readers' memory that a stream takes while it waits for the next fetch. It covers
/// the rest of a packet, and the bytes that the kernel has received. It also limits such streams to 256
/// for one user's open files. Each stream occupies a thread of its datanode, which has 4,096 by default
/// for all clients of the cluster.
const STREAM_BYTES: u64 = 128 << 10;

/// A running fetch, shared by all callers that wait for its bytes.
type Fetch = Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>;

/// The windows of one reader.
pub(super) struct ReadAhead {
    source: Arc<Source>,
    memory: Arc<Share>,
    state: Arc<Mutex<State<Fetch>>>,
}

impl ReadAhead {
    /// Reads ahead in `source`, with memory from `memory`.
    pub fn new(source: Source, memory: Arc<Share>) -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        memory.register(Arc::downgrade(&state), give_up);
        Self { source: Arc::new(source), memory, state }
    }

    /// The length of the file.
    pub fn length(&self) -> u64 {
        self.source.length()
    }

    /// The file's identity, if known.
    pub fn identity(&self) -> Option<Bytes> {
        self.source.identity()
    }

    /// The bytes of `range`, which must lie within the file.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let plan = {
            let begin = |window, link| fetch(&self.source, window, link);
            let reserve = |bytes| self.memory.reserve(bytes);
            self.lock().plan(&range, self.source.length(), begin, reserve)
        };
        let windows = match plan {
            Plan::Windows(windows) => windows,
            Plan::Own(fetch) => return fetch.await.map_err(|error| again(&error)),
            Plan::Direct => return self.source.fetch(range).await,
        };
        let mut unread = Unread(Some(self));
        let joined = join(windows, range).await?;
        unread.0 = None;
        Ok(joined)
    }

    /// From now on, fetches only requested bytes.
    pub fn stop(&self) {
        let mut state = self.lock();
        *state = State { stopped: true, ..State::default() };
    }

    fn lock(&self) -> MutexGuard<'_, State<Fetch>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the windows when a read fails or its caller leaves. So their fetches stop, and the next caller tries
/// again.
struct Unread<'a>(Option<&'a ReadAhead>);

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        if let Some(ahead) = self.0 {
            ahead.lock().windows.clear();
        }
    }
}

/// The bytes of `range` from these windows.
async fn join(windows: Vec<(Range<u64>, Fetch)>, range: Range<u64>) -> Result<Bytes> {
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    for (window, data) in windows {
        let bytes = data.await.map_err(|error| again(&error))?;
        let begin = range.start.max(window.start) - window.start;
        let end = range.end.min(window.end) - window.start;
        let piece = bytes.slice(begin as usize..end as usize);
        // A slice keeps its whole window in memory for as long as its receiver has it. So a small piece
        // is copied instead.
        if piece.len() as u64 == range.end - range.start && piece.len() >= bytes.len() / 2 {
            return Ok(piece);
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.freeze())
}

/// Drops the bytes read ahead, if the last read was at least `idle` ago.
fn give_up<F>(state: &Mutex<State<F>>, idle: Duration) {
    // If another thread has the lock, it is about to read, so the file isn't idle.
    if let Ok(mut state) = state.try_lock()
        && state.last_read.elapsed() >= idle
    {
        state.windows.clear();
        state.chain = Chain::default();
    }
}

/// Begins a fetch at once. The fetch stops when all waiting callers have dropped it.
fn fetch(source: &Arc<Source>, range: Range<u64>, link: Link) -> Fetch {
    let source = Arc::clone(source);
    let task = AbortOnDrop(tokio::spawn(async move {
        let mut sequence = Sequence { stream: None, goes_on: link.goes_on };
        if let Some(before) = link.before {
            sequence.stream = before.await.ok();
        }
        let outcome = source.fetch_in_sequence(range, &mut sequence).await;
        if let (Some(after), Some(stream)) = (link.after, sequence.stream) {
            // If no fetch follows, the send fails, and the stream ends here.
            let _ = after.send(stream);
        }
        outcome
    }));
    async move {
        let mut task = task;
        match (&mut task.0).await {
            Ok(outcome) => outcome.map_err(Arc::new),
            Err(error) => Err(Arc::new(Error::new(strait_store::ErrorKind::Internal, error.to_string()))),
        }
    }
    .boxed()
    .shared()
}

struct AbortOnDrop(tokio::task::JoinHandle<Result<Bytes>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A copy of the error, since several callers get it.
fn again(error: &Arc<Error>) -> Error {
    Error::new(error.kind(), error.message().to_owned())
        .with_retry_safe(error.retry_safe())
        .caused_by(Arc::clone(error))
}

/// The fetches of a run, which use one stream from the datanode one after the other: each passes the
/// stream to the next. Between two fetches, the stream waits, and so does the datanode.
#[derive(Default)]
struct Chain {
    /// End of the latest fetch. None before the first.
    end: Option<u64>,
    stream: Option<oneshot::Receiver<BlockStream>>,
    /// Memory reserved for that stream.
    memory: Option<Reserved>,
}

/// A fetch's place in the chain.
struct Link {
    before: Option<oneshot::Receiver<BlockStream>>,
    after: Option<oneshot::Sender<BlockStream>>,
    goes_on: bool,
}

impl Chain {
    /// Adds a fetch of `range`. The first fetch of a chain may be the only one, so it requests only `range`
    /// from the datanode. A later one requests all up to the end of the block, and leaves the stream to the
    /// next fetch. If there is no memory for the stream, it also requests only `range`.
    fn add(&mut self, range: &Range<u64>, reserve: impl Fn(u64) -> Option<Reserved>) -> Link {
        let follows = self.end == Some(range.start);
        let memory = self.memory.take().filter(|_| follows);
        let memory = if follows { memory.or_else(|| reserve(STREAM_BYTES)) } else { None };
        let goes_on = memory.is_some();
        let before = self.stream.take().filter(|_| goes_on);
        let (after, stream) = oneshot::channel();
        *self = Self { end: Some(range.end), stream: goes_on.then_some(stream), memory };
        Link { before, after: goes_on.then_some(after), goes_on }
    }
}

/// How to answer a read.
enum Plan<F> {
    /// From these windows.
    Windows(Vec<(Range<u64>, F)>),
    /// By a fetch of exactly this range, which continues the stream of earlier ones.
    Own(F),
    /// By a separate fetch.
    Direct,
}

/// Decides which windows to fetch, and when. It does no I/O, and works for any kind of fetch `F`.
struct State<F> {
    /// Adjacent windows, in order.
    windows: VecDeque<Window<F>>,
    chain: Chain,
    /// End of the run of reads so far.
    run_end: u64,
    /// End of the latest read out of sequence. A read from there begins a new run.
    stray_end: Option<u64>,
    /// Length of the next window.
    window_length: u64,
    last_read: Instant,
    /// Whether the caller reads ahead itself.
    stopped: bool,
}

struct Window<F> {
    range: Range<u64>,
    data: F,
    _memory: Reserved,
}

impl<F> Default for State<F> {
    fn default() -> Self {
        Self {
            windows: VecDeque::new(),
            chain: Chain::default(),
            run_end: 0,
            stray_end: None,
            window_length: FIRST_WINDOW_BYTES,
            last_read: Instant::now(),
            stopped: false,
        }
    }
}

impl<F: Clone> State<F> {
    /// Decides how to read `range`. `begin` starts a fetch; `reserve` takes memory for a window.
    fn plan(
        &mut self,
        range: &Range<u64>,
        file_length: u64,
        begin: impl Fn(Range<u64>, Link) -> F,
        reserve: impl Fn(u64) -> Option<Reserved>,
    ) -> Plan<F> {
        self.last_read = Instant::now();
        let hit = self.windows.iter().any(|window| window.range.contains(&range.start));
        let gap = if self.windows.is_empty() { 0 } else { MAX_GAP_BYTES };
        let follows = |end: u64| range.start >= end && range.start - end <= gap;
        if !hit && !follows(self.run_end) && self.stray_end == Some(range.start) {
            self.windows.clear();
            self.window_length = FIRST_WINDOW_BYTES;
            self.run_end = range.start;
        }
        if !hit && !follows(self.run_end) {
            self.stray_end = Some(range.end);
            return Plan::Direct;
        }
        self.run_end = self.run_end.max(range.end);
        if !hit && range.end - range.start >= LARGE_READ_BYTES {
            // The caller already has memory for the answer.
            self.windows.clear();
            let link = self.chain.add(range, &reserve);
            return Plan::Own(begin(range.clone(), link));
        }
        if self.stopped {
            return Plan::Direct;
        }

        self.extend_to(range.start, range.end, file_length, &begin, &reserve);
        let windows = self
            .windows
            .iter()
            .filter(|window| window.range.start < range.end && range.start < window.range.end)
            .map(|window| (window.range.clone(), window.data.clone()));
        let windows: Vec<_> = windows.collect();

        // The first read of a run may be the only one, so it fetches no next window yet.
        let last_end = self.windows.back().map_or(range.start, |window| window.range.end);
        let in_last = self.windows.back().is_some_and(|window| window.range.start < range.end);
        if hit && in_last {
            self.extend_to(range.start, last_end.saturating_add(1), file_length, &begin, &reserve);
        }
        while self.windows.len() > MAX_WINDOWS {
            self.windows.pop_front();
        }
        match last_end >= range.end {
            true => Plan::Windows(windows),
            // The memory didn't suffice for the whole range.
            false => Plan::Direct,
        }
    }

    /// Begins windows until one of them contains the byte before `end`, as long as there is memory for them.
    fn extend_to(
        &mut self,
        start: u64,
        end: u64,
        file_length: u64,
        begin: &impl Fn(Range<u64>, Link) -> F,
        reserve: &impl Fn(u64) -> Option<Reserved>,
    ) {
        let mut from = self.windows.back().map_or(start, |window| window.range.end);
        while from < end.min(file_length) {
            let range = from..from.saturating_add(self.window_length).min(file_length);
            let Some(memory) = reserve(range.end - range.start) else {
                // Try a smaller window, so that the memory suffices for more readers.
                if self.windows.front().is_some_and(|window| window.range.end <= start) {
                    self.windows.pop_front();
                } else if self.window_length == FIRST_WINDOW_BYTES {
                    return;
                }
                self.window_length = (self.window_length / 2).max(FIRST_WINDOW_BYTES);
                continue;
            };
            from = range.end;
            let link = self.chain.add(&range, reserve);
            self.windows.push_back(Window { data: begin(range.clone(), link), range, _memory: memory });
            self.window_length = (self.window_length * 2).min(LARGEST_WINDOW_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use strait_store::budget::Pool;

    const FILE: u64 = 100 << 20;

    /// A user's memory, half of the pool.
    fn memory_of(bytes: u64) -> Arc<Share> {
        Pool::new(2 * bytes).share("user")
    }

    /// Reads `ranges` one after the other. Returns the windows fetched, and the number of reads
    /// that no window covered.
    fn trace(ranges: impl IntoIterator<Item = Range<u64>>) -> (Vec<Range<u64>>, usize) {
        let mut state = State::default();
        let fetched = RefCell::new(Vec::new());
        let memory = memory_of(16 << 20);
        let mut direct = 0;
        for range in ranges {
            let begin = |window, _| fetched.borrow_mut().push(window);
            match state.plan(&range, FILE, begin, |bytes| memory.reserve(bytes)) {
                Plan::Direct => direct += 1,
                Plan::Own(()) => assert_eq!(fetched.borrow().last(), Some(&range)),
                Plan::Windows(windows) => {
                    assert!(windows[0].0.start <= range.start, "{range:?}");
                    assert!(windows.last().unwrap().0.end >= range.end.min(FILE), "{range:?}");
                    assert!(windows.windows(2).all(|pair| pair[0].0.end == pair[1].0.start));
                }
            }
            assert!(state.windows.len() <= MAX_WINDOWS);
        }
        (fetched.into_inner(), direct)
    }

    fn steps(from: u64, step: u64, count: u64) -> impl Iterator<Item = Range<u64>> {
        (0..count).map(move |n| from + n * step..from + (n + 1) * step)
    }

    #[test]
    fn a_sequence_is_fetched_once_in_growing_windows_one_ahead() {
        let (fetched, direct) = trace(steps(0, 4096, FILE / 4096));
        assert_eq!(direct, 0);
        assert!(fetched.windows(2).all(|pair| pair[0].end == pair[1].start), "each byte once, in order");
        assert_eq!(fetched.first().unwrap().end, FIRST_WINDOW_BYTES);
        assert_eq!(fetched.last().unwrap().end, FILE);
        assert!(fetched.len() as u64 <= FILE / LARGEST_WINDOW_BYTES + 4);
    }

    #[test]
    fn reads_that_jump_about_fetch_no_windows() {
        let (fetched, direct) = trace((1..1000).map(|n| n * 7_919_777 % FILE).map(|at| at..at + 4096));
        assert_eq!((fetched, direct), (vec![], 999));
    }

    #[test]
    fn a_reader_whose_caller_reads_ahead_fetches_what_is_asked_for() {
        let (memory, mut state) = (memory_of(16 << 20), State { stopped: true, ..State::default() });
        for range in steps(0, 65_536, 100) {
            let plan = state.plan(&range, FILE, |_, link| link.goes_on, |bytes| memory.reserve(bytes));
            assert!(matches!(plan, Plan::Direct));
        }
        assert!(memory.reserve(16 << 20).is_some());
        for (range, goes_on) in
            steps(50 * LARGE_READ_BYTES, LARGE_READ_BYTES, 3).zip([None, Some(false), Some(true)])
        {
            let plan = state.plan(&range, FILE, |_, link| link.goes_on, |bytes| memory.reserve(bytes));
            let streams = if let Plan::Own(goes_on) = plan { Some(goes_on) } else { None };
            assert_eq!(streams, goes_on, "large reads in sequence share a stream");
        }
    }

    #[test]
    fn one_read_of_the_head_fetches_no_more_than_a_small_window() {
        let (fetched, _) = trace(steps(0, 100, 1));
        assert_eq!((fetched.len(), &fetched[0]), (1, &(0..FIRST_WINDOW_BYTES)));
    }

    #[test]
    fn a_run_in_the_middle_is_noticed_at_its_second_read() {
        let (fetched, direct) = trace(steps(50 << 20, 4096, 1000));
        assert_eq!(direct, 1);
        assert!(!fetched.is_empty());
    }

    #[test]
    fn small_reads_in_flight_out_of_order_stay_in_sequence() {
        let swapped = steps(0, 65_536, 512).collect::<Vec<_>>();
        let swapped = swapped.chunks(4).flat_map(|four| [&four[1], &four[0], &four[3], &four[2]]).cloned();
        let (fetched, direct) = trace(swapped);
        let bytes: u64 = fetched.iter().map(|window| window.end - window.start).sum();
        assert!(direct <= 1, "{direct} reads went past the windows");
        assert!(bytes <= 512 * 65_536 + 3 * LARGEST_WINDOW_BYTES, "{bytes} bytes were fetched");
    }

    #[test]
    fn many_open_files_hold_no_more_ahead_than_the_memory_they_share() {
        const SHARED: u64 = 8 << 20;
        const STEPS: u64 = 400;
        let memory = memory_of(SHARED);
        let mut readers: Vec<State<()>> = (0..20).map(|_| State::default()).collect();
        let mut direct = vec![0; readers.len()];
        for step in 0..STEPS {
            for (reader, direct) in readers.iter_mut().zip(&mut direct) {
                let range = step * 65_536..(step + 1) * 65_536;
                let plan = reader.plan(&range, FILE, |_, _| (), |bytes| memory.reserve(bytes));
                *direct += u64::from(matches!(plan, Plan::Direct));
            }
            let windows = readers.iter().flat_map(|reader| &reader.windows);
            let held: u64 = windows.map(|window| window.range.end - window.range.start).sum();
            assert!(held <= SHARED, "{held} bytes are held");
        }
        assert!(direct.iter().all(|direct| *direct < STEPS / 10), "none goes without: {direct:?}");
        drop(readers);
        assert!(memory.reserve(SHARED).is_some(), "all of it comes back");
    }

    #[test]
    fn a_reader_without_memory_fetches_only_the_requested_bytes() {
        let (memory, mut state) = (memory_of(1000), State::default());
        for range in steps(0, 4096, 10) {
            let plan = state.plan(&range, FILE, |_, _| (), |bytes| memory.reserve(bytes));
            assert!(matches!(plan, Plan::Direct));
        }
    }

    #[test]
    fn an_idle_reader_gives_up_its_windows_and_reads_on_later() {
        let memory = memory_of(1 << 20);
        let reader = Mutex::new(State::default());
        let read = |range: Range<u64>| {
            let mut state = reader.lock().unwrap();
            matches!(state.plan(&range, FILE, |_, _| (), |bytes| memory.reserve(bytes)), Plan::Windows(_))
        };
        assert!(steps(0, 4096, 10).all(read));
        let held = || memory.reserve(1 << 20).is_none();
        assert!(held());
        give_up(&reader, Duration::ZERO);
        assert!(!held());
        assert!(steps(10 * 4096, 4096, 10).all(read));
    }

    #[test]
    fn readers_hold_no_more_streams_than_there_is_memory_for_and_the_idle_give_theirs_up() {
        let memory = memory_of(2 * STREAM_BYTES);
        let readers: Vec<_> = (0..3).map(|_| Mutex::new(State::default())).collect();
        let goes_on = |reader: usize, step: u64| {
            let range = step * LARGE_READ_BYTES..(step + 1) * LARGE_READ_BYTES;
            let mut state = readers[reader].lock().unwrap();
            let plan = state.plan(&range, FILE, |_, link| link.goes_on, |bytes| memory.reserve(bytes));
            matches!(plan, Plan::Own(true))
        };
        let all = |step| (0..3).map(|reader| goes_on(reader, step)).collect::<Vec<_>>();
        assert_eq!(all(0), [false, false, false], "one read isn't a sequence");
        assert_eq!(all(1), [true, true, false]);
        give_up(&readers[0], Duration::ZERO);
        assert_eq!([2, 1, 0].map(|reader| goes_on(reader, 2)), [true, true, false]);
    }
}
