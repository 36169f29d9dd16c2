//! Paths, and the rights of a caller along them.

use super::{
    inodes::{Inode, ROOT},
    state::State,
};
use crate::{
    Config, InodeNo,
    config::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH},
    error::{Error, Result},
    messages::Caller,
};

/// The right to list a directory or read a file.
pub const READ: u16 = 4;
/// The right to change entries or bytes.
pub const WRITE: u16 = 2;
/// The right to pass through a directory.
pub const EXECUTE: u16 = 1;
/// In a directory's mode: only an entry's owner or the directory's owner may remove the entry.
pub const STICKY: u16 = 0o1000;
/// All bits of a mode.
pub const MODE_BITS: u16 = 0o1777;

/// The names of an absolute path, in order; empty for the root.
///
/// # Errors
/// Invalid: the path is relative, has the name `.` or `..` or a NUL byte, or exceeds a limit.
pub fn parse(path: &str) -> Result<Vec<&str>> {
    if path.len() > MAX_PATH_BYTES {
        return Err(Error::Invalid("the path is longer than 8,000 bytes"));
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err(Error::Invalid("the path doesn't begin with /"));
    };
    let names: Vec<&str> = rest.split('/').filter(|name| !name.is_empty()).collect();
    if names.len() > MAX_PATH_DEPTH {
        return Err(Error::Invalid("the path is deeper than 1,000 names"));
    }
    for name in &names {
        if *name == "." || *name == ".." || name.contains('\0') {
            return Err(Error::Invalid("a name in the path is . or .., or contains a NUL byte"));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(Error::Invalid("a name in the path is longer than 255 bytes"));
        }
    }
    Ok(names)
}

/// The existing part and the missing part of a path.
#[derive(Debug)]
pub struct Walk<'p> {
    /// The path's existing inodes, from the root on.
    pub found: Vec<InodeNo>,
    /// The path's remaining names, which don't exist.
    pub missing: Vec<&'p str>,
    /// The last name, if the path isn't the root.
    pub name: Option<&'p str>,
}

impl Walk<'_> {
    /// The inode at the path.
    ///
    /// # Errors
    /// NotFound: nothing exists at the path.
    pub fn target(&self) -> Result<InodeNo> {
        if self.missing.is_empty() { self.last() } else { Err(Error::NotFound) }
    }

    /// The last existing inode.
    ///
    /// # Errors
    /// None: the root always exists.
    pub fn last(&self) -> Result<InodeNo> {
        self.found.last().copied().ok_or(Error::NotFound)
    }

    /// The directory that contains the inode at the path, which must exist.
    ///
    /// # Errors
    /// Invalid: the path is the root.
    pub fn parent(&self) -> Result<InodeNo> {
        let above =
            self.found.len().checked_sub(2).ok_or(Error::Invalid("the root has no parent directory"))?;
        Ok(self.found[above])
    }
}

/// The state, with one caller's rights to it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The state.
    pub state: &'a State,
    /// The caller.
    pub caller: &'a Caller,
    /// The configuration, which names the users with all rights.
    pub config: &'a Config,
}

impl<'a> View<'a> {
    /// Whether the caller has all rights.
    pub fn is_super(&self) -> bool {
        self.caller.user == self.config.superuser
            || self.config.admins.iter().any(|admin| self.caller.user == admin.as_str())
            || self.caller.groups.iter().any(|g| *g == self.config.supergroup)
    }

    /// Whether the caller has an owner's rights to the inode.
    pub fn owns(&self, inode: &Inode) -> bool {
        self.is_super() || self.state.names.name(inode.owner) == self.caller.user
    }

    /// Checks that the caller has all of `rights` on the inode.
    ///
    /// # Errors
    /// PermissionDenied: the caller lacks one.
    pub fn demand(&self, number: InodeNo, rights: u16) -> Result<&'a Inode> {
        let inode = self.state.inode(number)?;
        let group = self.state.names.name(inode.group);
        let shift = if self.state.names.name(inode.owner) == self.caller.user {
            6
        } else if self.caller.groups.iter().any(|mine| mine == group) {
            3
        } else {
            0
        };
        if self.is_super() || inode.mode >> shift & rights == rights {
            Ok(inode)
        } else {
            Err(Error::PermissionDenied)
        }
    }

    /// Follows a path. The caller needs the right to pass through each directory.
    ///
    /// # Errors
    /// NotADirectory: a name before the last is a file. PermissionDenied: the caller may not pass through
    /// a directory. Invalid: as `parse`.
    pub fn walk<'p>(&self, path: &'p str) -> Result<Walk<'p>> {
        let names = parse(path)?;
        let mut found = vec![ROOT];
        let mut at = ROOT;
        for (index, name) in names.iter().enumerate() {
            let entries = self.state.inode(at)?.entries().ok_or(Error::NotADirectory)?;
            self.demand(at, EXECUTE)?;
            let Some(next) = entries.get(*name) else {
                return Ok(Walk { found, missing: names[index..].to_vec(), name: names.last().copied() });
            };
            at = *next;
            found.push(at);
        }
        Ok(Walk { found, missing: Vec::new(), name: names.last().copied() })
    }

    /// Checks that the caller may remove the entry for `inode` from `parent`.
    ///
    /// # Errors
    /// PermissionDenied: the caller may not write the directory, or it is sticky and the caller owns
    /// neither it nor the inode.
    pub fn demand_unlink(&self, parent: InodeNo, inode: InodeNo) -> Result<()> {
        let directory = self.demand(parent, WRITE | EXECUTE)?;
        let sticky = directory.mode & STICKY != 0;
        if sticky && !self.owns(directory) && !self.owns(self.state.inode(inode)?) {
            return Err(Error::PermissionDenied);
        }
        Ok(())
    }
}
