//! Files that belong to another replica than their names tell: renamed, swapped, or restored in a
//! wrong place.
//!
//! They give no bytes. Only an operator may remove them, since nobody else may have these bytes.

use super::{Claim, Datanode, disk_of, sealed::Sealed, sums::Unproven};
use crate::{
    ChunkId,
    disk::Disk,
    error::{Error, Result},
};

/// A file, and the replica to which it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    /// Name of the file with the bytes.
    pub file: String,
    /// The replica that its checksums name.
    pub belongs: Claim,
    directory: usize,
    /// The chunk of its name.
    chunk: ChunkId,
    /// All names that it may have, with `file`.
    files: Vec<String>,
}

impl Stranger {
    pub(super) fn of(belongs: Claim, (directory, chunk): (usize, ChunkId), files: Vec<String>) -> Self {
        Self { file: files.first().cloned().unwrap_or_default(), belongs, directory, chunk, files }
    }
}

impl<D: Disk + Clone> Datanode<D> {
    /// Files that were found under another replica's name, by the start or when that replica was to
    /// be deleted. They stay as they are until that replica needs the name.
    pub fn strangers(&self) -> &[Stranger] {
        &self.strangers
    }

    /// The files of a sealed replica that is to be deleted; none if they are another's, so that they
    /// aren't removed. A `proven` one needs no look.
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

    /// Renames other replicas' files that have names of this chunk, before its own files take these.
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
        // An earlier one may still be there.
        let aside = (1..).map(|number: u64| format!("{file}.strange-{number}")).find(|aside| !has(aside));
        disk.rename(file, &aside.unwrap_or_default())?;
    }
    disk.sync_names()
}
