//! A store that may be unavailable at first. It is opened in the background, and answers
//! `Unavailable` until then.

use crate::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileReader, FileStatus,
    FileSystem, FileWriter, Principal, Result, SetAttributes, StorePath, StoreStatus,
};
use async_trait::async_trait;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Pause after the first failed attempt. It doubles with each further one, up to the longest pause.
/// Short enough to notice a quick restart, and no burden on a server that starts.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Capabilities of a store that hasn't answered yet. A client may rely on them for as long as it is
/// connected. So they include the ones for which clients have only a bad substitute: a client that
/// can't replace a file in one step removes it first. A store without them answers `Unsupported`.
const UNKNOWN: Capabilities = Capabilities {
    append: false,
    truncate: false,
    concat: false,
    rename_replace: true,
    atomic_rename: false,
    permissions: false,
    ownership: false,
    times: false,
    replication: false,
    block_locations: false,
    checksum: false,
    status: false,
    visible_while_written: false,
    exclusive_writer: false,
    per_user: false,
    recovery_ms: 0,
};

/// Opens a store.
pub type Opening = Box<dyn Fn() -> BoxFuture<'static, Result<Arc<dyn FileSystem>>> + Send + Sync>;

/// A store that is opened in the background. Until it is open, every operation fails at once as
/// `Unavailable`, with the reason.
pub struct DeferredStore {
    state: watch::Receiver<State>,
    opening: AbortHandle,
}

#[derive(Clone)]
enum State {
    /// The first attempt isn't finished.
    Silent,
    Away(Arc<Error>),
    Open(Arc<dyn FileSystem>),
}

impl DeferredStore {
    /// Begins to open a store, on the caller's tokio runtime. It retries until an attempt succeeds or the
    /// `DeferredStore` is dropped.
    pub fn begin(opening: Opening) -> Self {
        let (sender, state) = watch::channel(State::Silent);
        let opening = tokio::spawn(async move {
            let mut pause = FIRST_PAUSE;
            loop {
                match opening().await {
                    Ok(fs) => {
                        sender.send_replace(State::Open(fs));
                        return;
                    }
                    Err(error) => {
                        sender.send_replace(State::Away(Arc::new(error)));
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        });
        Self { state, opening: opening.abort_handle() }
    }

    /// The outcome of the first attempt. None if the attempt doesn't end within `patience`.
    pub async fn first_try(&self, patience: Duration) -> Option<std::result::Result<(), Arc<Error>>> {
        let mut state = self.state.clone();
        let ended = timeout(patience, state.wait_for(|state| !matches!(state, State::Silent))).await;
        match &*ended.ok()?.ok()? {
            State::Silent => None,
            State::Away(error) => Some(Err(error.clone())),
            State::Open(_) => Some(Ok(())),
        }
    }

    /// Waits until the store is open. Calls `failed` with the error of the latest attempt, and then
    /// with that of each later one.
    pub async fn opened(&self, mut failed: impl FnMut(&Error)) {
        let mut state = self.state.clone();
        loop {
            match &*state.borrow_and_update() {
                State::Silent => {}
                State::Away(error) => failed(error),
                State::Open(_) => return,
            }
            if state.changed().await.is_err() {
                return; // the sender is dropped only after the store is open
            }
        }
    }

    /// The store, if it is open.
    ///
    /// # Errors
    /// Unavailable if the store isn't open, whatever the cause: the request isn't at fault.
    pub fn now(&self) -> Result<Arc<dyn FileSystem>> {
        let why = match &*self.state.borrow() {
            State::Open(fs) => return Ok(fs.clone()),
            State::Silent => "it doesn't answer".to_owned(),
            State::Away(error) => error.message().to_owned(),
        };
        let message = format!("the store is unavailable; retrying: {why}");
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    fn at(&self, operation: &'static str, path: &StorePath) -> Result<Arc<dyn FileSystem>> {
        self.now().map_err(|error| error.at(operation, path))
    }
}

impl Drop for DeferredStore {
    fn drop(&mut self) {
        self.opening.abort();
    }
}

#[async_trait]
impl FileSystem for DeferredStore {
    fn capabilities(&self) -> Capabilities {
        self.now().map_or(UNKNOWN, |fs| fs.capabilities())
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.at("stat", path)?.stat(who, path).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        match self.at("list", path) {
            Ok(fs) => fs.list(who, path),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        self.at("open", path)?.open(who, path).await
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        self.at("create", path)?.create(who, path, options).await
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.at("append", path)?.append(who, path).await
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.at("truncate", path)?.truncate(who, path, length).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.at("concat", target)?.concat(who, target, sources).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.at("rename", from)?.rename(who, from, to, replace).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.at("remove", path)?.remove(who, path, recursive).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.at("mkdirs", path)?.mkdirs(who, path, permission).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.at("set attributes of", path)?.set_attributes(who, path, set).await
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        self.at("locate", path)?.block_locations(who, path, range).await
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        self.at("checksum", path)?.checksum(who, path).await
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        self.at("status", &StorePath::root())?.status(who).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Longer than any attempt of these tests.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_store_that_comes_late_serves_from_then_on() {
        let tries = AtomicU32::new(0);
        let store = DeferredStore::begin(Box::new(move || {
            let before = tries.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                match before {
                    0 => Err(Error::new(ErrorKind::TimedOut, "the first try fails")),
                    1 => Err(Error::new(ErrorKind::Unauthenticated, "the second one, too")),
                    _ => Ok(Arc::new(MemoryStore::new("root")) as Arc<dyn FileSystem>),
                }
            })
        }));
        let told = store.first_try(PATIENCE).await.unwrap().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::TimedOut);
        let (who, root) = (Principal::new("root"), StorePath::root());
        let error = store.stat(&who, &root).await.unwrap_err();
        assert_eq!((error.kind(), error.path(), error.retry_safe()), (ErrorKind::Unavailable, "/", true));
        assert!(error.message().contains("the first try fails"), "{error}");
        let unknown = store.capabilities();
        assert!(!unknown.append);
        assert!(unknown.rename_replace, "nobody removes a file to replace it");
        let mut failures = Vec::new();
        store.opened(|error| failures.push(error.message().to_owned())).await;
        assert_eq!(failures, ["the first try fails", "the second one, too"]);
        store.stat(&who, &root).await.unwrap();
        assert!(store.capabilities().append);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_store_holds_nobody_up() {
        let store = DeferredStore::begin(Box::new(|| Box::pin(std::future::pending())));
        assert!(store.first_try(PATIENCE).await.is_none());
        let error = store.mkdirs(&Principal::new("root"), &StorePath::root(), None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
    }
}
