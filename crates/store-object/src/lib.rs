//! Object stores as a store: S3 and others with its protocol, Google's, Azure's.
//!
//! ```text
//!   Store ── keys ── paths as keys          ┌ http ── hyper, rustls: time limits
//!     ├ listing ── pages, never all         │
//!     ├ reader ── ranges, ahead ────────── Bucket (crate object_store) ── endpoint
//!     ├ writer ── parts, conditions         │
//!     │  ├ part ── memory, or a file        │
//!     │  │  └ room ── budget, turns         │
//!     │  └ reservation ── an empty object   └ connect, profile ── credentials
//!     └ renaming ── copy, then remove
//! ```
//!
//! An object store has no directories. A directory is a prefix of keys or, if it has no entries, an empty
//! object `.strait-directory`. An object appears as a whole: none of its bytes is visible before its writer
//! closes it.
//!
//! This room must never: hold a listing in memory; hold written bytes that the budget doesn't count,
//! except 32 MiB that have a turn to be sent, and four parts without a temporary file; rename in several steps and declare that atomic; log a key or a token; wait
//! for a silent endpoint without a limit.

mod azure;
mod connect;
mod errors;
#[cfg(test)]
mod faults;
mod http;
mod keys;
mod listing;
mod options;
mod part;
mod profile;
mod reader;
mod renaming;
mod reservation;
mod room;
mod writer;

use connect::Bucket;
pub use connect::endpoint;
use errors::{Sent, typed};
use keys::Keys;
pub use options::Options;
use reader::Reader;
use reservation::Reservation;
use room::{Room, Turns};
use writer::{Publish, Writer};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::join;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use std::sync::{Arc, OnceLock};
use strait_store::budget::Pool;
use strait_store::{
    Capabilities, CreateOptions, Error, ErrorKind, FileReader, FileStatus, FileSystem, FileType, FileWriter,
    Principal, Result, Scheme, StorePath, fail,
};

/// Concurrent requests of one call.
const AT_ONCE: usize = 16;
/// Objects have no blocks. Programs that split files by block size get pieces of a useful size.
const BLOCK_BYTES: u64 = 64 << 20;

/// Capabilities of an object store. It is single-identity, as the endpoint knows only the credentials.
pub const CAPABILITIES: Capabilities = Capabilities {
    append: false,
    truncate: false,
    concat: false,
    rename_replace: true,
    atomic_rename: false,
    permissions: false,
    ownership: false,
    times: false,
    replication: false,
    block_locations: false,
    checksum: false,
    status: false,
    visible_while_written: false,
    exclusive_writer: false,
    per_user: false,
    recovery_ms: 0,
};

/// A directory of a bucket or container, as a store.
#[derive(Clone)]
pub struct ObjectStore {
    bucket: Arc<dyn Bucket>,
    keys: Keys,
    /// The name that the endpoint gives itself.
    server: Arc<OnceLock<String>>,
    turns: Turns,
}

/// The object or directory that has a name.
enum Found {
    File(Path, ObjectMeta),
    Directory,
    Nothing,
}

impl ObjectStore {
    /// Connects to `scheme://name`, and lists one entry beneath `root`, so that problems show at once.
    ///
    /// # Errors
    /// The error says what to do about it. If the endpoint hangs, it comes within 35 s.
    pub async fn connect(scheme: Scheme, name: &str, root: &StorePath, options: &Options) -> Result<Self> {
        let server = Arc::default();
        let bucket = connect::bucket(scheme, name, options, &server)?;
        let store = Self { bucket, keys: Keys::beneath(root), server, turns: Turns::default() };
        let place = format!("{scheme}://{name}");
        store.has_entries(&StorePath::root()).await.map_err(|error| error.at("open", place))?;
        Ok(store)
    }

    fn read_error(error: object_store::Error) -> Error {
        typed(error, Sent::Repeatable)
    }

    async fn head(&self, key: &Path) -> Result<Option<ObjectMeta>> {
        match self.bucket.head(key).await {
            Ok(meta) => Ok(Some(meta)),
            Err(error) => match Self::read_error(error) {
                error if error.kind() == ErrorKind::NotFound => Ok(None),
                error => Err(self.named(error).await),
            },
        }
    }

    /// Finds the cause of a failed HEAD, whose answer has no body and so no error code. A listing fails for
    /// the same cause, and its answer has a code.
    async fn named(&self, error: Error) -> Error {
        let has_several_causes =
            [ErrorKind::Internal, ErrorKind::PermissionDenied, ErrorKind::InvalidArgument];
        if !has_several_causes.contains(&error.kind()) {
            return error;
        }
        self.has_entries(&StorePath::root()).await.err().unwrap_or(error)
    }

    async fn find(&self, path: &StorePath) -> Result<Found> {
        if path.is_root() {
            return Ok(Found::Directory);
        }
        let key = self.keys.file(path)?;
        let (file, directory) = join(self.head(&key), self.has_entries(path)).await;
        Ok(match (file?, directory?) {
            (Some(meta), _) => Found::File(key, meta),
            (None, true) => Found::Directory,
            (None, false) => Found::Nothing,
        })
    }

    /// Fails if a directory above `path` is a file.
    async fn check_parents(&self, path: &StorePath) -> Result<()> {
        let above = std::iter::successors(path.parent(), StorePath::parent).filter(|path| !path.is_root());
        let keys = above.map(|path| self.keys.file(&path)).collect::<Result<Vec<_>>>()?;
        let heads = stream::iter(keys).map(|key| async move { self.head(&key).await });
        let is_file = heads.buffer_unordered(AT_ONCE).try_any(|meta| async move { meta.is_some() }).await?;
        match is_file {
            true => fail(ErrorKind::NotADirectory, "a directory above it is a file"),
            false => Ok(()),
        }
    }

    /// Makes a marker for the parent of `path`, which is about to lose an entry.
    async fn keep_parent(&self, path: &StorePath) -> Result<()> {
        match path.parent().filter(|parent| !parent.is_root()) {
            Some(parent) => self.mark(&parent).await,
            None => Ok(()),
        }
    }

    async fn mark(&self, directory: &StorePath) -> Result<()> {
        self.put_empty(&self.keys.marker(directory)?).await
    }

    async fn put_empty(&self, key: &Path) -> Result<()> {
        self.bucket.put(key, Bytes::new().into()).await.map(drop).map_err(Self::read_error)
    }

    async fn delete(&self, key: &Path) -> Result<()> {
        match self.bucket.delete(key).await.map_err(Self::read_error) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    async fn create_at(&self, who: &Principal, path: &StorePath, overwrite: bool) -> Result<Writer> {
        if path.is_root() {
            return fail(ErrorKind::AlreadyExists, "a directory has this name");
        }
        let key = self.keys.file(path)?;
        let (parents, is_directory) = join(self.check_parents(path), self.has_entries(path)).await;
        parents?;
        if is_directory? {
            return fail(ErrorKind::AlreadyExists, "a directory has this name");
        }
        let publish = match overwrite {
            true => Publish::Replace,
            false => Publish::Over(Reservation::take(self.bucket.clone(), key.clone()).await?),
        };
        let room = Room::of(&who.user, self.turns.clone());
        Ok(Writer::new(self.bucket.clone(), key, path.to_string(), publish, room))
    }

    async fn remove_at(&self, path: &StorePath, recursive: bool) -> Result<()> {
        if path.is_root() {
            return fail(ErrorKind::InvalidArgument, "the root can't be removed");
        }
        match self.find(path).await? {
            Found::Nothing => fail(ErrorKind::NotFound, "no such file or directory"),
            Found::File(key, _) => {
                self.keep_parent(path).await?;
                self.delete(&key).await
            }
            Found::Directory => {
                if !recursive && self.is_filled(path).await? {
                    return fail(ErrorKind::NotEmpty, "the directory has entries");
                }
                self.keep_parent(path).await?;
                match recursive {
                    true => self.remove_tree(path, |_| true).await.map(drop),
                    // A file that another client has made since stays, and so does the directory.
                    false => self.delete(&self.keys.marker(path)?).await,
                }
            }
        }
    }

    async fn make(&self, path: &StorePath) -> Result<()> {
        if path.is_root() {
            return Ok(());
        }
        let key = self.keys.file(path)?;
        let (parents, file) = join(self.check_parents(path), self.head(&key)).await;
        parents?;
        match file? {
            Some(_) => fail(ErrorKind::AlreadyExists, "a file has this name"),
            None => self.mark(path).await,
        }
    }
}

fn file_status(who: &Principal, path: String, meta: &ObjectMeta) -> FileStatus {
    FileStatus {
        path,
        file_type: FileType::File,
        length: meta.size,
        replication: 1,
        block_size: BLOCK_BYTES,
        // Whole seconds, because HTTP's headers have no fractions, while a listing may have them.
        modified_ms: meta.last_modified.timestamp() * 1_000,
        accessed_ms: 0,
        permission: 0o644,
        owner: who.user.to_string(),
        group: who.user.to_string(),
        link: false,
    }
}

/// The status of a directory. It has no times, because most directories are only prefixes.
fn directory_status(who: &Principal, path: String) -> FileStatus {
    FileStatus {
        path,
        file_type: FileType::Directory,
        length: 0,
        replication: 0,
        block_size: 0,
        modified_ms: 0,
        accessed_ms: 0,
        permission: 0o755,
        owner: who.user.to_string(),
        group: who.user.to_string(),
        link: false,
    }
}

#[async_trait]
impl FileSystem for ObjectStore {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus> {
        let found = self.find(path).await.map_err(|error| error.at("stat", path))?;
        match found {
            Found::File(_, meta) => Ok(file_status(who, path.to_string(), &meta)),
            Found::Directory => Ok(directory_status(who, path.to_string())),
            Found::Nothing => fail(ErrorKind::NotFound, "no such file or directory")
                .map_err(|error: Error| error.at("stat", path)),
        }
    }

    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>> {
        listing::entries(self.clone(), who.clone(), path.clone())
    }

    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>> {
        let found = self.find(path).await.map_err(|error| error.at("open", path))?;
        let refuse = |kind, why| fail(kind, why).map_err(|error: Error| error.at("open", path));
        match found {
            Found::File(key, meta) => {
                let memory = Pool::of_process().share(&who.user);
                Ok(Box::new(Reader::new(self.bucket.clone(), key, meta, path.to_string(), memory)))
            }
            Found::Directory => refuse(ErrorKind::IsADirectory, "it is a directory"),
            Found::Nothing => refuse(ErrorKind::NotFound, "no such file or directory"),
        }
    }

    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>> {
        let created = self.create_at(who, path, options.overwrite).await;
        Ok(Box::new(created.map_err(|error| error.at("create", path))?))
    }

    async fn rename(&self, _who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        self.rename_at(from, to, replace).await.map_err(|error| error.at("rename", from))
    }

    async fn remove(&self, _who: &Principal, path: &StorePath, recursive: bool) -> Result<()> {
        self.remove_at(path, recursive).await.map_err(|error| error.at("remove", path))
    }

    async fn mkdirs(&self, _who: &Principal, path: &StorePath, _permission: Option<u32>) -> Result<()> {
        self.make(path).await.map_err(|error| error.at("mkdir", path))
    }

    async fn about(&self) -> Result<Option<String>> {
        Ok(self.server.get().cloned())
    }
}
