//! A store like object stores: a file appears when it is closed, and nothing can be appended.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use std::sync::Arc;
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileReader, FileStatus, FileSystem, FileSystemExt,
    FileWriter, MemoryStore, Principal, Result, StorePath,
};

#[derive(Clone)]
pub struct Sealed(Arc<MemoryStore>);

impl Sealed {
    pub fn new() -> Self {
        Self(Arc::new(MemoryStore::new("tester")))
    }
}

#[async_trait]
impl FileSystem for Sealed {
    fn capabilities(&self) -> Capabilities {
        let visible_while_written = false;
        let (append, truncate, concat, atomic_rename) = (false, false, false, false);
        Capabilities {
            append,
            truncate,
            concat,
            atomic_rename,
            visible_while_written,
            ..self.0.capabilities()
        }
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.0.stat(who, path).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        self.0.list(who, path)
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        self.0.open(who, path).await
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        if !options.overwrite && self.0.exists(who, path).await? {
            return Err(Error::new(ErrorKind::AlreadyExists, "the name is taken").at("create", path));
        }
        let (store, who, path) = (self.0.clone(), who.clone(), path.clone());
        Ok(Box::new(Sealing { store, who, path, options: options.clone(), bytes: BytesMut::new() }))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.0.rename(who, from, to, replace).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.0.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.0.mkdirs(who, path, permission).await
    }
}

struct Sealing {
    store: Arc<MemoryStore>,
    who: Principal,
    path: StorePath,
    options: CreateOptions,
    bytes: BytesMut,
}

#[async_trait]
impl FileWriter for Sealing {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&data);
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        Ok(None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        let bytes = self.bytes.clone().freeze();
        self.store.write_all(&self.who, &self.path, &self.options, bytes).await?;
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.bytes.len() as u64
    }
}
