//! The bytes of one open file, wherever they lie.

use super::blocks::{Block, Blocks};
use super::datanode::{BlockStream, Failures};
use super::library::LibraryFile;
use super::shared::Shared;
use crate::error::{Error, ErrorKind, Result, fail};
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a read looks for the blocks anew: once for replicas that moved,
/// once more for a pipeline that is being rebuilt.
const FRESH_LOOKS: usize = 2;

/// One open file.
pub(super) enum Source {
    /// By the adapter's own protocol.
    Datanodes(DatanodesFile),
    /// By the library.
    Library(LibraryFile),
}

/// How a read may go on where another ended.
#[derive(Default)]
pub(super) struct Sequence {
    /// The stream of the read before.
    pub stream: Option<BlockStream>,
    /// Another read will follow: blocks are asked for up to their ends.
    pub goes_on: bool,
}

impl Source {
    /// What could be seen when the file was opened.
    pub fn length(&self) -> u64 {
        match self {
            Self::Datanodes(file) => file.length,
            Self::Library(file) => file.length(),
        }
    }

    /// Exactly the bytes `range`, which lies within the length.
    pub async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        self.fetch_in_sequence(range, &mut Sequence::default()).await
    }

    /// The same; leaves in `sequence` a stream that the next read can go on
    /// with.
    pub async fn fetch_in_sequence(&self, range: Range<u64>, sequence: &mut Sequence) -> Result<Bytes> {
        match self {
            Self::Datanodes(file) => file.fetch(range, sequence).await,
            Self::Library(file) => file.fetch(range).await,
        }
    }
}

/// A file whose blocks are read from datanodes without the library.
pub(super) struct DatanodesFile {
    shared: Arc<Shared>,
    user: Arc<str>,
    path: String,
    blocks: Mutex<Arc<Blocks>>,
    length: u64,
}

impl DatanodesFile {
    pub fn new(shared: Arc<Shared>, user: Arc<str>, path: String, blocks: Blocks) -> Self {
        let length = blocks.length();
        Self { shared, user, path, blocks: Mutex::new(Arc::new(blocks)), length }
    }

    async fn fetch(&self, range: Range<u64>, sequence: &mut Sequence) -> Result<Bytes> {
        // The caller bounds what it asks for, by the length too.
        let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut looks = 0;
        loop {
            let position = range.start + bytes.len() as u64;
            if position >= range.end {
                return Ok(bytes.freeze());
            }
            let blocks = self.blocks();
            let Some(block) = blocks.at(position) else {
                return fail(ErrorKind::Internal, format!("no block holds byte {position}"));
            };
            let end = range.end.min(block.end());
            match self.fetch_from_block(block, position..end, sequence, &mut bytes).await {
                Ok(()) => {}
                Err(error) if looks < FRESH_LOOKS => {
                    looks += 1;
                    tracing::debug!(path = self.path, %error, "looking for the blocks anew");
                    if !self.look_anew(&blocks).await? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends the bytes `range` of the file, which lie in `block`, to `into`;
    /// each replica takes up where the one before failed.
    async fn fetch_from_block(
        &self,
        block: &Arc<Block>,
        range: Range<u64>,
        sequence: &mut Sequence,
        into: &mut BytesMut,
    ) -> Result<()> {
        let datanodes = &self.shared.datanodes;
        let begin = into.len();
        let position = |into: &BytesMut| range.start + (into.len() - begin) as u64 - block.offset;
        let end = range.end - block.offset;
        let mut failures = Failures::of(block);
        let at_hand = sequence.stream.take().filter(|stream| stream.is_at(block, position(into)));
        let mut replicas = datanodes.replicas(block).into_iter();
        let mut next = at_hand.map(Ok);
        loop {
            let opened = match next.take() {
                Some(stream) => stream,
                None => {
                    let Some(address) = replicas.find(|address| !failures.include(address)) else {
                        return Err(failures.into_error());
                    };
                    let until = if sequence.goes_on { block.length } else { end };
                    let opened = BlockStream::open(datanodes, &address, block, position(into)..until).await;
                    opened.map_err(|error| (address, error))
                }
            };
            let failed = match opened {
                Err(failed) => failed,
                Ok(mut stream) => {
                    let missing = (end - position(into)) as usize;
                    match stream.read(into, missing).await {
                        Ok(()) => {
                            sequence.stream = stream.unless_ended(datanodes).await;
                            return Ok(());
                        }
                        Err(error) => (Arc::clone(stream.address()), error),
                    }
                }
            };
            failures.add(datanodes, &failed.0, failed.1);
        }
    }

    fn blocks(&self) -> Arc<Blocks> {
        Arc::clone(&self.blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks the namenode where the blocks are now; whether that is news.
    async fn look_anew(&self, failed: &Arc<Blocks>) -> Result<bool> {
        if !Arc::ptr_eq(failed, &self.blocks()) {
            return Ok(true);
        }
        let fresh = self.shared.blocks(&self.user, &self.path).await?;
        let fresh = fresh.filter(|fresh| fresh.continue_from(failed));
        let Some(fresh) = fresh else {
            return fail(ErrorKind::Unavailable, "the file was replaced or cut since it was opened")
                .map_err(|error: Error| error.with_retry_safe(false));
        };
        let is_news = fresh != **failed;
        *self.blocks.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(is_news)
    }
}
