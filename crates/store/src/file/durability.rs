//! Tests that a change survives a power failure once it is answered, because the store syncs the
//! changed directories before. Only a power failure would reveal a missing sync, so these tests
//! record each sync.

use super::FileStore;
use crate::{CreateOptions, StorePath};
use std::cell::RefCell;
use std::path::PathBuf;
use tempfile::TempDir;

thread_local! {
    /// The directories that this thread has synced.
    static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Called for each directory that is synced, with a link to it.
pub(super) fn note(directory: &str) {
    let path = std::fs::read_link(directory).unwrap();
    SYNCED.with_borrow_mut(|synced| synced.push(path));
}

/// A store in a directory of its own.
struct Place {
    directory: TempDir,
    store: FileStore,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::open(directory.path(), false).unwrap();
        std::fs::create_dir_all(directory.path().join("a/b")).unwrap();
        std::fs::write(directory.path().join("a/f"), "x").unwrap();
        SYNCED.take();
        Self { directory, store }
    }

    /// The directories of the store that were synced since the last call.
    fn synced(&self) -> Vec<String> {
        let root = self.directory.path().canonicalize().unwrap();
        let shown = |path: PathBuf| format!("/{}", path.strip_prefix(&root).unwrap().display());
        SYNCED.take().into_iter().map(shown).collect()
    }
}

fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

#[test]
fn a_rename_syncs_the_new_directory_and_then_the_old_one() {
    let place = Place::new();
    place.store.inner.rename(&path("/a/f"), &path("/a/b/f"), false).unwrap();
    assert_eq!(place.synced(), ["/a/b", "/a"]);
    place.store.inner.rename(&path("/a/b/f"), &path("/a/b/g"), true).unwrap();
    assert_eq!(place.synced(), ["/a/b"], "once, where it is one");
}

#[test]
fn a_removal_syncs_the_directory_of_the_name() {
    let place = Place::new();
    place.store.inner.remove(&path("/a/f"), false).unwrap();
    assert_eq!(place.synced(), ["/a"]);
    place.store.inner.remove(&path("/a"), true).unwrap();
    assert_eq!(place.synced(), ["/"]);
    place.store.inner.remove(&path("/a"), true).unwrap_err();
    assert_eq!(place.synced(), [""; 0], "nothing changed");
}

#[test]
fn new_directories_are_synced_into_those_above() {
    let place = Place::new();
    place.store.inner.mkdirs(&path("/a/c/d"), None).unwrap();
    assert_eq!(place.synced(), ["/a", "/a/c"]);
    place.store.inner.mkdirs(&path("/a/c/d"), None).unwrap();
    assert_eq!(place.synced(), [""; 0], "nothing changed");
}

#[test]
fn a_new_file_has_its_name_and_its_directories_have_theirs() {
    let place = Place::new();
    let first = place.store.inner.create(&path("/n/m/f"), &CreateOptions::default()).unwrap();
    assert_eq!(place.synced(), ["/", "/n", "/n/m"]);
    // The second file's directories become durable although the first file isn't closed.
    place.store.inner.create(&path("/n/m/g"), &CreateOptions::default()).unwrap();
    assert_eq!(place.synced(), ["/n/m"]);
    drop(first);
}
