//! Files that belong to another replica than their names tell: renamed, swapped, or restored in a
//! wrong place.
//!
//! They don't count, and the namenode doesn't hear of them. Only an operator may remove them, since
//! nobody else may have these bytes.

use super::{
    Claim, Datanode, disk_of,
    replica::{Replica, name},
};
use crate::{
    ChunkId, Stamp,
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
    pub(super) directory: usize,
    pub(super) chunk: ChunkId,
    pub(super) stamp: Stamp,
}

impl<D: Disk> Datanode<D> {
    /// Files that the start found under another replica's name. They stay as they are until that
    /// replica needs the name.
    pub fn strangers(&self) -> &[Stranger] {
        &self.strangers
    }

    /// Notes that the files of a damaged replica are another's, so that they aren't removed: somebody
    /// swapped them while this datanode ran.
    pub(super) fn spare_a_stranger(&mut self, replica: &Replica<D>) {
        if replica.damaged
            && let Ok(disk) = disk_of(&self.directories, replica.directory)
            && let Some(belongs) = replica.belongs_to_another(disk, &self.config)
        {
            let Replica { chunk, stamp, directory, .. } = *replica;
            let file = name(chunk, stamp, "data");
            self.strangers.push(Stranger { file, belongs, directory, chunk, stamp });
        }
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
    let of = |kind| name(stranger.chunk, stranger.stamp, kind);
    // A table beside sealed bytes is theirs.
    let kinds: &[&str] = match stranger.file == of("open") {
        true if has(&of("data")) => &["open", "sums"],
        true => &["open", "sums", "table"],
        false => &["data", "table"],
    };
    for file in kinds.iter().map(|kind| of(kind)).filter(has) {
        // An earlier one may still be there.
        let aside = (1..).map(|number: u64| format!("{file}.strange-{number}")).find(|aside| !has(aside));
        disk.rename(&file, &aside.unwrap_or_default())?;
    }
    disk.sync_names()
}
