//! The number of store calls that operations on a logical file take. On a cluster, each is a round trip.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::sync::{Arc, Mutex};
use strait_plfs::{Container, Options};
use strait_store::{
    Capabilities, CreateOptions, ErrorKind, FileReader, FileStatus, FileSystem, FileWriter, MemoryStore,
    Principal, Result, StorePath, fail,
};

const RANKS: usize = 8;
const OBJECT: usize = 48 << 10;

/// A store that records its calls.
#[derive(Clone)]
struct Noted {
    store: MemoryStore,
    calls: Arc<Mutex<Vec<Call>>>,
    /// Creating a file whose path contains this text fails.
    refused: Arc<Mutex<Option<&'static str>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    operation: &'static str,
    path: String,
    bytes: usize,
}

impl Noted {
    fn new() -> Self {
        Self { store: MemoryStore::new("tester"), calls: Arc::default(), refused: Arc::default() }
    }

    fn note(&self, operation: &'static str, path: &str, bytes: usize) {
        let call = Call { operation, path: path.to_owned(), bytes };
        self.calls.lock().unwrap().push(call);
    }

    /// The calls since this function was last called.
    fn take(&self) -> Vec<Call> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

struct NotedReader {
    reader: Box<dyn FileReader>,
    noted: Noted,
    path: String,
}

#[async_trait]
impl FileReader for NotedReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let bytes = self.reader.read_at(offset, length).await?;
        self.noted.note("read", &self.path, bytes.len());
        Ok(bytes)
    }

    fn length(&self) -> u64 {
        self.reader.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.reader.identity()
    }
}

#[async_trait]
impl FileSystem for Noted {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.note("stat", path.as_str(), 0);
        self.store.stat(who, path).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        self.note("list", path.as_str(), 0);
        self.store.list(who, path)
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        self.note("open", path.as_str(), 0);
        let reader = self.store.open(who, path).await?;
        Ok(Box::new(NotedReader { reader, noted: self.clone(), path: path.to_string() }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        self.note("create", path.as_str(), 0);
        let refused = *self.refused.lock().unwrap();
        if refused.is_some_and(|part| path.as_str().contains(part)) {
            return fail(ErrorKind::Unavailable, "the store is away");
        }
        self.store.create(who, path, options).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.note("rename", from.as_str(), 0);
        self.store.rename(who, from, to, replace).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.note("remove", path.as_str(), 0);
        self.store.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.note("mkdirs", path.as_str(), 0);
        self.store.mkdirs(who, path, permission).await
    }
}

struct Scene {
    noted: Noted,
    who: Principal,
    path: StorePath,
}

impl Scene {
    fn new() -> Self {
        let (who, path) = (Principal::new("tester"), StorePath::parse("/ckpt").unwrap());
        Self { noted: Noted::new(), who, path }
    }

    async fn open(&self) -> Container {
        Container::open(Arc::new(self.noted.clone()), &self.who, &self.path).await.unwrap()
    }

    /// A file of strided objects, by ranks that write side by side. Returns each rank's calls.
    async fn write(&self, objects: usize) -> Vec<Vec<Call>> {
        let store = Arc::new(self.noted.clone());
        Container::create(store, &self.who, &self.path, &Options::default()).await.unwrap();
        self.noted.take();
        let (mut writers, mut calls) = (Vec::new(), Vec::new());
        for rank in 0..RANKS {
            let mut writer = self.open().await.writer(rank as u32);
            for object in 0..objects {
                let offset = (object * RANKS + rank) * OBJECT;
                writer.write_at(offset as u64, Bytes::from(vec![rank as u8; OBJECT])).await.unwrap();
            }
            writers.push(writer);
            calls.push(self.noted.take());
        }
        for (writer, calls) in writers.iter_mut().zip(&mut calls) {
            writer.close().await.unwrap();
            calls.extend(self.noted.take());
        }
        calls
    }
}

fn count(calls: &[Call], operation: &str, part: &str) -> usize {
    calls.iter().filter(|call| call.operation == operation && call.path.contains(part)).count()
}

#[tokio::test]
async fn a_writer_reads_the_mark_once_and_no_log() {
    let calls = Scene::new().write(4).await;
    for calls in &calls[..RANKS - 1] {
        assert_eq!(count(calls, "read", ""), 1, "{calls:?}");
        assert!(calls.len() <= 16, "{} calls: {calls:?}", calls.len());
    }
    // Only the last writer that closes merges.
    assert_eq!(count(&calls[RANKS - 1], "open", ".index"), RANKS);
}

#[tokio::test]
async fn a_sync_that_could_not_publish_its_epoch_is_older_than_all_later_ones() {
    let scene = Scene::new();
    let store = Arc::new(scene.noted.clone());
    let container = Container::create(store, &scene.who, &scene.path, &Options::default()).await.unwrap();
    // Of two writers of one epoch, the one with the higher rank counts.
    let mut gone = container.writer(7);
    gone.write_at(0, Bytes::from_static(b"old")).await.unwrap();
    *scene.noted.refused.lock().unwrap() = Some("/epochs/");
    gone.sync().await.unwrap_err();
    *scene.noted.refused.lock().unwrap() = None;
    let mut next = container.writer(3);
    next.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    next.sync().await.unwrap();
    let reader = scene.open().await.reader().await.unwrap();
    assert_eq!(reader.read_at(0, 3).await.unwrap(), &b"new"[..]);
}

#[tokio::test]
async fn a_reader_opens_no_index_logs_of_eight_writers_that_closed() {
    let scene = Scene::new();
    scene.write(4).await;
    scene.noted.take();
    let reader = scene.open().await.reader().await.unwrap();
    assert_eq!(reader.length(), (4 * RANKS * OBJECT) as u64);
    let calls = scene.noted.take();
    assert_eq!(count(&calls, "open", ".index"), 0, "{calls:?}");
    assert_eq!(count(&calls, "read", ""), 2, "the mark and the index: {calls:?}");
    assert!(calls.len() <= 7, "{calls:?}");
}
