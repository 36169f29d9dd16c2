//! Tests of concurrent requests: each request begins at each step of the other, in a store whose operations
//! take time.

use super::*;
use async_trait::async_trait;
use futures::future::maybe_done;
use futures::poll;
use futures::stream::BoxStream;
use std::sync::atomic::AtomicBool;
use strait_store::{Capabilities, FileReader, FileWriter, Result, SetAttributes};
use tokio::task::yield_now;

/// Upper bound of the steps that a request is advanced: more than any request takes.
const STEPS: usize = 24;

/// A store whose operations wait for one step before they execute, and for one step after.
struct Slow {
    store: MemoryStore,
    /// Refuse to remove or rename.
    refuses: AtomicBool,
}

impl Slow {
    async fn takes_time<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        yield_now().await;
        let outcome = operation.await;
        yield_now().await;
        outcome
    }

    fn check(&self) -> Result<()> {
        match self.refuses.load(Ordering::Relaxed) {
            true => fail(ErrorKind::PermissionDenied, "names stay"),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl FileSystem for Slow {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        self.takes_time(self.store.stat(who, path)).await
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        self.store.list(who, path)
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        self.takes_time(self.store.open(who, path)).await
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        self.takes_time(self.store.create(who, path, options)).await
    }

    async fn append(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        self.takes_time(self.store.append(who, path)).await
    }

    async fn truncate(&self, who: &Principal, path: &StorePath, length: u64) -> Result<()> {
        self.takes_time(self.store.truncate(who, path, length)).await
    }

    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.check()?;
        self.takes_time(self.store.rename(who, from, to, replace)).await
    }

    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.check()?;
        self.takes_time(self.store.remove(who, path, recursive)).await
    }

    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()> {
        self.takes_time(self.store.mkdirs(who, path, permission)).await
    }

    async fn set_attributes(&self, who: &Principal, path: &StorePath, set: &SetAttributes) -> Result<()> {
        self.takes_time(self.store.set_attributes(who, path, set)).await
    }
}

/// A mount of a slow store.
struct Race {
    scene: Scene,
    slow: Arc<Slow>,
}

impl Race {
    fn new() -> Self {
        let scene = Scene::new();
        let slow = Arc::new(Slow { store: scene.store.clone(), refuses: AtomicBool::new(false) });
        let settings = scene.core.settings.clone();
        let core = Core::new(slow.clone(), StorePath::root(), settings, Kept::default());
        Self { scene: Scene { core, ..scene }, slow }
    }

    fn core(&self) -> &Core {
        &self.scene.core
    }

    async fn node(&self, parent: u64, name: &str) -> u64 {
        self.core().lookup(CALLER, parent, OsStr::new(name)).await.unwrap().node
    }

    /// Creates and closes a file whose node the kernel knows.
    async fn file(&self, parent: u64, name: &str, text: &'static str) -> u64 {
        let made = self.core().create(CALLER, parent, OsStr::new(name), 0o644, O_WRONLY).await;
        let handle = made.unwrap().1.handle;
        self.scene.write(handle, 0, text).await.unwrap();
        self.core().flush(handle).await.unwrap();
        self.core().release(handle).await;
        self.node(parent, name).await
    }

    async fn directory(&self, name: &str) -> u64 {
        self.core().mkdir(CALLER, ROOT, OsStr::new(name), 0o755).await.unwrap().node
    }

    async fn unlink(&self, name: &str) -> Answer<()> {
        self.core().unlink(CALLER, ROOT, OsStr::new(name)).await
    }

    async fn rename(&self, from: &str, to: &str) -> Answer<()> {
        self.core().rename(CALLER, (ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)), true).await
    }

    async fn open(&self, node: u64, flags: i32) -> Answer<u64> {
        self.core().open(CALLER, node, flags).await.map(|opened| opened.handle)
    }

    async fn read(&self, handle: u64) -> String {
        let bytes = self.core().read(handle, 0, 100).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn names(&self, node: u64) -> Vec<String> {
        let directory = self.core().opendir(CALLER, node).await.unwrap();
        let mut names = Vec::new();
        let add = |_: u64, name: &OsStr, _: &Attributes, _: Duration| {
            names.push(name.to_str().unwrap().to_owned());
            false
        };
        self.core().readdir(CALLER, directory, 0, add).await.unwrap();
        names.sort_unstable();
        names
    }
}

/// Runs `steps.0` steps of the first request, then `steps.1` steps of the second, and then both in turn.
async fn meet<A, B>(
    steps: (usize, usize),
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> (A, B) {
    let (mut first, mut second) = (Box::pin(maybe_done(first)), Box::pin(maybe_done(second)));
    for _ in 0..steps.0 {
        let _ = poll!(&mut first);
    }
    for _ in 0..steps.1 {
        let _ = poll!(&mut second);
    }
    let both = async { futures::join!(&mut first, &mut second) };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("one waits for the other forever");
    (first.as_mut().take_output().unwrap(), second.as_mut().take_output().unwrap())
}

/// Each number of steps of the first request, combined with some numbers of steps of the second.
fn all_steps() -> impl Iterator<Item = (usize, usize)> {
    (0..STEPS).flat_map(|first| [0, 1, 2, 3, 5, 8, 13, STEPS].map(|second| (first, second)))
}

#[tokio::test]
async fn a_file_that_is_opened_while_it_is_removed_stays_whole_or_is_gone() {
    for name in ["f", "f.ckpt"] {
        for steps in all_steps() {
            for flags in [O_RDONLY, 2] {
                let race = Race::new();
                let node = race.file(ROOT, name, "whole").await;
                let (opened, removed) = meet(steps, race.open(node, flags), race.unlink(name)).await;
                removed.unwrap();
                match opened {
                    Ok(handle) => {
                        assert_eq!(race.read(handle).await, "whole", "{name}, {flags}, {steps:?}");
                        if flags != O_RDONLY {
                            race.scene.write(handle, 5, " and more").await.unwrap();
                            race.core().fsync(handle).await.unwrap();
                            assert_eq!(race.read(handle).await, "whole and more", "{name}, {steps:?}");
                            race.core().flush(handle).await.unwrap();
                        }
                        race.core().release(handle).await;
                    }
                    Err(fault) => assert_eq!(fault, Fault(ESTALE), "{name}, {steps:?}"),
                }
                assert!(race.names(ROOT).await.is_empty(), "{name}, {steps:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_is_opened_while_another_takes_its_name_is_one_of_both() {
    for (from, to) in [("a", "b"), ("a.ckpt", "b.ckpt"), ("a", "b.ckpt")] {
        for steps in all_steps() {
            let race = Race::new();
            race.file(ROOT, from, "new").await;
            let node = race.file(ROOT, to, "old").await;
            let (opened, renamed) = meet(steps, race.open(node, O_RDONLY), race.rename(from, to)).await;
            renamed.unwrap();
            let handle = match opened {
                Ok(handle) => {
                    assert_eq!(race.read(handle).await, "old", "{to}, {steps:?}");
                    handle
                }
                Err(fault) => {
                    // The kernel looks up the name again.
                    assert_eq!(fault, Fault(ESTALE), "{to}, {steps:?}");
                    let handle = race.open(race.node(ROOT, to).await, O_RDONLY).await.unwrap();
                    assert_eq!(race.read(handle).await, "new", "{to}, {steps:?}");
                    handle
                }
            };
            race.core().release(handle).await;
            assert_eq!(race.names(ROOT).await, [to], "{steps:?}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_opened_while_it_is_renamed_is_written_under_its_new_name() {
    for (from, to) in [("a", "b"), ("a.ckpt", "b.ckpt")] {
        for steps in all_steps() {
            for flags in [O_RDONLY, 2] {
                let race = Race::new();
                let node = race.file(ROOT, from, "text").await;
                let (opened, renamed) = meet(steps, race.open(node, flags), race.rename(from, to)).await;
                renamed.unwrap();
                let handle = opened.unwrap();
                assert_eq!(race.read(handle).await, "text", "{from}, {steps:?}");
                if flags != O_RDONLY {
                    race.scene.write(handle, 4, " and more").await.unwrap();
                    race.core().flush(handle).await.unwrap();
                }
                race.core().release(handle).await;
                assert_eq!(race.names(ROOT).await, [to], "{steps:?}");
                let length = race.core().getattr(CALLER, node).await.unwrap().status.length;
                assert_eq!(length, if flags == O_RDONLY { 4 } else { 13 }, "{from}, {steps:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_file_whose_removal_or_replacement_fails_meanwhile_is_opened() {
    for name in ["f", "f.ckpt"] {
        for steps in all_steps() {
            let race = Race::new();
            let node = race.file(ROOT, name, "text").await;
            race.file(ROOT, "other.ckpt", "other").await;
            race.slow.refuses.store(true, Ordering::Relaxed);
            let (opened, removed) = meet(steps, race.open(node, O_RDONLY), race.unlink(name)).await;
            removed.unwrap_err();
            race.core().release(opened.unwrap()).await;
            let renames = race.rename("other.ckpt", name);
            let (opened, renamed) = meet(steps, race.open(node, O_RDONLY), renames).await;
            renamed.unwrap_err();
            assert_eq!(race.read(opened.unwrap()).await, "text", "{name}, {steps:?}");
        }
    }
}

#[tokio::test]
async fn a_file_that_is_opened_while_its_directory_is_renamed_is_written_there() {
    for name in ["f", "f.ckpt"] {
        for steps in all_steps() {
            let race = Race::new();
            let directory = race.directory("d").await;
            let node = race.file(directory, name, "text").await;
            let (opened, renamed) = meet(steps, race.open(node, 2), race.rename("d", "e")).await;
            renamed.unwrap();
            let handle = opened.unwrap();
            race.scene.write(handle, 4, " and more").await.unwrap();
            race.core().flush(handle).await.unwrap();
            race.core().release(handle).await;
            assert_eq!(
                (race.names(ROOT).await, race.names(directory).await),
                (vec!["e".into()], vec![name.into()])
            );
            let length = race.core().getattr(CALLER, node).await.unwrap().status.length;
            assert_eq!(length, 13, "{name}, {steps:?}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_is_made_while_its_directory_is_renamed_is_made_there() {
    for name in ["f", "f.ckpt", "made"] {
        for steps in all_steps() {
            let race = Race::new();
            let directory = race.directory("d").await;
            let entry = OsStr::new(name);
            let makes = async {
                match name {
                    "made" => race.core().mkdir(CALLER, directory, entry, 0o755).await.map(drop),
                    _ => {
                        let creates = race.core().create(CALLER, directory, entry, 0o644, O_WRONLY);
                        let handle = creates.await?.1.handle;
                        race.scene.write(handle, 0, "text").await?;
                        race.core().flush(handle).await?;
                        race.core().release(handle).await;
                        Ok(())
                    }
                }
            };
            let (made, renamed) = meet(steps, makes, race.rename("d", "e")).await;
            made.unwrap();
            renamed.unwrap();
            assert_eq!(race.names(ROOT).await, ["e"], "{steps:?}");
            assert_eq!(race.names(directory).await, [name], "{steps:?}");
        }
    }
}

#[tokio::test]
async fn an_entry_is_removed_or_moved_while_its_directory_is_renamed() {
    for name in ["f", "f.ckpt", "made"] {
        for steps in all_steps() {
            let race = Race::new();
            let (directory, entry) = (race.directory("d").await, OsStr::new(name));
            match name {
                "made" => drop(race.core().mkdir(CALLER, directory, entry, 0o755).await.unwrap()),
                _ => drop(race.file(directory, name, "text").await),
            }
            let moved = race.core().rename(CALLER, (directory, entry), (ROOT, entry), true);
            let (moved, renamed) = meet(steps, moved, race.rename("d", "e")).await;
            moved.unwrap();
            renamed.unwrap();
            assert_eq!(race.names(ROOT).await, ["e", name], "{steps:?}");
            let back = race.core().rename(CALLER, (ROOT, entry), (directory, entry), true).await;
            back.unwrap();
            let removes = async {
                match name {
                    "made" => race.core().rmdir(CALLER, directory, entry).await,
                    _ => race.core().unlink(CALLER, directory, entry).await,
                }
            };
            let (removed, renamed) = meet(steps, removes, race.rename("e", "d")).await;
            removed.unwrap();
            renamed.unwrap();
            assert_eq!(race.names(ROOT).await, ["d"], "{steps:?}");
            assert!(race.names(directory).await.is_empty(), "{steps:?}");
        }
    }
}

#[tokio::test]
async fn a_directory_that_is_removed_gets_no_entry_meanwhile() {
    for steps in all_steps() {
        let race = Race::new();
        let (directory, entry) = (race.directory("d").await, OsStr::new("f"));
        let makes = race.core().create(CALLER, directory, entry, 0o644, O_WRONLY);
        let removes = race.core().rmdir(CALLER, ROOT, OsStr::new("d"));
        let (made, removed) = meet(steps, makes, removes).await;
        assert_ne!(made.is_ok(), removed.is_ok(), "{steps:?}");
        let left: &[&str] = if removed.is_ok() { &[] } else { &["d"] };
        assert_eq!(race.names(ROOT).await, left, "{steps:?}");
    }
}

#[tokio::test]
async fn attributes_are_found_and_set_while_a_file_moves() {
    for name in ["f", "f.ckpt"] {
        for steps in all_steps() {
            let race = Race::new();
            let directory = race.directory("d").await;
            let node = race.file(directory, name, "text").await;
            let open = race.open(node, O_RDONLY).await.unwrap();
            // As fstat(2) beside unlink(2).
            let looks = race.core().getattr(CALLER, node);
            let removes = race.core().unlink(CALLER, directory, OsStr::new(name));
            let (looked, removed) = meet(steps, looks, removes).await;
            removed.unwrap();
            assert_eq!(looked.unwrap().status.length, 4, "{name}, {steps:?}");
            race.core().release(open).await;

            let node = race.file(directory, name, "text").await;
            let looks = race.core().lookup(CALLER, directory, OsStr::new(name));
            let (looked, renamed) = meet(steps, looks, race.rename("d", "e")).await;
            renamed.unwrap();
            assert_eq!(looked.unwrap().node, node, "{name}, {steps:?}");

            let change = Change { mode: Some(0o600), size: Some(2), ..Change::default() };
            let sets = race.core().setattr(CALLER, node, None, change);
            let (set, renamed) = meet(steps, sets, race.rename("e", "d")).await;
            renamed.unwrap();
            let status = set.unwrap().status;
            assert_eq!((status.length, status.permission), (2, 0o600), "{name}, {steps:?}");
        }
    }
}

#[tokio::test]
async fn a_removed_file_that_is_opened_again_while_it_is_closed_stays_whole_or_is_gone() {
    for name in ["f", "f.ckpt"] {
        for steps in all_steps() {
            let race = Race::new();
            let node = race.file(ROOT, name, "whole").await;
            let first = race.open(node, O_RDONLY).await.unwrap();
            race.unlink(name).await.unwrap();
            // As by opening /proc/self/fd/N.
            let (opened, ()) = meet(steps, race.open(node, O_RDONLY), race.core().release(first)).await;
            match opened {
                Ok(handle) => {
                    assert_eq!(race.read(handle).await, "whole", "{name}, {steps:?}");
                    race.core().release(handle).await;
                }
                Err(fault) => assert_eq!(fault, Fault(ESTALE), "{name}, {steps:?}"),
            }
            assert!(race.names(ROOT).await.is_empty(), "{name}, {steps:?}");
        }
    }
}

#[tokio::test]
async fn a_removal_that_is_abandoned_keeps_nobody_waiting() {
    let race = Race::new();
    let node = race.file(ROOT, "f", "text").await;
    let mut opens = Box::pin(race.open(node, O_RDONLY));
    assert!(poll!(&mut opens).is_pending());
    let mut removes = Box::pin(race.unlink("f"));
    for _ in 0..STEPS {
        assert!(poll!(&mut removes).is_pending(), "it waits for the opening");
    }
    let mut later = Box::pin(race.open(node, O_RDONLY));
    for _ in 0..STEPS {
        assert!(poll!(&mut later).is_pending(), "it waits for the removal");
    }
    drop(removes);
    for opened in [later.await, opens.await] {
        race.core().release(opened.unwrap()).await;
    }
    race.unlink("f").await.unwrap();
}
