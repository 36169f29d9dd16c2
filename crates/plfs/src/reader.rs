//! Reading a logical file.

use crate::container::Container;
use crate::index::{Index, Piece, Source};
use crate::layout::LogName;
use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use std::sync::Arc;
use strait_store::{Error, ErrorKind, FileReader, MAX_CHUNK_BYTES, Result, fail};
use tokio::sync::OnceCell;

/// Reads of logs at once, for one read of the file.
const AT_ONCE: usize = 8;
/// Bytes between two pieces of a log that are read along, since a read costs more.
const GAP: u64 = 64 << 10;

/// A reader of what was synced before it was opened; for any number of callers at once.
pub struct Reader {
    container: Container,
    index: Index,
    logs: Vec<Log>,
}

/// Neighbouring bytes of the file by one writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The bytes.
    pub range: Range<u64>,
    /// None in a hole.
    pub writer: Option<LogName>,
}

struct Log {
    name: LogName,
    reader: OnceCell<Arc<dyn FileReader>>,
}

/// A range of a log, and the pieces of the file in it.
struct Fetch {
    log: u32,
    bytes: Range<u64>,
    pieces: Vec<(Range<u64>, u64)>,
}

impl Reader {
    pub(crate) fn new(container: Container, index: Index, logs: Vec<LogName>) -> Self {
        let logs = logs.into_iter().map(|name| Log { name, reader: OnceCell::new() }).collect();
        Self { container, index, logs }
    }

    /// The file's length in bytes.
    pub fn length(&self) -> u64 {
        self.index.length()
    }

    /// The writers whose logs it reads, by rank and nonce.
    pub fn writers(&self) -> Vec<LogName> {
        self.logs.iter().map(|log| log.name).collect()
    }

    /// Which writer's bytes are visible in `range`, in order and without gaps. Nothing past the
    /// file's end. Takes memory for each write in the range.
    pub fn written_by(&self, range: Range<u64>) -> Vec<Extent> {
        let extent = |piece: Piece| {
            let log = piece.source.and_then(|source| self.logs.get(source.log as usize));
            Extent { range: piece.logical, writer: log.map(|log| log.name) }
        };
        self.index.pieces(range).into_iter().map(extent).collect()
    }

    /// Up to `length` bytes from `offset`; fewer only at the file's end. Holes are zeros.
    ///
    /// # Errors
    /// InvalidArgument if `length` is above [`MAX_CHUNK_BYTES`]; Corrupt if a log has fewer bytes
    /// than its index tells.
    pub async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "a read takes 4 MiB at most")
                .map_err(|error: Error| error.at("read", self.container.path()));
        }
        let pieces = self.index.pieces(offset..offset.saturating_add(length as u64));
        // Bytes that lie together are passed on without a copy.
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
        let Container { fs, who, layout, .. } = &self.container;
        let Some(log) = self.logs.get(log as usize) else {
            return fail(ErrorKind::Internal, "a piece of an unknown log");
        };
        let path = layout.data(log.name)?;
        let open = async || fs.open(who, &path).await.map(Arc::from);
        let reader = log.reader.get_or_try_init(open).await?;
        let wanted = (range.end - range.start) as usize;
        let bytes = reader.read_at(range.start, wanted).await?;
        if bytes.len() < wanted {
            let message = format!(
                "the log ends at byte {}, but its index tells of bytes up to {}",
                range.start + bytes.len() as u64,
                range.end
            );
            return fail(ErrorKind::Corrupt, message).map_err(|error: Error| error.at("read", &path));
        }
        Ok(bytes)
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
