//! A small disk that a test can fill. Needs root.
//!
//! The disk is in memory, and isn't attached to any directory. The kernel removes it with the descriptor that
//! this process holds, however this process ends.

use crate::ballast;
use crate::failure::{Failure, Result};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// A file system of a few megabytes.
#[derive(Debug)]
pub struct SmallDisk(OwnedFd);

impl SmallDisk {
    /// Makes a disk with a capacity of `bytes` bytes.
    ///
    /// # Errors
    /// This process isn't root, or the kernel refuses.
    pub fn new(bytes: u64) -> Result<Self> {
        let make = || -> io::Result<OwnedFd> {
            let kind = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(&kind, "size", bytes.to_string())?;
            fsconfig_create(&kind)?;
            Ok(fsmount(&kind, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
        };
        make().map(Self).map_err(|error| Failure::new(format!("making a small disk (as root?): {error}")))
    }

    /// Path of the disk's root, also for other processes of the same user.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Fills all free space.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(&self) -> Result<()> {
        ballast::fill(&self.path())
    }

    /// Frees the space that [`SmallDisk::fill`] filled.
    ///
    /// # Errors
    /// The kernel's.
    pub fn relieve(&self) -> Result<()> {
        ballast::relieve(&self.path())
    }
}
