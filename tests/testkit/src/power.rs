//! Disks that lose power. Needs root, loop devices, and `mkfs.xfs` and `mkfs.ext4`.
//!
//! ```text
//! a program's files │ ext4 or XFS: caches what nobody synced
//!                   │ a loop device
//!           image ──┤ XFS with reflinks, in an unlinked file
//! image as it was ──┘ a clone: one system call
//! ```
//!
//! At a power loss, the image is cloned while programs write. The clone has everything that the disk's file
//! system has sent to its device, and nothing from the file system's cache. Then the clone is mounted in
//! place of the image. Names and bytes that no program synced stay in the cache for half a minute or more:
//! here, ext4 commits its journal that rarely; XFS and the kernel's writeback do so by default.
//!
//! Cloning waits for writes under way and blocks new ones, so the clone is the image at one moment. It also
//! has writes that the device accepted without a flush, which a real device may lose. These tests don't
//! cover such a loss, against which ext4 and XFS protect themselves: each `fsync` ends with a flush.
//!
//! Mounts aren't attached to any directory, images have no names, and a loop device ends with its last user.
//! So the kernel removes all of them, however this process ends.

mod loop_device;

use crate::ballast;
use crate::failure::{Failure, Result};
use crate::skip;
use loop_device::LoopDevice;
use rustix::fs::ioctl_ficlone;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that make the file systems.
const TOOLS: [&str; 2] = ["mkfs.xfs", "mkfs.ext4"];
/// Interval, in seconds, at which ext4 commits its journal if no program syncs.
const COMMIT_S: &str = "600";
/// The file system of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names say it
pub enum Format {
    Ext4,
    Xfs,
}

/// A store of disks' images.
#[derive(Debug)]
pub struct ImageStore(Mount);

impl ImageStore {
    /// Makes a store for `bytes` bytes of images, in an unlinked sparse file in the directory for temporary
    /// files.
    ///
    /// # Errors
    /// This process isn't root, or there are no loop devices.
    pub fn new(bytes: u64) -> Result<Self> {
        let file = tempfile::tempfile()?;
        file.set_len(bytes)?;
        Ok(Self(Mount::format(&file, Format::Xfs)?))
    }

    /// As [`ImageStore::new`]. If the machine lacks a requirement, reports `claim` as skipped and returns
    /// None.
    ///
    /// # Panics
    /// If the machine has everything, but the store can't be made; as [`skip`].
    pub fn new_or_skip(bytes: u64, claim: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip(claim, "root, for loop devices and mounts");
            return None;
        }
        if !Path::new("/dev/loop-control").exists() {
            skip(claim, "loop devices");
            return None;
        }
        let lacks = |tool: &&&str| Command::new(tool).arg("-V").stderr(Stdio::null()).output().is_err();
        if let Some(tool) = TOOLS.iter().find(lacks) {
            skip(claim, tool);
            return None;
        }
        Some(Self::new(bytes).expect("root can make an image store"))
    }

    fn image(&self) -> Result<File> {
        // An image needs no name: cloning uses descriptors.
        Ok(tempfile::tempfile_in(self.0.path())?)
    }
}

/// A disk with a file system.
#[derive(Debug)]
pub struct PowerDisk<'s> {
    store: &'s ImageStore,
    format: Format,
    image: File,
    mount: Mount,
}

/// A disk's image as it was at one moment.
#[derive(Debug)]
pub struct Remains(File);

impl<'s> PowerDisk<'s> {
    /// Makes an empty disk of `bytes` bytes. XFS needs at least 300 MiB.
    ///
    /// # Errors
    /// As [`ImageStore::new`].
    pub fn new(store: &'s ImageStore, format: Format, bytes: u64) -> Result<Self> {
        let image = store.image()?;
        image.set_len(bytes)?;
        let mount = Mount::format(&image, format)?;
        Ok(Self { store, format, image, mount })
    }

    /// Path of the disk's root, also for other processes of the same user. [`PowerDisk::restart`] changes it.
    pub fn path(&self) -> PathBuf {
        self.mount.path()
    }

    /// The disk's contents if its power failed now.
    ///
    /// # Errors
    /// The kernel's.
    pub fn lose_power(&self) -> Result<Remains> {
        let clone = self.store.image()?;
        ioctl_ficlone(&clone, &self.image).map_err(io::Error::from)?;
        Ok(Remains(clone))
    }

    /// Mounts what remained after a power loss. Programs mustn't use the earlier path any more.
    ///
    /// # Errors
    /// The file system can't be mounted.
    pub fn restart(&mut self, remains: Remains) -> Result<()> {
        self.mount = Mount::new(&remains.0, self.format)?;
        self.image = remains.0;
        Ok(())
    }

    /// Fills all free space.
    ///
    /// # Errors
    /// The kernel's.
    pub fn fill(&self) -> Result<()> {
        ballast::fill(&self.path())
    }

    /// Frees the space that [`PowerDisk::fill`] filled.
    ///
    /// # Errors
    /// The kernel's.
    pub fn relieve(&self) -> Result<()> {
        ballast::relieve(&self.path())
    }
}

/// A mounted file system that isn't attached to any directory.
#[derive(Debug)]
struct Mount(OwnedFd);

impl Mount {
    fn format(image: &File, format: Format) -> Result<Self> {
        let device = LoopDevice::new(image)?;
        let mut command = match format {
            Format::Ext4 => Command::new("mkfs.ext4"),
            Format::Xfs => Command::new("mkfs.xfs"),
        };
        match format {
            // Write these tables now. Otherwise, the kernel would write them in the background.
            Format::Ext4 => command.args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"]),
            Format::Xfs => command.args(["-q", "-f", "-m", "reflink=1"]),
        };
        let output = command.arg(device.path()).output()?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("{command:?}: {}", said.trim())));
        }
        Self::of(&device, format)
    }

    fn new(image: &File, format: Format) -> Result<Self> {
        Self::of(&LoopDevice::new(image)?, format)
    }

    fn of(device: &LoopDevice, format: Format) -> Result<Self> {
        let kind = match format {
            Format::Ext4 => "ext4",
            Format::Xfs => "xfs",
        };
        let mount = || -> io::Result<OwnedFd> {
            let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_set_string(&context, "source", device.path())?;
            match format {
                Format::Ext4 => fsconfig_set_string(&context, "commit", COMMIT_S)?,
                // The original, which has the same UUID, may still be mounted.
                Format::Xfs => fsconfig_set_flag(&context, "nouuid")?,
            }
            fsconfig_create(&context)?;
            Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
        };
        let failed = |error| Failure::new(format!("mounting {kind} on {}: {error}", device.path().display()));
        mount().map(Self).map_err(failed)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd()).into()
    }
}
