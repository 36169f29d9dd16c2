//! Readers and writers of the store in memory.

use super::lock;
use super::tree::{Content, NodeId, Tree};
use crate::{FileReader, FileWriter, Result, StorePath, arguments};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::{Arc, Mutex};

/// Reads flushed bytes, even after the file was removed.
pub(super) struct MemoryReader {
    identity: Bytes,
    content: Content,
}

impl MemoryReader {
    pub(super) fn new(identity: Bytes, content: Content) -> Self {
        Self { identity, content }
    }
}

#[async_trait]
impl FileReader for MemoryReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length)?;
        let content = lock(&self.content);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let end = start.saturating_add(length).min(content.len());
        Ok(Bytes::copy_from_slice(&content[start..end]))
    }

    fn length(&self) -> u64 {
        lock(&self.content).len() as u64
    }

    fn identity(&self) -> Option<Bytes> {
        Some(self.identity.clone())
    }
}

/// Buffers appended bytes until a flush.
pub(super) struct MemoryWriter {
    tree: Arc<Mutex<Tree>>,
    node: NodeId,
    path: StorePath,
    unflushed: Vec<u8>,
    position: u64,
    closed: bool,
}

impl MemoryWriter {
    pub(super) fn new(tree: &Arc<Mutex<Tree>>, node: NodeId, path: &StorePath, position: u64) -> Self {
        Self { tree: tree.clone(), node, path: path.clone(), unflushed: Vec::new(), position, closed: false }
    }

    fn publish(&mut self) -> Result<()> {
        let published = lock(&self.tree).publish(self.node, &self.unflushed);
        published.map_err(|error| error.at("flush", &self.path))?;
        self.unflushed.clear();
        Ok(())
    }
}

#[async_trait]
impl FileWriter for MemoryWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data)?;
        self.unflushed.extend_from_slice(&data);
        self.position += data.len() as u64;
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.publish()?;
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.flush().await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if !self.closed {
            self.publish()?;
            lock(&self.tree).release(self.node);
            self.closed = true;
        }
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

impl Drop for MemoryWriter {
    fn drop(&mut self) {
        if !self.closed {
            lock(&self.tree).release(self.node);
        }
    }
}
