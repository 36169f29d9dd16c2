//! The trait's reader of an open file.

use super::readahead::ReadAhead;
use super::source::Source;
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;
use strait_store::budget::Share;
use strait_store::work::query;
use strait_store::{FileReader, Result, arguments};

/// Reads at any offset, for any number of callers at once.
pub(super) struct HdfsReader {
    ahead: ReadAhead,
    path: String,
}

impl HdfsReader {
    /// Reads `source`, with the memory that its user's files share.
    pub fn new(source: Source, path: String, memory: Arc<Share>) -> Self {
        Self { ahead: ReadAhead::new(source, memory), path }
    }
}

#[async_trait]
impl FileReader for HdfsReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length).map_err(|error| error.at("read", &self.path))?;
        let end = offset.saturating_add(length as u64).min(self.ahead.length());
        if offset >= end {
            return Ok(Bytes::new());
        }
        query(self.ahead.read(offset..end)).await.map_err(|error| error.at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.ahead.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.ahead.identity()
    }

    fn stop_reading_ahead(&self) {
        self.ahead.stop();
    }
}
