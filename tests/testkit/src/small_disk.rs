//! A disk that is soon full. Needs root.
//!
//! It is in memory, and mounted nowhere: the kernel takes it away with the descriptor that
//! this process holds, however the process ends.

use crate::failure::{Failure, Result};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen,
};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

/// What else takes room on the disk.
const BALLAST: &str = "ballast";

/// A file system of a few megabytes.
#[derive(Debug)]
pub struct SmallDisk(OwnedFd);

impl SmallDisk {
    /// Makes one that holds so many bytes.
    ///
    /// # Errors
    /// Not root; the kernel's.
    pub fn new(bytes: u64) -> Result<Self> {
        let make = || -> io::Result<OwnedFd> {
            let kind = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(&kind, "size", bytes.to_string())?;
            fsconfig_create(&kind)?;
            Ok(fsmount(&kind, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
        };
        make().map(Self).map_err(|error| Failure::new(format!("making a small disk (as root?): {error}")))
    }

    /// Its root, also for other processes of the same user.
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }

    /// Takes all room that is left.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(&self) -> Result<()> {
        let ballast = File::options().create(true).append(true).open(self.path().join(BALLAST))?;
        // In steps of a page at last: whoever else removes something meanwhile leaves no more.
        for step in [1 << 20, 64 << 10, 4 << 10] {
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

    /// Gives it back.
    ///
    /// # Errors
    /// The kernel's.
    pub fn relieve(&self) -> Result<()> {
        let ballast = self.path().join(BALLAST);
        // Emptied first: a process that another thread is just starting may have it open still.
        File::options().write(true).truncate(true).open(&ballast)?;
        Ok(fs::remove_file(ballast)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_is_written_to_a_full_disk_is_refused_until_there_is_room_again() {
        if !rustix::process::geteuid().is_root() {
            return crate::skip("a full disk", "root");
        }
        let disk = SmallDisk::new(4 << 20).unwrap();
        let file = disk.path().join("file");
        disk.fill().unwrap();
        let refused = fs::write(&file, [1; 10_000]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::StorageFull);
        disk.relieve().unwrap();
        fs::write(&file, [1; 10_000]).unwrap();
        let elsewhere = Command::new("wc").arg("-c").arg(&file).output().unwrap();
        assert!(elsewhere.stdout.starts_with(b"10000 "), "{elsewhere:?}");
    }
}
