//! Turns at a store, so that one user's calls don't block those of another user.
//!
//! A store runs a limited number of calls at once, since each may hold a thread. It runs few
//! checksums, since each keeps processors or disks busy for long, and few calls that move much data,
//! since each needs memory and processors for it. Users take these turns from a [`Pool`]. It serves
//! waiting users in turn, and none has more than half. [`Queued`] is a store behind this queue, with
//! any adapter. A call returns its turn when the store has finished it. If the caller leaves, the call
//! returns its turn when no thread works for it any more.

use crate::config::Limits;
use crate::pool::{Grant, Holder, Key, Pool};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use std::cell::RefCell;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use strait_store::work::{self, Work};
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, Error, ErrorKind, FileReader, FileStatus,
    FileSystem, FileWriter, Principal, Result, SetAttributes, StorePath, StoreStatus,
};
use strait_telemetry::{Kind, Page, RequestId};

/// Maximum number of entries that a listing takes from the store in one turn. It waits for the first only. It keeps
/// those that don't fit in a page for the next page.
const ENTRIES_A_TURN: usize = 32;
/// A call that reads or writes more bytes is a transfer.
const SMALL_BYTES: usize = 16 << 10;
/// Transfers may have one in this many of a store's turns. The others are left to calls that move few
/// bytes.
const TRANSFERS: usize = 4;

tokio::task_local! {
    /// The key that the current call counts for.
    static CALLER: RefCell<Key>;
}

/// Runs a client's call: its work at stores counts for `key`, and stops when it is dropped. The client
/// waits until `deadline`, if there is one.
pub async fn call<F: Future>(key: Key, deadline: Option<Instant>, call: F) -> F::Output {
    Work::scope(deadline, CALLER.scope(RefCell::new(key), call)).await
}

/// Runs work that continues after the current call is dropped, for the same caller.
fn beyond_call<F: Future>(rest: F) -> impl Future<Output = F::Output> {
    let (key, deadline) = (CALLER.try_with(|key| key.borrow().clone()), Work::deadline());
    async move {
        match key {
            Ok(key) => call(key, deadline, rest).await,
            // Outside of a call, there is no call that could be dropped.
            Err(_) => rest.await,
        }
    }
}

/// Runs the current call's `work` to its end, even if the call is dropped before. It begins at once.
///
/// # Errors
/// Those of `work`, and OutcomeUnknown if it panics.
pub fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> impl Future<Output = Result<T>> {
    // On the heap: each future around it would have room for it twice, for its argument and its state.
    let work = beyond_call(Box::pin(work));
    let task = tokio::spawn(RequestId::scope(RequestId::current(), work));
    async {
        task.await.unwrap_or_else(|failure| {
            tracing::error!(%failure, "a call ended by a panic or an abort");
            Err(Error::new(ErrorKind::OutcomeUnknown, "the gateway failed during the operation"))
        })
    }
}

/// Makes the current call count for this user from now on.
pub fn acts_for(user: &str) {
    let _ = CALLER.try_with(|key| {
        let is_known = matches!(&*key.borrow(), Key::User(known) if **known == *user);
        if !is_known {
            *key.borrow_mut() = Key::User(user.into());
        }
    });
}

/// The turns at one store.
#[derive(Clone)]
pub struct Turns {
    calls: Arc<Pool>,
    /// A transfer takes one of these, and then one of `calls`.
    transfers: Arc<Pool>,
    long_calls: Arc<Pool>,
}

/// The user who opened a file, as a holder of turns for calls and for transfers.
#[derive(Clone)]
struct Opener {
    calls: Arc<Holder>,
    transfers: Arc<Holder>,
}

impl Turns {
    /// As many as the limits allow.
    pub fn new(limits: &Limits) -> Self {
        Self {
            calls: Pool::new(limits.calls_per_store),
            transfers: Pool::new(limits.calls_per_store.div_ceil(TRANSFERS)),
            long_calls: Pool::new(limits.long_calls_per_store),
        }
    }

    /// Writes metrics of the calls at the store with this name.
    pub fn write(&self, page: &mut Page, store: &str) {
        let pools = [("short", &self.calls), ("transfer", &self.transfers), ("long", &self.long_calls)];
        for (kind, pool) in pools {
            let of = [("store", store), ("kind", kind)];
            let mut gauge =
                |name, help, value: usize| page.number(name, Kind::Gauge, help, &of, value as u64);
            gauge(
                "strait_gateway_store_calls_running",
                "Calls that run in a store. transfer: calls that hold a turn for transfers.",
                pool.held(),
            );
            gauge("strait_gateway_store_calls_waiting", "Calls that wait for a turn.", pool.waiting());
        }
    }

    fn caller(&self, pool: &Arc<Pool>) -> Option<Arc<Holder>> {
        // The gateway's own work (closing files at its end) has no caller.
        CALLER.try_with(|key| pool.holder(&key.borrow())).ok()
    }

    fn opener(&self) -> Option<Opener> {
        let (calls, transfers) = (self.caller(&self.calls)?, self.caller(&self.transfers)?);
        Some(Opener { calls, transfers })
    }
}

/// Takes a turn of this caller and runs `work` in it.
async fn in_turn<F: Future>(caller: Option<Arc<Holder>>, work: F) -> F::Output {
    let turn: Option<Grant> = match caller {
        Some(caller) => Some(caller.take(1).await),
        None => None,
    };
    work::lend(Arc::new(turn), work).await
}

impl Opener {
    /// Runs `work`, which moves this many bytes, in a turn of the opener, if there is an opener.
    async fn moves<F: Future>(opener: Option<&Self>, bytes: usize, work: F) -> F::Output {
        let calls = opener.map(|opener| opener.calls.clone());
        match opener.filter(|_| bytes > SMALL_BYTES) {
            Some(opener) => {
                let transfer = opener.transfers.clone().take(1).await;
                work::lend(Arc::new(transfer), in_turn(calls, work)).await
            }
            None => in_turn(calls, work).await,
        }
    }
}

/// A store whose calls take turns.
pub struct Queued {
    behind: Arc<dyn FileSystem>,
    turns: Turns,
}

impl Queued {
    /// The store `behind` the queue.
    pub fn new(behind: Arc<dyn FileSystem>, turns: Turns) -> Self {
        Self { behind, turns }
    }

    async fn call<F: Future>(&self, call: F) -> F::Output {
        in_turn(self.turns.caller(&self.turns.calls), call).await
    }

    /// Makes a call that changes something. It isn't made if its turn comes after its caller's deadline.
    async fn change<T>(
        &self,
        operation: &'static str,
        path: &StorePath,
        change: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let in_time = async {
            work::in_time().map_err(|error| error.at(operation, path))?;
            change.await
        };
        self.call(in_time).await
    }
}

/// A file open for reading. Its calls count for the opener.
struct Reader {
    behind: Box<dyn FileReader>,
    opener: Option<Opener>,
}

/// A file open for writing. Its calls count for the opener.
struct Writer {
    behind: Box<dyn FileWriter>,
    opener: Option<Opener>,
}

impl Writer {
    fn calls(&self) -> Option<Arc<Holder>> {
        self.opener.as_ref().map(|opener| opener.calls.clone())
    }
}

#[async_trait]
impl FileSystem for Queued {
    fn capabilities(&self) -> Capabilities {
        self.behind.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.call(self.behind.stat(who, path)).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let entries = self.behind.list(who, path).ready_chunks(ENTRIES_A_TURN);
        let caller = self.turns.caller(&self.turns.calls);
        let chunks = stream::unfold(entries, move |mut entries| {
            let caller = caller.clone();
            async move {
                let chunk = in_turn(caller, entries.next()).await?;
                Some((stream::iter(chunk), entries))
            }
        });
        chunks.flatten().boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let behind = self.call(self.behind.open(who, path)).await?;
        Ok(Box::new(Reader { behind, opener: self.turns.opener() }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let behind = self.change("create", path, self.behind.create(who, path, options)).await?;
        Ok(Box::new(Writer { behind, opener: self.turns.opener() }))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let behind = self.change("append", path, self.behind.append(who, path)).await?;
        Ok(Box::new(Writer { behind, opener: self.turns.opener() }))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.change("truncate", path, self.behind.truncate(who, path, length)).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.change("concat", target, self.behind.concat(who, target, sources)).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.change("rename", from, self.behind.rename(who, from, to, replace)).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.change("remove", path, self.behind.remove(who, path, recursive)).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.change("mkdirs", path, self.behind.mkdirs(who, path, permission)).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.change("set attributes of", path, self.behind.set_attributes(who, path, set)).await
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        self.call(self.behind.block_locations(who, path, range)).await
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        let caller = self.turns.caller(&self.turns.long_calls);
        in_turn(caller, self.behind.checksum(who, path)).await
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        self.call(self.behind.status(who)).await
    }
}

#[async_trait]
impl FileReader for Reader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        Opener::moves(self.opener.as_ref(), length, self.behind.read_at(offset, length)).await
    }

    fn length(&self) -> u64 {
        self.behind.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.behind.identity()
    }

    fn stop_reading_ahead(&self) {
        self.behind.stop_reading_ahead();
    }
}

#[async_trait]
impl FileWriter for Writer {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        Opener::moves(self.opener.as_ref(), data.len(), self.behind.append(data)).await
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        in_turn(self.calls(), self.behind.flush()).await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        in_turn(self.calls(), self.behind.sync()).await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        in_turn(self.calls(), self.behind.close()).await
    }

    fn position(&self) -> u64 {
        self.behind.position()
    }

    fn goes_on(&self) -> bool {
        self.behind.goes_on()
    }
}
