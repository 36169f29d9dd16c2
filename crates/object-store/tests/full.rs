//! A store without room.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};
use std::sync::Arc;
use strait_object_store::Objects;
use strait_store::{
    Capabilities, CreateOptions, ErrorKind, FileReader, FileStatus, FileSystem, FileSystemExt, FileWriter,
    MemoryStore, Principal, Result, StorePath, fail,
};

/// Takes no bytes.
struct Full(MemoryStore);

#[async_trait]
impl FileSystem for Full {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
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
        Ok(Box::new(Refusing(self.0.create(who, path, options).await?)))
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

struct Refusing(Box<dyn FileWriter>);

#[async_trait]
impl FileWriter for Refusing {
    async fn append(&mut self, _data: Bytes) -> Result<()> {
        fail(ErrorKind::NoSpace, "the store is full")
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.0.flush().await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.0.sync().await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        self.0.close().await
    }

    fn position(&self) -> u64 {
        self.0.position()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_put_leaves_nothing() {
    let (files, who) = (Arc::new(Full(MemoryStore::new("tester"))), Principal::new("tester"));
    let store = Objects::new(files.clone(), who.clone(), "test");
    store.put(&Path::from("a/b"), PutPayload::from_static(b"bytes")).await.unwrap_err();
    let left = files.list_all(&who, &StorePath::parse("/a").unwrap(), 10).await;
    assert_eq!(left.unwrap(), []);
}
