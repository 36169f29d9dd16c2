//! The file store can't be led out of its root by links.

use crate::common::{Place, kind_of, me, path};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use strait_store::ErrorKind::{NotFound, PermissionDenied};
use strait_store::{CreateOptions, FileSystem, FileSystemExt, SetAttributes};

const OVERWRITE: CreateOptions = CreateOptions {
    overwrite: true,
    permission: None,
    replication: None,
    block_size: None,
    min_replicas: None,
};

/// Plants, within the root: links to a directory and to a file outside, each
/// absolute and relative, one link further, and one by way of /proc.
fn plant(place: &Place) -> [&'static str; 6] {
    symlink(place.outside(""), place.inside("absolute")).unwrap();
    symlink("../outside", place.inside("relative")).unwrap();
    std::fs::create_dir(place.inside("sub")).unwrap();
    symlink("../../outside", place.inside("sub/deeper")).unwrap();
    symlink("sub/deeper", place.inside("chained")).unwrap();
    symlink("sub/../../outside", place.inside("winding")).unwrap();
    symlink(
        format!("/proc/{}/root{}", std::process::id(), place.outside("").display()),
        place.inside("magic"),
    )
    .unwrap();
    ["/absolute", "/relative", "/sub/deeper", "/chained", "/winding", "/magic"]
}

#[tokio::test]
async fn links_out_of_the_root_lead_nowhere_for_any_operation() {
    let place = Place::new();
    let (fs, me) = (&place.store, &me());
    let attributes = SetAttributes { permission: Some(0o777), ..Default::default() };
    place.write("/own", b"own").await.unwrap();
    for link in plant(&place) {
        let (at_link, beneath) = (path(link), path(&format!("{link}/secret")));
        let fresh = path(&format!("{link}/new/file"));
        for target in [&at_link, &beneath] {
            assert_eq!(kind_of(fs.stat(me, target).await), PermissionDenied, "stat {target}");
            assert_eq!(kind_of(fs.list_all(me, target, 9).await), PermissionDenied, "list {target}");
            assert_eq!(kind_of(fs.open(me, target).await), PermissionDenied, "open {target}");
            assert_eq!(kind_of(fs.append(me, target).await), PermissionDenied, "append {target}");
            assert_eq!(kind_of(fs.truncate(me, target, 0).await), PermissionDenied, "truncate {target}");
            assert_eq!(kind_of(fs.create(me, target, &OVERWRITE).await), PermissionDenied, "create {target}");
            assert_eq!(kind_of(fs.checksum(me, target).await), PermissionDenied, "checksum {target}");
            let set = fs.set_attributes(me, target, &attributes).await;
            assert_eq!(kind_of(set), PermissionDenied, "set attributes {target}");
        }
        assert_eq!(kind_of(fs.create(me, &fresh, &OVERWRITE).await), PermissionDenied, "create {fresh}");
        assert_eq!(kind_of(fs.mkdirs(me, &fresh, None).await), PermissionDenied, "mkdirs {fresh}");
        assert_eq!(kind_of(fs.remove(me, &beneath, true).await), PermissionDenied, "remove {beneath}");
        let (own, landed) = (path("/own"), path(&format!("{link}/landed")));
        assert_eq!(kind_of(fs.rename(me, &own, &landed, true).await), PermissionDenied, "rename to {landed}");
        let fetched = path("/fetched");
        assert_eq!(
            kind_of(fs.rename(me, &beneath, &fetched, true).await),
            PermissionDenied,
            "rename {beneath}"
        );
    }
    assert_eq!(std::fs::read(place.outside("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(place.outside("")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_itself_is_renamed_and_removed_never_its_target() {
    let place = Place::new();
    let (fs, me) = (&place.store, &me());
    plant(&place);
    fs.rename(me, &path("/absolute"), &path("/sub/moved"), false).await.unwrap();
    fs.remove(me, &path("/relative"), true).await.unwrap();
    fs.remove(me, &path("/sub"), true).await.unwrap();
    assert_eq!(std::fs::read(place.outside("secret")).unwrap(), b"secret");
    assert!(!place.inside("relative").is_symlink());
    assert!(!place.inside("sub").exists());
}

#[tokio::test]
async fn listings_leave_out_links_that_lead_nowhere() {
    let place = Place::new();
    plant(&place);
    symlink("nothing", place.inside("dangling")).unwrap();
    symlink("loop", place.inside("loop")).unwrap();
    place.write("/file", b"content").await.unwrap();
    symlink("file", place.inside("good")).unwrap();
    assert_eq!(place.names("/").await.unwrap(), ["file", "good", "sub"]);
    assert_eq!(kind_of(place.read("/dangling").await), NotFound);
    assert_eq!(kind_of(place.read("/loop").await), PermissionDenied);
}

#[tokio::test]
async fn links_within_the_root_are_followed() {
    let place = Place::new();
    place.write("/data/file", b"content").await.unwrap();
    symlink("data", place.inside("alias")).unwrap();
    std::fs::create_dir(place.inside("sub")).unwrap();
    symlink("../data/file", place.inside("sub/file")).unwrap();
    assert_eq!(place.read("/alias/file").await.unwrap(), b"content");
    assert_eq!(place.read("/sub/file").await.unwrap(), b"content");
    place.write("/alias/new", b"new").await.unwrap();
    assert_eq!(place.names("/data").await.unwrap(), ["file", "new"]);
    let status = place.store.stat(&me(), &path("/sub/file")).await.unwrap();
    assert_eq!((status.path.as_str(), status.length), ("/sub/file", 7));
}

/// A directory is swapped for a link out of the root and back, as fast as possible, during all
/// operations beneath it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_during_use_leads_nowhere() {
    const ROUNDS: usize = 2_000;
    let place = Place::new();
    let (fs, me) = (&place.store, &me());
    std::fs::create_dir(place.inside("swapped")).unwrap();
    std::fs::write(place.inside("swapped/secret"), b"inside").unwrap();
    symlink(place.outside(""), place.inside("link")).unwrap();

    let swapper = Swapper::start(place.inside("swapped"), place.inside("link"));
    let (mut inside, mut refused) = (0, 0);
    let attributes = SetAttributes { permission: Some(0o604), ..Default::default() };
    for round in 0..ROUNDS {
        match place.read("/swapped/secret").await {
            Ok(content) => {
                assert_eq!(content, b"inside");
                inside += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), PermissionDenied, "{error}");
                refused += 1;
            }
        }
        let fresh = path(&format!("/swapped/new{round}/file"));
        let _ = fs.create(me, &fresh, &OVERWRITE).await;
        let _ = fs.set_attributes(me, &path("/swapped/secret"), &attributes).await;
        let _ = fs.remove(me, &path(&format!("/swapped/new{round}")), true).await;
    }
    drop(swapper);
    assert!(inside > 0 && refused > 0, "the race wasn't met: {inside} inside, {refused} refused");
    assert_eq!(std::fs::read(place.outside("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(place.outside("")).unwrap().count(), 1);
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(place.outside("secret")).unwrap().permissions(),
    );
    assert_ne!(mode & 0o777, 0o604);
}

/// A tree is removed while a directory deep in it is swapped for a link out of
/// the root.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_into_a_tree_under_removal_isn_t_followed() {
    const ROUNDS: usize = 50;
    let place = Place::new();
    for _ in 0..ROUNDS {
        for n in 0..20 {
            std::fs::create_dir_all(place.inside(&format!("tree/d{n}"))).unwrap();
            std::fs::write(place.inside(&format!("tree/d{n}/secret")), b"inside").unwrap();
        }
        symlink(place.outside(""), place.inside("link")).unwrap();
        let swapper = Swapper::start(place.inside("tree/d7"), place.inside("link"));
        // It may fail: the entry may have become something else by now.
        let _ = place.store.remove(&me(), &path("/tree"), true).await;
        drop(swapper);
        assert_eq!(std::fs::read(place.outside("secret")).unwrap(), b"secret");
        for name in ["/tree", "/link"] {
            if let Err(error) = place.store.remove(&me(), &path(name), true).await {
                assert_eq!(error.kind(), NotFound, "{error}");
            }
        }
    }
    assert_eq!(std::fs::read(place.outside("secret")).unwrap(), b"secret");
}

/// Exchanges two names as fast as possible, until it is dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // One of them may be gone by now.
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
