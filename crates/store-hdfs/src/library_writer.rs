//! The trait's writer, on top of the library's.

use super::errors::{Effect, closed_writer, from_library};
use super::recovery::Recoveries;
use async_trait::async_trait;
use bytes::Bytes;
use hdfs_native::{Client, HdfsError};
use std::sync::Arc;
use strait_store::FileWriter;
use strait_store::{Error, Result, arguments};
use tokio::runtime::Handle;

/// Writes a file through the library's pipeline.
pub(super) struct LibraryWriter {
    /// None once it is closed.
    writer: Option<hdfs_native::file::FileWriter>,
    user: String,
    path: String,
    position: u64,
    /// Bytes that no flush has covered yet.
    unflushed: bool,
    client: Client,
    recoveries: Arc<Recoveries>,
    runtime: Handle,
}

impl LibraryWriter {
    /// A writer for a file that `client` has just opened as `user`.
    pub fn new(
        writer: hdfs_native::file::FileWriter,
        user: &str,
        path: String,
        client: Client,
        recoveries: Arc<Recoveries>,
    ) -> Self {
        let (user, runtime) = (user.to_owned(), Handle::current());
        Self { writer: Some(writer), user, path, position: 0, unflushed: false, client, recoveries, runtime }
    }

    /// The same writer, for a file that already has `position` bytes.
    pub fn starting_at(mut self, position: u64) -> Self {
        self.position = position;
        self
    }

    fn failed(&self, operation: &'static str, error: HdfsError) -> Error {
        from_library(error, Effect::Mutation).at(operation, &self.path)
    }
}

#[async_trait]
impl FileWriter for LibraryWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        if data.is_empty() {
            return Ok(());
        }
        let Some(writer) = &mut self.writer else { return closed_writer("append", &self.path) };
        let length = data.len() as u64;
        let written = writer.write_bytes(data).await;
        written.map_err(|error| self.failed("append", error))?;
        self.position += length;
        self.unflushed = true;
        Ok(())
    }

    /// The library has no hflush, so a flush is an hsync, which guarantees more.
    async fn flush(&mut self) -> Result<Option<u32>> {
        self.sync().await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        if !self.unflushed {
            return Ok(None);
        }
        let Some(writer) = &mut self.writer else { return closed_writer("sync", &self.path) };
        let synced = writer.hsync().await;
        synced.map_err(|error| self.failed("sync", error))?;
        self.unflushed = false;
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        let Some(writer) = &mut self.writer else { return Ok(None) };
        // On failure the writer stays, and its drop abandons the file.
        let outcome = writer.close().await;
        outcome.map_err(|error| self.failed("close", error))?;
        self.writer = None;
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Drop for LibraryWriter {
    fn drop(&mut self) {
        // Drop the library's writer first, which ends its sending and renewing.
        if self.writer.take().is_some() {
            let path = std::mem::take(&mut self.path);
            let user = std::mem::take(&mut self.user);
            self.recoveries.run_by_library(self.client.clone(), user, path, &self.runtime);
        }
    }
}
