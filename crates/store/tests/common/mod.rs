//! Helpers of the file store's tests.

use bytes::Bytes;
use strait_store::{CreateOptions, ErrorKind, FileStore, FileSystemExt, Principal, Result, StorePath};
use tempfile::TempDir;

/// A store in a directory of its own, `root`, with `outside` beside it.
pub struct Place {
    pub directory: TempDir,
    pub store: FileStore,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("outside")).unwrap();
        std::fs::write(directory.path().join("outside/secret"), b"secret").unwrap();
        let store = FileStore::open(directory.path().join("root"), true).unwrap();
        Self { directory, store }
    }

    /// A path of the host within the store's root.
    pub fn inside(&self, relative: &str) -> std::path::PathBuf {
        self.directory.path().join("root").join(relative)
    }

    /// A path of the host beside the root.
    pub fn outside(&self, relative: &str) -> std::path::PathBuf {
        self.directory.path().join("outside").join(relative)
    }

    pub async fn write(&self, at: &str, content: &'static [u8]) -> Result<()> {
        let content = Bytes::from_static(content);
        self.store.write_all(&me(), &path(at), &CreateOptions::default(), content).await
    }

    pub async fn read(&self, at: &str) -> Result<Vec<u8>> {
        self.store.read_all(&me(), &path(at), 1 << 20).await
    }

    pub async fn names(&self, at: &str) -> Result<Vec<String>> {
        let entries = self.store.list_all(&me(), &path(at), 10_000).await?;
        let mut names: Vec<String> = entries.iter().map(|entry| entry.name().to_owned()).collect();
        names.sort();
        Ok(names)
    }
}

pub fn path(text: &str) -> StorePath {
    StorePath::parse(text).unwrap()
}

pub fn me() -> Principal {
    Principal::new("somebody")
}

#[track_caller]
pub fn kind_of<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it went through"),
        Err(error) => error.kind(),
    }
}
