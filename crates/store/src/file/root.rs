//! Names under the root directory. The kernel resolves them without ever leaving it.

use crate::{Error, ErrorKind, Result, StorePath, encoding, fail};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// Attempts to resolve a path if concurrent renames disturb the resolution (`EAGAIN`). openat2(2) leaves
/// retries to its caller.
const RESOLVE_ATTEMPTS: u32 = 64;

/// The root directory of a store.
pub(super) struct Root {
    fd: OwnedFd,
}

impl Root {
    /// Opens `directory` as a root, and checks whether it can be one.
    pub(super) fn open(directory: &Path) -> Result<Self> {
        let place = directory.display();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(directory, flags, Mode::empty()).map_err(|errno| {
            let error = from_errno(errno);
            Error::new(
                error.kind(),
                format!("the data directory {place} can't be opened: {}", error.message()),
            )
        })?;
        let root = Self { fd };
        match root.resolve(".", OFlags::PATH) {
            Ok(_) => Ok(root),
            // Seccomp filters older than the call answer EPERM.
            Err(Errno::NOSYS | Errno::PERM) => fail(
                ErrorKind::Unsupported,
                format!("the data directory {place} can't be confined: this needs openat2 (Linux 5.6)"),
            ),
            Err(errno) => Err(from_errno(errno)),
        }
    }

    /// The node at `path`, with links followed. The descriptor is usable for stat and as the base of other
    /// calls, not for reading or writing.
    pub(super) fn node(&self, path: &StorePath) -> Result<OwnedFd> {
        self.at(path, OFlags::PATH).map_err(from_resolution)
    }

    /// The directory at `path`, usable as the base of other calls.
    pub(super) fn directory(&self, path: &StorePath) -> Result<OwnedFd> {
        self.at(path, OFlags::PATH | OFlags::DIRECTORY).map_err(from_resolution)
    }

    /// The directory at `path`, for reading its entries.
    pub(super) fn readable_directory(&self, path: &StorePath) -> Result<OwnedFd> {
        self.at(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(from_resolution)
    }

    /// The directory that holds `path`'s last name; `None` for the root.
    pub(super) fn parent(&self, path: &StorePath) -> Result<Option<OwnedFd>> {
        path.parent().map(|parent| self.directory(&parent)).transpose()
    }

    /// Opens the file at `path` for reading or writing. Opens only regular files, because opening a FIFO
    /// may block forever, and opening a device may have effects.
    pub(super) fn file(&self, path: &StorePath, access: OFlags) -> Result<(File, Stat)> {
        let (node, file) = self.node_and_file(path, access)?;
        match file {
            Err(Errno::STALE) => {
                drop(node);
                self.look_again(path);
                let (_, file) = self.node_and_file(path, access)?;
                file.map_err(from_errno)
            }
            file => file.map_err(from_errno),
        }
    }

    fn node_and_file(
        &self,
        path: &StorePath,
        access: OFlags,
    ) -> Result<(OwnedFd, rustix::io::Result<(File, Stat)>)> {
        let node = self.node(path)?;
        let stat = match rustix::fs::fstat(&node) {
            Ok(stat) => stat,
            Err(errno) => return Ok((node, Err(errno))),
        };
        match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            rustix::fs::FileType::RegularFile => {}
            rustix::fs::FileType::Directory => return fail(ErrorKind::IsADirectory, "it is a directory"),
            _ => return fail(ErrorKind::InvalidArgument, "it is a FIFO, device or socket; it isn't opened"),
        }
        let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = rustix::fs::open(descriptor_path(&node), flags, Mode::empty());
        Ok((node, file.map(|file| (file.into(), stat))))
    }

    /// Makes the kernel ask a network file system for a name again. It remembers names for a second or so, and
    /// another host may have put another file in the place of this one. For ordinary calls by name the kernel does
    /// this itself.
    fn look_again(&self, path: &StorePath) {
        if let (Ok(Some(parent)), Ok(name)) = (self.parent(path), name_of(path)) {
            let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
            // The next attempt tells the error.
            let _ = rustix::fs::statx(parent, &*name, flags, StatxFlags::TYPE);
        }
    }

    fn at(&self, path: &StorePath, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let relative = if path.is_root() { "." } else { path.relative() };
        let relative = encoding::decode(relative).ok_or(Errno::NOENT)?;
        self.resolve(&*relative, flags)
    }

    fn resolve(&self, relative: impl rustix::path::Arg + Copy, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let confined = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 1..RESOLVE_ATTEMPTS {
            match rustix::fs::openat2(&self.fd, relative, flags | OFlags::CLOEXEC, Mode::empty(), confined) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                resolved => return resolved,
            }
        }
        Err(Errno::AGAIN)
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The bytes of a path's last name.
pub(super) fn name_of(path: &StorePath) -> Result<Cow<'_, [u8]>> {
    encoding::decode(path.name()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidArgument,
            "the name has characters that encode bytes (U+10FE80 to U+10FEFF), in an invalid order",
        )
    })
}

/// The kernel's path for an open descriptor. It leads to the same node even if the node has been renamed.
pub(super) fn descriptor_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Opens a descriptor's node again, for `access`.
pub(super) fn reopen(fd: impl AsFd, access: OFlags) -> Result<OwnedFd> {
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::open(descriptor_path(fd), flags, Mode::empty()).map_err(from_errno)
}

/// Writes the entries of a directory to stable storage.
pub(super) fn sync_directory(directory: &OwnedFd) -> Result<()> {
    #[cfg(test)]
    super::durability::note(&descriptor_path(directory));
    match reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(readable) => rustix::fs::fsync(readable).map_err(from_errno),
        // The directory is writable but not readable, so it can't be synced alone: sync everything.
        Err(_) => {
            rustix::fs::sync();
            Ok(())
        }
    }
}

/// The unique identity of a directory: device and inode.
pub(super) fn identity(directory: &OwnedFd) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(directory).map_err(from_errno)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Converts an error of a system call other than path resolution.
pub(super) fn from_errno(errno: Errno) -> Error {
    if errno == Errno::STALE {
        let why = "stale file handle: another host removed or replaced the file, or its server restarted; \
                   open it again, or mount the file system again";
        return Error::new(ErrorKind::Unavailable, why);
    }
    let text = std::io::Error::from(errno).to_string();
    // Without "(os error 2)", which says nothing beyond the kind.
    let message = text.split(" (os error").next().unwrap_or_default().to_owned();
    Error::new(ErrorKind::from_errno(errno.raw_os_error()), message)
}

/// Converts an error of path resolution, where some numbers mean that the path leads out of the store.
fn from_resolution(errno: Errno) -> Error {
    match errno {
        Errno::XDEV => Error::new(ErrorKind::PermissionDenied, "a link in the path leads out of the store"),
        Errno::LOOP => {
            Error::new(ErrorKind::PermissionDenied, "too many links in the path, or one to itself")
        }
        _ => from_errno(errno),
    }
}
