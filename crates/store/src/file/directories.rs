//! Making directories, and removing trees of them.

use super::root::{Root, from_errno, identity, name_of};
use crate::{ErrorKind, Result, StorePath, fail};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Permission of a directory for which the caller gives none.
pub(super) const DEFAULT_PERMISSION: u32 = 0o755;
/// Names of subdirectories that are kept per level while a tree is removed. Few enough to bound the
/// memory, but enough that a directory needn't be read from its start for each subdirectory.
const NAMES_A_LEVEL: usize = 256;

/// A directory, which was made if it was missing.
pub(super) struct Made {
    pub(super) directory: OwnedFd,
    /// The directories that got a new entry, and aren't durable yet.
    pub(super) changed: Vec<OwnedFd>,
}

/// Opens the directory at `path`. If it is missing, makes it with `permission`, and its missing parents
/// with [`DEFAULT_PERMISSION`].
pub(super) fn make(root: &Root, path: &StorePath, permission: u32) -> Result<Made> {
    let mut missing = Vec::new();
    let mut present = path.clone();
    let mut directory = loop {
        match (root.directory(&present), present.parent()) {
            (Ok(directory), _) => break directory,
            (Err(error), Some(parent)) if error.kind() == ErrorKind::NotFound => {
                missing.push(present);
                present = parent;
            }
            (Err(error), _) => return Err(error),
        }
    };
    let mut changed = Vec::new();
    while let Some(next) = missing.pop() {
        let permission = if missing.is_empty() { permission } else { DEFAULT_PERMISSION };
        let name = name_of(&next)?;
        let child = match rustix::fs::mkdirat(&directory, &*name, Mode::RWXU) {
            Ok(()) => {
                // This process owns the directory, so it can open it. Links aren't followed, in case a
                // link has replaced the directory.
                let child = open_directory(directory.as_fd(), &*name).map_err(from_errno)?;
                // mkdirat applies this process's umask, which isn't the caller's. So set the mode again.
                rustix::fs::fchmod(&child, Mode::from_raw_mode(permission)).map_err(from_errno)?;
                changed.push(directory);
                child
            }
            // Another process made it first, or the name is a link to nothing.
            Err(Errno::EXIST) => root.directory(&next)?,
            Err(errno) => return Err(from_errno(errno)),
        };
        directory = child;
    }
    Ok(Made { directory, changed })
}

/// Removes the directory `name` of `parent` with all its contents. Removes links, and never follows
/// them.
///
/// Iterative, with two descriptors open at any depth, because other users determine the depth. It
/// returns to the parent by `..`, and checks that this is the directory that it came from.
pub(super) fn remove_tree(parent: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    struct Level {
        name: CString,
        id: (u64, u64),
        subdirectories: Vec<CString>,
    }
    let level = |name: CString, directory: &OwnedFd| -> Result<Level> {
        Ok(Level { name, id: identity(directory)?, subdirectories: Vec::new() })
    };

    let Ok(name) = CString::new(name) else {
        return fail(ErrorKind::InvalidArgument, "the name has a NUL byte");
    };
    let mut current = open_directory(parent, name.as_c_str()).map_err(from_errno)?;
    let mut levels = vec![level(name, &current)?];
    while let Some(here) = levels.last_mut() {
        if here.subdirectories.is_empty() {
            here.subdirectories = remove_files(&current)?;
        }
        if let Some(subdirectory) = here.subdirectories.pop() {
            match open_directory(current.as_fd(), subdirectory.as_c_str()) {
                Ok(below) => {
                    levels.push(level(subdirectory, &below)?);
                    current = below;
                }
                // The entry is gone, or another one replaced it, which the next pass removes.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(from_errno(errno)),
            }
            continue;
        }
        let Some(done) = levels.pop() else { break };
        let removed = match levels.last() {
            None => rustix::fs::unlinkat(parent, done.name, AtFlags::REMOVEDIR),
            Some(above) => {
                current = open_directory(current.as_fd(), c"..").map_err(from_errno)?;
                if identity(&current)? != above.id {
                    return fail(ErrorKind::Busy, "the directory was moved while it was removed");
                }
                rustix::fs::unlinkat(&current, done.name, AtFlags::REMOVEDIR)
            }
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                return fail(ErrorKind::NotEmpty, "entries were added while the directory was removed");
            }
            Err(errno) => return Err(from_errno(errno)),
        }
    }
    Ok(())
}

/// Removes entries other than directories, and returns the names of some subdirectories. Returns none
/// if the directory is empty.
fn remove_files(directory: &OwnedFd) -> Result<Vec<CString>> {
    let mut subdirectories = Vec::new();
    for entry in Dir::read_from(directory).map_err(from_errno)? {
        let entry = entry.map_err(from_errno)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno @ (Errno::ISDIR | Errno::PERM)) => {
                if !is_directory(directory, name) {
                    return Err(from_errno(errno));
                }
                subdirectories.push(name.to_owned());
                if subdirectories.len() == NAMES_A_LEVEL {
                    break;
                }
            }
            Err(errno) => return Err(from_errno(errno)),
        }
    }
    Ok(subdirectories)
}

fn is_directory(directory: &OwnedFd, name: &CStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}

fn open_directory(parent: BorrowedFd<'_>, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
