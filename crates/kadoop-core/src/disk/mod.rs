//! The few operations that Kadoop needs of a disk: one directory, no subdirectories, files written at
//! offsets. A simulated disk can implement them, too.
//!
//! A crash may lose changes that aren't synced, in part and in any order: changes of bytes until
//! [`DiskFile::sync_data`], changes of names until [`Disk::sync_names`].

mod grouped;
mod real;

pub use grouped::Grouped;
pub use real::{RealDisk, RealFile};

use std::io;

/// A directory.
pub trait Disk {
    /// An open file. Clones stand for the same file.
    type File: DiskFile;

    /// Makes an empty file, and replaces an existing one of that name.
    ///
    /// # Errors
    /// The system call fails.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens an existing file.
    ///
    /// # Errors
    /// The system call fails, with `NotFound` if there is no such file.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Renames a file, and replaces an existing one of the new name.
    ///
    /// # Errors
    /// The system call fails.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system call fails, with `NotFound` if there is no such file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// All names, unordered.
    ///
    /// # Errors
    /// The system call fails.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns when all changes of names are on stable storage.
    ///
    /// # Errors
    /// The system call fails.
    fn sync_names(&self) -> io::Result<()>;
}

/// A file.
pub trait DiskFile: Clone {
    /// Writes all of `bytes` at `offset`; grows the file if needed.
    ///
    /// # Errors
    /// The system call fails.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Reads up to `buffer.len()` bytes; fewer only at the file's end.
    ///
    /// # Errors
    /// The system call fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// As [`DiskFile::read_at`], into a new vector.
    ///
    /// # Errors
    /// The system call fails.
    fn read_vec(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
    /// Length in bytes.
    ///
    /// # Errors
    /// The system call fails.
    fn length(&self) -> io::Result<u64>;
    /// Cuts or grows (with zeroes) the file.
    ///
    /// # Errors
    /// The system call fails.
    fn set_length(&self, length: u64) -> io::Result<()>;
    /// Grows the file to `length` with zeroes and reserves space for them, so that writes within it
    /// don't change metadata.
    ///
    /// # Errors
    /// The system call fails; the disk may be full.
    fn preallocate(&self, length: u64) -> io::Result<()>;
    /// Begins to write the data for which [`DiskFile::sync_data`] will wait, so a sync of another
    /// file may include that data. Guarantees nothing.
    fn begin_sync(&self) {}
    /// Returns when bytes and length are on stable storage.
    ///
    /// # Errors
    /// The system call fails. Data written since the last successful sync may then be lost, even if a
    /// second sync succeeds. To be safe, write the data again to another file.
    fn sync_data(&self) -> io::Result<()>;
}

/// A whole file's bytes, read in pieces of at most 1 MiB, so that a damaged length can't make it
/// allocate much memory.
///
/// # Errors
/// The system call fails.
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
