//! A slow store: writers' operations wait at a gate.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
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

/// The directory whose entries wait at the gate, too.
pub const SLOWLY_LISTED: &str = "/slowly-listed";

/// The file whose reads wait at the gate, too, except those at its beginning.
pub const SLOWLY_READ: &str = "/slowly-read";

/// The file that another client changes after each change. It replaces the file after a rename to it, and
/// appends to it after an append.
pub const OVERTAKEN: &str = "/overtaken";

/// The bytes of that other client.
pub const OTHERS: &str = "other";

/// A store in memory behind a gate, which is open at first. An append that arrives at the gate has
/// accepted half of its bytes.
pub struct Gated {
    behind: Arc<MemoryStore>,
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
        (Arc::new(Self { behind: Arc::new(MemoryStore::new("tester")), gate: gate.clone() }), gate)
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

    /// Waits until this many calls wait at the gate.
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
    /// The store in which another client appends to the file after the close.
    overtaken: Option<Arc<MemoryStore>>,
}

/// Writes as the other client of [`OVERTAKEN`].
async fn write_others(mut writer: Box<dyn FileWriter>) -> Result<()> {
    writer.append(Bytes::from_static(OTHERS.as_bytes())).await?;
    writer.close().await.map(drop)
}

struct Reader {
    behind: Box<dyn FileReader>,
    gate: Arc<Gate>,
}

#[async_trait]
impl FileReader for Reader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        if offset > 0 {
            self.gate.pass().await;
        }
        self.behind.read_at(offset, length).await
    }

    fn length(&self) -> u64 {
        self.behind.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.behind.identity()
    }
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
        let closed = self.behind.close().await?;
        if let Some(store) = self.overtaken.take() {
            let path = StorePath::parse(OVERTAKEN)?;
            write_others(store.append(&Principal::new("tester"), &path).await?).await?;
        }
        Ok(closed)
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
        let listed = self.behind.list(who, path);
        if path.as_str() != SLOWLY_LISTED {
            return listed;
        }
        let gate = self.gate.clone();
        let slowly = listed.then(move |entry| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                entry
            }
        });
        slowly.boxed()
    }

    /// Panics for `/defect`.
    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        assert_ne!(path.as_str(), "/defect");
        if path.as_str() == SLOWLY_OPENED {
            self.gate.pass().await;
        }
        let behind = self.behind.open(who, path).await?;
        Ok(match path.as_str() {
            SLOWLY_READ => Box::new(Reader { behind, gate: self.gate.clone() }),
            _ => behind,
        })
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
        Ok(Box::new(Writer { behind, gate: self.gate.clone(), overtaken: None }))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let behind = self.behind.append(who, path).await?;
        self.gate.writers.fetch_add(1, Ordering::SeqCst);
        let overtaken = (path.as_str() == OVERTAKEN).then(|| self.behind.clone());
        Ok(Box::new(Writer { behind, gate: self.gate.clone(), overtaken }))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.behind.rename(who, from, to, replace).await?;
        if to.as_str() == OVERTAKEN {
            let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
            write_others(self.behind.create(who, to, &options).await?).await?;
        }
        Ok(())
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.behind.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.behind.mkdirs(who, path, permission).await
    }
}
