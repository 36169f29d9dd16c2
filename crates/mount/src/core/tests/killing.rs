//! Tests: a mount continues with the record of another process, which was killed.

use super::*;
use crate::ledger::{Step, memory};
use crate::recall::Found;
use std::os::fd::OwnedFd;

const NOT_FOUND: i32 = 2;

struct Keeper([OwnedFd; 2]);

impl Keeper {
    fn new() -> Self {
        Self([memory("record").unwrap(), memory("bytes").unwrap()])
    }

    fn memory(&self) -> [OwnedFd; 2] {
        [self.0[0].try_clone().unwrap(), self.0[1].try_clone().unwrap()]
    }

    fn begin(&self) -> Scene {
        let scene = Scene::new();
        let [record, bytes] = self.memory();
        let (ledger, mounted) =
            (Ledger::begin(record, bytes).unwrap(), Mounted::on("/mnt".as_ref()).unwrap());
        ledger.mount(&mounted);
        let kept = Kept { ledger: Arc::new(ledger), mounted: Some(mounted), ..Kept::default() };
        let store: Arc<dyn FileSystem> = Arc::new(scene.store.clone());
        let core = Core::new(store, StorePath::root(), scene.core.settings.clone(), kept);
        Scene { core, ..scene }
    }

    /// Kills the process of `scene`, and returns the mount of the next process.
    async fn kill(&self, scene: Scene) -> Scene {
        let (settings, store) = (scene.core.settings.clone(), scene.store.clone());
        drop(scene);
        let [record, bytes] = self.memory();
        let (ledger, values) = Ledger::again(record, bytes).unwrap();
        let found = Found::read(&ledger, &values).unwrap();
        let ledger = Arc::new(ledger);
        let kept = Kept { ledger: ledger.clone(), past: found.past, mounted: Some(found.mounted) };
        let next = Scene::of(store.clone());
        let core = Core::again(Arc::new(store), StorePath::root(), settings, kept, found.state).await;
        ledger.go_on();
        let core = core.unwrap();
        core.forget_stale();
        Scene { core, ..next }
    }
}

/// A caller whose request has this number.
fn request(request: u64) -> Caller {
    Caller { request, ..CALLER }
}

async fn mkdir(scene: &Scene, number: u64, name: &str) -> Answer<u64> {
    let caller = request(number);
    let makes = scene.core.mkdir(caller, ROOT, OsStr::new(name), 0o755);
    scene.core.once_made(caller, makes).await.map(|attributes| attributes.node)
}

async fn unlink(scene: &Scene, number: u64, name: &str) -> Answer<()> {
    let caller = request(number);
    scene.core.once(caller, scene.core.unlink(caller, ROOT, OsStr::new(name))).await
}

async fn rename(scene: &Scene, number: u64, from: &str, to: &str) -> Answer<()> {
    let caller = request(number);
    let renames = scene.core.rename(caller, (ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)), true);
    scene.core.once(caller, renames).await
}

#[tokio::test]
async fn written_bytes_survive_each_kill_and_are_stored_once() {
    let keeper = Keeper::new();
    let mut scene = keeper.begin();
    let handle = scene.create("f").await;
    let (mut wanted, mut at) = (Vec::<u8>::new(), 0);
    // Small writes stay in the tail; large ones reach the store before they are flushed.
    for (round, length) in [10, 3, 1 << 20, 700_000, 1 << 20, 1_000_000, 0, 40].into_iter().enumerate() {
        let data = vec![round as u8; length];
        scene.core.write(2 * round as u64 + 2, handle, at, Bytes::from(data.clone())).await.unwrap();
        if length == 700_000 {
            scene.core.fsync(handle).await.unwrap();
        }
        wanted.extend(&data);
        at += length as u64;
        scene = keeper.kill(scene).await;
        // The kernel resends the write, since its answer may be lost.
        scene.core.write(2 * round as u64 + 2, handle, at - length as u64, Bytes::from(data)).await.unwrap();
        assert_eq!(scene.core.read(handle, at.saturating_sub(8), 100).await.unwrap().len() as u64, at.min(8));
    }
    scene.core.flush(handle).await.unwrap();
    scene.core.release(handle).await;
    let stored = scene.store.read_all(&scene.who, &Scene::path("f"), 1 << 30).await.unwrap();
    assert!(stored[..] == wanted[..], "{} bytes, not {}", stored.len(), wanted.len());
    let scene = keeper.kill(scene).await;
    assert_eq!(scene.core.open_handles(), 0);
}

#[tokio::test]
async fn an_answered_change_is_answered_again_and_not_executed_again() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let node = mkdir(&scene, 2, "d").await.unwrap();
    scene.put("f", "text").await;
    scene.put("g", "other").await;
    unlink(&scene, 4, "f").await.unwrap();
    assert_eq!(unlink(&scene, 6, "f").await, Err(Fault(NOT_FOUND)));
    scene.core.lookup(CALLER, ROOT, OsStr::new("g")).await.unwrap();
    rename(&scene, 8, "g", "h").await.unwrap();
    let scene = keeper.kill(scene).await;
    // Other hosts create files with these names.
    scene.put("f", "another").await;
    scene.put("g", "another").await;
    assert_eq!(mkdir(&scene, 2, "d").await, Ok(node));
    assert_eq!(mkdir(&scene, 10, "d").await, Err(Fault(EEXIST)));
    unlink(&scene, 4, "f").await.unwrap();
    assert_eq!(unlink(&scene, 6, "f").await, Err(Fault(NOT_FOUND)));
    rename(&scene, 8, "g", "h").await.unwrap();
    assert_eq!((scene.text("f").await, scene.text("h").await), ("another".into(), "other".into()));
}

#[tokio::test]
async fn a_change_that_was_only_begun_is_settled_by_the_store() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    scene.put("gone", "text").await;
    scene.put("old", "text").await;
    for name in ["gone", "old"] {
        scene.core.lookup(CALLER, ROOT, OsStr::new(name)).await.unwrap();
    }
    // The store executed four of these requests, and the process was killed before it received the results.
    for number in [2, 4, 6, 8, 10, 12] {
        scene.core.ledger.request(number, Step::Begun);
    }
    scene.store.mkdirs(&scene.who, &Scene::path("made"), None).await.unwrap();
    scene.store.remove(&scene.who, &Scene::path("gone"), false).await.unwrap();
    scene.store.rename(&scene.who, &Scene::path("old"), &Scene::path("new"), false).await.unwrap();
    drop(scene.store.create(&scene.who, &Scene::path("created"), &CreateOptions::default()).await.unwrap());
    let scene = keeper.kill(scene).await;
    mkdir(&scene, 2, "made").await.unwrap();
    unlink(&scene, 4, "gone").await.unwrap();
    rename(&scene, 6, "old", "new").await.unwrap();
    let caller = request(8);
    let creates = scene.core.create(caller, ROOT, OsStr::new("created"), 0o644, O_WRONLY | O_EXCL);
    let (_, opened) = scene.core.once_created(caller, creates).await.unwrap();
    scene.write(opened.handle, 0, "ours").await.unwrap();
    scene.core.release(opened.handle).await;
    mkdir(&scene, 10, "not yet").await.unwrap();
    assert_eq!(unlink(&scene, 14, "gone").await, Err(Fault(NOT_FOUND)));
    assert_eq!((scene.text("new").await, scene.text("created").await), ("text".into(), "ours".into()));
    // The kernel's node of the renamed file has its new name.
    let node = scene.core.lookup(CALLER, ROOT, OsStr::new("new")).await.unwrap().node;
    assert!(scene.core.path(node).is_ok_and(|path| path.name() == "new"));
}

#[tokio::test]
async fn a_request_that_opened_a_file_gets_the_same_handle() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let creates =
        async |scene: &Scene| scene.core.create(request(2), ROOT, OsStr::new("f"), 0o644, O_WRONLY).await;
    let (attributes, opened) = creates(&scene).await.unwrap();
    let read = scene.core.open(request(4), attributes.node, O_RDONLY).await.unwrap();
    let scene = keeper.kill(scene).await;
    assert_eq!(creates(&scene).await.unwrap().1, opened);
    assert_eq!(scene.core.open(request(4), attributes.node, O_RDONLY).await.unwrap().handle, read.handle);
    let other = scene.core.open(request(6), attributes.node, O_RDONLY).await.unwrap();
    assert!(other.handle > read.handle);
    assert_eq!(scene.core.open_handles(), 3);
}

#[tokio::test]
async fn a_removed_file_goes_with_its_last_handle_and_one_without_a_handle_at_once() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("open").await;
    scene.write(handle, 0, "text").await.unwrap();
    unlink(&scene, 2, "open").await.unwrap();
    let scene = keeper.kill(scene).await;
    unlink(&scene, 2, "open").await.unwrap();
    scene.core.tidy().await;
    assert_eq!(&scene.core.read(handle, 0, 100).await.unwrap()[..], b"text");
    assert_eq!(scene.names().await.len(), 1);
    scene.core.release(handle).await;
    assert!(scene.names().await.is_empty());
}

#[tokio::test]
async fn an_open_file_whose_removal_was_not_recorded_as_done_stays_until_it_is_closed() {
    for name in ["f", "f.ckpt"] {
        let keeper = Keeper::new();
        let scene = keeper.begin();
        let handle = scene.create(name).await;
        scene.write(handle, 0, "text").await.unwrap();
        scene.core.unlink(request(2), ROOT, OsStr::new(name)).await.unwrap();
        let scene = keeper.kill(scene).await;
        unlink(&scene, 2, name).await.unwrap();
        scene.core.tidy().await;
        assert_eq!(&scene.core.read(handle, 0, 100).await.unwrap()[..], b"text", "{name}");
        scene.core.release(handle).await;
        assert!(scene.names().await.is_empty());
    }
}

#[tokio::test]
async fn unpublished_bytes_survive_a_second_kill() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("f.ckpt").await;
    scene.core.write(2, handle, 0, Bytes::from("published ")).await.unwrap();
    scene.core.fsync(handle).await.unwrap();
    let scene = keeper.kill(scene).await;
    scene.core.write(4, handle, 10, Bytes::from("and not")).await.unwrap();
    scene.core.forget_past();
    // Add entries until the record is compacted.
    for number in 0..40_000 {
        scene.core.ledger.request(1_000 + number, Step::Begun);
        scene.core.answered(1_000 + number);
    }
    let scene = keeper.kill(scene).await;
    assert_eq!(&scene.core.read(handle, 0, 100).await.unwrap()[..], b"published and not");
}

#[tokio::test]
async fn a_removal_of_a_container_that_was_cut_short_is_brought_to_its_end() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("open.ckpt").await;
    scene.core.release(scene.create("closed.ckpt").await).await;
    unlink(&scene, 2, "open.ckpt").await.unwrap();
    // The store removed a part of each container, and the process was killed before it received the result.
    let hidden = scene.names().await.into_iter().find(|name| name.starts_with(HIDDEN)).unwrap();
    scene.core.ledger.request(4, Step::Begun);
    for name in [hidden.as_str(), "closed.ckpt"] {
        let mark = Scene::path(&format!("{name}/.plfs"));
        scene.store.remove(&scene.who, &mark, false).await.unwrap();
    }
    lock(&scene.core.handles).remove(&handle);
    let (_, (file, _)) = lock(&scene.core.files).drain().next().unwrap();
    file.note().closed();
    let scene = keeper.kill(scene).await;
    // The kernel may forget the node before the removal begins.
    scene.core.forget(file.node, 1);
    scene.core.tidy().await;
    assert!(lock(&scene.core.nodes).path(file.node).is_none());
    unlink(&scene, 4, "closed.ckpt").await.unwrap();
    assert_eq!(scene.names().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_creation_of_a_container_that_was_cut_short_leaves_nothing() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let create = async |scene: &Scene| {
        let caller = request(2);
        let creates = scene.core.create(caller, ROOT, OsStr::new("f.ckpt"), 0o644, O_WRONLY | O_EXCL);
        scene.core.once_created(caller, creates).await.map(|(_, opened)| opened.handle)
    };
    create(&scene).await.unwrap();
    // The state if the process had been killed before the container got its name.
    let id = u128::from(scene.core.nonce) << 64 | 2;
    let unfinished = Scene::path(&format!(".f.ckpt.plfs-{id:032x}"));
    scene.store.rename(&scene.who, &Scene::path("f.ckpt"), &unfinished, false).await.unwrap();
    let (_, (file, _)) = lock(&scene.core.files).drain().next().unwrap();
    file.note().closed();
    let scene = keeper.kill(scene).await;
    let handle = create(&scene).await.unwrap();
    scene.write(handle, 0, "text").await.unwrap();
    assert_eq!(scene.names().await, ["f.ckpt"]);
    // A container that another host created since isn't this request's.
    scene.core.ledger.request(4, Step::Begun);
    let who = &scene.who;
    let options = strait_plfs::Options::default();
    let path = Scene::path("g.ckpt");
    Container::create(Arc::new(scene.store.clone()), who, &path, &options).await.unwrap();
    let scene = keeper.kill(scene).await;
    let creates = scene.core.create(request(4), ROOT, OsStr::new("g.ckpt"), 0o644, O_WRONLY | O_EXCL);
    assert_eq!(creates.await.map(|(_, opened)| opened.handle), Err(Fault(EEXIST)));
}

#[tokio::test]
async fn a_file_whose_last_handle_was_closed_while_it_was_removed_leaves_nothing() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("f").await;
    scene.core.flush(handle).await.unwrap();
    // The removal hid the file in the store, and the last handle was closed before the removal was answered.
    scene.core.ledger.request(2, Step::Begun);
    let hidden = Scene::path(&format!("{HIDDEN}{:016x}", scene.core.nonce ^ 2));
    scene.store.rename(&scene.who, &Scene::path("f"), &hidden, false).await.unwrap();
    lock(&scene.core.handles).remove(&handle);
    let (_, (file, _)) = lock(&scene.core.files).drain().next().unwrap();
    file.note().closed();
    scene.core.ledger.no_handle(handle);
    let scene = keeper.kill(scene).await;
    unlink(&scene, 2, "f").await.unwrap();
    assert_eq!(scene.names().await, Vec::<String>::new());
}

#[tokio::test]
async fn unpublished_bytes_of_a_logical_file_survive_each_kill_and_are_published() {
    let keeper = Keeper::new();
    let mut scene = keeper.begin();
    let handle = scene.create("a.ckpt").await;
    let mut wanted = vec![0; 300];
    for step in 0..12_u64 {
        let (at, text) = ((step * 67) % 250, format!("step {step} of twelve"));
        wanted[at as usize..][..text.len()].copy_from_slice(text.as_bytes());
        for _ in 0..2 {
            // The kernel resends the write, since its answer may be lost.
            scene.core.write(2 * step + 2, handle, at, Bytes::from(text.clone())).await.unwrap();
            scene = keeper.kill(scene).await;
        }
        if step % 4 == 3 {
            scene.core.fsync(handle).await.unwrap();
        }
    }
    scene.core.flush(handle).await.unwrap();
    let other = Scene::of(scene.store.clone());
    let read = other.open("a.ckpt", O_RDONLY).await;
    let bytes = other.core.read(read, 0, 1_000).await.unwrap();
    assert_eq!(bytes[..], wanted[..bytes.len()]);
    assert!(wanted[bytes.len()..].iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn an_append_to_a_logical_file_that_comes_again_is_written_once() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let creates = scene.core.create(CALLER, ROOT, OsStr::new("a.ckpt"), 0o644, O_WRONLY | O_APPEND).await;
    let handle = creates.unwrap().1.handle;
    let append = async |scene: &Scene, request: u64, text: &'static str| {
        scene.core.write(request, handle, 0, Bytes::from(text)).await.unwrap();
    };
    append(&scene, 2, "one ").await;
    append(&scene, 4, "two ").await;
    let scene = keeper.kill(scene).await;
    append(&scene, 4, "two ").await;
    append(&scene, 2, "one ").await;
    append(&scene, 6, "three").await;
    scene.core.flush(handle).await.unwrap();
    assert_eq!(&scene.core.read(handle, 0, 100).await.unwrap()[..], b"one two three");
}

#[tokio::test]
async fn a_loss_that_was_not_reported_yet_is_reported_by_the_next_process() {
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("f").await;
    scene.write(handle, 0, "text").await.unwrap();
    scene.core.fsync(handle).await.unwrap();
    scene.write(handle, 4, "more").await.unwrap();
    scene.store.remove(&scene.who, &Scene::path("f"), false).await.unwrap();
    let fault = scene.core.fsync(handle).await.unwrap_err();
    let scene = keeper.kill(scene).await;
    assert_eq!(scene.core.flush(handle).await, Err(fault));
    // Another host's file has the name, and is longer than this mount's file: the bytes can't be appended
    // there.
    let keeper = Keeper::new();
    let scene = keeper.begin();
    let handle = scene.create("g").await;
    scene.write(handle, 0, "text").await.unwrap();
    let scene = keeper.kill(scene).await;
    scene.store.remove(&scene.who, &Scene::path("g"), false).await.unwrap();
    scene.put("g", "of another host").await;
    scene.core.flush(handle).await.unwrap_err();
    assert_eq!(scene.text("g").await, "of another host");
}

#[tokio::test]
async fn answers_and_published_bytes_do_not_stay_in_the_record() {
    let keeper = Keeper::new();
    let mut scene = keeper.begin();
    let handle = scene.create("a.ckpt").await;
    for kill in 0..6_u64 {
        for step in 0..5_000 {
            let number = 2 * (10_000 * kill + step) + 2;
            unlink(&scene, number, "missing").await.unwrap_err();
            scene.core.write(number + 1, handle, step, Bytes::from_static(b"+")).await.unwrap();
            [number, number + 1].into_iter().for_each(|number| scene.core.answered(number));
        }
        scene.core.fsync(handle).await.unwrap();
        scene = keeper.kill(scene).await;
        scene.core.forget_past();
    }
    let memory = rustix::fs::fstat(&keeper.0[0]).unwrap().st_blocks * 512;
    assert!(memory < 4 << 20, "{memory} bytes");
}
