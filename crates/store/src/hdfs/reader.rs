//! An open file, as the trait wants it.

use super::readahead::ReadAhead;
use super::source::Source;
use crate::error::{ErrorKind, Result, fail};
use crate::{Error, FileReader, MAX_CHUNK_BYTES};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// Reads at any offset, for any number of callers at once.
pub(super) struct HdfsReader {
    source: Arc<Source>,
    ahead: ReadAhead,
    path: String,
}

impl HdfsReader {
    pub fn new(source: Source, path: String) -> Self {
        Self { source: Arc::new(source), ahead: ReadAhead::default(), path }
    }
}

#[async_trait]
impl FileReader for HdfsReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if length > MAX_CHUNK_BYTES {
            return fail(ErrorKind::InvalidArgument, "a read takes 4 MiB at most")
                .map_err(|error: Error| error.at("read", &self.path));
        }
        // The library panics past the end.
        let end = offset.saturating_add(length as u64).min(self.source.length());
        if offset >= end {
            return Ok(Bytes::new());
        }
        self.ahead.read(&self.source, offset..end).await.map_err(|error| error.at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.source.length()
    }
}
