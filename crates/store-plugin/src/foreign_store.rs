//! A [`Foreign`] file system as a store. Its calls run on the blocking pool, each within a time limit.

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use strait_store::foreign::{Foreign, Listing, Reader, Writer};
use strait_store::work;
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileReader, FileStatus,
    FileSystem, FileWriter, Principal, Result, SetAttributes, StorePath, StoreStatus, arguments, fail,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// A call without an answer after this time counts as hung. HDFS's own clients wait up to 60 s for a
/// datanode, but can then ask another one.
pub const CALL_PATIENCE: Duration = Duration::from_secs(30);
/// Concurrent calls, including hung ones. If all of these hang, further calls fail, too.
const CALLS_AT_ONCE: usize = 64;
/// Time limit of a close, unless a call's limit is longer: a library may send the whole file at its close.
const CLOSING_PATIENCE: Duration = Duration::from_secs(60);

/// Entries that are removed between two looks at a directory. Few file systems promise that a listing goes on
/// correctly after removals.
const REMOVED_AT_A_LOOK: usize = 1_000;
/// Concurrent removals for one caller.
const REMOVALS_AT_ONCE: usize = 8;

/// A library as a store.
#[derive(Clone)]
pub struct ForeignStore {
    inner: Arc<dyn Foreign>,
    turns: Arc<Semaphore>,
    patience: Duration,
}

impl ForeignStore {
    /// A store over this library.
    pub fn new(inner: Arc<dyn Foreign>) -> Self {
        let turns = Arc::new(Semaphore::new(CALLS_AT_ONCE));
        Self { inner, turns, patience: CALL_PATIENCE }
    }

    /// As [`Self::new`], with another time limit for each call.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Runs one call. `changes` tells whether the call can change something: then a timeout leaves the
    /// outcome unknown.
    async fn call<T: Send + 'static>(
        &self,
        changes: bool,
        step: impl FnOnce(&dyn Foreign) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        self.limited(changes, self.patience, move || step(&*inner)).await
    }

    async fn limited<T: Send + 'static>(
        &self,
        changes: bool,
        patience: Duration,
        step: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = match timeout(patience, self.turns.clone().acquire_owned()).await {
            Ok(Ok(turn)) => turn,
            _ => {
                let why = format!("{CALLS_AT_ONCE} calls of the library don't return; restart the server");
                return fail(ErrorKind::Unavailable, why);
            }
        };
        let running = work::blocking(move || {
            let _turn = turn;
            step()
        });
        match timeout(patience, running).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let kind = if changes { ErrorKind::OutcomeUnknown } else { ErrorKind::TimedOut };
                fail(kind, format!("the library doesn't return within {} s", patience.as_secs()))
            }
        }
    }

    async fn remove_by_one_call(&self, who: &Principal, path: &str, recursive: bool) -> Result<()> {
        let (who, at) = (who.clone(), path.to_owned());
        let done = self.call(true, move |fs| fs.remove(&who, &at, recursive)).await;
        done.map_err(|error| error.at("remove", path))
    }

    /// Removes a file, a link or an empty directory. A directory with entries is left, and returned.
    async fn remove_shallow(&self, who: &Principal, entry: FileStatus) -> Result<Option<StorePath>> {
        match self.remove_by_one_call(who, &entry.path, false).await {
            Err(error) if error.kind() == ErrorKind::NotEmpty && !entry.link => {
                StorePath::parse(&entry.path).map(Some)
            }
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        }
    }

    /// Removes what is beneath a directory, and then the directory, by many calls, since each has a time limit. It
    /// follows no link, since it goes into directories only after their removal failed as NotEmpty. The call that
    /// removes an emptied directory is recursive, for entries that the library leaves out of listings.
    async fn remove_tree(&self, who: &Principal, top: &StorePath) -> Result<()> {
        let mut levels = vec![Level::of(top.clone())];
        while let Some(Level { directory, removed }) = levels.last_mut() {
            let look = self.list(who, directory).take(REMOVED_AT_A_LOOK);
            let entries: Vec<FileStatus> = match look.try_collect().await {
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(error),
            };
            if entries.is_empty() {
                match self.remove_by_one_call(who, directory.as_str(), true).await {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    _ => levels.pop(),
                };
                continue;
            }
            if let Some(entry) = entries.iter().find(|entry| removed.contains(&entry.path)) {
                let why = "it is still listed after its removal; another program may have made it again";
                return fail(ErrorKind::Busy, why).map_err(|error: Error| error.at("remove", &entry.path));
            }
            *removed = entries.iter().map(|entry| entry.path.clone()).collect();
            let removals = entries.into_iter().map(|entry| self.remove_shallow(who, entry));
            let left = stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE);
            let left: Vec<Option<StorePath>> = left.try_collect().await?;
            levels.extend(left.into_iter().flatten().map(Level::of));
        }
        Ok(())
    }

    async fn list_start(&self, who: Principal, path: StorePath) -> Result<Start> {
        self.call(false, move |fs| match fs.list(&who, path.as_str()) {
            Ok(listing) => Ok(Start::Directory(Later::new(listing))),
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                Ok(Start::File(Box::new(fs.stat(&who, path.as_str())?)))
            }
            Err(error) => Err(error),
        })
        .await
    }
}

/// A directory whose entries are being removed.
struct Level {
    directory: StorePath,
    /// The entries of the latest look.
    removed: HashSet<String>,
}

impl Level {
    fn of(directory: StorePath) -> Self {
        Self { directory, removed: HashSet::new() }
    }
}

enum Start {
    Directory(Later<Box<dyn Listing>>),
    File(Box<FileStatus>),
}

/// A handle of the library. It is dropped on a thread that may block.
struct Later<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Later<T> {
    fn new(value: T) -> Self {
        Self(Some(value))
    }

    fn take(&mut self) -> Result<T> {
        match self.0.take() {
            Some(value) => Ok(value),
            None => fail(ErrorKind::Unavailable, "an earlier call on this file failed or didn't return"),
        }
    }
}

impl<T: Send + 'static> Drop for Later<T> {
    fn drop(&mut self) {
        if let (Some(value), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn_blocking(move || drop(value));
        }
    }
}

struct ForeignReader {
    store: ForeignStore,
    reader: Later<Arc<dyn Reader>>,
    length: u64,
    path: StorePath,
}

struct ForeignWriter {
    store: ForeignStore,
    writer: Later<Box<dyn Writer>>,
    position: u64,
    closed: bool,
    path: StorePath,
}

impl ForeignWriter {
    fn new(store: ForeignStore, writer: Box<dyn Writer>, path: StorePath) -> Self {
        let position = writer.begins_at();
        Self { store, writer: Later::new(writer), position, closed: false, path }
    }

    /// Runs one step of the writer. After a failed or hung step, the writer is lost.
    async fn step(
        &mut self,
        operation: &'static str,
        patience: Duration,
        step: impl FnOnce(&mut dyn Writer) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if self.closed {
            return fail(ErrorKind::InvalidArgument, "the file is closed")
                .map_err(|e: Error| e.at(operation, &self.path));
        }
        let stepped = async {
            let mut writer = self.writer.take()?;
            let writer = self.store.limited(true, patience, move || {
                step(writer.as_mut())?;
                Ok(writer)
            });
            self.writer = Later::new(writer.await?);
            Ok(())
        };
        stepped.await.map_err(|error: Error| error.at(operation, &self.path))
    }
}

#[async_trait]
impl FileReader for ForeignReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        arguments::check_read(length).map_err(|error| error.at("read", &self.path))?;
        let Some(reader) = self.reader.0.clone() else { return Ok(Bytes::new()) };
        // Libraries use signed offsets.
        let end = offset.saturating_add(length as u64);
        if length == 0 || i64::try_from(end).is_err() {
            return Ok(Bytes::new());
        }
        let read = self.store.call(false, move |_| reader.read(offset, length)).await;
        read.map(Bytes::from).map_err(|error| error.at("read", &self.path))
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn identity(&self) -> Option<Bytes> {
        None
    }
}

#[async_trait]
impl FileWriter for ForeignWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        arguments::check_append(&data).map_err(|error| error.at("append", &self.path))?;
        let length = data.len() as u64;
        if length > 0 {
            self.step("append", self.store.patience, move |writer| writer.write(&data)).await?;
        }
        self.position += length;
        Ok(())
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.step("flush", self.store.patience, |writer| writer.flush()).await.map(|()| None)
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.step("sync", self.store.patience, |writer| writer.sync()).await.map(|()| None)
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        if !self.closed {
            let patience = self.store.patience.max(CLOSING_PATIENCE);
            self.step("close", patience, |writer| writer.close()).await?;
            self.closed = true;
        }
        Ok(None)
    }

    fn position(&self) -> u64 {
        self.position
    }
}

#[async_trait]
impl FileSystem for ForeignStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn about(&self) -> Result<Option<String>> {
        self.call(false, |fs| fs.about()).await
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let (who, at) = (who.clone(), path.clone());
        let status = self.call(false, move |fs| fs.stat(&who, at.as_str())).await;
        status.map_err(|error| error.at("stat", path))
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        enum Step {
            Begin,
            Next(Later<Box<dyn Listing>>),
            End,
        }
        let state = (self.clone(), who.clone(), path.clone(), Step::Begin);
        let portions = stream::unfold(state, |(store, who, path, step)| async move {
            let portion = match step {
                Step::End => return None,
                Step::Begin => match store.list_start(who.clone(), path.clone()).await {
                    Ok(Start::File(status)) => Ok((vec![*status], Step::End)),
                    Ok(Start::Directory(listing)) => Ok((Vec::new(), Step::Next(listing))),
                    Err(error) => Err(error),
                },
                Step::Next(mut listing) => {
                    let next = async {
                        let mut listing = listing.take()?;
                        store.call(false, move |_| Ok((listing.next()?, listing))).await
                    };
                    next.await.map(|(entries, listing)| match entries.is_empty() {
                        true => (entries, Step::End),
                        false => (entries, Step::Next(Later::new(listing))),
                    })
                }
            };
            let (entries, step) = match portion {
                Ok((entries, step)) => (entries.into_iter().map(Ok).collect(), step),
                Err(error) => (vec![Err(error.at("list", &path))], Step::End),
            };
            Some((entries, (store, who, path, step)))
        });
        portions.flat_map(|entries: Vec<Result<FileStatus>>| stream::iter(entries)).boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let (who, at) = (who.clone(), path.clone());
        let reader = self.call(false, move |fs| fs.open(&who, at.as_str()).map(Later::new)).await;
        let reader = reader.map_err(|error| error.at("open", path))?;
        let length = reader.0.as_ref().map_or(0, |reader| reader.length());
        Ok(Box::new(ForeignReader { store: self.clone(), reader, length, path: path.clone() }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let (who, at, options) = (who.clone(), path.clone(), options.clone());
        let writer = self.call(true, move |fs| fs.create(&who, at.as_str(), &options)).await;
        let writer = writer.map_err(|error| error.at("create", path))?;
        Ok(Box::new(ForeignWriter::new(self.clone(), writer, path.clone())))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let (who, at) = (who.clone(), path.clone());
        let writer = self.call(false, move |fs| fs.append(&who, at.as_str())).await;
        let writer = writer.map_err(|error| error.at("append", path))?;
        Ok(Box::new(ForeignWriter::new(self.clone(), writer, path.clone())))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        let (who, at) = (who.clone(), path.clone());
        let done = self.call(true, move |fs| fs.truncate(&who, at.as_str(), length)).await;
        done.map_err(|error| error.at("truncate", path))
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        let (who, old, new) = (who.clone(), from.clone(), to.clone());
        let done = self.call(true, move |fs| fs.rename(&who, old.as_str(), new.as_str(), replace)).await;
        done.map_err(|error| error.at("rename", from))
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        if path.is_root() {
            return fail(ErrorKind::InvalidArgument, "the root can't be removed")
                .map_err(|error: Error| error.at("remove", path));
        }
        let by_calls = recursive && !self.inner.removes_trees();
        match self.remove_by_one_call(who, path.as_str(), recursive && !by_calls).await {
            Err(error) if by_calls && error.kind() == ErrorKind::NotEmpty => {
                self.remove_tree(who, path).await
            }
            outcome => outcome,
        }
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let (who, at) = (who.clone(), path.clone());
        let done = self.call(true, move |fs| fs.mkdirs(&who, at.as_str(), permission)).await;
        done.map_err(|error| error.at("mkdir", path))
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        let (who, at, set) = (who.clone(), path.clone(), set.clone());
        let done = self.call(true, move |fs| fs.set_attributes(&who, at.as_str(), &set)).await;
        done.map_err(|error| error.at("set attributes of", path))
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        let (who, at) = (who.clone(), path.clone());
        let found = self.call(false, move |fs| fs.block_locations(&who, at.as_str(), range)).await;
        found.map_err(|error| error.at("locate", path))
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        let (who, at) = (who.clone(), path.clone());
        let found = self.call(false, move |fs| fs.checksum(&who, at.as_str())).await;
        found.map_err(|error| error.at("checksum", path))
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        let who = who.clone();
        self.call(false, move |fs| fs.status(&who)).await.map_err(|error| error.at("status", "/"))
    }
}
