//! The few things that Kadoop asks of a disk, so that a simulated one can stand
//! in: one directory, no subdirectories, files written at offsets.
//!
//! What isn't synced may be lost at a crash, in part and in any order: bytes until
//! [`DiskFile::sync_data`], names until [`Disk::sync_names`].

mod real;

pub use real::{RealDisk, RealFile};

use std::io;

/// A directory.
pub trait Disk {
    /// An open file of it. Clones are the same file.
    type File: DiskFile;

    /// Makes an empty file, in place of the one of that name if there is one.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file that is there.
    ///
    /// # Errors
    /// The operating system's; `NotFound`.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Gives a file another name, replacing what had it.
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The operating system's; `NotFound`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All names, in no order.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns when all that was done to names is on stable storage.
    ///
    /// # Errors
    /// The operating system's.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file.
pub trait DiskFile: Clone {
    /// Writes all of `bytes` at `offset`, growing the file where it ends before.
    ///
    /// # Errors
    /// The operating system's.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes; fewer only at the file's end.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The same, as a vector of its own.
    ///
    /// # Errors
    /// The operating system's.
    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
    /// Bytes.
    ///
    /// # Errors
    /// The operating system's.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or grows (with zeroes) the file.
    ///
    /// # Errors
    /// The operating system's.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Grows the file to `length` zeroes with space on the disk behind them, so
    /// that writing within it costs no change of metadata.
    ///
    /// # Errors
    /// The operating system's; a disk that is full.
    fn preallocate(&self, length: u64) -> io::Result<()>;
    /// Begins to put on stable storage what [`DiskFile::sync_data`] will wait for: a sync of
    /// another file may then take it along. Promises nothing.
    fn begin_sync(&self) {}
    /// Returns when bytes and length are on stable storage.
    ///
    /// # Errors
    /// The operating system's. What was written since the last sync may be lost
    /// then, and a second try proves nothing: only what is written anew, in another file.
    fn sync_data(&self) -> io::Result<()>;
}

/// A whole file's bytes, read in pieces of at most 1 MiB: nothing is taken in
/// memory by what a damaged length claims.
///
/// # Errors
/// The operating system's.
pub fn read_whole<F: DiskFile>(file: &F) -> io::Result<Vec<u8>> {
    const STEP: usize = 1 << 20;
    let mut bytes = Vec::new();
    loop {
        let start = bytes.len();
        let step = usize::try_from(file.length()?.saturating_sub(start as u64)).unwrap_or(STEP).min(STEP);
        if step == 0 {
            return Ok(bytes);
        }
        bytes.resize(start + step, 0);
        let read = file.read_at(start as u64, &mut bytes[start..])?;
        bytes.truncate(start + read);
        if read == 0 {
            return Ok(bytes);
        }
    }
}
