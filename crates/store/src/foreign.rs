//! A file system whose calls block: a library with a C interface, in this process or in another one.

use crate::{
    BlockLocation, Capabilities, Checksum, CreateOptions, ErrorKind, FileStatus, Principal, Result,
    SetAttributes, StoreStatus, fail,
};
use std::ops::Range;
use std::sync::Arc;

/// The operations of [`crate::FileSystem`]. Each blocks its thread. Paths are normalised.
pub trait Foreign: Send + Sync + 'static {
    /// Its capabilities.
    fn capabilities(&self) -> Capabilities;
    /// The status of a path.
    fn stat(&self, who: &Principal, path: &str) -> Result<FileStatus>;
    /// The entries of a directory; `NotADirectory` for a file.
    fn list(&self, who: &Principal, path: &str) -> Result<Box<dyn Listing>>;
    /// Opens a file.
    fn open(&self, who: &Principal, path: &str) -> Result<Arc<dyn Reader>>;
    /// Creates a file.
    fn create(&self, who: &Principal, path: &str, how: &CreateOptions) -> Result<Box<dyn Writer>>;
    /// Opens a file to write at its end.
    fn append(&self, who: &Principal, path: &str) -> Result<Box<dyn Writer>>;
    /// Cuts a file.
    fn truncate(&self, who: &Principal, path: &str, length: u64) -> Result<()>;
    /// Renames a path.
    fn rename(&self, who: &Principal, from: &str, to: &str, replace: bool) -> Result<()>;
    /// Removes a path.
    fn remove(&self, who: &Principal, path: &str, recursive: bool) -> Result<()>;
    /// Whether `remove` removes a tree in a time that hardly depends on its size. Else the store calls `remove` for
    /// each entry, since each call has a time limit.
    fn removes_trees(&self) -> bool {
        false
    }
    /// Makes a directory.
    fn mkdirs(&self, who: &Principal, path: &str, permission: Option<u32>) -> Result<()>;
    /// Sets attributes.
    fn set_attributes(&self, who: &Principal, path: &str, set: &SetAttributes) -> Result<()>;
    /// Hosts of blocks.
    fn block_locations(&self, _: &Principal, _: &str, _: Range<u64>) -> Result<Vec<BlockLocation>> {
        absent()
    }
    /// The checksum of a file.
    fn checksum(&self, _: &Principal, _: &str) -> Result<Checksum> {
        absent()
    }
    /// Capacity and use.
    fn status(&self, _: &Principal) -> Result<StoreStatus> {
        absent()
    }
    /// Name and version of the library, for people.
    fn about(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// The error of an absent capability.
pub fn absent<T>() -> Result<T> {
    fail(ErrorKind::Unsupported, "this store has no such operation")
}

/// A directory that is being listed.
pub trait Listing: Send {
    /// The next entries, some hundred at most; none at the end.
    fn next(&mut self) -> Result<Vec<FileStatus>>;
}

/// An open file.
pub trait Reader: Send + Sync {
    /// Up to `size` bytes, fewer only at the end of the file.
    fn read(&self, offset: u64, size: usize) -> Result<Vec<u8>>;
    /// The length when it was opened.
    fn length(&self) -> u64;
}

/// A file that is being written. Dropped without a close, it is abandoned.
pub trait Writer: Send {
    /// Accepts all of the bytes.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
    /// See [`crate::FileWriter`].
    fn flush(&mut self) -> Result<()>;
    /// See [`crate::FileWriter`].
    fn sync(&mut self) -> Result<()>;
    /// See [`crate::FileWriter`].
    fn close(&mut self) -> Result<()>;
    /// The offset of the first byte that this writer appends.
    fn begins_at(&self) -> u64;
}
