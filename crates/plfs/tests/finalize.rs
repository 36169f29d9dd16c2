//! Converting logical files to plain ones.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use strait_plfs::{Container, Finalized, Options, Way};
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileReader, FileStatus, FileStore, FileSystem,
    FileSystemExt, FileWriter, MemoryStore, Principal, Result, StorePath,
};

/// A store that counts the bytes of data logs and plain files that are read or written through it. From a
/// chosen change on, all its changes fail.
struct Watched {
    behind: MemoryStore,
    joins: bool,
    moved: Arc<AtomicU64>,
    /// Number of changes that still succeed. Later ones fail.
    left: AtomicU64,
    /// Whether the first change that fails is executed nevertheless.
    executes: bool,
    /// Work of other processes that runs right before the first change of this kind.
    meanwhile: Mutex<Option<(&'static str, BoxFuture<'static, ()>)>>,
}

impl Watched {
    fn new(joins: bool) -> Self {
        let (behind, moved) = (MemoryStore::new("tester"), Arc::default());
        let (left, meanwhile) = (AtomicU64::new(u64::MAX), Mutex::default());
        Self { behind, joins, moved, left, executes: false, meanwhile }
    }

    /// Another view of the same files, whose changes fail after `left`.
    fn failing(&self, left: u64, executes: bool) -> Self {
        let (behind, moved) = (self.behind.clone(), self.moved.clone());
        let (left, meanwhile) = (AtomicU64::new(left), Mutex::default());
        Self { behind, joins: self.joins, moved, left, executes, meanwhile }
    }

    /// Another view of the same files. `act`, the work of other processes, runs right before its first change
    /// of this kind.
    fn interrupted(&self, kind: &'static str, act: impl Future<Output = ()> + Send + 'static) -> Self {
        let meanwhile = Mutex::new(Some((kind, Box::pin(act) as BoxFuture<'static, ()>)));
        Self { meanwhile, ..self.failing(u64::MAX, false) }
    }

    async fn before(&self, kind: &str) {
        let act = self.meanwhile.lock().unwrap().take_if(|(first, _)| *first == kind);
        if let Some((_, act)) = act {
            act.await;
        }
    }

    async fn change<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        let error = || Error::new(ErrorKind::Unavailable, "the store is away");
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(1) if self.executes => {
                change.await?;
                Err(error())
            }
            Ok(_) => change.await,
            Err(_) => Err(error()),
        }
    }
}

#[async_trait]
impl FileSystem for Watched {
    fn capabilities(&self) -> Capabilities {
        Capabilities { concat: self.joins, ..self.behind.capabilities() }
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.behind.stat(who, path).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        self.behind.list(who, path)
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let behind = self.behind.open(who, path).await?;
        let moved = path.as_str().ends_with(".data").then(|| self.moved.clone());
        Ok(Box::new(Counted { behind, moved }))
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        self.before("create").await;
        self.change(self.behind.create(who, path, options)).await
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.change(self.behind.append(who, path)).await
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.before("truncate").await;
        self.change(self.behind.truncate(who, path, length)).await
    }

    async fn concat(&self, who: &Principal, target: &StorePath, sources: &[StorePath]) -> Result<()> {
        assert!(self.joins);
        self.before("concat").await;
        self.change(self.behind.concat(who, target, sources)).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.before("rename").await;
        self.change(self.behind.rename(who, from, to, replace)).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.before("remove").await;
        self.change(self.behind.remove(who, path, recursive)).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.change(self.behind.mkdirs(who, path, permission)).await
    }
}

struct Counted {
    behind: Box<dyn FileReader>,
    moved: Option<Arc<AtomicU64>>,
}

#[async_trait]
impl FileReader for Counted {
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes> {
        let bytes = self.behind.read_at(offset, length).await?;
        if let Some(moved) = &self.moved {
            moved.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        }
        Ok(bytes)
    }

    fn length(&self) -> u64 {
        self.behind.length()
    }

    fn identity(&self) -> Option<Bytes> {
        self.behind.identity()
    }
}

fn who() -> Principal {
    Principal::new("tester")
}

fn at(path: &str) -> StorePath {
    StorePath::parse(path).unwrap()
}

async fn create(fs: &Arc<dyn FileSystem>) -> Container {
    fs.mkdirs(&who(), &at("/run"), None).await.unwrap();
    Container::create(fs.clone(), &who(), &at("/run/ckpt"), &Options::default()).await.unwrap()
}

const SEGMENT: usize = 1_000;

/// Each writer writes its part of the file, in the order of the ranks or not.
async fn segments(container: &Container, ranks: &[u64]) -> Vec<u8> {
    let mut whole = vec![0; ranks.len() * SEGMENT];
    for rank in ranks {
        let mut writer = container.writer(*rank as u32);
        for part in 0..10 {
            let (offset, fill) = (*rank * SEGMENT as u64 + part * 100, (rank * 10 + part) as u8);
            writer.write_at(offset, vec![fill; 100].into()).await.unwrap();
            whole[offset as usize..][..100].fill(fill);
        }
        writer.close().await.unwrap();
    }
    whole
}

async fn content(fs: &Arc<dyn FileSystem>, path: &str) -> Vec<u8> {
    fs.read_all(&who(), &at(path), 1 << 20).await.unwrap()
}

async fn names(fs: &Arc<dyn FileSystem>, path: &str) -> Vec<String> {
    let entries = fs.list_all(&who(), &at(path), 99).await.unwrap();
    entries.iter().map(|entry| entry.name().to_owned()).collect()
}

#[tokio::test]
async fn contiguous_logs_are_joined_without_reading_a_byte() {
    let watched = Watched::new(true);
    let moved = watched.moved.clone();
    let fs: Arc<dyn FileSystem> = Arc::new(watched);
    let container = create(&fs).await;
    let whole = segments(&container, &[3, 0, 2, 1]).await;
    assert_eq!(container.way().await.unwrap(), Way::Join { logs: 4 });
    let done = container.finalize(&at("/run/plain")).await.unwrap();
    assert_eq!(done, Finalized { bytes: 4_000, moved: 0 });
    assert_eq!(moved.load(Ordering::SeqCst), 0);
    assert!(content(&fs, "/run/plain").await == whole);
    assert_eq!(names(&fs, "/run").await, ["plain"]);
}

#[tokio::test]
async fn dead_bytes_at_the_ends_of_logs_are_cut_off() {
    let fs: Arc<dyn FileSystem> = Arc::new(Watched::new(true));
    let container = create(&fs).await;
    let whole = segments(&container, &[0, 1]).await;
    // Unsynced bytes of a crashed writer, and bytes that a truncation removed from the file.
    let mut crashed = container.writer(2);
    crashed.write_at(2_000, Bytes::from_static(b"the end, and more")).await.unwrap();
    crashed.sync().await.unwrap();
    crashed.write_at(5_000, Bytes::from_static(b"unsynced")).await.unwrap();
    drop(crashed);
    assert_eq!(container.way().await.unwrap_err().kind(), ErrorKind::Busy);
    container.recover().await.unwrap();
    let mut cutter = container.writer(0);
    cutter.truncate(2_007).await.unwrap();
    cutter.close().await.unwrap();
    assert_eq!(container.way().await.unwrap(), Way::Join { logs: 3 });
    container.finalize(&at("/run/plain")).await.unwrap();
    assert!(content(&fs, "/run/plain").await == [&whole[..], b"the end"].concat());
}

#[tokio::test]
async fn a_single_log_needs_no_store_that_joins() {
    let dir = tempfile::tempdir().unwrap();
    let fs: Arc<dyn FileSystem> = Arc::new(FileStore::open(dir.path(), false).unwrap());
    let container = create(&fs).await;
    let whole = segments(&container, &[0]).await;
    assert_eq!(container.finalize(&at("/run/plain")).await.unwrap().moved, 0);
    assert!(content(&fs, "/run/plain").await == whole);
}

#[tokio::test]
async fn what_cant_be_joined_is_rewritten_and_says_why() {
    for (joins, why) in [
        (true, "the log of rank 0 isn't one contiguous part of the file, as byte 200 of the file shows"),
        (false, "the store can't join files"),
    ] {
        let fs: Arc<dyn FileSystem> = Arc::new(Watched::new(joins));
        let container = create(&fs).await;
        let mut whole = segments(&container, &[0, 1]).await;
        if joins {
            let mut second = container.writer(1);
            second.write_at(100, vec![9; 100].into()).await.unwrap();
            second.close().await.unwrap();
            whole[100..200].fill(9);
        }
        assert_eq!(container.way().await.unwrap(), Way::Rewrite { bytes: 2_000, why: why.to_owned() });
        let done = container.finalize(&at("/run/plain")).await.unwrap();
        assert_eq!(done, Finalized { bytes: 2_000, moved: 2_000 });
        assert!(content(&fs, "/run/plain").await == whole);
        assert_eq!(names(&fs, "/run").await, ["plain"]);
    }
}

#[tokio::test]
async fn a_large_file_is_rewritten_in_parts_that_are_joined() {
    const CHUNK: usize = 4 << 20;
    let fs: Arc<dyn FileSystem> = Arc::new(Watched::new(true));
    let container = create(&fs).await;
    let mut writers = [container.writer(0), container.writer(1)];
    for chunk in 0..40_usize {
        let data = Bytes::from(vec![chunk as u8 + 1; CHUNK]);
        writers[chunk % 2].write_at((chunk * CHUNK) as u64 + 1, data).await.unwrap();
    }
    for writer in &mut writers {
        writer.close().await.unwrap();
    }
    container.finalize(&at("/run/plain")).await.unwrap();
    assert_eq!(names(&fs, "/run").await, ["plain"]);
    let reader = fs.open(&who(), &at("/run/plain")).await.unwrap();
    assert_eq!(reader.length(), (40 * CHUNK) as u64 + 1);
    for chunk in 0..40 {
        let bytes = reader.read_at((chunk * CHUNK) as u64 + 1, CHUNK).await.unwrap();
        assert!(bytes.iter().all(|byte| *byte == chunk as u8 + 1), "chunk {chunk}");
    }
}

#[tokio::test]
async fn it_resumes_after_a_failure_of_each_step_and_is_readable_meanwhile() {
    for in_place in [false, true] {
        for executes in [false, true] {
            for left in 0.. {
                let watched = Watched::new(true);
                let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
                let whole = segments(&create(&sound).await, &[2, 0, 1]).await;
                let before = open(&sound, "/run/ckpt").await.reader().await.unwrap();
                let target = at(if in_place { "/run/ckpt" } else { "/run/plain" });
                let failing: Arc<dyn FileSystem> = Arc::new(watched.failing(left, executes));
                let container = open(&failing, "/run/ckpt").await;
                let failed = container.finalize(&target).await;

                // The container may be beside its name.
                let mut rest = names(&sound, "/run").await;
                rest.retain(|name| *name != "plain");
                let name = rest.first().map_or("none", String::as_str);
                let now = Container::open(sound.clone(), &who(), &at(&format!("/run/{name}"))).await;
                if let Ok(now) = now {
                    let reader = now.reader().await.unwrap();
                    let read = reader.read_at(0, 1 << 20).await;
                    assert!(read.unwrap() == whole, "step {left}");
                    if now.path().as_str() == "/run/ckpt" {
                        assert!(before.read_at(0, 1 << 20).await.unwrap() == whole, "step {left}");
                        assert!(now.check().await.unwrap().is_empty(), "step {left}");
                    }
                    now.finalize(&target).await.unwrap();
                }
                assert!(content(&sound, target.as_str()).await == whole, "step {left}");
                assert_eq!(names(&sound, "/run").await, [target.name()], "step {left}");
                if failed.is_ok() {
                    assert!(left > 4, "there are several steps");
                    break;
                }
            }
        }
    }
}

async fn open(fs: &Arc<dyn FileSystem>, path: &str) -> Container {
    Container::open(fs.clone(), &who(), &at(path)).await.unwrap()
}

#[tokio::test]
async fn no_writer_begins_while_logs_are_joined() {
    let watched = Watched::new(true);
    let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
    let container = create(&sound).await;
    segments(&container, &[0, 1]).await;
    // The plan's two changes.
    let failing: Arc<dyn FileSystem> = Arc::new(watched.failing(2, false));
    open(&failing, "/run/ckpt").await.finalize(&at("/run/plain")).await.unwrap_err();
    let error = container.writer(5).write_at(0, Bytes::from_static(b"late")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let mut open_writer = container.writer(6);
    assert!(open_writer.write_at(0, Bytes::from_static(b"late")).await.is_err());
    assert_eq!(container.finalize(&at("/run/other")).await.unwrap().moved, 0, "under another name, too");
    assert_eq!(names(&sound, "/run").await, ["other"]);
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_before_anything_happens() {
    let fs: Arc<dyn FileSystem> = Arc::new(Watched::new(true));
    let container = create(&fs).await;
    segments(&container, &[0, 1]).await;
    fs.write_all(&who(), &at("/run/plain"), &CreateOptions::default(), Bytes::new()).await.unwrap();
    let error = container.finalize(&at("/run/plain")).await.unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::AlreadyExists, "/run/plain"));
    assert!(!fs.exists(&who(), &at("/run/ckpt/plan")).await.unwrap());
    let inside = container.finalize(&at("/run/ckpt/logs/plain")).await.unwrap_err();
    assert_eq!(inside.kind(), ErrorKind::InvalidArgument);
}

/// The content of the plan that a call leaves if it ends before it joins anything.
async fn left_plan(watched: &Watched, container: &Container, to: &str) -> Bytes {
    // Writing the plan takes two changes.
    let failing: Arc<dyn FileSystem> = Arc::new(watched.failing(2, false));
    open(&failing, container.path().as_str()).await.finalize(&at(to)).await.unwrap_err();
    watched.read_all(&who(), &at("/run/ckpt/plan"), 1 << 20).await.unwrap().into()
}

/// A writer looks for a plan right before a call makes one. Then the call's process crashes.
#[tokio::test]
async fn a_writer_that_came_before_the_plan_loses_nothing_to_a_resumed_call() {
    for joinable in [true, false] {
        let watched = Watched::new(true);
        let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
        let container = create(&sound).await;
        let mut whole = segments(&container, &[0, 1]).await;
        let plan = left_plan(&watched, &container, "/run/plain").await;
        sound.remove(&who(), &at("/run/ckpt/plan"), false).await.unwrap();
        let mut early = container.writer(2);
        let offset = if joinable { 2_000 } else { 1_995 };
        early.write_at(offset, Bytes::from_static(b"early bytes")).await.unwrap();
        early.sync().await.unwrap();
        whole.truncate(offset as usize);
        whole.extend_from_slice(b"early bytes");
        sound.write_all(&who(), &at("/run/ckpt/plan"), &CreateOptions::default(), plan).await.unwrap();

        let error = container.finalize(&at("/run/plain")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        early.close().await.unwrap();
        container.finalize(&at("/run/plain")).await.unwrap();
        assert!(content(&sound, "/run/plain").await == whole);
        assert_eq!(names(&sound, "/run").await, ["plain"]);
    }
}

/// The writer begins after the call has listed the logs, and closes before the call looks for writers.
#[tokio::test]
async fn a_writer_that_comes_and_goes_during_a_call_loses_nothing() {
    // If the logs are joined, the first rename is the plan's. If they are copied, the first create is the
    // copy's.
    for (joins, kind) in [(true, "rename"), (false, "create")] {
        let watched = Watched::new(joins);
        let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
        let container = create(&sound).await;
        let mut whole = segments(&container, &[0, 1]).await;
        let of_writer = container.clone();
        let interrupted: Arc<dyn FileSystem> = Arc::new(watched.interrupted(kind, async move {
            let mut writer = of_writer.writer(2);
            writer.write_at(2_000, Bytes::from_static(b"meanwhile")).await.unwrap();
            writer.close().await.unwrap();
        }));
        whole.extend_from_slice(b"meanwhile");
        let error = open(&interrupted, "/run/ckpt").await.finalize(&at("/run/plain")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
        assert_eq!(names(&sound, "/run").await, ["ckpt"], "no copy is left");
        container.finalize(&at("/run/plain")).await.unwrap();
        assert!(content(&sound, "/run/plain").await == whole);
    }
}

#[tokio::test]
async fn no_writer_begins_after_the_last_look_at_the_logs() {
    for joins in [true, false] {
        let watched = Watched::new(joins);
        let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
        let container = create(&sound).await;
        let whole = segments(&container, &[0, 1]).await;
        let of_writer = container.clone();
        // The container's own removal.
        let interrupted: Arc<dyn FileSystem> = Arc::new(watched.interrupted("remove", async move {
            let error = of_writer.writer(2).write_at(0, Bytes::from_static(b"late")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Busy);
        }));
        open(&interrupted, "/run/ckpt").await.finalize(&at("/run/plain")).await.unwrap();
        assert!(content(&sound, "/run/plain").await == whole);
    }
}

/// A call that copies is interrupted after each of its changes, and then repeated.
#[tokio::test]
async fn a_copy_that_was_cut_off_is_resumed_and_loses_nothing() {
    for executes in [false, true] {
        for left in 1..40 {
            let mut watched = Watched::new(false);
            watched.executes = executes;
            let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
            let container = create(&sound).await;
            let whole = segments(&container, &[1, 0]).await;
            let failing: Arc<dyn FileSystem> = Arc::new(watched.failing(left, executes));
            let cut = open(&failing, "/run/ckpt").await.finalize(&at("/run/plain")).await;
            if cut.is_err() {
                match Container::open(sound.clone(), &who(), &at("/run/ckpt")).await {
                    Ok(container) => drop(container.finalize(&at("/run/plain")).await.unwrap()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
            assert!(content(&sound, "/run/plain").await == whole, "after {left} changes");
            if cut.is_ok() {
                break;
            }
            assert!(left < 39, "it never ends");
        }
    }
}

#[tokio::test]
async fn a_failed_copy_leaves_anothers_plan_alone() {
    let watched = Watched::new(false);
    let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
    let container = create(&sound).await;
    segments(&container, &[1, 0]).await;
    let other = sound.clone();
    let plan = at("/run/ckpt/plan");
    // Another call's plan comes while this one copies.
    let interrupted: Arc<dyn FileSystem> = Arc::new(watched.interrupted("rename", async move {
        let text = Bytes::from_static(b"another's");
        other.write_all(&who(), &plan, &CreateOptions::default(), text).await.unwrap();
    }));
    open(&interrupted, "/run/ckpt").await.finalize(&at("/run/plain")).await.unwrap_err();
    let text = sound.read_all(&who(), &at("/run/ckpt/plan"), 100).await.unwrap();
    assert_eq!(text, &b"another's"[..]);
}

#[tokio::test]
async fn of_two_calls_at_once_the_slower_one_harms_nothing() {
    for in_place in [false, true] {
        for kind in ["truncate", "rename", "concat", "remove"] {
            let watched = Watched::new(true);
            let sound: Arc<dyn FileSystem> = Arc::new(watched.failing(u64::MAX, false));
            let container = create(&sound).await;
            // The first log ends with dead bytes: no read returns them.
            let mut first = container.writer(0);
            first.write_at(0, Bytes::from_static(b"first, and more")).await.unwrap();
            first.sync().await.unwrap();
            first.truncate(5).await.unwrap();
            first.close().await.unwrap();
            let mut second = container.writer(1);
            second.write_at(5, Bytes::from_static(b" second")).await.unwrap();
            second.close().await.unwrap();

            let target = at(if in_place { "/run/ckpt" } else { "/run/plain" });
            let (other, to) = (container.clone(), target.clone());
            let other = async move {
                let done = other.finalize(&to).await;
                // The other call's first removal is that of the container. By then, the plain file has its
                // name.
                assert!(done.is_ok() || kind == "remove", "{kind}: {done:?}");
            };
            let slow: Arc<dyn FileSystem> = Arc::new(watched.interrupted(kind, other));
            // This call can fail, but it must not damage the file that the other call has finished.
            let outcome = open(&slow, "/run/ckpt").await.finalize(&target).await;
            assert!(content(&sound, target.as_str()).await == b"first second", "{kind}: {outcome:?}");
            assert_eq!(names(&sound, "/run").await, [target.name()], "{kind}: {outcome:?}");
        }
    }
}
