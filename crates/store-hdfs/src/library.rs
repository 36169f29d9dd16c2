//! Reading through the library, which supports more than the adapter: Kerberos, protected transfer,
//! erasure coding.

use super::errors::{Effect, from_library};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use futures::future::try_join_all;
use hdfs_native::file::FileReader;
use hdfs_native::{Client, HdfsError};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use strait_store::{Error, ErrorKind, Result, fail};

/// A large read is split into parts of this size, which are read concurrently: a single stream is a third
/// slower (`docs/decisions/2026-11-21-hdfs-reads-without-the-library.md`).
const PART_BYTES: usize = 1 << 20;

/// An open file of the library.
pub(super) struct LibraryFile {
    client: Client,
    path: String,
    /// Replaced after a read failed at datanodes, because the library's reader never tries those again.
    reader: Mutex<Arc<FileReader>>,
    length: u64,
}

impl LibraryFile {
    pub fn new(client: Client, path: String, reader: FileReader) -> Self {
        let length = reader.file_length() as u64;
        Self { client, path, reader: Mutex::new(Arc::new(reader)), length }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Exactly the bytes of `range`, which must lie within the length: past the end, the library
    /// panics.
    pub async fn fetch(&self, range: Range<u64>) -> Result<Bytes> {
        let reader = self.reader();
        let error = match read_parts(&reader, &range).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        if !is_about_datanodes(&error) {
            return Err(from_library(error, Effect::Read));
        }
        tracing::debug!(path = self.path, %error, "locating the blocks again");
        self.reopen(&reader).await?;
        let again = read_parts(&self.reader(), &range).await;
        again.map_err(|error| from_library(error, Effect::Read))
    }

    fn reader(&self) -> Arc<FileReader> {
        Arc::clone(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn reopen(&self, failed: &Arc<FileReader>) -> Result<()> {
        if !Arc::ptr_eq(failed, &self.reader()) {
            return Ok(());
        }
        let fresh = self.client.read(&self.path).await.map_err(|error| from_library(error, Effect::Read))?;
        if (fresh.file_length() as u64) < self.length {
            return fail(ErrorKind::Unavailable, "the file was replaced or shortened since it was opened")
                .map_err(|error: Error| error.with_retry_safe(false));
        }
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        Ok(())
    }
}

async fn read_parts(reader: &FileReader, range: &Range<u64>) -> std::result::Result<Bytes, HdfsError> {
    // The cast can't overflow: the range is within the file's length, which the library has in a usize, too.
    let mut bytes = BytesMut::zeroed((range.end - range.start) as usize);
    let parts = bytes.chunks_mut(PART_BYTES).enumerate();
    let reads = parts.map(|(index, part)| read_part(reader, part, range.start as usize + index * PART_BYTES));
    try_join_all(reads).await?;
    Ok(bytes.freeze())
}

/// Fills `part` from `offset`. (The library's own `read_range_buf` doesn't report whether the
/// buffer became full.)
async fn read_part(
    reader: &FileReader,
    mut part: &mut [u8],
    offset: usize,
) -> std::result::Result<(), HdfsError> {
    let mut stream = std::pin::pin!(reader.read_range_stream(offset, part.len()));
    while let Some(packet) = stream.next().await.transpose()? {
        let Some((filled, rest)) = part.split_at_mut_checked(packet.len()) else {
            return Err(HdfsError::DataTransferError("more bytes than requested".to_owned()));
        };
        filled.copy_from_slice(&packet);
        part = rest;
    }
    match part.is_empty() {
        true => Ok(()),
        false => Err(HdfsError::DataTransferError("fewer bytes than requested".to_owned())),
    }
}

fn is_about_datanodes(error: &HdfsError) -> bool {
    matches!(error, HdfsError::DataTransferError(_) | HdfsError::IOError(_) | HdfsError::ChecksumError)
}
