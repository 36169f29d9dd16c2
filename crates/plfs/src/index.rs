//! The merged index: it maps each byte of the logical file to a place in a log.

use crate::pattern::{Change, Pattern};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// A pattern of fewer writes than this is kept as extents.
const FEW: u64 = 4;

/// A place in a data log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// Number of the log, as given to [`Index::apply`].
    pub log: u32,
    /// Offset in the log.
    pub offset: u64,
}

/// A range of the logical file that is contiguous in one log, or is a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The range's offsets in the file.
    pub logical: Range<u64>,
    /// The place of its first byte; `None` for a hole, which reads as zeros.
    pub source: Option<Source>,
}

/// The file after the changes of all writers, applied in their order.
///
/// Single writes are extents, which never overlap. Patterns stay whole, and can overlap extents and each
/// other: there [`Index::pieces`] returns the latest.
#[derive(Debug)]
pub struct Index {
    extents: BTreeMap<u64, Extent>,
    combs: Vec<Comb>,
    /// Each pattern's place in `combs`. If the same pattern is written again, it replaces the earlier one.
    places: HashMap<Pattern, usize>,
    length: u64,
    /// Changes applied so far.
    order: u64,
    /// Order of the last change that was kept as a pattern.
    last_comb: u64,
    first_order: u64,
    /// The shortest length to which a truncation cut the file.
    lowest_cut: u64,
}

impl Default for Index {
    fn default() -> Self {
        Self::above(0, 0)
    }
}

/// A single write, or a part of it that later writes left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub length: u64,
    pub source: Source,
    pub order: u64,
}

/// A pattern of many writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comb {
    pub pattern: Pattern,
    pub source: Source,
    pub order: u64,
    /// A truncation removed the pattern's bytes from this offset on.
    pub limit: u64,
}

impl Index {
    /// An empty index for changes that are newer than others. The others left the file `length` bytes long,
    /// and their orders are at most `order`.
    pub(crate) fn above(length: u64, order: u64) -> Self {
        Self {
            extents: BTreeMap::new(),
            combs: Vec::new(),
            places: HashMap::new(),
            length,
            order,
            last_comb: 0,
            first_order: order + 1,
            lowest_cut: u64::MAX,
        }
    }

    /// The order of the first change. [`Self::next_order`] is one above that of the last change.
    pub(crate) fn first_order(&self) -> u64 {
        self.first_order
    }

    pub(crate) fn next_order(&self) -> u64 {
        self.order + 1
    }

    /// The shortest length to which a truncation cut the file. Bytes of older indexes past it are gone.
    pub(crate) fn lowest_cut(&self) -> u64 {
        self.lowest_cut
    }

    /// The extents by offset.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, &Extent)> {
        self.extents.iter().map(|(start, extent)| (*start, extent))
    }

    /// The patterns, in no particular order.
    pub(crate) fn combs(&self) -> impl Iterator<Item = &Comb> {
        self.combs.iter()
    }

    /// Applies a change after all others. The bytes of a write begin at `source`.
    pub fn apply(&mut self, change: &Change, source: Source) {
        self.order += 1;
        match change {
            Change::Truncate(length) => self.truncate(*length),
            Change::Write(pattern) => {
                self.length = self.length.max(pattern.end());
                if pattern.count() < FEW {
                    for part in pattern.parts(pattern.start()..pattern.end()) {
                        let offset = source.offset + part.physical;
                        self.insert(part.logical, part.length, Source { offset, ..source });
                    }
                } else {
                    self.insert_comb(*pattern, source);
                }
            }
        }
    }

    /// The file's length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Number of extents and patterns. The memory is proportional to it.
    pub fn entries(&self) -> usize {
        self.extents.len() + self.combs.len()
    }

    /// Where the bytes of `range` are, in order and without gaps. Nothing past the end of the file.
    pub fn pieces(&self, range: Range<u64>) -> Vec<Piece> {
        let range = range.start..range.end.min(self.length);
        if range.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (start, extent) in self.extents_in(range.clone()) {
            let logical = start.max(range.start)..(start + extent.length).min(range.end);
            let offset = extent.source.offset + (logical.start - start);
            found.push((extent.order, logical, Source { offset, ..extent.source }));
        }
        let mut layered = false;
        for comb in &self.combs {
            let visible = range.start..range.end.min(comb.limit);
            if visible.start < comb.pattern.end() && comb.pattern.start() < visible.end {
                layered = true;
                found.extend(comb.pattern.parts(visible).map(|part| {
                    let offset = comb.source.offset + part.physical;
                    let logical = part.logical..part.logical + part.length;
                    (comb.order, logical, Source { offset, ..comb.source })
                }));
            }
        }
        let found = if layered { latest(found) } else { found.into_iter().map(|(_, l, s)| (l, s)).collect() };
        with_holes(found, range)
    }

    fn extents_in(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Extent)> {
        let before = self.extents.range(..range.start).next_back();
        let before = before.filter(|(start, extent)| **start + extent.length > range.start);
        before.into_iter().chain(self.extents.range(range)).map(|(start, extent)| (*start, *extent))
    }

    fn insert(&mut self, start: u64, length: u64, source: Source) {
        self.cut(start..start + length);
        // It may continue the extent before it, both in the file and in the log.
        if let Some((before, extent)) = self.extents.range_mut(..start).next_back()
            && *before + extent.length == start
            && extent.source.log == source.log
            && extent.source.offset + extent.length == source.offset
            && self.last_comb < extent.order
        // otherwise the new bytes would count as older than that pattern
        {
            extent.length += length;
            return;
        }
        self.extents.insert(start, Extent { length, source, order: self.order });
    }

    /// Removes the extents' bytes within `range`.
    fn cut(&mut self, range: Range<u64>) {
        if let Some((start, extent)) = self.extents.range_mut(..range.start).next_back() {
            let end = *start + extent.length;
            if end > range.start {
                let (start, whole) = (*start, *extent);
                extent.length = range.start - start;
                if end > range.end {
                    self.keep_behind(range.end, start, whole);
                }
            }
        }
        while let Some((start, extent)) = self.extents.range(range.clone()).next() {
            let (start, extent) = (*start, *extent);
            self.extents.remove(&start);
            if start + extent.length > range.end {
                self.keep_behind(range.end, start, extent);
            }
        }
    }

    /// Keeps the bytes of an extent from `at` on.
    fn keep_behind(&mut self, at: u64, start: u64, extent: Extent) {
        let source = Source { offset: extent.source.offset + (at - start), ..extent.source };
        let length = start + extent.length - at;
        self.extents.insert(at, Extent { length, source, ..extent });
    }

    fn insert_comb(&mut self, pattern: Pattern, source: Source) {
        self.last_comb = self.order;
        let comb = Comb { pattern, source, order: self.order, limit: u64::MAX };
        match self.places.get(&pattern) {
            Some(place) => self.combs[*place] = comb,
            None => {
                self.places.insert(pattern, self.combs.len());
                self.combs.push(comb);
            }
        }
    }

    fn truncate(&mut self, length: u64) {
        self.length = length;
        self.lowest_cut = self.lowest_cut.min(length);
        self.cut(length..u64::MAX);
        for comb in &mut self.combs {
            comb.limit = comb.limit.min(length);
        }
        self.combs.retain(|comb| comb.pattern.start() < comb.limit);
        self.places = self.combs.iter().enumerate().map(|(place, comb)| (comb.pattern, place)).collect();
    }
}

/// Resolves overlaps: for each byte, the piece with the highest order remains. Sorted by logical offset.
pub(crate) fn latest(mut found: Vec<(u64, Range<u64>, Source)>) -> Vec<(Range<u64>, Source)> {
    found.sort_unstable_by_key(|(order, logical, _)| (*order, logical.start));
    let mut painted: BTreeMap<u64, (u64, Source)> = BTreeMap::new();
    // The latest first; earlier ones fill the gaps between.
    for (_, logical, source) in found.into_iter().rev() {
        let mut at = logical.start;
        if let Some((start, (length, _))) = painted.range(..=at).next_back() {
            at = at.max(start + length);
        }
        while at < logical.end {
            let next = painted.range(at..logical.end).next().map(|(start, (length, _))| (*start, *length));
            let (end, behind) =
                next.map_or((logical.end, logical.end), |(start, length)| (start, start + length));
            if at < end {
                let offset = source.offset + (at - logical.start);
                painted.insert(at, (end - at, Source { offset, ..source }));
            }
            at = behind;
        }
    }
    painted.into_iter().map(|(start, (length, source))| (start..start + length, source)).collect()
}

/// Joins pieces that are adjacent both in the file and in one log, and adds the holes between pieces.
pub(crate) fn with_holes(found: Vec<(Range<u64>, Source)>, range: Range<u64>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::with_capacity(found.len());
    let mut at = range.start;
    for (logical, source) in found {
        if at < logical.start {
            pieces.push(Piece { logical: at..logical.start, source: None });
        }
        at = logical.end;
        if let Some(last) = pieces.last_mut()
            && let Some(before) = last.source
            && before.log == source.log
            && last.logical.end == logical.start
            && before.offset + (last.logical.end - last.logical.start) == source.offset
        {
            last.logical.end = logical.end;
            continue;
        }
        pieces.push(Piece { logical, source: Some(source) });
    }
    if at < range.end {
        pieces.push(Piece { logical: at..range.end, source: None });
    }
    pieces
}
