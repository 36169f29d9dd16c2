//! A sorted index as bytes: pages of entries, and a directory of them.
//!
//! ```text
//! pages      extents by offset, then patterns by offset; each page ends with its CRC-32C
//! directory  what the table covers, its logs, its pages; CRC-32C
//! trailer    magic "PLFSMRGE" · version u16 · 0 u16 · directory's length u32 · CRC-32C of these
//! ```
//!
//! Only the directory is kept in memory: 40 bytes for a thousand entries. Numbers in pages and directory
//! are variable-length integers. An entry's numbers are relative to the entry before.

use crate::block::{ContainerId, MAX_EPOCH, Position, array, is_sealed, put, seal, take, u16_at, u32_at};
use crate::index::{Comb, Extent, Source};
use crate::layout::LogName;
use crate::pattern::{MAX_LENGTH, Pattern};
use bytes::Bytes;
use std::sync::Arc;
use strait_store::{Error, ErrorKind, FileReader, FileWriter, Result, append_all, fail};

const MAGIC: &[u8; 8] = b"PLFSMRGE";
const VERSION: u16 = 1;
const TRAILER_BYTES: usize = 20;
/// Most entries of a page. They take some 10 KB, which are cheap to read, and are decoded in some 10 µs.
const PAGE_ENTRIES: usize = 1024;
/// Most bytes of a page: each of an entry's eight numbers takes 10 bytes at most.
const MAX_PAGE_BYTES: u64 = (PAGE_ENTRIES * 80) as u64;
/// Most bytes of a directory: enough for a billion entries.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;

/// The largest valid `next_order` of a table. Newer changes count up from it, and can't overflow.
const MAX_ORDER: u64 = u64::MAX / 2;

/// The data of a table that concern the whole index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub container: ContainerId,
    /// The last epoch that the table covers. All blocks of later epochs are newer than its entries.
    pub through: u64,
    /// The file's length.
    pub length: u64,
    /// Entries of newer tables have this order or higher ones.
    pub next_order: u64,
    /// The logs, in the order of their numbers in entries, each with the position up to which the table
    /// covers it.
    pub logs: Vec<(LogName, Position)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    start: u64,
    /// Offset in the file past the last byte of its entries.
    end: u64,
    offset: u64,
    bytes: u64,
    entries: u64,
}

/// A table that can be read.
pub(crate) struct Table {
    pub meta: Meta,
    /// A newer truncation removed all bytes from this offset on.
    pub limit: u64,
    medium: Arc<dyn FileReader>,
    /// The table's path, for error messages.
    name: String,
    extents: Vec<Page>,
    combs: Vec<Page>,
}

/// A table that is being written. Extents come first, then combs, both by offset.
pub(crate) struct TableWriter {
    out: Box<dyn FileWriter>,
    at: u64,
    page: Vec<u8>,
    current: Option<Page>,
    /// The next entry's numbers are relative to these three of the entry before it. For an extent: its end in
    /// the logical file, its end in the log, its order. For a pattern: its start in the logical file, 0, its
    /// order. In a new page: the first entry's start, 0, 0.
    before: (u64, u64, u64),
    extents: Vec<Page>,
    combs: Vec<Page>,
    begun_combs: bool,
}

impl TableWriter {
    pub fn new(out: Box<dyn FileWriter>) -> Self {
        let (page, current, before) = (Vec::new(), None, (0, 0, 0));
        let (extents, combs) = (Vec::new(), Vec::new());
        Self { out, at: 0, page, current, before, extents, combs, begun_combs: false }
    }

    pub async fn extent(&mut self, start: u64, extent: &Extent) -> Result<()> {
        let end = start + extent.length;
        self.begin_entry(start, end);
        let page = &mut self.page;
        // Extents don't overlap.
        put(page, start - self.before.0);
        put(page, extent.length);
        put(page, u64::from(extent.source.log));
        put(page, zigzag(extent.source.offset, self.before.1));
        put(page, zigzag(extent.order, self.before.2));
        self.before = (end, extent.source.offset + extent.length, extent.order);
        self.end_entry().await
    }

    pub async fn comb(&mut self, comb: &Comb) -> Result<()> {
        if !self.begun_combs {
            self.end_page().await?;
            self.begun_combs = true;
        }
        let pattern = &comb.pattern;
        self.begin_entry(pattern.start(), pattern.end());
        let page = &mut self.page;
        put(page, pattern.start() - self.before.0);
        put(page, pattern.length());
        put(page, pattern.stride() - pattern.length());
        put(page, pattern.count());
        put(page, u64::from(comb.source.log));
        put(page, comb.source.offset);
        put(page, zigzag(comb.order, self.before.2));
        put(page, comb.limit.wrapping_add(1));
        self.before = (pattern.start(), 0, comb.order);
        self.end_entry().await
    }

    fn begin_entry(&mut self, start: u64, end: u64) {
        let page = self.current.get_or_insert_with(|| {
            self.before = (start, 0, 0);
            Page { start, end, offset: self.at, bytes: 0, entries: 0 }
        });
        page.end = page.end.max(end);
        page.entries += 1;
    }

    async fn end_entry(&mut self) -> Result<()> {
        match &self.current {
            Some(page) if page.entries >= PAGE_ENTRIES as u64 => self.end_page().await,
            _ => Ok(()),
        }
    }

    async fn end_page(&mut self) -> Result<()> {
        let Some(page) = self.current.take() else { return Ok(()) };
        seal(&mut self.page, 0);
        let bytes = std::mem::take(&mut self.page);
        let pages = if self.begun_combs { &mut self.combs } else { &mut self.extents };
        pages.push(Page { bytes: bytes.len() as u64, ..page });
        self.at += bytes.len() as u64;
        append_all(self.out.as_mut(), bytes.into()).await
    }

    /// Ends the table, and closes its file.
    pub async fn finish(mut self, meta: &Meta) -> Result<()> {
        self.end_page().await?;
        let mut directory = Vec::new();
        directory.extend_from_slice(&meta.container);
        for number in [meta.through, meta.length, meta.next_order, meta.logs.len() as u64] {
            put(&mut directory, number);
        }
        for (name, position) in &meta.logs {
            put(&mut directory, u64::from(name.rank));
            directory.extend_from_slice(&name.nonce.to_le_bytes());
            for number in [position.at, position.data_end, position.epoch, u64::from(position.closed)] {
                put(&mut directory, number);
            }
        }
        for pages in [&self.extents, &self.combs] {
            put(&mut directory, pages.len() as u64);
            let mut before = 0;
            for page in pages {
                // A page's patterns can end after the next page begins. So encode the distance of the starts.
                put(&mut directory, page.start - before);
                put(&mut directory, page.end - page.start);
                put(&mut directory, page.bytes);
                put(&mut directory, page.entries);
                before = page.start;
            }
        }
        seal(&mut directory, 0);
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend_from_slice(MAGIC);
        trailer.extend_from_slice(&VERSION.to_le_bytes());
        trailer.extend_from_slice(&[0; 2]);
        trailer.extend_from_slice(&(directory.len() as u32).to_le_bytes());
        seal(&mut trailer, 0);
        directory.extend_from_slice(&trailer);
        append_all(self.out.as_mut(), directory.into()).await?;
        self.out.close().await.map(drop)
    }
}

fn zigzag(number: u64, before: u64) -> u64 {
    let distance = number.wrapping_sub(before) as i64;
    ((distance << 1) ^ (distance >> 63)) as u64
}

fn take_zigzag(from: &mut &[u8], before: u64) -> Option<u64> {
    let zigzag = take(from)?;
    Some(before.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg()))
}

impl Table {
    /// Reads the directory of a table. `name` is for error messages.
    pub async fn open(medium: Arc<dyn FileReader>, name: String) -> Result<Self> {
        let length = medium.length();
        let trailer_at = length.checked_sub(TRAILER_BYTES as u64).ok_or_else(|| damaged(&name))?;
        let trailer = exactly(medium.as_ref(), trailer_at, TRAILER_BYTES as u64, &name).await?;
        if !is_sealed(&trailer) || &trailer[..8] != MAGIC {
            return Err(damaged(&name));
        }
        if u16_at(&trailer, 8) != VERSION {
            let message = format!("a later version of Strait wrote it (format {})", u16_at(&trailer, 8));
            return Err(Error::new(ErrorKind::Unsupported, message).at("read", &name));
        }
        let bytes = u64::from(u32_at(&trailer, 12));
        let at = trailer_at.checked_sub(bytes).filter(|_| bytes <= MAX_DIRECTORY_BYTES);
        let at = at.ok_or_else(|| damaged(&name))?;
        let directory = exactly(medium.as_ref(), at, bytes, &name).await?;
        if directory.len() < 4 || !is_sealed(&directory) {
            return Err(damaged(&name));
        }
        let parsed = parse_directory(&directory[..directory.len() - 4], at);
        let (meta, extents, combs) = parsed.ok_or_else(|| damaged(&name))?;
        Ok(Self { meta, limit: u64::MAX, medium, name, extents, combs })
    }

    /// Numbers of the pages with extents in `start..end`.
    pub fn extent_pages(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let end = end.min(self.limit);
        let first = self.extents.partition_point(|page| page.end <= start);
        let behind = self.extents.partition_point(|page| page.start < end);
        first..behind.max(first)
    }

    /// Numbers of the pages with patterns that may have bytes in `start..end`.
    pub fn comb_pages(&self, start: u64, end: u64) -> impl Iterator<Item = usize> {
        let end = end.min(self.limit);
        let behind = self.combs.partition_point(|page| page.start < end);
        (0..behind).filter(move |page| self.combs[*page].end > start)
    }

    pub fn comb_page_count(&self) -> usize {
        self.combs.len()
    }

    pub fn extent_page_count(&self) -> usize {
        self.extents.len()
    }

    /// The extents of a page, with their offsets.
    pub async fn extents(&self, page: usize) -> Result<Vec<(u64, Extent)>> {
        let (page, bytes) = self.page(self.extents[page]).await?;
        parse_extents(&bytes, page, self.meta.logs.len()).ok_or_else(|| damaged(&self.name))
    }

    /// The patterns of a page.
    pub async fn combs(&self, page: usize) -> Result<Vec<Comb>> {
        let (page, bytes) = self.page(self.combs[page]).await?;
        parse_combs(&bytes, page, self.meta.logs.len()).ok_or_else(|| damaged(&self.name))
    }

    async fn page(&self, page: Page) -> Result<(Page, Bytes)> {
        let bytes = exactly(self.medium.as_ref(), page.offset, page.bytes, &self.name).await?;
        match is_sealed(&bytes) {
            true => Ok((page, bytes.slice(..bytes.len() - 4))),
            false => Err(damaged(&self.name)),
        }
    }
}

/// For fuzzing: decodes a whole merged index without comparing checksums. Returns the number of entries;
/// `None` if the index is damaged.
#[doc(hidden)]
pub fn decode_all(bytes: &[u8]) -> Option<usize> {
    let trailer_at = bytes.len().checked_sub(TRAILER_BYTES)?;
    let directory_bytes = u32_at(&bytes[trailer_at..], 12) as usize;
    let at = trailer_at.checked_sub(directory_bytes)?;
    let directory = &bytes[at..trailer_at];
    let (meta, extents, combs) =
        parse_directory(directory.get(..directory.len().checked_sub(4)?)?, at as u64)?;
    let mut entries = 0;
    let page = |page: &Page| bytes.get(page.offset as usize..(page.offset + page.bytes) as usize - 4);
    for of in &extents {
        entries += parse_extents(page(of)?, *of, meta.logs.len())?.len();
    }
    for of in &combs {
        entries += parse_combs(page(of)?, *of, meta.logs.len())?.len();
    }
    Some(entries)
}

fn damaged(name: &str) -> Error {
    let message = "the merged index is damaged; strait ckpt recover makes a new one";
    Error::new(ErrorKind::Corrupt, message).at("read", name)
}

/// Reads `length` bytes, in several reads if they are many.
async fn exactly(medium: &dyn FileReader, at: u64, length: u64, name: &str) -> Result<Bytes> {
    let chunk = strait_store::MAX_CHUNK_BYTES as u64;
    if length <= chunk {
        let bytes = medium.read_at(at, length as usize).await?;
        return if bytes.len() as u64 == length { Ok(bytes) } else { Err(damaged(name)) };
    }
    let mut all = Vec::new();
    while (all.len() as u64) < length {
        let wanted = (length - all.len() as u64).min(chunk);
        let bytes = medium.read_at(at + all.len() as u64, wanted as usize).await?;
        if bytes.is_empty() {
            return fail(ErrorKind::Corrupt, "the merged index is incomplete")
                .map_err(|error: Error| error.at("read", name));
        }
        all.extend_from_slice(&bytes);
    }
    Ok(all.into())
}

/// `pages_end`: offset where the pages end and the directory begins.
fn parse_directory(mut from: &[u8], pages_end: u64) -> Option<(Meta, Vec<Page>, Vec<Page>)> {
    let from = &mut from;
    let container = array(from.get(..16)?, 0);
    *from = &from[16..];
    let (through, length, next_order) = (take(from)?, take(from)?, take(from)?);
    let count = take(from)?;
    let mut logs = Vec::new();
    for _ in 0..count {
        let rank = u32::try_from(take(from)?).ok()?;
        let nonce = u64::from_le_bytes(array(from.get(..8)?, 0));
        *from = &from[8..];
        let (at, data_end, epoch, closed) = (take(from)?, take(from)?, take(from)?, take(from)? != 0);
        logs.push((LogName { rank, nonce }, Position { at, data_end, epoch, closed }));
    }
    let mut offset = 0_u64;
    let mut sections = [Vec::new(), Vec::new()];
    for pages in &mut sections {
        let mut before = 0_u64;
        for _ in 0..take(from)? {
            let start = before.checked_add(take(from)?)?;
            let end = start.checked_add(take(from)?).filter(|end| *end <= MAX_LENGTH)?;
            let (bytes, entries) = (take(from)?, take(from)?);
            let sane =
                (5..=MAX_PAGE_BYTES + 4).contains(&bytes) && (1..=PAGE_ENTRIES as u64).contains(&entries);
            pages.push(Page { start, end, offset, bytes, entries });
            offset = offset.checked_add(bytes).filter(|end| sane && *end <= pages_end)?;
            before = start;
        }
    }
    let [extents, combs] = sections;
    let apart = extents.windows(2).all(|two| two[0].end <= two[1].start);
    let meta = Meta { container, through, length, next_order, logs };
    let counted = through <= MAX_EPOCH && next_order <= MAX_ORDER;
    (from.is_empty() && apart && counted && length <= MAX_LENGTH).then_some((meta, extents, combs))
}

fn parse_extents(mut from: &[u8], page: Page, logs: usize) -> Option<Vec<(u64, Extent)>> {
    let from = &mut from;
    let mut entries = Vec::with_capacity(page.entries as usize);
    let mut before = (page.start, 0, 0);
    for _ in 0..page.entries {
        let start = before.0.checked_add(take(from)?)?;
        let length = take(from)?;
        let log = u32::try_from(take(from)?).ok().filter(|log| (*log as usize) < logs)?;
        let offset = take_zigzag(from, before.1)?;
        let order = take_zigzag(from, before.2)?;
        let end = start.checked_add(length).filter(|end| *end <= page.end && length > 0)?;
        let source_end = offset.checked_add(length).filter(|end| *end <= MAX_LENGTH)?;
        before = (end, source_end, order);
        entries.push((start, Extent { length, source: Source { log, offset }, order }));
    }
    from.is_empty().then_some(entries)
}

fn parse_combs(mut from: &[u8], page: Page, logs: usize) -> Option<Vec<Comb>> {
    let from = &mut from;
    let mut entries = Vec::with_capacity(page.entries as usize);
    let mut before = (page.start, 0);
    for _ in 0..page.entries {
        let start = before.0.checked_add(take(from)?)?;
        let length = take(from)?;
        let stride = take(from)?.checked_add(length)?;
        let count = take(from)?;
        let stride = if count == 1 { 0 } else { stride };
        let pattern = Pattern::new(start, length, stride, count).filter(|of| of.end() <= page.end)?;
        let log = u32::try_from(take(from)?).ok().filter(|log| (*log as usize) < logs)?;
        let offset = take(from)?;
        offset.checked_add(pattern.bytes()).filter(|end| *end <= MAX_LENGTH)?;
        let order = take_zigzag(from, before.1)?;
        let limit = take(from)?.wrapping_sub(1);
        before = (start, order);
        entries.push(Comb { pattern, source: Source { log, offset }, order, limit });
    }
    from.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_whose_counters_would_overflow_is_damaged() {
        let directory = |through: u64, next_order: u64| {
            let mut bytes = vec![7; 16];
            // The file's length, then neither logs nor pages.
            [through, 0, next_order, 0, 0, 0].into_iter().for_each(|number| put(&mut bytes, number));
            parse_directory(&bytes, 0)
        };
        assert!(directory(1, 1).is_some());
        assert!(directory(1, u64::MAX).is_none());
        assert!(directory(u64::MAX, 1).is_none());
    }
}
