//! Totals of a tree, counted in steps so that mutations needn't wait for the whole count. A count
//! may include or miss changes that are made while it runs.

use super::{
    inodes::Body,
    path::{EXECUTE, READ, View},
};
use crate::{
    InodeNo,
    error::{Error, Result},
    messages::Summary,
};
use compact_str::CompactString;
use std::ops::Bound;

/// Names and chunks examined in one step: about a millisecond.
const STEP: usize = 10_000;

/// A tree that is being counted.
#[derive(Debug)]
pub struct Counting {
    path: String,
    begun: bool,
    /// The directories from the top down to the current one.
    levels: Vec<Level>,
    sum: Summary,
}

/// A directory and the last counted name in it.
#[derive(Debug)]
struct Level {
    directory: InodeNo,
    after: Option<CompactString>,
}

impl Counting {
    /// Begins to count the tree at `path`.
    pub fn new(path: &str) -> Self {
        Self { path: path.to_owned(), begun: false, levels: Vec::new(), sum: Summary::default() }
    }

    /// Counts the next part. Returns the totals once the whole tree is counted.
    ///
    /// # Errors
    /// As [`View::walk`]. NotFound: the tree was removed or replaced. PermissionDenied: the caller may not
    /// list a directory of the tree.
    pub fn step(&mut self, view: &View<'_>) -> Result<Option<Summary>> {
        let top = view.walk(&self.path)?.target()?;
        let mut looked = 0;
        if std::mem::replace(&mut self.begun, true) {
            self.find_again(view, top)?;
        } else {
            looked += self.take(view, top)?;
        }
        while looked < STEP {
            let Some(level) = self.levels.last_mut() else { return Ok(Some(self.sum)) };
            let entries = view.state.inode(level.directory)?.entries().ok_or(Error::NotADirectory)?;
            let from = level.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            match entries.range::<str, _>((from, Bound::Unbounded)).next() {
                Some((name, inode)) => {
                    level.after = Some(name.clone());
                    looked += self.take(view, *inode)?;
                }
                None => {
                    self.levels.pop();
                    looked += 1;
                }
            }
        }
        Ok(None)
    }

    /// Counts one file or directory, and descends into a directory. Returns the number of items
    /// examined.
    fn take(&mut self, view: &View<'_>, number: InodeNo) -> Result<usize> {
        match &view.state.inode(number)?.body {
            Body::Directory(_) => {
                view.demand(number, READ | EXECUTE)?;
                self.sum.directories += 1;
                self.levels.push(Level { directory: number, after: None });
                Ok(1)
            }
            Body::File { replication, chunks, .. } => {
                let length = view.state.length(number)?;
                self.sum.files += 1;
                self.sum.bytes += length;
                self.sum.space += length * u64::from(*replication);
                Ok(1 + chunks.len())
            }
        }
    }

    /// Ends the count of directories that have moved or vanished: their numbers may be reused by now.
    fn find_again(&mut self, view: &View<'_>, top: InodeNo) -> Result<()> {
        let mut at = Some(top);
        let mut sound = 0;
        for level in &self.levels {
            if at != Some(level.directory) {
                break;
            }
            sound += 1;
            let entries = view.state.inode(level.directory)?.entries();
            at = level.after.as_ref().and_then(|name| entries?.get(name).copied());
        }
        let gone = sound == 0 && !self.levels.is_empty();
        self.levels.truncate(sound);
        if gone { Err(Error::NotFound) } else { Ok(()) }
    }
}
