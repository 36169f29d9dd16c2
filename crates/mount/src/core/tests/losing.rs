//! Files that another host writes, too, and removed files in directories that are removed.

use super::*;

/// The files of the store beneath a directory, by name.
async fn stored(scene: &Scene, directory: &str) -> Vec<String> {
    let listed = scene.store.list_all(&scene.who, &Scene::path(directory), 99).await.unwrap();
    listed.iter().map(|entry| entry.name().to_owned()).collect()
}

#[tokio::test]
async fn bytes_that_two_hosts_append_at_once_are_not_lost_in_silence() {
    let scene = Scene::new();
    let other = Scene::of(scene.store.clone());
    scene.put("log", "start ").await;
    let (ours, theirs) = (scene.open("log", O_WRONLY).await, other.open("log", O_WRONLY).await);
    scene.write(ours, 6, "ours").await.unwrap();
    other.write(theirs, 6, "longer").await.unwrap();
    other.core.flush(theirs).await.unwrap();
    assert!(scene.core.flush(ours).await.unwrap_err().is(ErrorKind::Busy));
    assert_eq!(scene.text("log").await, "start longer");
    // The file isn't used any more, so it gets no zeros either.
    let node = scene.core.lookup(CALLER, ROOT, OsStr::new("log")).await.unwrap().node;
    let longer = Change { size: Some(99), ..Change::default() };
    scene.core.setattr(CALLER, node, Some(ours), longer).await.unwrap_err();
    assert_eq!(scene.text("log").await, "start longer");
    // It can't replace another file, which keeps its name.
    scene.put("whole", "whole").await;
    let read = scene.open("whole", O_RDONLY).await;
    let (from, to) = ((ROOT, OsStr::new("log")), (ROOT, OsStr::new("whole")));
    scene.core.rename(CALLER, from, to, true).await.unwrap_err();
    assert_eq!(scene.text("whole").await, "whole");
    scene.core.release(read).await;
    assert_eq!(scene.text("whole").await, "whole");
}

#[tokio::test]
async fn a_length_that_a_path_gets_is_in_the_store_at_once() {
    let scene = Scene::new();
    scene.put("f", "abc").await;
    let node = scene.core.lookup(CALLER, ROOT, OsStr::new("f")).await.unwrap().node;
    let _reader = scene.open("f", O_RDONLY).await;
    for (size, text) in [(5, "abc\0\0"), (1, "a")] {
        let change = Change { size: Some(size), ..Change::default() };
        scene.core.setattr(CALLER, node, None, change).await.unwrap();
        assert_eq!(scene.text("f").await, text);
    }
}

#[tokio::test]
async fn a_directory_is_removed_though_a_removed_file_in_it_is_open() {
    let scene = Scene::new();
    let directory = scene.core.mkdir(CALLER, ROOT, OsStr::new("d"), 0o700).await.unwrap().node;
    let created = scene.core.create(CALLER, directory, OsStr::new("f"), 0o644, O_WRONLY).await;
    let handle = created.unwrap().1.handle;
    scene.core.unlink(CALLER, directory, OsStr::new("f")).await.unwrap();

    scene.put("d/other", "stays").await;
    assert!(scene.core.rmdir(CALLER, ROOT, OsStr::new("d")).await.unwrap_err().is(ErrorKind::NotEmpty));
    assert_eq!(stored(&scene, "").await, ["d"], "the removed file stays beside the other one");

    scene.core.unlink(CALLER, directory, OsStr::new("other")).await.unwrap();
    scene.core.rmdir(CALLER, ROOT, OsStr::new("d")).await.unwrap();
    let lifted = scene.store.list_all(&scene.who, &StorePath::root(), 99).await.unwrap();
    assert_eq!(lifted.len(), 1);
    assert_eq!(lifted[0].permission, 0o600, "the directory was private");
    scene.write(handle, 0, "more").await.unwrap();
    scene.core.flush(handle).await.unwrap();
    scene.core.release(handle).await;
    assert_eq!(stored(&scene, "").await, [] as [&str; 0]);
}
