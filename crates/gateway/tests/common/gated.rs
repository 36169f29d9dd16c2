//! A slow store: writers' operations wait at a gate.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use strait_store::{
    Capabilities, CreateOptions, ErrorKind, FileReader, FileStatus, FileSystem, FileWriter, MemoryStore,
    Principal, Result, StorePath, fail,
};
use strait_testkit::wait::eventually;
use tokio::sync::watch;

/// The file whose creation waits at the gate, too.
pub const SLOWLY_CREATED: &str = "/slow";

/// The file whose opening waits at the gate, too.
pub const SLOWLY_OPENED: &str = "/slowly-opened";

/// A store in memory behind a gate, which is open at first. An append that arrives at the gate has
/// accepted half of its bytes.
pub struct Gated {
    behind: MemoryStore,
    gate: Arc<Gate>,
}

pub struct Gate {
    open: watch::Sender<bool>,
    waiting: AtomicUsize,
    full: AtomicBool,
    ends_files: AtomicBool,
    writers: AtomicUsize,
}

impl Gated {
    pub fn new() -> (Arc<Self>, Arc<Gate>) {
        let gate = Arc::new(Gate {
            open: watch::Sender::new(true),
            waiting: AtomicUsize::new(0),
            full: AtomicBool::new(false),
            ends_files: AtomicBool::new(false),
            writers: AtomicUsize::new(0),
        });
        (Arc::new(Self { behind: MemoryStore::new("tester"), gate: gate.clone() }), gate)
    }
}

impl Gate {
    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// From now on, files don't go on after a refusal.
    pub fn end_files(&self) {
        self.ends_files.store(true, Ordering::SeqCst);
    }

    /// Number of files that are open for writing.
    pub fn writers(&self) -> usize {
        self.writers.load(Ordering::SeqCst)
    }

    /// Sets whether the store is full: writers' operations are refused, and may be repeated.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }

    fn demand_room(&self) -> Result<()> {
        match self.full.load(Ordering::SeqCst) {
            true => fail(ErrorKind::NoSpace, "the store is full"),
            false => Ok(()),
        }
    }

    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits until so many calls wait at the gate.
    pub fn await_waiting(&self, count: usize) {
        eventually(&format!("{count} calls came to the gate"), || self.waiting() >= count);
    }

    async fn pass(&self) {
        struct Waiting<'a>(&'a AtomicUsize);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        }
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let _waiting = Waiting(&self.waiting);
        let _ = self.open.subscribe().wait_for(|open| *open).await;
    }
}

struct Writer {
    behind: Box<dyn FileWriter>,
    gate: Arc<Gate>,
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, mut data: Bytes) -> Result<()> {
        self.gate.demand_room()?;
        self.behind.append(data.split_to(data.len() / 2)).await?;
        self.gate.pass().await;
        self.behind.append(data).await
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.gate.demand_room()?;
        self.gate.pass().await;
        self.behind.flush().await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.gate.demand_room()?;
        self.gate.pass().await;
        self.behind.sync().await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        self.gate.demand_room()?;
        self.gate.pass().await;
        self.behind.close().await
    }

    fn position(&self) -> u64 {
        self.behind.position()
    }

    fn goes_on(&self) -> bool {
        !self.gate.ends_files.load(Ordering::SeqCst)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.gate.writers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl FileSystem for Gated {
    fn capabilities(&self) -> Capabilities {
        self.behind.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.behind.stat(who, path).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        self.behind.list(who, path)
    }

    /// Panics for `/defect`.
    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        assert_ne!(path.as_str(), "/defect");
        if path.as_str() == SLOWLY_OPENED {
            self.gate.pass().await;
        }
        self.behind.open(who, path).await
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let behind = self.behind.create(who, path, options).await?;
        if path.as_str() == SLOWLY_CREATED {
            self.gate.pass().await;
        }
        self.gate.writers.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Writer { behind, gate: self.gate.clone() }))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let behind = self.behind.append(who, path).await?;
        self.gate.writers.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Writer { behind, gate: self.gate.clone() }))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.behind.rename(who, from, to, replace).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.behind.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.behind.mkdirs(who, path, permission).await
    }
}
