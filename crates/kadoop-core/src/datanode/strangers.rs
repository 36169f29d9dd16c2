//! Strangers: files that belong to another replica than their names say. An operator may have renamed or
//! swapped them, or restored them in a wrong place.
//!
//! The datanode reads no bytes from them. It never removes them, since they may be the only copy of
//! these bytes. Only an operator should.

use super::{Claim, Datanode, disk_of, sealed::Sealed, sums::Unproven};
use crate::{
    ChunkId,
    disk::Disk,
    error::{Error, Result},
};

/// A file under a wrong name, and the replica to which it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Name of the file with the bytes.
    pub file: String,
    /// The replica that its checksums name.
    pub belongs: Claim,
    directory: usize,
    /// The chunk in its name.
    chunk: ChunkId,
    /// The names of all files that may belong to it, including `file`.
    files: Vec<String>,
}

impl Stranger {
    pub(super) fn of(belongs: Claim, (directory, chunk): (usize, ChunkId), files: Vec<String>) -> Self {
        Self { file: files.first().cloned().unwrap_or_default(), belongs, directory, chunk, files }
    }
}

impl<D: Disk + Clone> Datanode<D> {
    /// Files that were found under another replica's name, at the start or when that replica was to be
    /// deleted. They keep this name until the other replica needs it.
    pub fn strangers(&self) -> &[Stranger] {
        &self.strangers
    }

    /// The files of a sealed replica that is to be deleted. Returns none if they belong to another
    /// replica, so that they aren't removed. Skips that check if `proven` says that they don't.
    pub(super) fn unless_a_strangers(
        &mut self,
        chunk: ChunkId,
        sealed: &Sealed,
        proven: bool,
    ) -> Vec<String> {
        let (files, index) = (sealed.files(chunk), usize::from(sealed.directory));
        if !proven || sealed.damaged {
            let disk = disk_of(&self.directories, index);
            let opened = disk.map(|disk| sealed.open(disk, self.claim(chunk, sealed.stamp), &self.config));
            if let Ok(Ok(Err(Unproven::Another(belongs)))) = opened {
                self.strangers.push(Stranger::of(belongs, (index, chunk), files));
                return Vec::new();
            }
        }
        files
    }

    /// Renames strangers that have names of this chunk, before the chunk's own files get these names.
    pub(super) fn make_way(&mut self, chunk: ChunkId) -> Result<()> {
        while let Some(at) = self.strangers.iter().position(|stranger| stranger.chunk == chunk) {
            if let Ok(disk) = disk_of(&self.directories, self.strangers[at].directory) {
                set_aside(disk, &self.strangers[at]).map_err(|_| Error::Disk)?;
            }
            self.strangers.swap_remove(at);
        }
        Ok(())
    }
}

fn set_aside<D: Disk>(disk: &D, stranger: &Stranger) -> std::io::Result<()> {
    let there = disk.list()?;
    let has = |file: &String| there.contains(file);
    for file in stranger.files.iter().filter(|file| has(file)) {
        // An earlier stranger may still have the first such name.
        let aside = (1..).map(|number: u64| format!("{file}.strange-{number}")).find(|aside| !has(aside));
        disk.rename(file, &aside.unwrap_or_default())?;
    }
    disk.sync_names()
}
