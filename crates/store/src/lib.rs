//! Floor 2: one trait over every file system, one published contract, one
//! adapter a module.
//!
//! ```text
//!   gateway, command, tools ── FileSystem (required trait) ── FileSystemExt (convenience)
//!                                   │
//!            file   memory   kadoop   hdfs   strait (another gateway)   …
//! ```
//!
//! [`FileSystem`] says what every store can be asked; [`Capabilities`] says as
//! data which of it a store has; `contract` (feature `contract`) runs
//! the same tests on every adapter and every wrapper. An adapter is the only
//! place that names a foreign file system.
//!
//! This room must never: know of Thrift services, sessions or flags; read
//! configuration other than what a store's own URI names; act with more rights
//! than the [`Principal`] of the call has, unless the store declares itself
//! single-identity.

#[cfg(any(feature = "hdfs", feature = "kadoop", feature = "strait"))]
mod budget;
#[cfg(feature = "contract")]
pub mod contract;
mod crc;
mod deferred;
pub mod encoding;
mod error;
mod ext;
mod file;
#[cfg(feature = "hdfs")]
mod hdfs;
#[cfg(feature = "kadoop")]
pub mod kadoop;
mod memory;
mod path;
#[cfg(feature = "strait")]
pub mod strait;
mod types;
mod uri;
pub mod work;

pub use deferred::{DeferredStore, Opening};
pub use error::{Error, ErrorKind, Result, Row, TABLE, fail};
pub use ext::{FileSystemExt, append_all};
pub use file::FileStore;
#[cfg(feature = "hdfs")]
pub use hdfs::HdfsStore;
pub use memory::MemoryStore;
pub use path::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH, StorePath};
pub use types::*;
pub use uri::{OpenOptions, Scheme, StoreUri, is_store_name};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::ops::Range;

/// Most bytes that one positional read returns or one append takes, 4 MiB.
/// Bounded chunks keep a slow reader from pinning memory; large enough that
/// the round trip is lost in the transfer at 10 Gbit/s.
pub const MAX_CHUNK_BYTES: usize = 4 << 20;

/// A file system. Small on purpose: whatever can be said in terms of these
/// belongs in [`FileSystemExt`].
///
/// Every operation carries the [`Principal`] for whom it acts. Errors name the
/// operation and the path. Operations that the store lacks (see
/// [`FileSystem::capabilities`]) fail with `Unsupported`, which the default
/// bodies do.
///
/// Dropping a future cancels the wait, not necessarily the effect: a mutation
/// dropped in flight may have happened.
#[async_trait]
pub trait FileSystem: Send + Sync + 'static {
    /// What this store can do, as data.
    fn capabilities(&self) -> Capabilities;

    /// What lies at `path`. Links are followed as far as they stay within the
    /// store. Beneath a file there is nothing: `NotADirectory` or `NotFound`.
    /// The length of a file being written may lag behind.
    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus>;

    /// A directory's entries as a stream, in the store's own order, each once;
    /// of a file, the file itself. Never the whole directory in memory.
    /// `NotFound` comes as the stream's first item.
    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>>;

    /// Opens a file for positional reading; a directory is `IsADirectory`. A
    /// reader sees at least what was flushed before it was opened.
    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>>;

    /// Creates a file, visible under its name from now on, and its missing
    /// parents; `AlreadyExists` unless `options.overwrite`, and always where a
    /// directory has the name (both as HDFS). A name that a writer holds may
    /// answer `Busy` instead; a store that overwrites it all the same lets the
    /// first writer fail. Options that the store has no notion of are ignored.
    /// A parent that is a file: `NotADirectory`.
    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>>;

    /// Opens an existing file to append at its end; `Busy` while another
    /// writer holds it, `NotFound` where there is none, `IsADirectory`.
    async fn append(&self, _who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        unsupported("append", path)
    }

    /// Cuts a closed file to `length` bytes; longer than it is:
    /// `InvalidArgument`. `Busy` while a writer holds it (where writers are
    /// exclusive).
    async fn truncate(&self, _who: &Principal, path: &StorePath, _length: u64) -> Result<()> {
        unsupported("truncate", path)
    }

    /// Renames a file or directory. `to` is the new name itself, never a
    /// directory to move into. With `replace` an existing file (or empty
    /// directory, by a directory) gives way in one step; without it,
    /// `AlreadyExists`, as does, with or without it, the name itself as its
    /// own target (as HDFS). A file can't replace a directory (`IsADirectory`),
    /// a directory neither a file (`NotADirectory`) nor a directory with
    /// entries (`NotEmpty`), nor be moved into itself (`InvalidArgument`). The
    /// parent of `to` must exist (`NotFound`). The root can't be renamed
    /// (`InvalidArgument`).
    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()>;

    /// Removes a file or directory; a directory with entries needs
    /// `recursive`, else `NotEmpty`. The root can't be removed
    /// (`InvalidArgument`). A missing path is `NotFound`.
    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()>;

    /// Makes a directory and its missing parents; an existing directory is
    /// success, a file in the way `AlreadyExists` (at the path itself) or
    /// `NotADirectory` (above it). `permission` as for [`CreateOptions`], of
    /// the directory itself; parents made on the way get the store's default.
    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()>;

    /// Sets the attributes that are given, leaves the others. One that the
    /// store's capabilities lack: `Unsupported`, and none is set.
    async fn set_attributes(&self, _who: &Principal, path: &StorePath, _set: &SetAttributes) -> Result<()> {
        unsupported("set attributes of", path)
    }

    /// Where the bytes of `range` lie: the whole blocks that it touches, in
    /// order; an empty list past the end of the file.
    async fn block_locations(
        &self,
        _who: &Principal,
        path: &StorePath,
        _range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        unsupported("locate", path)
    }

    /// The store's own checksum of a whole file, without reading it through
    /// this process where the store can.
    async fn checksum(&self, _who: &Principal, path: &StorePath) -> Result<Checksum> {
        unsupported("checksum", path)
    }

    /// Capacity and use of the whole store.
    async fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        unsupported("status", &StorePath::root())
    }
}

fn unsupported<T>(operation: &'static str, path: &StorePath) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "this store has no such operation").at(operation, path))
}

/// An open file, read at any offset by any number of callers at once.
///
/// Sequential small reads run at stream speed: an adapter over a network reads
/// ahead.
#[async_trait]
pub trait FileReader: Send + Sync {
    /// Up to `length` bytes from `offset`; fewer only at the end of the file,
    /// none at or past it. `length` is at most [`MAX_CHUNK_BYTES`]
    /// (`InvalidArgument` above).
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes>;

    /// The bytes to be had when the file was opened, or, where the store can
    /// tell, now.
    fn length(&self) -> u64;

    /// What tells this file from others that had or will have its name: the same whenever
    /// the same file is opened, also after it grew. `None` where the store can't tell.
    fn identity(&self) -> Option<Bytes>;
}

/// The one writer of a file, at its end.
///
/// The four promises, the same words everywhere:
/// **append** returns when the bytes are accepted, in order;
/// **flush**: in the memory of every current replica and visible to readers
/// who open afterwards;
/// **sync**: on stable storage of at least the minimum number of replicas;
/// **close**: sync, and the length recorded.
///
/// A writer dropped without close is abandoned: what was flushed survives, and
/// the file becomes writable again within [`Capabilities::recovery_ms`].
#[async_trait]
pub trait FileWriter: Send {
    /// Accepts `data` (at most [`MAX_CHUNK_BYTES`]) at the end.
    async fn append(&mut self, data: Bytes) -> Result<()>;

    /// See the four promises.
    async fn flush(&mut self) -> Result<()>;

    /// See the four promises.
    async fn sync(&mut self) -> Result<()>;

    /// See the four promises. After an error the file is as if abandoned.
    async fn close(self: Box<Self>) -> Result<()>;

    /// The file's length, all accepted bytes counted.
    fn position(&self) -> u64;
}
