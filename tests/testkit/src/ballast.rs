//! A file that takes all free space of a disk.

use crate::failure::Result;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{self, File};
use std::io;
use std::path::Path;

const NAME: &str = "ballast";

/// Fills all free space of the disk at `directory`.
///
/// # Errors
/// The kernel's.
pub fn fill(directory: &Path) -> Result<()> {
    let ballast = File::options().create(true).append(true).open(directory.join(NAME))?;
    // End with steps of one page, so that no space is left, even if another process frees some during this.
    for step in [16 << 20, 1 << 20, 64 << 10, 4 << 10] {
        loop {
            match fallocate(&ballast, FallocateFlags::empty(), ballast.metadata()?.len(), step) {
                Ok(()) => {}
                Err(rustix::io::Errno::NOSPC) => break,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
    Ok(())
}

/// Frees that space. Succeeds also if there is no ballast: a power loss may have removed the file.
///
/// # Errors
/// The kernel's.
pub fn relieve(directory: &Path) -> Result<()> {
    let ballast = directory.join(NAME);
    // Truncate it first: a child process that another thread is starting may still have it open.
    match File::options().write(true).truncate(true).open(&ballast) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => drop(opened?),
    }
    Ok(fs::remove_file(ballast)?)
}
