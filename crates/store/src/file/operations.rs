//! The store's operations on its files and names, as sequences of system calls on the blocking
//! pool.

use super::Inner;
use super::attributes::{checked_permission, clear_set_id_bits, milliseconds};
use super::bricks;
use super::directories::{self, Made};
use super::reader::Reader;
use super::root::{Root, from_errno, identity, name_of, sync_directory};
use super::writer::{self, Writer};
use crate::random::try_random;
use crate::{
    BlockLocation, CreateOptions, Error, ErrorKind, FileStatus, FileType, Result, StorePath, StoreStatus,
    arguments, fail,
};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Permission of a file for which the caller gives none.
const DEFAULT_PERMISSION: u32 = 0o644;
/// Block size that `stat` reports, in bytes: HDFS's default. Programs that split their input by block
/// size then make reasonable pieces. Block locations still show the whole file as one block.
const NOMINAL_BLOCK_BYTES: u64 = 128 << 20;
/// Prefix of the file that the store makes at its start, to check whether the root can be written.
const PROBE_PREFIX: &str = ".strait-probe-";
/// Attempts of a create, if other processes make and remove the name at the same time.
const CREATE_ATTEMPTS: u32 = 8;

/// Opens a store's root.
pub(super) fn open_root(directory: &Path, create: bool) -> Result<Root> {
    let place = directory.display();
    if create {
        std::fs::create_dir_all(directory).map_err(|error| {
            let error = Error::from(error);
            Error::new(error.kind(), format!("the data directory {place} can't be made: {}", error.message()))
        })?;
    }
    Root::open(directory)
}

/// Checks whether a root can be written.
pub(super) fn check_writable(root: &Root) -> Result<()> {
    // Mode bits don't show a read-only mount, an unmapped user, or a full quota.
    let unwritable = |errno| {
        let error = from_errno(errno);
        Error::new(error.kind(), format!("the directory can't be written: {}", error.message()))
    };
    // Other users may plant a file or a FIFO under the probe's name. The probe doesn't change such a
    // file, and a FIFO can't delay the start.
    let flags = OFlags::WRONLY
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NONBLOCK
        | OFlags::NOFOLLOW
        | OFlags::CLOEXEC;
    for _ in 0..CREATE_ATTEMPTS {
        let probe = format!("{PROBE_PREFIX}{:016x}", u64::from_ne_bytes(try_random()?));
        match rustix::fs::openat(root, probe.as_str(), flags, Mode::RUSR | Mode::WUSR) {
            Ok(_) => {
                return rustix::fs::unlinkat(root, probe.as_str(), AtFlags::empty()).map_err(unwritable);
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(unwritable(errno)),
        }
    }
    Err(unwritable(Errno::EXIST))
}

impl Inner {
    pub(super) fn stat(&self, path: &StorePath) -> Result<FileStatus> {
        let node = self.root.node(path)?;
        let stat = rustix::fs::fstat(&node).map_err(from_errno)?;
        Ok(self.status_of(path.as_str().to_owned(), &stat))
    }

    pub(super) fn status_of(&self, path: String, stat: &Stat) -> FileStatus {
        let (file_type, length, replication, block_size) =
            match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                rustix::fs::FileType::Directory => (FileType::Directory, 0, 0, 0),
                _ => (FileType::File, stat.st_size.cast_unsigned(), 1, NOMINAL_BLOCK_BYTES),
            };
        FileStatus {
            path,
            file_type,
            length,
            replication,
            block_size,
            modified_ms: milliseconds(stat.st_mtime, stat.st_mtime_nsec),
            accessed_ms: milliseconds(stat.st_atime, stat.st_atime_nsec),
            permission: Mode::from_raw_mode(stat.st_mode).as_raw_mode(),
            owner: self.names.user(stat.st_uid),
            group: self.names.group(stat.st_gid),
            link: false,
        }
    }

    pub(super) fn locate(&self, path: &StorePath, range: Range<u64>) -> Result<Vec<BlockLocation>> {
        let node = self.root.node(path)?;
        let stat = rustix::fs::fstat(&node).map_err(from_errno)?;
        let status = self.status_of(path.as_str().to_owned(), &stat);
        if status.is_directory() {
            return fail(ErrorKind::IsADirectory, "it is a directory");
        }
        if range.start >= range.end.min(status.length) {
            return Ok(Vec::new());
        }
        let mut hosts = bricks::hosts(&node);
        if hosts.is_empty() {
            hosts.push(self.host.clone());
        }
        Ok(vec![BlockLocation {
            offset: 0,
            length: status.length,
            hosts,
            addresses: Vec::new(),
            corrupt: false,
        }])
    }

    pub(super) fn open(&self, path: &StorePath) -> Result<Reader> {
        let (file, stat) = self.root.file(path, OFlags::RDONLY)?;
        Ok(Reader::new(file, path.clone(), stat.st_size.cast_unsigned()))
    }

    pub(super) fn create(&self, path: &StorePath, options: &CreateOptions) -> Result<Writer> {
        let mode = checked_permission(options.permission, DEFAULT_PERMISSION, false)?;
        let Some(parent) = path.parent() else {
            return fail(ErrorKind::AlreadyExists, "the root is a directory");
        };
        let Made { directory, changed } =
            directories::make(&self.root, &parent, directories::DEFAULT_PERMISSION)?;
        // Sync the directories now, not when the file is closed: another file in them may be closed first.
        // Besides, an open file needs no descriptor of its directory then.
        changed.iter().try_for_each(sync_directory)?;
        let name = name_of(path)?;
        for _ in 0..CREATE_ATTEMPTS {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&directory, &*name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => {
                    let file = File::from(file);
                    // If another writer has opened the new file first, that writer keeps it.
                    writer::lock(&file)?;
                    rustix::fs::fchmod(&file, mode).map_err(from_errno)?;
                    sync_directory(&directory)?;
                    return Ok(Writer::new(file, path.clone(), 0));
                }
                Err(Errno::EXIST) if options.overwrite => {}
                Err(Errno::EXIST) => return fail(ErrorKind::AlreadyExists, "the name is taken"),
                Err(errno) => return Err(from_errno(errno)),
            }
            match self.root.file(path, OFlags::WRONLY) {
                Ok((file, _)) => {
                    writer::lock(&file)?;
                    rustix::fs::ftruncate(&file, 0).map_err(from_errno)?;
                    rustix::fs::fchmod(&file, mode).map_err(from_errno)?;
                    return Ok(Writer::new(file, path.clone(), 0));
                }
                Err(error) if error.kind() == ErrorKind::IsADirectory => {
                    return fail(ErrorKind::AlreadyExists, "there is a directory of that name");
                }
                // Another process removed the file in between, or the name is a link to nothing.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        fail(ErrorKind::AlreadyExists, "the name is a link to nothing, or another program keeps changing it")
    }

    pub(super) fn append(&self, path: &StorePath) -> Result<Writer> {
        let (file, length) = self.locked(path)?;
        Ok(Writer::new(file, path.clone(), length))
    }

    pub(super) fn truncate(&self, path: &StorePath, length: u64) -> Result<()> {
        let (file, old_length) = self.locked(path)?;
        if length > old_length {
            return fail(ErrorKind::InvalidArgument, "the file is shorter than the new length");
        }
        clear_set_id_bits(&file)?;
        rustix::fs::ftruncate(&file, length).and_then(|()| rustix::fs::fdatasync(&file)).map_err(from_errno)
    }

    /// Opens the file for writing, and locks it for this writer. Also returns its length.
    fn locked(&self, path: &StorePath) -> Result<(File, u64)> {
        let (file, _) = self.root.file(path, OFlags::WRONLY)?;
        writer::lock(&file)?;
        let length = rustix::fs::fstat(&file).map_err(from_errno)?.st_size.cast_unsigned();
        Ok((file, length))
    }

    pub(super) fn rename(&self, from: &StorePath, to: &StorePath, replace: bool) -> Result<()> {
        let Some(from_parent) = self.root.parent(from)? else {
            return fail(ErrorKind::InvalidArgument, "the root can't be renamed");
        };
        let from_name = name_of(from)?;
        rustix::fs::statat(&from_parent, &*from_name, AtFlags::SYMLINK_NOFOLLOW).map_err(from_errno)?;
        if from == to || to.is_root() {
            return fail(ErrorKind::AlreadyExists, "the new name is the old one or the root");
        }
        if from.contains(to) {
            return Err(arguments::into_itself());
        }
        let Some(to_parent) = self.root.parent(to)? else {
            return fail(ErrorKind::AlreadyExists, "the root is a directory");
        };
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let to_name = name_of(to)?;
        let mut renamed = rustix::fs::renameat_with(&from_parent, &*from_name, &to_parent, &*to_name, flags);
        if renamed == Err(Errno::INVAL) && !replace {
            renamed = rename_by_link(&from_parent, &from_name, &to_parent, &to_name);
        }
        match renamed {
            Ok(()) => {
                // Sync the new name first: a crash in between leaves two names, not none.
                sync_directory(&to_parent)?;
                match identity(&from_parent)? == identity(&to_parent)? {
                    true => Ok(()),
                    false => sync_directory(&from_parent),
                }
            }
            // POSIX allows either number for a directory with entries.
            Err(Errno::EXIST | Errno::NOTEMPTY) if replace => {
                fail(ErrorKind::NotEmpty, "the target directory isn't empty")
            }
            Err(Errno::XDEV) => {
                fail(ErrorKind::Unsupported, "the old and the new name are on different file systems")
            }
            Err(Errno::INVAL) => Err(arguments::into_itself()),
            Err(errno) => Err(from_errno(errno)),
        }
    }

    pub(super) fn remove(&self, path: &StorePath, recursive: bool) -> Result<()> {
        let Some(parent) = self.root.parent(path)? else {
            return fail(ErrorKind::InvalidArgument, "the root can't be removed");
        };
        remove_from(&parent, path, recursive)?;
        // This suffices for a tree, too: nothing beneath it can be reached any more.
        sync_directory(&parent)
    }

    pub(super) fn mkdirs(&self, path: &StorePath, permission: Option<u32>) -> Result<()> {
        let mode = checked_permission(permission, directories::DEFAULT_PERMISSION, true)?;
        match directories::make(&self.root, path, mode.as_raw_mode()) {
            Ok(made) => made.changed.iter().try_for_each(sync_directory),
            // The kernel returns the same error for a file at the path and for one above it.
            Err(error) if error.kind() == ErrorKind::NotADirectory && self.root.node(path).is_ok() => {
                fail(ErrorKind::AlreadyExists, "there is a file of that name")
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn status(&self) -> Result<StoreStatus> {
        let disk = rustix::fs::fstatvfs(&self.root).map_err(from_errno)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Ok(StoreStatus {
            capacity: bytes(disk.f_blocks),
            used: bytes(disk.f_blocks.saturating_sub(disk.f_bfree)),
            remaining: bytes(disk.f_bavail),
            settling: false,
        })
    }
}

/// Renames to a free name on file systems whose rename can't refuse a taken name, such as NFS and GlusterFS:
/// links the new name, then removes the old one. So a file has both names for a moment. For a directory, the
/// check and the rename are two steps: it may replace an empty one that another host makes in between.
fn rename_by_link(
    from_parent: &OwnedFd,
    from_name: &[u8],
    to_parent: &OwnedFd,
    to_name: &[u8],
) -> rustix::io::Result<()> {
    /// Renames take turns, because two renames of the same old name could both link the file.
    static RENAMING: Mutex<()> = Mutex::new(());
    let _turn = RENAMING.lock().unwrap_or_else(PoisonError::into_inner);
    let source = rustix::fs::statat(from_parent, from_name, AtFlags::SYMLINK_NOFOLLOW)?;
    if rustix::fs::FileType::from_raw_mode(source.st_mode).is_dir() {
        return match rustix::fs::statat(to_parent, to_name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(Errno::NOENT) => rustix::fs::renameat(from_parent, from_name, to_parent, to_name),
            Err(errno) => Err(errno),
        };
    }
    rustix::fs::linkat(from_parent, from_name, to_parent, to_name, AtFlags::empty())?;
    match rustix::fs::unlinkat(from_parent, from_name, AtFlags::empty()) {
        Ok(()) => Ok(()),
        Err(errno) => unless_renamed((from_parent, from_name), (to_parent, to_name), &source, errno),
    }
}

/// Decides on a rename if the removal of the old name seems to have failed. If the old name still has the
/// file, removes the new name. If the old name is gone, the rename has succeeded: NFS reports ENOENT for
/// a removal that it sent twice.
fn unless_renamed(
    (from_parent, from_name): (&OwnedFd, &[u8]),
    (to_parent, to_name): (&OwnedFd, &[u8]),
    source: &rustix::fs::Stat,
    errno: Errno,
) -> rustix::io::Result<()> {
    match rustix::fs::statat(from_parent, from_name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) if (there.st_dev, there.st_ino) == (source.st_dev, source.st_ino) => {
            let _ = rustix::fs::unlinkat(to_parent, to_name, AtFlags::empty());
            Err(errno)
        }
        Ok(_) | Err(Errno::NOENT) => Ok(()),
        Err(_) => Err(errno),
    }
}

fn remove_from(parent: &OwnedFd, path: &StorePath, recursive: bool) -> Result<()> {
    let name = &*name_of(path)?;
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) => return Ok(()),
        // It is a directory: POSIX's error for this, and Linux's.
        Err(Errno::PERM | Errno::ISDIR) => {}
        Err(errno) => return Err(from_errno(errno)),
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => directories::remove_tree(parent.as_fd(), name),
        Err(Errno::NOTEMPTY | Errno::EXIST) => fail(ErrorKind::NotEmpty, "the directory has entries"),
        // It isn't a directory after all, so EPERM meant that the file system refuses to remove this file.
        // For an immutable file of ext4, rmdir fails with EPERM, too.
        Err(Errno::NOTDIR) => fail(
            ErrorKind::PermissionDenied,
            "the file system refuses to remove the file; it may be protected",
        ),
        Err(errno) => Err(from_errno(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rename_by_link_takes_a_free_name_and_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let parent = OwnedFd::from(File::open(directory.path()).unwrap());
        let rename = |from: &str, to: &str| rename_by_link(&parent, from.as_bytes(), &parent, to.as_bytes());
        std::fs::write(at("f"), b"one").unwrap();
        std::fs::write(at("g"), b"two").unwrap();
        std::fs::create_dir_all(at("d/e")).unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        for (from, to) in [("f", "g"), ("f", "empty"), ("d", "empty"), ("d", "g")] {
            assert_eq!(rename(from, to), Err(Errno::EXIST), "{from} to {to}");
        }
        assert_eq!(rename("d", "d/e/d"), Err(Errno::INVAL));
        assert_eq!(rename("missing", "new"), Err(Errno::NOENT));
        rename("f", "new").unwrap();
        rename("d", "d2").unwrap();
        assert_eq!(std::fs::read(at("new")).unwrap(), b"one");
        assert_eq!(std::fs::read(at("g")).unwrap(), b"two");
        assert!(!at("f").exists() && !at("d").exists() && at("d2/e").exists());
    }

    #[test]
    fn a_failed_removal_of_the_old_name_never_takes_the_last_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let parent = OwnedFd::from(File::open(directory.path()).unwrap());
        std::fs::write(at("old"), b"one").unwrap();
        std::fs::hard_link(at("old"), at("new")).unwrap();
        let source = rustix::fs::statat(&parent, "old", AtFlags::SYMLINK_NOFOLLOW).unwrap();
        let settle = |errno| unless_renamed((&parent, b"old"), (&parent, b"new"), &source, errno);
        assert_eq!(settle(Errno::ACCESS), Err(Errno::ACCESS));
        assert!(at("old").exists() && !at("new").exists(), "nothing was renamed");
        std::fs::rename(at("old"), at("new")).unwrap();
        assert_eq!(settle(Errno::NOENT), Ok(()), "the answer of a removal was lost");
        std::fs::write(at("old"), b"another").unwrap();
        assert_eq!(settle(Errno::NOENT), Ok(()), "another host has made a file of that name");
        assert_eq!(std::fs::read(at("new")).unwrap(), b"one");
    }
}
