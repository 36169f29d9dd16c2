//! Queries, which change nothing.

use super::{
    inodes::{Body, ROOT},
    path::{EXECUTE, READ, View},
};
use crate::{
    InodeNo,
    config::MAX_LIST_ENTRIES,
    error::{Error, Result},
    messages::{Page, Status},
};
use std::ops::Bound;

impl View<'_> {
    /// The attributes of a file or directory.
    ///
    /// # Errors
    /// As [`View::walk`]. NotFound: nothing exists at the path.
    pub fn stat(&self, path: &str) -> Result<Status> {
        let walk = self.walk(path)?;
        self.status(walk.name.unwrap_or(""), walk.target()?)
    }

    fn status(&self, name: &str, number: InodeNo) -> Result<Status> {
        let inode = self.state.inode(number)?;
        let (directory, length, replication, chunk_bytes) = match inode.body {
            Body::Directory(_) => (true, 0, 0, 0),
            Body::File { replication, chunk_bytes, .. } => {
                (false, self.state.length(number)?, replication, chunk_bytes)
            }
        };
        Ok(Status {
            name: name.into(),
            made: inode.made(),
            directory,
            length,
            mode: inode.mode,
            owner: self.state.names.name(inode.owner).into(),
            group: self.state.names.name(inode.group).into(),
            modified_ms: inode.modified_ms,
            accessed_ms: inode.accessed_ms,
            replication,
            chunk_bytes,
            open: self.state.open_inodes.contains_key(&number),
        })
    }

    /// Entries of a directory whose names come after `after`, in the order of the names' bytes. For a
    /// file, its own entry.
    ///
    /// # Errors
    /// As [`View::walk`]. NotFound: nothing exists at the path. PermissionDenied: the caller may not read
    /// the directory or pass through it.
    pub fn list(&self, path: &str, after: &str, limit: usize) -> Result<Page> {
        let walk = self.walk(path)?;
        let number = walk.target()?;
        let Some(entries) = self.state.inode(number)?.entries() else {
            return Ok(Page { entries: vec![self.status(walk.name.unwrap_or(""), number)?], more: false });
        };
        self.demand(number, READ | EXECUTE)?;
        let begin = if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) };
        let mut behind = entries.range::<str, _>((begin, Bound::Unbounded));
        let limit = limit.clamp(1, MAX_LIST_ENTRIES);
        let page: Result<Vec<_>> =
            behind.by_ref().take(limit).map(|(name, inode)| self.status(name, *inode)).collect();
        Ok(Page { entries: page?, more: behind.next().is_some() })
    }

    /// Checks that the caller may read the file and pass through all directories above it.
    ///
    /// # Errors
    /// PermissionDenied: the caller may not. NotFound: the file lies in a removed tree.
    pub fn demand_reachable(&self, file: InodeNo) -> Result<()> {
        let mut at = self.demand(file, READ)?.parent;
        loop {
            let above = self.demand(at, EXECUTE)?.parent;
            if above == at {
                return if at == ROOT { Ok(()) } else { Err(Error::NotFound) };
            }
            at = above;
        }
    }

    /// The file at the path, if the caller may read it.
    ///
    /// # Errors
    /// As [`View::walk`]. NotFound: nothing exists at the path. IsADirectory: it leads to a directory.
    /// PermissionDenied: the caller may not read the file.
    pub fn readable(&self, path: &str) -> Result<InodeNo> {
        let number = self.walk(path)?.target()?;
        if self.demand(number, READ)?.entries().is_some() {
            return Err(Error::IsADirectory);
        }
        Ok(number)
    }
}
