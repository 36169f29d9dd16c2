//! The merged index of a container, in layers of tables.
//!
//! ```text
//!   pieces(range)  ── the latest wins ──┬── tables of newer blocks
//!                                       └── the latest table that is stored in the container
//! ```
//!
//! Each table consists of pages of entries and a directory of these pages (see `table.rs`). A view keeps all
//! directories in memory, and some pages that it has read. It applies newer blocks to an index in memory.
//! When that index is large, the view makes another table of it.

use crate::block::Position;
use crate::container::{Container, LIMITS, Limits};
use crate::index::{Comb, Extent, Index, Piece, Source, latest, with_holes};
use crate::layout::LogName;
use crate::logs::Blocks;
use crate::pattern::Change;
use crate::scratch::Scratch;
use crate::table::{Meta, Table, TableWriter};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{FileWriter, Result};

/// Most decoded pages in the cache: some 10 MB.
const MOST_PAGES: usize = 256;

/// The index of the bytes that were published when it was opened.
pub(crate) struct View {
    /// The oldest first.
    tables: Vec<Table>,
    pub meta: Meta,
    /// Number of index logs that the stored table doesn't cover completely, and of their bytes past it.
    pub unmerged: (usize, u64),
    cache: Mutex<Cache>,
}

/// A table and a page of it, by their numbers.
type PageId = (usize, usize);
type ExtentPage = Vec<(u64, Extent)>;

#[derive(Default)]
struct Cache {
    extents: HashMap<PageId, Arc<ExtentPage>>,
    combs: HashMap<PageId, Arc<Vec<Comb>>>,
}

/// An index log's name, and its length in a listing.
pub(crate) type Listed = (LogName, u64);

impl View {
    /// Builds the index of these logs. `base` is a stored merged index. Returns `None` if `base` doesn't fit
    /// the logs.
    pub async fn open(container: &Container, logs: &[Listed], base: Option<Table>) -> Result<Option<Self>> {
        let mut meta = match &base {
            Some(base) => base.meta.clone(),
            None => {
                let (container, logs) = (container.id, Vec::new());
                Meta { container, through: 0, length: 0, next_order: 0, logs }
            }
        };
        let known: HashMap<LogName, usize> =
            meta.logs.iter().enumerate().map(|(at, (name, _))| (*name, at)).collect();
        let mut found = vec![false; meta.logs.len()];
        let (mut numbers, mut unread, mut unmerged) = (Vec::new(), Vec::new(), (0, 0));
        for (name, length) in logs {
            let number = known.get(name).copied().unwrap_or_else(|| {
                meta.logs.push((*name, Position::default()));
                meta.logs.len() - 1
            });
            if let Some(found) = found.get_mut(number) {
                *found = true;
            }
            let from = meta.logs[number].1;
            if *length < from.at && from.closed {
                return Ok(None);
            }
            if !(from.closed && *length == from.at) {
                unmerged = (unmerged.0 + 1, unmerged.1 + length.saturating_sub(from.at));
                numbers.push(number as u32);
                unread.push((*name, from));
            }
        }
        if base.is_some() && found.contains(&false) {
            return Ok(None);
        }
        let (covered, has_base) = (meta.through, base.is_some());
        let mut building = Building {
            limits: container.limits,
            tables: Vec::from_iter(base),
            index: Index::default(),
            meta,
        };
        building.begin();
        let mut blocks = Blocks::open(container, unread).await?;
        while let Some((at, block)) = blocks.next().await? {
            if has_base && block.epoch <= covered {
                return Ok(None);
            }
            building.meta.through = building.meta.through.max(block.epoch);
            building.apply(numbers[at], block.data_begin, &block.changes).await?;
        }
        for (number, log) in numbers.iter().zip(blocks.logs()) {
            building.meta.logs[*number as usize].1 = log.position();
        }
        building.freeze().await?;
        let Building { tables, meta, .. } = building;
        Ok(Some(Self { tables, meta, unmerged, cache: Mutex::default() }))
    }

    /// The file's length in bytes.
    pub fn length(&self) -> u64 {
        self.meta.length
    }

    /// Where the bytes of `range` are, in order and without gaps. Nothing past the end of the file.
    pub async fn pieces(&self, range: Range<u64>) -> Result<Vec<Piece>> {
        let range = range.start..range.end.min(self.length());
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let (mut found, mut sources, mut layered) = (Vec::new(), 0, false);
        for (at, table) in self.tables.iter().enumerate() {
            let visible = range.start..range.end.min(table.limit);
            let before = found.len();
            for page in table.extent_pages(visible.start, visible.end) {
                let extents = self.extents(at, page).await?;
                let first = extents.partition_point(|(start, of)| start + of.length <= visible.start);
                for (start, extent) in &extents[first..] {
                    if *start >= visible.end {
                        break;
                    }
                    let logical = (*start).max(visible.start)..(start + extent.length).min(visible.end);
                    let offset = extent.source.offset + (logical.start - start);
                    found.push((extent.order, logical, Source { offset, ..extent.source }));
                }
            }
            sources += usize::from(found.len() > before);
            for page in table.comb_pages(visible.start, visible.end) {
                for comb in self.combs(at, page).await?.iter() {
                    let visible = visible.start..visible.end.min(comb.limit);
                    found.extend(comb.pattern.parts(visible).map(|part| {
                        layered = true;
                        let offset = comb.source.offset + part.physical;
                        let logical = part.logical..part.logical + part.length;
                        (comb.order, logical, Source { offset, ..comb.source })
                    }));
                }
            }
        }
        let found = match layered || sources > 1 {
            true => latest(found),
            false => found.into_iter().map(|(_, logical, source)| (logical, source)).collect(),
        };
        Ok(with_holes(found, range))
    }

    async fn extents(&self, table: usize, page: usize) -> Result<Arc<ExtentPage>> {
        let cached = |cache: &mut Cache| cache.extents.get(&(table, page)).cloned();
        if let Some(known) = self.cached(cached) {
            return Ok(known);
        }
        let read = Arc::new(self.tables[table].extents(page).await?);
        self.cached(|cache| cache.extents.insert((table, page), read.clone()));
        Ok(read)
    }

    async fn combs(&self, table: usize, page: usize) -> Result<Arc<Vec<Comb>>> {
        let cached = |cache: &mut Cache| cache.combs.get(&(table, page)).cloned();
        if let Some(known) = self.cached(cached) {
            return Ok(known);
        }
        let read = Arc::new(self.tables[table].combs(page).await?);
        self.cached(|cache| cache.combs.insert((table, page), read.clone()));
        Ok(read)
    }

    fn cached<T>(&self, with: impl FnOnce(&mut Cache) -> T) -> T {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.extents.len() + cache.combs.len() >= MOST_PAGES {
            *cache = Cache::default();
        }
        with(&mut cache)
    }

    /// Writes all of it as one table.
    pub async fn write(&self, out: Box<dyn FileWriter>) -> Result<()> {
        join(&self.tables, &self.meta, out).await
    }
}

/// A view whose blocks are being applied.
pub(crate) struct Building {
    limits: Limits,
    tables: Vec<Table>,
    index: Index,
    meta: Meta,
}

impl Building {
    /// An empty view, for the index of logs that aren't in a container of Strait.
    pub fn empty() -> Self {
        let meta = Meta { container: [0; 16], through: 0, length: 0, next_order: 0, logs: Vec::new() };
        let mut building = Self { limits: LIMITS, tables: Vec::new(), index: Index::default(), meta };
        building.begin();
        building
    }

    /// Adds a log, and returns its number.
    pub fn add_log(&mut self, name: LogName) -> u32 {
        self.meta.logs.push((name, Position::default()));
        (self.meta.logs.len() - 1) as u32
    }

    pub async fn finish(mut self) -> Result<View> {
        self.freeze().await?;
        Ok(View { tables: self.tables, meta: self.meta, unmerged: (0, 0), cache: Mutex::default() })
    }

    /// Begins another table above the others.
    fn begin(&mut self) {
        self.index = Index::above(self.meta.length, self.meta.next_order);
    }

    pub async fn apply(&mut self, log: u32, mut offset: u64, changes: &[Change]) -> Result<()> {
        for change in changes {
            self.index.apply(change, Source { log, offset });
            if let Change::Write(pattern) = change {
                offset += pattern.bytes();
            }
        }
        if self.index.entries() < self.limits.entries { Ok(()) } else { self.freeze().await }
    }

    /// Makes a table of the entries in memory.
    async fn freeze(&mut self) -> Result<()> {
        let index = std::mem::take(&mut self.index);
        (self.meta.length, self.meta.next_order) = (index.length(), index.next_order());
        for below in &mut self.tables {
            below.limit = below.limit.min(index.lowest_cut());
        }
        if index.entries() > 0 {
            let scratch = Scratch::default();
            let mut table = TableWriter::new(Box::new(scratch.clone()));
            let ordered = index.combs().next().is_some();
            let base = index.first_order();
            for (start, extent) in index.extents() {
                let order = if ordered { extent.order } else { base };
                table.extent(start, &Extent { order, ..*extent }).await?;
            }
            let mut combs: Vec<&Comb> = index.combs().collect();
            combs.sort_unstable_by_key(|comb| key(comb));
            for comb in combs {
                table.comb(comb).await?;
            }
            self.add(table, scratch).await?;
        }
        if self.tables.len() > self.limits.tables {
            let scratch = Scratch::default();
            join(&self.tables, &self.meta, Box::new(scratch.clone())).await?;
            self.tables = vec![Table::open(Arc::new(scratch), String::new()).await?];
        }
        self.begin();
        Ok(())
    }

    async fn add(&mut self, table: TableWriter, scratch: Scratch) -> Result<()> {
        table.finish(&self.meta).await?;
        self.tables.push(Table::open(Arc::new(scratch), String::new()).await?);
        Ok(())
    }
}

/// The order of patterns in a table.
fn key(comb: &Comb) -> (u64, u64, u64, u64, u64) {
    let pattern = &comb.pattern;
    (pattern.start(), pattern.length(), pattern.stride(), pattern.count(), comb.order)
}

/// Writes several tables, the oldest first, as one.
async fn join(tables: &[Table], meta: &Meta, out: Box<dyn FileWriter>) -> Result<()> {
    let mut table = TableWriter::new(out);
    let ordered = tables.iter().any(|table| table.comb_page_count() > 0);
    let mut cursors: Vec<Extents> = tables.iter().map(Extents::new).collect();
    for cursor in &mut cursors {
        cursor.advance().await?;
    }
    while let Some((mut start, extent, at)) = first(&cursors) {
        // The extent is visible up to the begin of a newer one.
        let newer = cursors[at + 1..].iter().filter_map(|cursor| Some(cursor.current?.0));
        let end = newer.fold(start + extent.length, u64::min);
        if end > start {
            let order = if ordered { extent.order } else { 0 };
            table.extent(start, &Extent { length: end - start, order, ..extent }).await?;
            start = end;
        }
        for cursor in &mut cursors[..=at] {
            cursor.skip_to(start).await?;
        }
    }
    let mut cursors: Vec<Combs> = tables.iter().map(Combs::new).collect();
    for cursor in &mut cursors {
        cursor.advance().await?;
    }
    let mut last: Option<Comb> = None;
    loop {
        let next = cursors.iter().enumerate().filter_map(|(at, cursor)| Some((key(&cursor.current?), at)));
        let Some((_, at)) = next.min() else { break };
        let comb = cursors[at].current;
        cursors[at].advance().await?;
        // If the same pattern was written several times, only the latest is kept.
        if let (Some(before), Some(comb)) = (&last, &comb)
            && before.pattern != comb.pattern
        {
            table.comb(before).await?;
        }
        last = comb;
    }
    if let Some(comb) = &last {
        table.comb(comb).await?;
    }
    table.finish(meta).await
}

/// The extent that begins first; of several, the newest.
fn first(cursors: &[Extents<'_>]) -> Option<(u64, Extent, usize)> {
    let all = cursors.iter().enumerate().filter_map(|(at, cursor)| {
        let (start, extent) = cursor.current?;
        Some((start, extent, at))
    });
    all.min_by_key(|(start, _, at)| (*start, std::cmp::Reverse(*at)))
}

/// The extents of a table, in order.
struct Extents<'t> {
    table: &'t Table,
    page: usize,
    entries: std::vec::IntoIter<(u64, Extent)>,
    current: Option<(u64, Extent)>,
}

impl<'t> Extents<'t> {
    fn new(table: &'t Table) -> Self {
        Self { table, page: 0, entries: Vec::new().into_iter(), current: None }
    }

    async fn advance(&mut self) -> Result<()> {
        self.current = None;
        while self.current.is_none() {
            if let Some((start, extent)) = self.entries.next() {
                let length = extent.length.min(self.table.limit.saturating_sub(start));
                if length > 0 {
                    self.current = Some((start, Extent { length, ..extent }));
                }
            } else if self.page < self.table.extent_page_count() {
                self.entries = self.table.extents(self.page).await?.into_iter();
                self.page += 1;
            } else {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Drops the bytes before an offset.
    async fn skip_to(&mut self, offset: u64) -> Result<()> {
        while let Some((start, extent)) = &mut self.current
            && *start < offset
        {
            let gone = (offset - *start).min(extent.length);
            if gone < extent.length {
                (*start, extent.length) = (offset, extent.length - gone);
                extent.source.offset += gone;
                return Ok(());
            }
            self.advance().await?;
        }
        Ok(())
    }
}

/// The patterns of a table, in order.
struct Combs<'t> {
    table: &'t Table,
    page: usize,
    entries: std::vec::IntoIter<Comb>,
    current: Option<Comb>,
}

impl<'t> Combs<'t> {
    fn new(table: &'t Table) -> Self {
        Self { table, page: 0, entries: Vec::new().into_iter(), current: None }
    }

    async fn advance(&mut self) -> Result<()> {
        self.current = None;
        while self.current.is_none() {
            if let Some(comb) = self.entries.next() {
                let limit = comb.limit.min(self.table.limit);
                self.current = (comb.pattern.start() < limit).then_some(Comb { limit, ..comb });
            } else if self.page < self.table.comb_page_count() {
                self.entries = self.table.combs(self.page).await?.into_iter();
                self.page += 1;
            } else {
                return Ok(());
            }
        }
        Ok(())
    }
}
