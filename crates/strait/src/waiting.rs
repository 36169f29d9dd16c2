//! Prints notices if a store is slow: the layers below retry an unreachable namenode or gateway for up to 45
//! s without a message. It prints none while a person types a password.

use crate::messages::Messages;
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use strait_store::{
    BlockLocation, Capabilities, Checksum, CreateOptions, FileReader, FileStatus, FileSystem, FileWriter,
    Principal, Result, SetAttributes, StorePath, StoreStatus,
};
use tokio::time::{Instant, timeout_at};

/// A notice is printed after this time without an answer. It is longer than the delay of a reader whose
/// datanode is lost (2 s).
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Time between two notices: often enough to show that the command still waits, but few lines in a log.
pub const AGAIN: Duration = Duration::from_secs(15);

/// Notices about one store. Concurrent waits share them.
#[derive(Clone)]
pub struct Waiting(Arc<Inner>);

struct Inner {
    tell: Box<dyn Fn(&str) + Send + Sync>,
    /// The state that the notices report, such as "kadoop://nn:9091 hasn't answered".
    state: String,
    told: Mutex<Option<Instant>>,
    typing: Typing,
    aliases: Aliases,
}

/// Whether a person is typing a password. That time doesn't count as a store's delay.
#[derive(Clone, Default)]
pub struct Typing(Arc<Mutex<Typed>>);

#[derive(Default)]
enum Typed {
    #[default]
    Never,
    Now,
    Until(Instant),
}

impl Typing {
    /// Runs `ask`, which may wait for a person to type.
    pub fn during<T>(&self, ask: impl FnOnce() -> T) -> T {
        self.set(Typed::Now);
        let answer = ask();
        self.set(Typed::Until(Instant::now()));
        answer
    }

    fn set(&self, typed: Typed) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = typed;
    }

    /// The time since when a store is waited for: `began`, or the end of the latest typing if that was later.
    fn over(&self, began: Instant) -> Instant {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Typed::Never => began,
            Typed::Now => Instant::now(),
            Typed::Until(end) => began.max(end),
        }
    }
}

/// Paths that notices show in place of others. A user knows the target of a copy, but not its temporary file.
#[derive(Clone, Default)]
pub struct Aliases(Arc<Mutex<HashMap<StorePath, StorePath>>>);

/// Until this is dropped, notices show another path in place of `of`.
pub struct Alias {
    of: StorePath,
    aliases: Aliases,
}

impl Aliases {
    /// Shows `known` in place of `path`.
    pub fn add(&self, path: &StorePath, known: &StorePath) -> Alias {
        self.lock().insert(path.clone(), known.clone());
        Alias { of: path.clone(), aliases: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StorePath, StorePath>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        self.aliases.lock().remove(&self.of);
    }
}

impl Waiting {
    /// Notices about requests to the store with this URI.
    pub fn new(messages: Messages, store: &str) -> Self {
        Self::with(messages, store, Typing::default(), Aliases::default())
    }

    /// As [`Waiting::new`], for requests that may wait for a person to type a password, or may concern a path
    /// with an alias.
    pub fn with(messages: Messages, store: &str, typing: Typing, aliases: Aliases) -> Self {
        let state = format!("{store} hasn't answered");
        Self::telling(state, typing, aliases, move |notice| messages.warn(notice))
    }

    /// Notices that no program has opened this pipe yet.
    pub fn for_pipe(messages: Messages, pipe: &str) -> Self {
        let state = format!("no program has opened the pipe {pipe} for writing");
        Self::telling(state, Typing::default(), Aliases::default(), move |notice| messages.warn(notice))
    }

    fn telling(
        state: String,
        typing: Typing,
        aliases: Aliases,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner { tell: Box::new(tell), state, told: Mutex::default(), typing, aliases }))
    }

    /// Waits for the store's answer to `operation`.
    pub async fn on<T>(&self, operation: impl fmt::Display, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        let mut began = Instant::now();
        let mut notice = began + PATIENCE;
        loop {
            if let Ok(answer) = timeout_at(notice, &mut answer).await {
                return answer;
            }
            let typed = self.0.typing.over(began);
            if typed > began {
                (began, notice) = (typed, typed + PATIENCE);
                continue;
            }
            self.tell(&operation, began);
            notice = Instant::now() + AGAIN;
        }
    }

    /// As [`Waiting::on`], for an operation on a path.
    async fn on_path<T>(
        &self,
        operation: &'static str,
        path: &StorePath,
        answer: impl Future<Output = T>,
    ) -> T {
        self.on(Asked { operation, path, aliases: &self.0.aliases }, answer).await
    }

    fn tell(&self, operation: &impl fmt::Display, began: Instant) {
        let now = Instant::now();
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| now - told < AGAIN) {
            return;
        }
        *told = Some(now);
        let seconds = (now - began).as_secs();
        (self.0.tell)(&format!("{} for {seconds} s: {operation}; still waiting", self.0.state));
    }
}

/// A store with notices. They skip operations that are slow by nature: checksums of large files,
/// and removals of trees.
pub struct Watched {
    pub fs: Arc<dyn FileSystem>,
    pub waiting: Waiting,
}

/// An operation and its path.
struct Asked<'a> {
    operation: &'static str,
    path: &'a StorePath,
    aliases: &'a Aliases,
}

impl fmt::Display for Asked<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aliases = self.aliases.lock();
        write!(to, "{} {}", self.operation, aliases.get(self.path).unwrap_or(self.path).as_str())
    }
}

impl Watched {
    fn writer(&self, path: &StorePath, writer: Box<dyn FileWriter>) -> Box<dyn FileWriter> {
        Box::new(WatchedWriter { writer, path: path.clone(), waiting: self.waiting.clone() })
    }
}

#[async_trait]
impl FileSystem for Watched {
    fn capabilities(&self) -> Capabilities {
        self.fs.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.waiting.on_path("stat", path, self.fs.stat(who, path)).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        let (waiting, path) = (self.waiting.clone(), path.clone());
        stream::unfold(self.fs.list(who, &path), move |mut entries| {
            let (waiting, path) = (waiting.clone(), path.clone());
            async move {
                let entry = waiting.on_path("list", &path, entries.next()).await?;
                Some((entry, entries))
            }
        })
        .boxed()
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let reader = self.waiting.on_path("open", path, self.fs.open(who, path)).await?;
        Ok(Box::new(WatchedReader { reader, path: path.clone(), waiting: self.waiting.clone() }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let writer = self.waiting.on_path("create", path, self.fs.create(who, path, options)).await?;
        Ok(self.writer(path, writer))
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        let writer = self.waiting.on_path("append to", path, self.fs.append(who, path)).await?;
        Ok(self.writer(path, writer))
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.waiting.on_path("truncate", path, self.fs.truncate(who, path, length)).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        self.waiting.on_path("concat", target, self.fs.concat(who, target, sources)).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.waiting.on_path("rename", from, self.fs.rename(who, from, to, replace)).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        let removed = self.fs.remove(who, path, recursive);
        if recursive { removed.await } else { self.waiting.on_path("remove", path, removed).await }
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.waiting.on_path("mkdir", path, self.fs.mkdirs(who, path, permission)).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.waiting.on_path("set attributes of", path, self.fs.set_attributes(who, path, set)).await
    }

    async fn block_locations(
        &self,
        who: &Principal,
        path: &StorePath,
        range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        self.waiting.on_path("locate", path, self.fs.block_locations(who, path, range)).await
    }

    async fn checksum(&self, who: &Principal, path: &StorePath) -> Result<Checksum> {
        self.fs.checksum(who, path).await
    }

    async fn status(&self, who: &Principal) -> Result<StoreStatus> {
        self.waiting.on_path("status", &StorePath::root(), self.fs.status(who)).await
    }

    async fn about(&self) -> Result<Option<String>> {
        self.fs.about().await
    }
}

struct WatchedReader {
    reader: Box<dyn FileReader>,
    path: StorePath,
    waiting: Waiting,
}

#[async_trait]
impl FileReader for WatchedReader {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        self.waiting.on_path("read", &self.path, self.reader.read_at(offset, length)).await
    }

    fn length(&self) -> u64 {
        self.reader.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.reader.identity()
    }

    fn stop_reading_ahead(&self) {
        self.reader.stop_reading_ahead();
    }
}

struct WatchedWriter {
    writer: Box<dyn FileWriter>,
    path: StorePath,
    waiting: Waiting,
}

#[async_trait]
impl FileWriter for WatchedWriter {
    async fn append(&mut self, data: Bytes) -> Result<()> {
        self.waiting.on_path("write to", &self.path, self.writer.append(data)).await
    }

    async fn flush(&mut self) -> Result<Option<u32>> {
        self.waiting.on_path("flush", &self.path, self.writer.flush()).await
    }

    async fn sync(&mut self) -> Result<Option<u32>> {
        self.waiting.on_path("sync", &self.path, self.writer.sync()).await
    }

    async fn close(&mut self) -> Result<Option<u32>> {
        self.waiting.on_path("close", &self.path, self.writer.close()).await
    }

    fn position(&self) -> u64 {
        self.writer.position()
    }

    fn goes_on(&self) -> bool {
        self.writer.goes_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_testkit::wait::pause_task;
    use tokio::time::timeout;

    fn noted() -> (Waiting, Arc<Mutex<Vec<String>>>) {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let sink = notices.clone();
        let tell = move |notice: &str| sink.lock().unwrap().push(notice.to_owned());
        let state = "kadoop://nn:9091 hasn't answered".to_owned();
        (Waiting::telling(state, Typing::default(), Aliases::default(), tell), notices)
    }

    async fn answer_after(duration: Duration) {
        pause_task("the store takes so long", duration).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_answered_soon_prints_no_notice() {
        let (waiting, notices) = noted();
        waiting.on("stat /f", answer_after(Duration::from_millis(4_900))).await;
        assert!(notices.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_command_names_the_store_and_operation() {
        let (waiting, notices) = noted();
        waiting.on("stat /f", answer_after(Duration::from_secs(30))).await;
        assert_eq!(
            *notices.lock().unwrap(),
            [5, 20].map(|seconds| format!(
                "kadoop://nn:9091 hasn't answered for {seconds} s: stat /f; still waiting"
            ))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_notice_names_the_target_of_a_temporary_file_until_it_is_left() {
        let (waiting, notices) = noted();
        let path = |text| StorePath::parse(text).unwrap();
        let temporary = path("/d/.strait-put-0");
        let alias = waiting.0.aliases.add(&temporary, &path("/d/f"));
        waiting.on_path("close", &temporary, answer_after(Duration::from_secs(6))).await;
        drop(alias);
        answer_after(AGAIN).await;
        waiting.on_path("remove", &temporary, answer_after(Duration::from_secs(6))).await;
        let told = ["close /d/f", "remove /d/.strait-put-0"]
            .map(|asked| format!("kadoop://nn:9091 hasn't answered for 5 s: {asked}; still waiting"));
        assert_eq!(*notices.lock().unwrap(), told);
    }

    #[tokio::test(start_paused = true)]
    async fn a_person_who_types_a_password_gets_no_notice() {
        let (waiting, notices) = noted();
        let typing = waiting.0.typing.clone();
        let log_in = async {
            typing.set(Typed::Now);
            pause_task("somebody types", Duration::from_secs(60)).await;
            typing.set(Typed::Until(Instant::now()));
            answer_after(Duration::from_secs(6)).await;
        };
        waiting.on("connect", log_in).await;
        let told = ["kadoop://nn:9091 hasn't answered for 5 s: connect; still waiting"];
        assert_eq!(*notices.lock().unwrap(), told, "only of the time after");
    }

    #[tokio::test(start_paused = true)]
    async fn operations_waiting_for_one_store_print_one_notice() {
        let (waiting, notices) = noted();
        let never = std::future::pending::<()>;
        let both = futures::future::join(waiting.on("stat /a", never()), waiting.on("stat /b", never()));
        timeout(Duration::from_secs(12), both).await.unwrap_err();
        assert_eq!(notices.lock().unwrap().len(), 1);
    }
}
