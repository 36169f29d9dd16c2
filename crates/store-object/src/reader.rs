//! An open object: reads at any offset, and reads ahead of sequential readers.

use crate::Bucket;
use crate::errors::{Sent, typed};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::stream::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use strait_store::budget::{Reserved, Share};
use strait_store::{Error, ErrorKind, FileReader, Result, arguments, fail};
use tokio::task::AbortHandle;

/// Bytes of one read-ahead request. A request takes an endpoint some 10 to 50 ms, whatever its size.
const BLOCK_BYTES: u64 = 4 << 20;
/// Concurrent read-ahead requests: 16 MiB in flight hide a latency of 50 ms at 2.6 Gbit/s.
const BLOCKS_AHEAD: usize = 4;

/// An open object.
pub struct Reader {
    object: Arc<Object>,
    ahead: Arc<Mutex<Ahead>>,
    memory: Arc<Share>,
    path: String,
}

struct Object {
    bucket: Arc<dyn Bucket>,
    key: Path,
    meta: ObjectMeta,
}

struct Ahead {
    /// The offset at which a sequential read would continue.
    next: u64,
    blocks: VecDeque<Block>,
    last_read: Instant,
}

struct Block {
    range: Range<u64>,
    bytes: Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>,
    _room: Reserved,
}

/// Aborts a request when no reader waits for it any more.
struct Fetching(AbortHandle);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reader {
    /// Opens the object that a HEAD request described.
    pub fn new(
        bucket: Arc<dyn Bucket>,
        key: Path,
        meta: ObjectMeta,
        path: String,
        memory: Arc<Share>,
    ) -> Self {
        let object = Arc::new(Object { bucket, key, meta });
        // A first read at 0 doesn't count as sequential, because many readers want only a header.
        let ahead = Ahead { next: u64::MAX, blocks: VecDeque::new(), last_read: Instant::now() };
        let ahead = Arc::new(Mutex::new(ahead));
        memory.register(Arc::downgrade(&ahead), |ahead: &Mutex<Ahead>, idle| {
            if let Ok(mut ahead) = ahead.try_lock() {
                ahead.give_up(idle);
            }
        });
        Self { object, ahead, memory, path }
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let blocks = {
            let mut ahead = self.ahead();
            ahead.last_read = Instant::now();
            let follows = ahead.next == range.start;
            ahead.next = range.end;
            if follows {
                ahead.fill(&range, &self.object, &self.memory);
            }
            ahead.covering(&range)
        };
        let Some(blocks) = blocks else { return self.object.get(range).await };
        let mut pieces = Vec::with_capacity(blocks.len());
        for (at, bytes) in blocks {
            let bytes = bytes.await.map_err(|error| error.again())?;
            let piece = at.start.max(range.start) - at.start..at.end.min(range.end) - at.start;
            pieces.push(bytes.slice(piece.start as usize..piece.end as usize));
        }
        if pieces.len() == 1 {
            return Ok(pieces.remove(0));
        }
        let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(whole.freeze())
    }
}

type Fetched = (Range<u64>, Shared<BoxFuture<'static, std::result::Result<Bytes, Arc<Error>>>>);

impl Ahead {
    fn give_up(&mut self, idle: Duration) {
        if self.last_read.elapsed() >= idle {
            self.blocks.clear();
        }
    }

    /// Requests the blocks from the start of `range` on, as long as there is memory.
    fn fill(&mut self, range: &Range<u64>, object: &Arc<Object>, memory: &Arc<Share>) {
        while self.blocks.front().is_some_and(|block| block.range.end <= range.start) {
            self.blocks.pop_front();
        }
        if self.blocks.front().is_some_and(|block| block.range.start > range.start) {
            self.blocks.clear();
        }
        let length = object.meta.size;
        while self.blocks.len() < BLOCKS_AHEAD {
            let start = self.blocks.back().map_or(range.start, |block| block.range.end);
            let end = (start + BLOCK_BYTES).min(length);
            let Some(room) = (start < end).then(|| memory.reserve(end - start)).flatten() else { return };
            let (object, fetched) = (object.clone(), start..end);
            let task = tokio::spawn(async move { object.get(fetched).await.map_err(Arc::new) });
            // Readers share the block's future. While one of them waits, dropping the block doesn't abort the
            // request.
            let fetching = Fetching(task.abort_handle());
            let bytes = async move {
                let _fetching = fetching;
                match task.await {
                    Ok(bytes) => bytes,
                    Err(_) => Err(Arc::new(Error::new(ErrorKind::Unavailable, "the read was aborted"))),
                }
            };
            let bytes = bytes.boxed().shared();
            self.blocks.push_back(Block { range: start..end, bytes, _room: room });
        }
    }

    /// The blocks that cover all of `range`. Drops all blocks if one failed, so that a repeated read requests
    /// them again.
    fn covering(&mut self, range: &Range<u64>) -> Option<Vec<Fetched>> {
        if self.blocks.iter().any(|block| matches!(block.bytes.peek(), Some(Err(_)))) {
            self.blocks.clear();
        }
        let touched = |block: &&Block| block.range.start < range.end && range.start < block.range.end;
        let blocks = self.blocks.iter().filter(touched);
        let blocks: Vec<Fetched> = blocks.map(|block| (block.range.clone(), block.bytes.clone())).collect();
        let is_covered = blocks.first().is_some_and(|(at, _)| at.start <= range.start)
            && blocks.last().is_some_and(|(at, _)| at.end >= range.end);
        is_covered.then_some(blocks)
    }
}

impl Object {
    async fn get(&self, range: Range<u64>) -> Result<Bytes> {
        get(&self.bucket, &self.key, self.meta.e_tag.clone(), range).await
    }
}

/// Gets a range of this version of the object, by one request.
pub async fn get(
    bucket: &Arc<dyn Bucket>,
    key: &Path,
    e_tag: Option<String>,
    range: Range<u64>,
) -> Result<Bytes> {
    let wanted = (range.end - range.start) as usize;
    let options =
        GetOptions { if_match: e_tag, range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    let got = bucket.get_opts(key, options).await.map_err(|error| typed(error, Sent::Repeatable))?;
    if got.range.end - got.range.start != wanted as u64 {
        let message =
            "the object has become shorter, so it was replaced; open it again, or repeat the rename";
        return fail(ErrorKind::NotFound, message);
    }
    let mut bytes = BytesMut::with_capacity(wanted);
    let mut pieces = got.into_stream();
    while let Some(piece) = pieces.try_next().await.map_err(|error| typed(error, Sent::Repeatable))? {
        if piece.len() > wanted - bytes.len() {
            // It would fill the memory.
            let message =
                format!("asked for {wanted} bytes, and the endpoint sent more: it, or a proxy, is faulty");
            return fail(ErrorKind::Internal, message);
        }
        bytes.extend_from_slice(&piece);
    }
    match bytes.len() == wanted {
        true => Ok(bytes.freeze()),
        false => fail(ErrorKind::Unavailable, "the endpoint's answer ended early"),
    }
}

#[async_trait]
impl FileReader for Reader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length).map_err(|error| error.at("read", &self.path))?;
        let end = offset.saturating_add(length as u64).min(self.object.meta.size);
        if offset >= end {
            return Ok(Bytes::new());
        }
        self.read(offset..end).await.map_err(|error| error.at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.object.meta.size
    }

    /// The version, if the bucket keeps versions: objects of equal content have equal entity tags.
    fn identity(&self) -> Option<Bytes> {
        self.object.meta.version.clone().map(Bytes::from)
    }
}
