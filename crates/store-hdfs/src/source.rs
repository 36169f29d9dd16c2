//! The bytes of one open file, from datanodes or by the library.

use super::blocks::Blocks;
use super::library::LibraryFile;
use super::replicas::{self, Sequence};
use super::shared::Shared;
use bytes::{Bytes, BytesMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{Error, ErrorKind, Result, fail};

/// Number of times that a read locates the blocks again: once for replicas that moved, and once for a
/// pipeline that is being rebuilt.
const FRESH_LOOKS: usize = 2;

/// One open file.
pub(super) enum Source {
    /// By the adapter's own protocol.
    Datanodes(DatanodesFile),
    /// By the library.
    Library(LibraryFile),
}

impl Source {
    /// The length that was visible when the file was opened.
    pub fn length(&self) -> u64 {
        match self {
            Self::Datanodes(file) => file.length,
            Self::Library(file) => file.length(),
        }
    }

    /// The first block's id, which doesn't change when the block is finished, moved or appended to. None for
    /// an empty file, or if the library reads.
    pub fn identity(&self) -> Option<Bytes> {
        match self {
            Self::Datanodes(file) => {
                let blocks = file.blocks();
                Some(Bytes::copy_from_slice(&blocks.at(0)?.block.block_id.to_le_bytes()))
            }
            Self::Library(_) => None,
        }
    }

    /// Exactly the bytes of `range`, which must lie within the length.
    pub async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        self.fetch_in_sequence(range, &mut Sequence::default()).await
    }

    /// As [`Self::fetch`], but leaves a stream for the next read in `sequence`.
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
        // The caller limits the range, also to the length.
        let mut bytes = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut looks = 0;
        loop {
            let position = range.start + bytes.len() as u64;
            if position >= range.end {
                return Ok(bytes.freeze());
            }
            let blocks = self.blocks();
            let Some(block) = blocks.at(position) else {
                return fail(ErrorKind::Internal, format!("no block contains byte {position}"));
            };
            let within = position - block.offset..range.end.min(block.end()) - block.offset;
            match replicas::fetch(&self.shared.datanodes, block, within, sequence, &mut bytes).await {
                Ok(()) => {}
                Err(error) if looks < FRESH_LOOKS => {
                    looks += 1;
                    tracing::debug!(path = self.path, %error, "locating the blocks again");
                    if !self.refresh(&blocks).await? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn blocks(&self) -> Arc<Blocks> {
        Arc::clone(&self.blocks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gets the present blocks from the namenode. Returns whether they have changed.
    async fn refresh(&self, failed: &Arc<Blocks>) -> Result<bool> {
        if !Arc::ptr_eq(failed, &self.blocks()) {
            return Ok(true);
        }
        let fresh = self.shared.blocks(&self.user, &self.path).await?;
        let fresh = fresh.filter(|fresh| fresh.are_of_the_same_file(failed));
        let fresh = match fresh {
            // The reader needs the bytes that were visible at the open. Later lookups may have shown more.
            Some(fresh) if fresh.length() >= self.length => fresh,
            // A pipeline is being rebuilt, or the file is being recovered from its writer.
            Some(fresh) if fresh.is_open() => {
                let (present, due) = (fresh.length(), self.length);
                return fail(
                    ErrorKind::Unavailable,
                    format!("datanodes show {present} of {due} bytes of the file, which is being written"),
                );
            }
            _ => {
                return fail(
                    ErrorKind::Unavailable,
                    "the file was replaced or shortened since it was opened",
                )
                .map_err(|error: Error| error.with_retry_safe(false));
            }
        };
        let is_news = fresh != **failed;
        *self.blocks.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(is_news)
    }
}
