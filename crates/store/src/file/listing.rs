//! Reading a directory, some entries at a time.

use super::Inner;
use super::root::from_errno;
use crate::{ErrorKind, FileStatus, Result, StorePath, encoding};
use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use std::ffi::CStr;

/// Entries read in one step on the blocking pool: enough that their stats take longer than the thread switch.
const BATCH_ENTRIES: usize = 256;
/// Bytes of the paths of one batch. A listing keeps the batch until its reader continues.
const BATCH_BYTES: usize = 32 << 10;

/// A directory being read.
pub(super) struct Listing {
    path: StorePath,
    dir: Dir,
}

/// The node that a listing opened.
pub(super) enum Opened {
    Directory(Listing),
    File(FileStatus),
}

impl Listing {
    pub(super) fn open(inner: &Inner, path: &StorePath) -> Result<Opened> {
        match inner.root.readable_directory(path) {
            Ok(fd) => {
                let dir = Dir::new(fd).map_err(from_errno)?;
                Ok(Opened::Directory(Self { path: path.clone(), dir }))
            }
            Err(error) if error.kind() == ErrorKind::NotADirectory => inner.stat(path).map(Opened::File),
            Err(error) => Err(error),
        }
    }

    /// The next entries. Empty at the end.
    pub(super) fn next_batch(&mut self, inner: &Inner) -> Result<Vec<FileStatus>> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_ENTRIES
            && bytes < BATCH_BYTES
            && let Some(entry) = self.dir.read()
        {
            let entry = entry.map_err(from_errno)?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if let Some((stat, link)) = self.stat_entry(inner, name)? {
                let separator = if self.path.is_root() { "" } else { "/" };
                let path = format!("{}{separator}{}", self.path, encoding::encode(name.to_bytes()));
                bytes += path.len();
                batch.push(FileStatus { link, ..inner.status_of(path, &stat) });
            }
        }
        Ok(batch)
    }

    /// The status of `name` with links followed, and whether it is a link. None if it has vanished, or is
    /// a link to nothing or out of the store.
    fn stat_entry(&self, inner: &Inner, name: &CStr) -> Result<Option<(Stat, bool)>> {
        let directory = self.dir.fd().map_err(from_errno)?;
        let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(from_errno(errno)),
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(Some((stat, false)));
        }
        let target = self.path.join(&encoding::encode(name.to_bytes())).ok();
        let node = target.and_then(|target| inner.root.node(&target).ok());
        let stat = node.map(|node| rustix::fs::fstat(node).map_err(from_errno)).transpose()?;
        Ok(stat.map(|stat| (stat, true)))
    }
}
