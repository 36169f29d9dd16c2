//! Describes any number of regular writes by one entry.

use std::ops::Range;

/// Most bytes of a logical file: the same as for a POSIX file.
pub const MAX_LENGTH: u64 = i64::MAX as u64;

/// Equally long writes at equal distances: write `k` begins at `start + k * stride`. In the
/// writer's log, their bytes are contiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pattern {
    start: u64,
    length: u64,
    stride: u64,
    count: u64,
}

/// A part of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Offset in the logical file.
    pub logical: u64,
    /// Offset in the log, relative to the pattern's first byte there.
    pub physical: u64,
    /// Number of bytes, at least 1.
    pub length: u64,
}

impl Pattern {
    /// `None` if the writes are empty, overlap, or end beyond [`MAX_LENGTH`]. A single write has stride 0.
    pub fn new(start: u64, length: u64, stride: u64, count: u64) -> Option<Self> {
        let single = count == 1 && stride == 0;
        let apart = count > 1 && stride >= length;
        let end = (count.checked_sub(1)?).checked_mul(stride)?.checked_add(start)?.checked_add(length)?;
        let bytes = count.checked_mul(length)?;
        let valid = length > 0 && (single || apart) && end <= MAX_LENGTH && bytes <= MAX_LENGTH;
        valid.then_some(Self { start, length, stride, count })
    }

    /// One write; `None` if it is empty or ends beyond [`MAX_LENGTH`].
    pub fn single(start: u64, length: u64) -> Option<Self> {
        Self::new(start, length, 0, 1)
    }

    /// Offset of the first write.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Bytes of each write.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Distance from the start of one write to the start of the next.
    pub fn stride(&self) -> u64 {
        self.stride
    }

    /// Number of writes.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Offset where the last write ends.
    pub fn end(&self) -> u64 {
        self.start + (self.count - 1) * self.stride + self.length
    }

    /// Bytes of all writes together.
    pub fn bytes(&self) -> u64 {
        self.count * self.length
    }

    /// The parts of its writes that lie in `range`, in order.
    pub fn parts(&self, range: Range<u64>) -> impl Iterator<Item = Part> + use<> {
        let pattern = *self;
        let first = match range.start.checked_sub(self.start + self.length) {
            None => 0,
            Some(past) => past.checked_div(self.stride).map_or(self.count, |k| k + 1),
        };
        let behind = match range.end.checked_sub(self.start + 1) {
            None => 0,
            Some(_) if range.is_empty() => 0,
            Some(within) => within.checked_div(self.stride).map_or(1, |k| k + 1).min(self.count),
        };
        (first..behind).map(move |k| {
            let begin = pattern.start + k * pattern.stride;
            let logical = begin.max(range.start);
            let end = (begin + pattern.length).min(range.end);
            Part { logical, physical: k * pattern.length + (logical - begin), length: end - logical }
        })
    }

    /// This pattern with `next` added, if `next` is one write that continues the pattern.
    fn with(&self, next: &Self) -> Option<Self> {
        if next.count != 1 || next.length != self.length {
            return None;
        }
        let stride = match self.count {
            1 => next.start.checked_sub(self.start)?,
            _ => self.stride,
        };
        let continues = next.start == self.start + stride.checked_mul(self.count)?;
        if continues { Self::new(self.start, self.length, stride, self.count + 1) } else { None }
    }
}

/// A change of the logical file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The next bytes of the log were written at the pattern's offsets.
    Write(Pattern),
    /// The file gets this length. Bytes past it are removed; if the file gets longer, it ends with a hole.
    Truncate(u64),
}

/// Collects a writer's changes in order, and collapses writes into patterns.
///
/// Contiguous writes become one run, and equally long runs at equal distances become one pattern.
#[derive(Debug, Default)]
pub struct Recorder {
    changes: Vec<Change>,
    pattern: Option<Pattern>,
    run: Option<Pattern>,
}

impl Recorder {
    /// Records a write. In the log, its bytes follow those of the write before. If the write is empty or ends
    /// beyond [`MAX_LENGTH`], records nothing and returns false.
    pub fn write(&mut self, offset: u64, length: u64) -> bool {
        let Some(write) = Pattern::single(offset, length) else { return false };
        if let Some(run) = self.run
            && run.end() == offset
            && let Some(longer) = Pattern::single(run.start, run.length + length)
        {
            self.run = Some(longer);
            return true;
        }
        self.end_run();
        self.run = Some(write);
        true
    }

    /// Records a new length.
    pub fn truncate(&mut self, length: u64) {
        self.end_pattern();
        self.changes.push(Change::Truncate(length));
    }

    /// Number of entries since the last [`Recorder::take`].
    pub fn len(&self) -> usize {
        self.changes.len() + usize::from(self.pattern.is_some()) + usize::from(self.run.is_some())
    }

    /// Whether nothing was recorded since the last [`Recorder::take`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The changes since the last call.
    pub fn take(&mut self) -> Vec<Change> {
        self.end_pattern();
        std::mem::take(&mut self.changes)
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        self.pattern = match self.pattern.take() {
            None => Some(run),
            Some(pattern) => match pattern.with(&run) {
                Some(longer) => Some(longer),
                None => {
                    self.changes.push(Change::Write(pattern));
                    Some(run)
                }
            },
        };
    }

    fn end_pattern(&mut self) {
        self.end_run();
        self.changes.extend(self.pattern.take().map(Change::Write));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(writes: impl IntoIterator<Item = (u64, u64)>) -> Vec<Change> {
        let mut recorder = Recorder::default();
        for (offset, length) in writes {
            assert!(recorder.write(offset, length));
        }
        recorder.take()
    }

    fn pattern(start: u64, length: u64, stride: u64, count: u64) -> Change {
        Change::Write(Pattern::new(start, length, stride, count).unwrap())
    }

    #[test]
    fn a_sequence_of_writes_is_one_entry() {
        assert_eq!(recorded((0..1000).map(|k| (7 + k * 10, 10))), [pattern(7, 10_000, 0, 1)]);
    }

    #[test]
    fn strided_blocks_are_one_entry_also_if_each_takes_several_writes() {
        let blocks = (0..1000_u64).flat_map(|k| (0..4).map(move |part| (k * 64_000 + part * 250, 250)));
        assert_eq!(recorded(blocks), [pattern(0, 1000, 64_000, 1000)]);
    }

    #[test]
    fn a_pattern_ends_where_length_or_distance_differs() {
        let writes = [(0, 5), (10, 5), (20, 5), (30, 3), (50, 3), (4, 1)];
        assert_eq!(recorded(writes), [pattern(0, 5, 10, 3), pattern(30, 3, 20, 2), pattern(4, 1, 0, 1)]);
    }

    #[test]
    fn a_truncation_keeps_its_place_among_the_writes() {
        let mut recorder = Recorder::default();
        recorder.write(0, 5);
        recorder.truncate(3);
        recorder.write(5, 5);
        assert_eq!(recorder.take(), [pattern(0, 5, 0, 1), Change::Truncate(3), pattern(5, 5, 0, 1)]);
        assert!(recorder.is_empty());
    }

    #[test]
    fn writes_beyond_the_longest_file_are_refused() {
        let mut recorder = Recorder::default();
        assert!(!recorder.write(MAX_LENGTH, 1));
        assert!(!recorder.write(u64::MAX, u64::MAX));
        assert!(!recorder.write(0, 0));
        assert!(recorder.is_empty());
        assert!(Pattern::new(0, 1, 1 << 40, 1 << 40).is_none());
        assert!(Pattern::new(0, 8, 4, 2).is_none(), "its writes overlap");
    }

    #[test]
    fn parts_are_those_of_each_write_within_the_range() {
        let pattern = Pattern::new(10, 4, 10, 3).unwrap(); // 10..14, 20..24, 30..34
        let parts =
            |range| pattern.parts(range).map(|p: Part| (p.logical, p.physical, p.length)).collect::<Vec<_>>();
        assert_eq!(parts(0..100), [(10, 0, 4), (20, 4, 4), (30, 8, 4)]);
        assert_eq!(parts(12..21), [(12, 2, 2), (20, 4, 1)]);
        assert_eq!(parts(14..20), []);
        assert_eq!(parts(33..34), [(33, 11, 1)]);
        assert_eq!(parts(34..99), []);
        assert_eq!(parts(0..10), []);
        assert_eq!(parts(20..20), []);
        let single = Pattern::single(10, 4).unwrap();
        assert_eq!(single.parts(13..99).count(), 1);
        assert_eq!(single.parts(14..99).count(), 0);
    }
}
