//! The bytes of one open file, wherever they lie: finished blocks through the
//! library, a block under construction from its datanode.

use super::errors::{Effect, from_library};
use super::shared::Shared;
use super::wire::LocatedBlock;
use crate::error::{Error, ErrorKind, Result, fail};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::try_join_all;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, HdfsError};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// A large read goes to the datanodes in parts of this size at once: one
/// stream alone is a third slower (measured; docs/hdfs.md).
const PART_BYTES: usize = 1 << 20;

/// How often a read looks for the blocks anew: once for replicas that moved,
/// once more for a pipeline that is being rebuilt.
const FRESH_LOOKS: usize = 2;

/// One open file.
pub(super) struct Source {
    shared: Arc<Shared>,
    client: Client,
    user: Arc<str>,
    path: String,
    /// The library's reader; it is replaced where it has given up on its
    /// datanodes, which it remembers for good.
    finished: Mutex<Arc<FileReader>>,
    finished_length: u64,
    tail: Option<Tail>,
}

/// The part of the last block, under construction, that can be seen.
pub(super) struct Tail {
    pub block: LocatedBlock,
    pub length: u64,
}

impl Source {
    pub fn new(
        shared: Arc<Shared>,
        client: Client,
        user: Arc<str>,
        path: String,
        reader: FileReader,
        tail: Option<Tail>,
    ) -> Self {
        let finished_length = reader.file_length() as u64;
        Self { shared, client, user, path, finished: Mutex::new(Arc::new(reader)), finished_length, tail }
    }

    /// What could be seen when the file was opened.
    pub fn length(&self) -> u64 {
        self.finished_length + self.tail.as_ref().map_or(0, |tail| tail.length)
    }

    /// Exactly the bytes `range`, which lies within the length.
    pub async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let split = range.end.min(self.finished_length).max(range.start);
        let finished = match range.start < split {
            true => self.fetch_finished(range.start..split).await?,
            false => Bytes::new(),
        };
        let Some(tail) = self.tail.as_ref().filter(|_| split < range.end) else { return Ok(finished) };
        let in_block = split - self.finished_length..range.end - self.finished_length;
        let rest = self.fetch_tail(&tail.block, in_block).await?;
        if finished.is_empty() {
            return Ok(rest);
        }
        let mut whole = BytesMut::from(finished);
        whole.extend_from_slice(&rest);
        Ok(whole.freeze())
    }

    async fn fetch_finished(&self, range: Range<u64>) -> Result<Bytes> {
        let mut looks = 0;
        loop {
            let reader = self.reader();
            match read_parts(&reader, &range).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) if looks < FRESH_LOOKS && is_about_datanodes(&error) => {
                    looks += 1;
                    tracing::debug!(path = self.path, %error, "looking for the blocks anew");
                    self.look_anew(&reader).await?;
                }
                Err(error) => return Err(from_library(error, Effect::Read)),
            }
        }
    }

    async fn fetch_tail(&self, block: &LocatedBlock, range: Range<u64>) -> Result<Bytes> {
        let error = match self.shared.datanodes.read(block, range.clone()).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        // Its pipeline was rebuilt on other datanodes, or it was finished and
        // moved: the namenode knows where it is now.
        let last = self.shared.last_block(&self.user, &self.path).await?.map(|(last, _)| last);
        match last.filter(|last| last.block.block_id == block.block.block_id) {
            Some(last) => self.shared.datanodes.read(&last, range).await,
            None => Err(error),
        }
    }

    fn reader(&self) -> Arc<FileReader> {
        Arc::clone(&self.finished.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn look_anew(&self, failed: &Arc<FileReader>) -> Result<()> {
        if !Arc::ptr_eq(failed, &self.reader()) {
            return Ok(());
        }
        let fresh = self.client.read(&self.path).await.map_err(|error| from_library(error, Effect::Read))?;
        if (fresh.file_length() as u64) < self.finished_length {
            return fail(ErrorKind::Unavailable, "the file was replaced or cut since it was opened")
                .map_err(|error: Error| error.with_retry_safe(false));
        }
        *self.finished.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }
}

async fn read_parts(reader: &FileReader, range: &Range<u64>) -> std::result::Result<Bytes, HdfsError> {
    // Within the file's length, which the library holds in a usize as well.
    let mut bytes = BytesMut::zeroed((range.end - range.start) as usize);
    let parts = bytes.chunks_mut(PART_BYTES).enumerate();
    let reads = parts.map(|(index, part)| read_part(reader, part, range.start as usize + index * PART_BYTES));
    try_join_all(reads).await?;
    Ok(bytes.freeze())
}

/// Fills `part` from `offset`. (The library's own `read_range_buf` doesn't say
/// whether the buffer became full.)
async fn read_part(
    reader: &FileReader,
    mut part: &mut [u8],
    offset: usize,
) -> std::result::Result<(), HdfsError> {
    let mut stream = std::pin::pin!(reader.read_range_stream(offset, part.len()));
    while let Some(packet) = stream.next().await.transpose()? {
        let Some((filled, rest)) = part.split_at_mut_checked(packet.len()) else {
            return Err(HdfsError::DataTransferError("more bytes than asked for".to_owned()));
        };
        filled.copy_from_slice(&packet);
        part = rest;
    }
    match part.is_empty() {
        true => Ok(()),
        false => Err(HdfsError::DataTransferError("fewer bytes than asked for".to_owned())),
    }
}

fn is_about_datanodes(error: &HdfsError) -> bool {
    matches!(error, HdfsError::DataTransferError(_) | HdfsError::IOError(_) | HdfsError::ChecksumError)
}
