//! Tests of the mount without FUSE, over a store in memory that other hosts change, too.

mod handing;
mod killing;
mod losing;
mod racing;

use super::*;
use crate::nodes::ROOT;
use bytes::Bytes;
use futures::FutureExt;
use strait_store::{CreateOptions, FileSystemExt, MemoryStore};

const CALLER: Caller = Caller { uid: 0, gid: 0, request: 0 };

struct Scene {
    store: MemoryStore,
    who: Principal,
    core: Core,
}

impl Scene {
    fn new() -> Self {
        Self::of(MemoryStore::new("ada"))
    }

    /// A mount of this store.
    fn of(store: MemoryStore) -> Self {
        let who = Principal::new("ada");
        let settings = Settings {
            identity: Identity::One(who.clone()),
            patience: Patience::Soft(Duration::from_secs(10)),
            lifetime: Duration::from_secs(1),
            logical: vec![Pattern::new("*.ckpt").unwrap()],
            read_only: false,
        };
        let core = Core::new(Arc::new(store.clone()), StorePath::root(), settings, Kept::default());
        Self { store, who, core }
    }

    fn path(name: &str) -> StorePath {
        StorePath::parse(&format!("/{name}")).unwrap()
    }

    /// Another host writes a file.
    async fn put(&self, name: &str, text: &'static str) {
        let options = CreateOptions { overwrite: true, ..CreateOptions::default() };
        self.store.write_all(&self.who, &Self::path(name), &options, Bytes::from(text)).await.unwrap();
    }

    async fn text(&self, name: &str) -> String {
        let bytes = self.store.read_all(&self.who, &Self::path(name), 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    async fn create(&self, name: &str) -> u64 {
        let created = self.core.create(CALLER, ROOT, OsStr::new(name), 0o644, O_WRONLY).await;
        created.unwrap().1.handle
    }

    async fn open(&self, name: &str, flags: i32) -> u64 {
        let node = self.core.lookup(CALLER, ROOT, OsStr::new(name)).await.unwrap().node;
        self.core.open(CALLER, node, flags).await.unwrap().handle
    }

    async fn write(&self, handle: u64, at: u64, text: &'static str) -> Answer<()> {
        self.core.write(0, handle, at, Bytes::from(text)).await
    }

    async fn names(&self) -> Vec<String> {
        let directory = self.core.opendir(CALLER, ROOT).await.unwrap();
        let mut names = Vec::new();
        let add = |_: u64, name: &OsStr, _: &Attributes, _: Duration| {
            names.push(name.to_str().unwrap().to_owned());
            false
        };
        self.core.readdir(CALLER, directory, 0, add).await.unwrap();
        names
    }

    /// Polls a request while the file is being renamed, as in a log rotation. Another host then creates a
    /// file with the old name.
    async fn while_rotated<T>(&self, handle: u64, request: impl Future<Output = T>) -> T {
        let (file, _) = self.core.file(handle).unwrap();
        let Body::Plain(plain) = &file.body else { unreachable!("a plain file") };
        let held = plain.lock().await;
        let mut request = Box::pin(request);
        assert!(request.as_mut().now_or_never().is_none(), "it waits for the rename");
        let (from, to) = (Self::path("log"), Self::path("log.1"));
        self.store.rename(&self.who, &from, &to, false).await.unwrap();
        lock(&self.core.nodes).rename((ROOT, "log"), (ROOT, "log.1"));
        plain.forget_reader();
        self.put("log", "another").await;
        drop(held);
        request.await
    }
}

#[tokio::test]
async fn a_write_that_waits_for_a_rename_goes_to_the_renamed_file() {
    let scene = Scene::new();
    let handle = scene.create("log").await;
    scene.write(handle, 0, "first ").await.unwrap();
    scene.core.flush(handle).await.unwrap();
    scene.while_rotated(handle, scene.write(handle, 6, "second")).await.unwrap();
    scene.core.flush(handle).await.unwrap();
    assert_eq!(
        (scene.text("log").await, scene.text("log.1").await),
        ("another".into(), "first second".into())
    );
}

#[tokio::test]
async fn a_read_that_waits_for_a_rename_reads_the_renamed_file() {
    let scene = Scene::new();
    scene.put("log", "the first").await;
    let handle = scene.open("log", O_RDONLY).await;
    let read = scene.while_rotated(handle, scene.core.read(handle, 0, 100)).await;
    assert_eq!(&read.unwrap()[..], b"the first");
}

#[tokio::test]
async fn a_removed_open_file_of_another_mount_survives_a_look_at_it() {
    let scene = Scene::new();
    scene.put(".strait-removed-0123456789abcdef", "open elsewhere").await;
    let handle = scene.open(".strait-removed-0123456789abcdef", O_RDONLY).await;
    scene.core.release(handle).await;
    assert_eq!(scene.text(".strait-removed-0123456789abcdef").await, "open elsewhere");
    // A removed file of this mount is removed with its last handle.
    let handle = scene.create("own").await;
    scene.core.unlink(CALLER, ROOT, OsStr::new("own")).await.unwrap();
    assert_eq!(scene.names().await.len(), 2);
    scene.core.release(handle).await;
    assert_eq!(scene.names().await, [".strait-removed-0123456789abcdef"]);
}

#[tokio::test]
async fn a_file_that_another_host_just_made_is_emptied_if_the_program_asks() {
    let scene = Scene::new();
    let other = Scene::of(scene.store.clone());
    for name in ["plain", "l.ckpt"] {
        let theirs = other.create(name).await;
        other.write(theirs, 0, "their longer text").await.unwrap();
        other.core.release(theirs).await;
        // The kernel looked up the name before that, and found nothing.
        let flags = O_WRONLY | O_TRUNC;
        let created = scene.core.create(CALLER, ROOT, OsStr::new(name), 0o644, flags).await;
        let (attributes, opened) = created.unwrap();
        assert_eq!(attributes.status.length, 0, "{name}");
        scene.write(opened.handle, 0, "ours").await.unwrap();
        scene.core.release(opened.handle).await;
        let handle = other.open(name, O_RDONLY).await;
        assert_eq!(&other.core.read(handle, 0, 100).await.unwrap()[..], b"ours", "{name}");
    }
}

#[tokio::test]
async fn a_length_is_right_while_a_writer_closes() {
    // The writer closes after this many status calls of the request.
    for looks in 1..=4 {
        let scene = Scene::new();
        let handle = scene.create("f").await;
        scene.write(handle, 0, "text").await.unwrap();
        let node = scene.core.lookup(CALLER, ROOT, OsStr::new("f")).await.unwrap().node;
        let (file, _) = scene.core.file(handle).unwrap();
        let Body::Plain(plain) = &file.body else { unreachable!("a plain file") };
        let mut held = plain.lock().await;
        let mut request = Box::pin(scene.core.getattr(CALLER, node));
        let mut early = None;
        for _ in 0..looks {
            early = early.or_else(|| request.as_mut().now_or_never());
            if early.is_some() {
                break;
            }
            let mut next = Box::pin(plain.lock());
            assert!(next.as_mut().now_or_never().is_none());
            drop(held);
            early = request.as_mut().now_or_never();
            held = next.await;
        }
        held.settle(&Scene::path("f"), Level::Closed).await.unwrap();
        drop(held);
        let answer = match early {
            Some(answer) => answer,
            None => request.await,
        };
        assert_eq!(answer.unwrap().status.length, 4, "after {looks} looks");
    }
}

#[tokio::test]
async fn a_listing_that_takes_long_shows_lengths_as_they_are() {
    let scene = Scene::new();
    for name in ["a", "b"] {
        scene.put(name, "before").await;
    }
    let node = scene.core.lookup(CALLER, ROOT, OsStr::new("b")).await.unwrap().node;
    let directory = scene.core.opendir(CALLER, ROOT).await.unwrap();
    // The kernel has room for one entry.
    let mut listed = 0;
    let one = |_: u64, _: &OsStr, _: &Attributes, _: Duration| {
        listed += 1;
        listed > 1
    };
    scene.core.readdir(CALLER, directory, 0, one).await.unwrap();
    let handle = scene.core.open(CALLER, node, O_WRONLY).await.unwrap().handle;
    scene.write(handle, 6, " and after").await.unwrap();
    scene.core.release(handle).await;
    let mut lengths = Vec::new();
    let rest = |_: u64, _: &OsStr, attributes: &Attributes, _: Duration| {
        lengths.push(attributes.status.length);
        false
    };
    scene.core.readdir(CALLER, directory, 1, rest).await.unwrap();
    assert_eq!(lengths, [16]);
}

#[tokio::test]
async fn a_file_without_the_right_to_write_is_written_by_the_program_that_made_it() {
    let (store, root) = (MemoryStore::new("root"), Principal::new("root"));
    let open = strait_store::SetAttributes { permission: Some(0o777), ..Default::default() };
    store.set_attributes(&root, &StorePath::root(), &open).await.unwrap();
    let scene = Scene::of(store);
    let created = scene.core.create(CALLER, ROOT, OsStr::new("f"), 0o444, O_WRONLY).await.unwrap();
    let (node, handle) = (created.0.node, created.1.handle);
    scene.write(handle, 0, "one").await.unwrap();
    scene.core.flush(handle).await.unwrap(); // as when a child that inherited it closes it
    scene.write(handle, 3, " two").await.unwrap();
    scene.core.release(handle).await;
    assert_eq!(scene.text("f").await, "one two");
    assert_eq!(scene.core.getattr(CALLER, node).await.unwrap().status.permission, 0o444);
    // Another program may not write it.
    if let Ok(opened) = scene.core.open(CALLER, node, O_WRONLY).await {
        scene.write(opened.handle, 7, "more").await.unwrap();
        scene.core.flush(opened.handle).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_file_that_another_host_removed_is_not_the_one_that_is_made_anew() {
    let scene = Scene::new();
    let old = scene.create("f").await;
    scene.write(old, 0, "old").await.unwrap();
    scene.store.remove(&scene.who, &Scene::path("f"), false).await.unwrap();
    let new = scene.create("f").await;
    scene.write(new, 0, "new one").await.unwrap();
    scene.core.flush(new).await.unwrap();
    scene.core.flush(old).await.unwrap_err();
    assert_eq!(scene.text("f").await, "new one");
}

#[tokio::test]
async fn a_rename_that_fails_keeps_the_file_that_it_would_have_replaced() {
    let scene = Scene::new();
    scene.put("whole", "whole").await;
    let read = scene.open("whole", O_RDONLY).await;
    let written = scene.create("f").await;
    scene.core.flush(written).await.unwrap();
    scene.write(written, 0, "ours").await.unwrap();
    let (file, _) = scene.core.file(written).unwrap();
    let Body::Plain(plain) = &file.body else { unreachable!("a plain file") };
    let held = plain.lock().await;
    let (from, to) = ((ROOT, OsStr::new("f")), (ROOT, OsStr::new("whole")));
    let mut rename = Box::pin(scene.core.rename(CALLER, from, to, true));
    assert!(rename.as_mut().now_or_never().is_none());
    // Then the target's last handle is released, and the source loses its bytes.
    scene.core.release(read).await;
    let mut other = scene.store.append(&scene.who, &Scene::path("f")).await.unwrap();
    other.append(Bytes::from("by another")).await.unwrap();
    other.close().await.unwrap();
    drop(held);
    rename.await.unwrap_err();
    assert_eq!(scene.text("whole").await, "whole");
    let renamed = scene.core.rename(CALLER, to, (ROOT, OsStr::new("again")), true).await;
    renamed.unwrap();
    assert_eq!(scene.text("again").await, "whole");
}

#[tokio::test]
async fn a_listing_shows_files_that_are_damaged() {
    let scene = Scene::new();
    scene.create("whole.ckpt").await;
    scene.create("damaged.ckpt").await;
    scene.put("damaged.ckpt/.plfs", "no mark").await;
    let mut names = scene.names().await;
    names.sort_unstable();
    assert_eq!(names, ["damaged.ckpt", "whole.ckpt"]);
    let error = scene.core.lookup(CALLER, ROOT, OsStr::new("damaged.ckpt")).await.unwrap_err();
    assert_eq!(error, Fault(ErrorKind::Corrupt.row().errno));
}

#[tokio::test]
async fn a_file_whose_bytes_were_lost_can_be_removed_but_not_put_over_another() {
    let scene = Scene::new();
    scene.put("whole", "whole").await;
    let handle = scene.create("f").await;
    scene.core.flush(handle).await.unwrap();
    scene.write(handle, 0, "ours").await.unwrap();
    let mut other = scene.store.append(&scene.who, &Scene::path("f")).await.unwrap();
    other.append(Bytes::from("by another")).await.unwrap();
    other.close().await.unwrap();
    scene.core.flush(handle).await.unwrap_err();
    let (from, to) = ((ROOT, OsStr::new("f")), (ROOT, OsStr::new("whole")));
    scene.core.rename(CALLER, from, to, true).await.unwrap_err();
    assert_eq!(scene.text("whole").await, "whole");
    scene.core.unlink(CALLER, ROOT, OsStr::new("f")).await.unwrap();
    scene.core.release(handle).await;
    assert_eq!(scene.names().await, ["whole"]);
}

#[tokio::test]
async fn after_a_write_that_failed_at_a_flush_the_file_takes_no_others() {
    let scene = Scene::new();
    let handle = scene.create("f").await;
    scene.store.remove(&scene.who, &Scene::path("f"), false).await.unwrap();
    let piece = Bytes::from(vec![7; 1 << 20]);
    let mut at = 0;
    // Write until the mount has as many bytes as it keeps between two flushes.
    while scene.core.write(0, handle, at, piece.clone()).await.is_ok() {
        at += 1 << 20;
        assert!(at < 64 << 20, "no flush");
    }
    scene.write(handle, at + (1 << 20), "more").await.unwrap_err();
    scene.core.flush(handle).await.unwrap_err();
}

#[tokio::test]
async fn the_mounts_end_waits_for_files_that_are_being_released() {
    let scene = Scene::new();
    let handle = scene.create("f").await;
    scene.write(handle, 0, "mapped").await.unwrap();
    let (file, _) = scene.core.file(handle).unwrap();
    let Body::Plain(plain) = &file.body else { unreachable!("a plain file") };
    let held = plain.lock().await; // as while a slow store writes
    let mut release = Box::pin(scene.core.release(handle));
    assert!(release.as_mut().now_or_never().is_none());
    let mut end = Box::pin(scene.core.settle_all());
    assert!(end.as_mut().now_or_never().is_none(), "the mount would end without these bytes");
    drop(held);
    futures::join!(release, end);
    assert_eq!(scene.text("f").await, "mapped");
}

#[tokio::test]
async fn the_mounts_end_removes_files_that_were_removed_and_closed() {
    let scene = Scene::new();
    let handle = scene.create("f").await;
    scene.core.unlink(CALLER, ROOT, OsStr::new("f")).await.unwrap();
    let (file, _) = scene.core.file(handle).unwrap();
    // The release has got this far.
    assert!(scene.core.closed(&file));
    scene.core.settle_all().await;
    assert!(scene.names().await.is_empty());
}

#[tokio::test]
async fn a_container_that_another_host_put_in_the_place_of_an_open_one_is_another_file() {
    let scene = Scene::new();
    let old = scene.create("f.ckpt").await;
    scene.core.write(0, old, 0, Bytes::from_static(b"old")).await.unwrap();
    let (store, path) = (Arc::new(scene.store.clone()), Scene::path("f.ckpt"));
    Container::open(store.clone(), &scene.who, &path).await.unwrap().remove().await.unwrap();
    Container::create(store.clone(), &scene.who, &path, &strait_plfs::Options::default()).await.unwrap();

    // The kernel still holds the old file's last handle: it releases it some time after the program's close.
    let new = scene.open("f.ckpt", O_WRONLY).await;
    scene.core.write(0, new, 0, Bytes::from_static(b"newer")).await.unwrap();
    scene.core.fsync(new).await.unwrap();
    scene.core.fsync(old).await.unwrap_err();
    let node = scene.core.lookup(CALLER, ROOT, OsStr::new("f.ckpt")).await.unwrap().node;
    assert_eq!(scene.core.getattr(CALLER, node).await.unwrap().status.length, 5);
    scene.core.release(old).await;
    scene.core.release(new).await;
    let container = Container::open(store, &scene.who, &path).await.unwrap();
    assert_eq!(container.reader().await.unwrap().read_at(0, 10).await.unwrap(), "newer");
}
