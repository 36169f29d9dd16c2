//! Reading a logical file.

use crate::ahead::Ahead;
use crate::container::Container;
use crate::index::{Piece, Source};
use crate::layout::LogName;
use crate::plan::Opened;
use crate::view::View;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use std::sync::Arc;
use strait_store::budget::Pool;
use strait_store::{Error, ErrorKind, MAX_CHUNK_BYTES, Result, arguments, fail};
use tokio::sync::Mutex;

/// Most concurrent reads of logs for one read of the file.
const AT_ONCE: usize = 8;
/// Attempts to open a log for one read: while the logs are being joined, its bytes can move twice.
const ATTEMPTS: u32 = 3;
/// If at most this many bytes separate two pieces of a log, one read fetches both with the bytes between. A
/// second read would cost more.
const GAP: u64 = 64 << 10;

/// A reader of the bytes synced before it was opened. Any number of callers can use it at once. It reads
/// ahead for callers that read sequentially.
pub struct Reader {
    logs: Arc<Logs>,
    ahead: Ahead,
}

/// The data logs, and the view that maps the file to them.
struct Logs {
    container: Container,
    view: View,
    logs: Vec<Log>,
}

/// Contiguous bytes of the file from one writer, or a hole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Offsets in the file.
    pub range: Range<u64>,
    /// The writer; `None` for a hole.
    pub writer: Option<LogName>,
}

struct Log {
    name: LogName,
    opened: Mutex<Option<Arc<Opened>>>,
}

impl Log {
    /// The open log. If it is `but`, from which a read failed, opens the log again: its bytes may have moved.
    async fn opened(&self, container: &Container, but: Option<&Arc<Opened>>) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().await;
        if let Some(known) = &*opened
            && but.is_none_or(|but| !Arc::ptr_eq(known, but))
        {
            return Ok(known.clone());
        }
        if let (Some(parts), Some(_)) = (&container.parts, but) {
            parts.forget(&container.layout.data(self.name)?);
        }
        let found = Arc::new(container.open_data(self.name).await?);
        found.reader.stop_reading_ahead();
        *opened = Some(found.clone());
        Ok(found)
    }
}

/// A range of a log, and the pieces of the file in it.
struct Fetch {
    log: u32,
    bytes: Range<u64>,
    pieces: Vec<(Range<u64>, u64)>,
}

impl Reader {
    pub(crate) fn new(container: Container, view: View) -> Self {
        let logs = view.meta.logs.iter().map(|(name, _)| Log { name: *name, opened: Mutex::new(None) });
        let ahead = Ahead::new(Pool::of_process().share(&container.who.user));
        Self { logs: Arc::new(Logs { logs: logs.collect(), container, view }), ahead }
    }

    /// The file's length in bytes.
    pub fn length(&self) -> u64 {
        self.logs.view.length()
    }

    /// The writers whose logs this reader reads, in the order of their numbers in pieces.
    pub fn writers(&self) -> Vec<LogName> {
        self.logs.logs.iter().map(|log| log.name).collect()
    }

    pub(crate) async fn pieces(&self, range: Range<u64>) -> Result<Vec<Piece>> {
        self.logs.view.pieces(range).await
    }

    /// The rank of a log by its number, for messages.
    pub(crate) fn rank(&self, log: u32) -> u32 {
        self.logs.logs.get(log as usize).map_or(0, |log| log.name.rank)
    }

    /// The writers whose bytes are visible in `range`, in order and without gaps. Nothing past the
    /// file's end. Takes memory for each write in the range.
    pub async fn written_by(&self, range: Range<u64>) -> Result<Vec<Extent>> {
        let extent = |piece: Piece| {
            let log = piece.source.and_then(|source| self.logs.logs.get(source.log as usize));
            Extent { range: piece.logical, writer: log.map(|log| log.name) }
        };
        Ok(self.pieces(range).await?.into_iter().map(extent).collect())
    }

    /// Up to `length` bytes from `offset`; fewer only at the file's end. Holes are zeros.
    ///
    /// # Errors
    /// InvalidArgument if `length` is above [`MAX_CHUNK_BYTES`]; Corrupt if a log has fewer bytes
    /// than its index describes.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length).map_err(|error| error.at("read", self.logs.container.path()))?;
        let range = offset..offset.saturating_add(length as u64).min(self.length());
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let fetch = |window| {
            let logs = Arc::clone(&self.logs);
            async move { logs.read(window).await }
        };
        match self.ahead.read(&range, self.length(), fetch).await {
            Some(bytes) => Ok(bytes),
            None => self.logs.read(range).await,
        }
    }
}

impl Logs {
    /// The bytes of a range of the file.
    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let offset = range.start;
        let pieces = self.view.pieces(range).await?;
        // Bytes from one place of one log are returned without a copy.
        if let [Piece { logical, source: Some(source) }] = pieces.as_slice() {
            return self
                .fetch(source.log, source.offset..source.offset + (logical.end - logical.start))
                .await;
        }
        let end = pieces.last().map_or(offset, |piece| piece.logical.end);
        let mut whole = BytesMut::zeroed((end - offset) as usize);
        let fetches = stream::iter(fetches(&pieces)).map(async |fetch| {
            let bytes = self.fetch(fetch.log, fetch.bytes.clone()).await?;
            Ok::<_, Error>((fetch, bytes))
        });
        let mut fetched = fetches.buffer_unordered(AT_ONCE);
        while let Some((fetch, bytes)) = fetched.try_next().await? {
            for (logical, source) in fetch.pieces {
                let from = (source - fetch.bytes.start) as usize;
                let to = (logical.start - offset) as usize;
                let length = (logical.end - logical.start) as usize;
                whole[to..to + length].copy_from_slice(&bytes[from..from + length]);
            }
        }
        Ok(whole.freeze())
    }

    /// All bytes of a range of a log.
    async fn fetch(&self, log: u32, range: Range<u64>) -> Result<Bytes> {
        let Some(log) = self.logs.get(log as usize) else {
            return fail(ErrorKind::Internal, "a piece of an unknown log");
        };
        let wanted = (range.end - range.start) as usize;
        let mut before = None;
        for attempt in 1.. {
            let opened = log.opened(&self.container, before.as_ref()).await?;
            let read = opened.reader.read_at(opened.base + range.start, wanted).await;
            match read {
                Ok(bytes) if bytes.len() == wanted => return Ok(bytes),
                Ok(bytes) if attempt == ATTEMPTS => {
                    let message = format!(
                        "the log ends at byte {}, but its index describes bytes up to {}",
                        range.start + bytes.len() as u64,
                        range.end
                    );
                    let error = Error::new(ErrorKind::Corrupt, message);
                    return Err(error.at("read", &opened.path));
                }
                // The bytes may have moved since the log was opened, because logs are being joined.
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
            before = Some(opened);
        }
        fail(ErrorKind::Internal, "a read without an end")
    }
}

/// Joins pieces that are near each other in a log.
fn fetches(pieces: &[Piece]) -> Vec<Fetch> {
    let mut sourced: Vec<(Source, Range<u64>)> =
        pieces.iter().filter_map(|piece| Some((piece.source?, piece.logical.clone()))).collect();
    sourced.sort_unstable_by_key(|(source, _)| (source.log, source.offset));
    let mut fetches: Vec<Fetch> = Vec::new();
    for (source, logical) in sourced {
        let end = source.offset + (logical.end - logical.start);
        match fetches.last_mut() {
            Some(last)
                if last.log == source.log
                    && source.offset <= last.bytes.end + GAP
                    && end - last.bytes.start <= MAX_CHUNK_BYTES as u64 =>
            {
                last.bytes.end = last.bytes.end.max(end);
                last.pieces.push((logical, source.offset));
            }
            _ => fetches.push(Fetch {
                log: source.log,
                bytes: source.offset..end,
                pieces: vec![(logical, source.offset)],
            }),
        }
    }
    fetches
}
