//! One trait over every file system, one error table, one published contract, and the two adapters
//! that need no server.
//!
//! ```text
//!   gateway, command, tools ── FileSystem (required trait) ── FileSystemExt (convenience)
//!                                   │
//!            file   memory   store-kadoop   store-hdfs   client (another gateway)   …
//! ```
//!
//! [`FileSystem`] has the operations of every store, and [`Capabilities`] lists as data which of
//! them a store has. `contract` (feature `contract`) runs the same tests on every adapter and every
//! wrapper. Each adapter of a foreign file system is a separate crate.
//!
//! This room must never: know of Thrift services, sessions or flags; read configuration beyond a
//! store's own URI; name a foreign file system; act with more rights than the call's [`Principal`]
//! has, unless the store declares itself single-identity.

pub mod arguments;
pub mod budget;
pub mod callers;
pub mod clock;
#[cfg(feature = "contract")]
pub mod contract;
pub mod crc;
mod deferred;
pub mod encoding;
mod error;
mod ext;
mod file;
pub mod foreign;
pub mod hex;
mod memory;
pub mod names;
mod path;
pub mod process;
pub mod random;
pub mod size;
mod types;
mod uri;
pub mod work;

pub use deferred::{DeferredStore, Opening};
pub use error::{Error, ErrorKind, Result, Row, TABLE, fail};
pub use ext::{FileSystemExt, append_all};
pub use file::FileStore;
pub use memory::MemoryStore;
pub use path::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH, StorePath};
pub use types::*;
pub use uri::{GATEWAY_PORT, NAMENODE_PORT, Scheme, StoreUri, is_store_name, store_and_path};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::io::Read;
use std::ops::Range;

/// Most bytes of one positional read or one append, 4 MiB. Bounded chunks keep a slow reader from
/// pinning memory. At 10 Gbit/s this is large enough to hide the round trip.
pub const MAX_CHUNK_BYTES: usize = 4 << 20;

/// Most sources of one [`FileSystem::concat`]. HDFS joins 1,000 files in 35 ms, and holds its lock for that
/// time. A longer list of the longest paths would make a large message.
pub const MAX_CONCAT_SOURCES: usize = 1_000;

/// A file system. Small on purpose: operations that can be built on these belong in [`FileSystemExt`].
///
/// Every operation has the [`Principal`] for whom it acts. Errors name the operation and the path.
/// Operations that the store lacks (see [`FileSystem::capabilities`]) fail with `Unsupported`, as the
/// default bodies do.
///
/// Dropping a future cancels the wait, but not necessarily the effect: a change whose future was
/// dropped may still happen. If the caller has a deadline ([`work::Work::deadline`]), stores that call servers end
/// queries at it, and don't send a change again after it. Open writers and clean-up ignore it.
#[async_trait]
pub trait FileSystem: Send + Sync + 'static {
    /// The store's abilities, as data.
    fn capabilities(&self) -> Capabilities;

    /// The status of `path`. Follows links as far as they stay within the store. A path beneath a
    /// file is `NotADirectory` or `NotFound`. The length of a file being written may lag behind.
    async fn stat(&self, who: &Principal, path: &StorePath) -> Result<FileStatus>;

    /// A directory's entries as a stream, in the store's own order, each once; for a file, the file
    /// itself. Never holds the whole directory in memory. `NotFound` comes as the stream's first
    /// item.
    fn list(&self, who: &Principal, path: &StorePath) -> BoxStream<'static, Result<FileStatus>>;

    /// Opens a file for positional reading; a directory is `IsADirectory`. A
    /// reader sees at least the bytes flushed before it was opened.
    async fn open(&self, who: &Principal, path: &StorePath) -> Result<Box<dyn FileReader>>;

    /// Creates a file and its missing parents. The file is visible under its name from then on.
    /// `AlreadyExists` if a directory has the name, or a file unless `options.overwrite` is set (both as
    /// in HDFS). If a writer has the file open, the store can answer `Busy` instead. If the store
    /// overwrites the file anyway, the first writer fails. The store ignores options that it doesn't
    /// support. If a parent is a file: `NotADirectory`.
    async fn create(
        &self,
        who: &Principal,
        path: &StorePath,
        options: &CreateOptions,
    ) -> Result<Box<dyn FileWriter>>;

    /// Opens an existing file to append at its end. `Busy` while another writer has it open. If there is
    /// no file: `NotFound`, or `IsADirectory` for a directory.
    async fn append(&self, _who: &Principal, path: &StorePath) -> Result<Box<dyn FileWriter>> {
        unsupported("append", path)
    }

    /// Truncates a closed file to `length` bytes. `InvalidArgument` if it is shorter. `Busy` while a
    /// writer has it open (if writers are exclusive).
    async fn truncate(&self, _who: &Principal, path: &StorePath, _length: u64) -> Result<()> {
        unsupported("truncate", path)
    }

    /// Moves the bytes of `sources`, in their order, to the end of the closed file `target`, and
    /// removes the sources: in one step, and without copying a byte. Later readers see all of the change
    /// or nothing. The target keeps its attributes, and its replication applies to all bytes.
    ///
    /// `InvalidArgument`: no source, more than [`MAX_CONCAT_SOURCES`], an empty source, or a file that is
    /// named twice. `Busy` while a writer has one of the files open. The caller needs the right to write
    /// the target, and to read and remove each source. A store may demand that all files lie in one
    /// directory (as HDFS, for which a sticky directory doesn't protect sources).
    async fn concat(&self, _who: &Principal, target: &StorePath, _sources: &[StorePath]) -> Result<()> {
        unsupported("concat", target)
    }

    /// Renames a file or directory. `to` is the new name itself, never a directory to move into.
    /// With `replace`, it replaces an existing file (or an empty directory, by a directory) in one
    /// step; without it, `AlreadyExists`. A path renamed to itself is `AlreadyExists` in both cases
    /// (as HDFS). A file can't replace a directory (`IsADirectory`). A directory can't replace a
    /// file (`NotADirectory`) or a directory with entries (`NotEmpty`), or be moved into itself
    /// (`InvalidArgument`). The parent of `to` must exist (`NotFound`). The root can't be renamed
    /// (`InvalidArgument`).
    async fn rename(&self, who: &Principal, from: &StorePath, to: &StorePath, replace: bool) -> Result<()>;

    /// Removes a file or directory. A directory with entries needs `recursive`, otherwise `NotEmpty`.
    /// The root can't be removed (`InvalidArgument`). A missing path is `NotFound`.
    async fn remove(&self, who: &Principal, path: &StorePath, recursive: bool) -> Result<()>;

    /// Makes a directory and its missing parents. Succeeds if the directory exists. A file at the path
    /// is `AlreadyExists`, and a file above it `NotADirectory`. `permission` is as in [`CreateOptions`],
    /// and applies to the directory itself; new parents get the store's default.
    async fn mkdirs(&self, who: &Principal, path: &StorePath, permission: Option<u32>) -> Result<()>;

    /// Sets the given attributes, and leaves the others. If the store lacks the capability for one
    /// of them: `Unsupported`, and none is set.
    async fn set_attributes(&self, _who: &Principal, path: &StorePath, _set: &SetAttributes) -> Result<()> {
        unsupported("set attributes of", path)
    }

    /// Locations of the bytes of `range`: all blocks that overlap it, in order. An empty list past the
    /// end of the file.
    async fn block_locations(
        &self,
        _who: &Principal,
        path: &StorePath,
        _range: Range<u64>,
    ) -> Result<Vec<BlockLocation>> {
        unsupported("locate", path)
    }

    /// The store's own checksum of a whole file, computed by the store if it can, rather than by
    /// reading the file through this process.
    async fn checksum(&self, _who: &Principal, path: &StorePath) -> Result<Checksum> {
        unsupported("checksum", path)
    }

    /// Capacity and use of the whole store.
    async fn status(&self, _who: &Principal) -> Result<StoreStatus> {
        unsupported("status", &StorePath::root())
    }

    /// Name and version of the server or the library behind this store, for people. None if it reports none.
    async fn about(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

fn unsupported<T>(operation: &'static str, path: &StorePath) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "this store has no such operation").at(operation, path))
}

/// An open file, read at any offset by any number of callers at once.
///
/// Sequential small reads are as fast as a stream, because an adapter over a network reads ahead.
#[async_trait]
pub trait FileReader: Send + Sync {
    /// Up to `length` bytes from `offset`: fewer only at the end of the file, none at or past it. A
    /// `length` above [`MAX_CHUNK_BYTES`] is `InvalidArgument`.
    async fn read_at(&self, offset: u64, length: usize) -> Result<Bytes>;

    /// The file's length when it was opened or, if the store knows it, now.
    fn length(&self) -> u64;

    /// Distinguishes this file from others that had or will have its name. It is the same each time
    /// the same file is opened, even after the file grew. `None` if the store has no such value.
    fn identity(&self) -> Option<Bytes>;

    /// The bytes from `offset` on, for one caller that reads them in order and in its own thread: reads block it.
    /// None if the store has no such way, or no connection to spare.
    ///
    /// A read of no bytes says nothing about the file's end. After it, the caller continues with
    /// [`Self::read_at`], which knows the end, or the error.
    async fn sequential(&self, offset: u64) -> Option<Box<dyn Read + Send + Sync>> {
        let _ = offset;
        None
    }

    /// From now on, fetches only the requested bytes, because the caller itself reads ahead, where it knows
    /// more. No effect on readers that never read ahead.
    fn stop_reading_ahead(&self) {}
}

/// The only writer of a file. It writes at the file's end.
///
/// The four promises, the same words everywhere:
/// **append** returns when the bytes are accepted, in order;
/// **flush**: in the memory of every current replica and visible to readers who open afterwards;
/// **sync**: on stable storage of at least the minimum number of replicas;
/// **close**: sync, and the length recorded.
///
/// A store without [`Capabilities::visible_while_written`] promises nothing at flush and sync.
///
/// Flush, sync and close return the number of replicas that certainly have all bytes written here. None
/// if the store doesn't know it, or nothing was written. With fewer replicas than the minimum, they fail.
///
/// After an error, a writer that [goes on](FileWriter::goes_on) keeps its bytes, and the caller can repeat
/// each operation. Some stores support that after `NoSpace` and `Unavailable`. [`FileWriter::position`]
/// counts the accepted bytes: if memory was short, the writer may have accepted a part of an append. A
/// writer that doesn't go on counts as abandoned.
///
/// A writer dropped without close is abandoned: flushed bytes survive, and the file becomes
/// writable again within [`Capabilities::recovery_ms`].
#[async_trait]
pub trait FileWriter: Send {
    /// Accepts `data` (at most [`MAX_CHUNK_BYTES`]) at the end.
    async fn append(&mut self, data: Bytes) -> Result<()>;

    /// Flushes: see the four promises.
    async fn flush(&mut self) -> Result<Option<u32>>;

    /// Syncs: see the four promises.
    async fn sync(&mut self) -> Result<Option<u32>>;

    /// Closes: see the four promises. The writer can't be used afterwards; closing it again does
    /// nothing.
    async fn close(&mut self) -> Result<Option<u32>>;

    /// The file's length, including all accepted bytes.
    fn position(&self) -> u64;

    /// Whether a failed operation can be repeated, because the file is still open for writing. If not,
    /// the caller can only drop the writer.
    fn goes_on(&self) -> bool {
        false
    }
}
