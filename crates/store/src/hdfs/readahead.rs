//! Reading ahead for callers that read in small pieces, one after the other.
//!
//! Such a reader gets *windows*: stretches of the file fetched whole, the next
//! one while the caller still reads this one. A caller that jumps about gets
//! exactly what it asks for, so it doesn't pay for bytes that nobody reads.

use super::source::Source;
use crate::error::{Error, Result};
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The first window of a run: little is lost if the run is short.
const FIRST_WINDOW_BYTES: u64 = 128 << 10;
/// Windows double up to this. Two of 1 MiB in flight reach the speed of a
/// stream (measured; docs/hdfs.md).
const LARGEST_WINDOW_BYTES: u64 = 1 << 20;
/// The window before (for callers slightly out of order), the current one, the
/// next one: at most 3 MiB a reader.
const MAX_WINDOWS: usize = 3;
/// A read that begins at most this far after the end of the one before is
/// still in sequence: several small reads may be in flight, in any order.
const MAX_GAP_BYTES: u64 = 256 << 10;
/// From this length on a read is its own window: the caller does the reading
/// ahead, by what it asks for.
pub(super) const LARGE_READ_BYTES: u64 = 1 << 20;
/// Smaller pieces are copied out: a slice would pin a whole window for as long
/// as its receiver keeps it.
const COPY_BELOW_BYTES: usize = 64 << 10;

/// Bytes on their way, for everyone who waits for them.
type Fetch = Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>;

/// The windows of one reader.
#[derive(Default)]
pub(super) struct ReadAhead {
    state: Mutex<State<Fetch>>,
}

impl ReadAhead {
    /// The bytes `range`, which lies within the file.
    pub async fn read(&self, source: &Arc<Source>, range: Range<u64>) -> Result<Bytes> {
        if range.end - range.start >= LARGE_READ_BYTES {
            return source.fetch(range).await;
        }
        let windows = self.lock().cover(&range, source.length(), |window| fetch(source, window));
        let Some(windows) = windows else { return source.fetch(range).await };
        let mut whole = BytesMut::new();
        for window in windows {
            let bytes = match window.data.await {
                Ok(bytes) => bytes,
                Err(error) => {
                    // Not for the next caller: it should try anew.
                    self.lock().windows.clear();
                    return Err(again(&error));
                }
            };
            let begin = range.start.max(window.range.start) - window.range.start;
            let end = range.end.min(window.range.end) - window.range.start;
            let piece = bytes.slice(begin as usize..end as usize);
            if piece.len() as u64 == range.end - range.start && piece.len() >= COPY_BELOW_BYTES {
                return Ok(piece);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State<Fetch>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts to fetch at once; the last one to lose interest stops it.
fn fetch(source: &Arc<Source>, range: Range<u64>) -> Fetch {
    let source = Arc::clone(source);
    let task = AbortOnDrop(tokio::spawn(async move { source.fetch(range).await }));
    async move {
        let mut task = task;
        match (&mut task.0).await {
            Ok(outcome) => outcome.map_err(Arc::new),
            Err(error) => Err(Arc::new(Error::new(crate::ErrorKind::Internal, error.to_string()))),
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

/// The same error for each of several callers.
fn again(error: &Arc<Error>) -> Error {
    Error::new(error.kind(), error.message().to_owned())
        .with_retry_safe(error.retry_safe())
        .caused_by(Arc::clone(error))
}

/// What to fetch, and when: free of I/O, for any kind of fetch `F`.
struct State<F> {
    /// Next to each other, in order.
    windows: VecDeque<Window<F>>,
    /// Where the run of small reads has come to.
    run_end: u64,
    /// Where the last read out of sequence ended: a read from there begins a
    /// new run.
    stray_end: Option<u64>,
    /// Length of the next window.
    window_length: u64,
}

#[derive(Clone)]
struct Window<F> {
    range: Range<u64>,
    data: F,
}

impl<F> Default for State<F> {
    fn default() -> Self {
        Self { windows: VecDeque::new(), run_end: 0, stray_end: None, window_length: FIRST_WINDOW_BYTES }
    }
}

impl<F: Clone> State<F> {
    /// The windows that hold `range`, those not there yet begun by `begin`;
    /// nothing where the read isn't in sequence.
    fn cover(
        &mut self,
        range: &Range<u64>,
        file_length: u64,
        begin: impl Fn(Range<u64>) -> F,
    ) -> Option<Vec<Window<F>>> {
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
            return None;
        }
        // The first read of a run may be the only one: no next window yet.
        let is_run = hit;
        self.run_end = self.run_end.max(range.end);

        self.extend_to(range.start, range.end, file_length, &begin);
        let windows = self
            .windows
            .iter()
            .filter(|window| window.range.start < range.end && range.start < window.range.end);
        let windows: Vec<_> = windows.cloned().collect();

        let in_last = self.windows.back().is_some_and(|window| window.range.start < range.end);
        if is_run && in_last {
            let end = self.windows.back().map_or(range.end, |window| window.range.end);
            self.extend_to(end, end.saturating_add(1), file_length, &begin);
        }
        while self.windows.len() > MAX_WINDOWS {
            self.windows.pop_front();
        }
        Some(windows)
    }

    /// Begins windows until there is one that holds the byte before `end`.
    fn extend_to(&mut self, start: u64, end: u64, file_length: u64, begin: &impl Fn(Range<u64>) -> F) {
        let mut from = self.windows.back().map_or(start, |window| window.range.end);
        while from < end.min(file_length) {
            let range = from..from.saturating_add(self.window_length).min(file_length);
            from = range.end;
            self.windows.push_back(Window { data: begin(range.clone()), range });
            self.window_length = (self.window_length * 2).min(LARGEST_WINDOW_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const FILE: u64 = 100 << 20;

    /// Reads `ranges` one after the other; answers what was fetched in
    /// windows, and how many reads weren't covered by any.
    fn trace(ranges: impl IntoIterator<Item = Range<u64>>) -> (Vec<Range<u64>>, usize) {
        let mut state = State::default();
        let fetched = RefCell::new(Vec::new());
        let mut direct = 0;
        for range in ranges {
            match state.cover(&range, FILE, |window| fetched.borrow_mut().push(window)) {
                None => direct += 1,
                Some(windows) => {
                    assert!(windows[0].range.start <= range.start, "{range:?}");
                    assert!(windows.last().unwrap().range.end >= range.end.min(FILE), "{range:?}");
                    assert!(windows.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
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
}
