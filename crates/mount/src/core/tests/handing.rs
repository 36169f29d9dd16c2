//! Tests: a mount continues with the state that another process handed over.

use super::*;
use crate::handover::State;

impl Scene {
    /// Hands the mount over to another process's mount of the same store.
    async fn next(self) -> Self {
        self.core.close_writers().await.unwrap();
        let state: State =
            serde_json::from_slice(&serde_json::to_vec(&self.core.state().await).unwrap()).unwrap();
        let next = Self::of(self.store.clone());
        let store: Arc<dyn FileSystem> = Arc::new(self.store.clone());
        let core = Core::again(store, StorePath::root(), next.core.settings.clone(), Kept::default(), state)
            .await
            .unwrap();
        Self { core, ..next }
    }

    async fn read(&self, handle: u64) -> Answer<Bytes> {
        self.core.read(handle, 0, 100).await
    }
}

#[tokio::test]
async fn open_files_are_written_and_read_by_the_next_process() {
    let scene = Scene::new();
    let (plain, logical) = (scene.create("f").await, scene.create("f.ckpt").await);
    scene.write(plain, 0, "one ").await.unwrap();
    scene.write(logical, 4, "late").await.unwrap();
    let scene = scene.next().await;
    scene.write(plain, 4, "two").await.unwrap();
    scene.write(logical, 0, "soon").await.unwrap();
    assert_eq!(&scene.read(plain).await.unwrap()[..], b"one two");
    assert_eq!(&scene.read(logical).await.unwrap()[..], b"soonlate");
    let other = scene.create("g").await;
    assert!(other > plain && other > logical, "the kernel knows the other handles");
    let scene = scene.next().await;
    for handle in [plain, logical, other] {
        scene.core.flush(handle).await.unwrap();
        scene.core.release(handle).await;
    }
    assert_eq!(scene.text("f").await, "one two");
    assert_eq!(scene.core.open_handles(), 0);
}

#[tokio::test]
async fn a_removed_open_file_goes_with_its_last_handle_in_the_next_process() {
    let scene = Scene::new();
    let handle = scene.create("f").await;
    scene.write(handle, 0, "text").await.unwrap();
    scene.core.unlink(CALLER, ROOT, OsStr::new("f")).await.unwrap();
    let scene = scene.next().await;
    assert_eq!(&scene.read(handle).await.unwrap()[..], b"text");
    scene.core.release(handle).await;
    let left = scene.store.list_all(&scene.who, &StorePath::root(), 100).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn lost_bytes_are_reported_by_the_next_process_too() {
    let scene = Scene::new();
    let handle = scene.create("f").await;
    scene.write(handle, 0, "text").await.unwrap();
    scene.core.flush(handle).await.unwrap();
    scene.write(handle, 4, "more").await.unwrap();
    scene.store.remove(&scene.who, &Scene::path("f"), false).await.unwrap();
    let fault = scene.core.fsync(handle).await.unwrap_err();
    let scene = scene.next().await;
    assert_eq!(scene.core.flush(handle).await.unwrap_err(), fault);
}

#[tokio::test]
async fn a_file_that_was_replaced_meanwhile_is_not_read() {
    let scene = Scene::new();
    scene.put("f", "old").await;
    let handle = scene.open("f", O_RDONLY).await;
    assert_eq!(&scene.read(handle).await.unwrap()[..], b"old");
    let next = scene.next().await;
    assert_eq!(&next.read(handle).await.unwrap()[..], b"old");
    let next = next.next().await;
    next.put("g", "new").await;
    next.store.rename(&next.who, &Scene::path("g"), &Scene::path("f"), true).await.unwrap();
    for _ in 0..2 {
        next.read(handle).await.unwrap_err();
    }
    let again = next.open("f", O_RDONLY).await;
    assert_eq!(&next.read(again).await.unwrap()[..], b"new");
}
