//! A store in memory, for tests. It has every capability, and interprets each promise strictly. So programs
//! that work with it rely on nothing beyond the promises.
//!
//! It is strict where others may be lenient: bytes are visible only once flushed, a writer whose
//! file was removed gets `NotFound`, and every operation checks permission bits.

mod handle;
mod permission;
mod tree;

use crate::{
    BlockLocation, Capabilities, Checksum, CreateOptions, FileReader, FileStatus, FileSystem, FileWriter,
    Principal, Result, SetAttributes, StorePath, StoreStatus,
};
use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use handle::{MemoryReader, MemoryWriter};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tree::Tree;

/// Entries of a listing read under one lock.
const LIST_PAGE_ENTRIES: usize = 100;
/// The capacity that [`FileSystem::status`] reports, in bytes; not enforced.
const NOMINAL_CAPACITY_BYTES: u64 = 1 << 40;
/// The one "host" that holds every block.
const HOST: &str = "localhost";

/// A file system in memory. Clones share it.
#[derive(Clone)]
pub struct MemoryStore {
    tree: Arc<Mutex<Tree>>,
}

impl MemoryStore {
    /// An empty store. `superuser` owns the root (`0o755`) and passes all permission checks.
    pub fn new(superuser: &str) -> Self {
        Self { tree: Arc::new(Mutex::new(Tree::new(superuser))) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }
}

/// Ignores poisoning: a poisoned lock must not hide the panic of another test thread.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl FileSystem for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(100)
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.tree().stat(who, path).map_err(|error| error.at("stat", path))
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let (store, who, path) = (self.clone(), who.clone(), path.clone());
        let pages = stream::unfold(Some(None::<String>), move |after| {
            let page = after.map(|after| {
                let page = store.tree().list_page(&who, &path, after.as_deref(), LIST_PAGE_ENTRIES);
                match page {
                    Ok(page) => {
                        let last = page.last().map(|entry| Some(entry.name().to_owned()));
                        let next = last.filter(|_| page.len() == LIST_PAGE_ENTRIES);
                        (page.into_iter().map(Ok).collect::<Vec<_>>(), next)
                    }
                    Err(error) => (vec![Err(error.at("list", &path))], None),
                }
            });
            async move { page }
        });
        pages.flat_map(stream::iter).boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let (identity, content) = self.tree().open(who, path).map_err(|error| error.at("open", path))?;
        Ok(Box::new(MemoryReader::new(identity, content)))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let node = self.tree().create(who, path, options).map_err(|error| error.at("create", path))?;
        Ok(Box::new(MemoryWriter::new(&self.tree, node, path, 0)))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let (node, length) = self.tree().append(who, path).map_err(|error| error.at("append", path))?;
        Ok(Box::new(MemoryWriter::new(&self.tree, node, path, length)))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.tree().truncate(who, path, length).map_err(|error| error.at("truncate", path))
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.tree().concat(who, target, sources).map_err(|error| error.at("concat", target))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.tree().rename(who, from, to, replace).map_err(|error| error.at("rename", from))
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.tree().remove(who, path, recursive).map_err(|error| error.at("remove", path))
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.tree().mkdirs(who, path, permission).map_err(|error| error.at("mkdirs", path))
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.tree().set_attributes(who, path, set).map_err(|error| error.at("set attributes of", path))
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let (length, block_size) =
            self.tree().file_size(who, path).map_err(|error| error.at("locate", path))?;
        let end = range.end.min(length);
        if range.start >= end {
            return Ok(Vec::new());
        }
        let blocks = range.start / block_size..end.div_ceil(block_size);
        Ok(blocks
            .map(|index| BlockLocation {
                offset: index * block_size,
                length: block_size.min(length - index * block_size),
                hosts: vec![HOST.to_owned()],
                addresses: Vec::new(),
                corrupt: false,
            })
            .collect())
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        let (_, content) = self.tree().open(who, path).map_err(|error| error.at("checksum", path))?;
        let mut crc = crate::crc::Crc32c::new();
        crc.update(&lock(&content));
        Ok(crc.finish())
    }

    async fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        let used = self.tree().used_bytes().min(NOMINAL_CAPACITY_BYTES);
        let (capacity, remaining) = (NOMINAL_CAPACITY_BYTES, NOMINAL_CAPACITY_BYTES - used);
        Ok(StoreStatus { capacity, used, remaining, settling: false })
    }
}
