//! Checkpoints, made beside a running namenode: as a start would, from the last checkpoint and the
//! log after it. Meanwhile this takes the memory twice, but no lock.

use super::commit::Commit;
use std::io;
use strait_kadoop_core::{
    Config,
    disk::{Disk, RealDisk},
    log::{self, LogError},
    namenode::{Loaded, load_part, save, write_checkpoint},
};

/// Writes a checkpoint of all records in the log.
///
/// # Errors
/// The disk's; damage in the log.
pub(crate) fn checkpoint(
    disk: &RealDisk,
    cluster: u64,
    config: &Config,
    commit: &Commit<RealDisk>,
) -> Result<u64, LogError> {
    let end = commit.roll(disk)?;
    let frozen = Frozen { disk, end };
    let Loaded { state, unreadable, .. } = load_part(&frozen, cluster, config)?;
    let sequence = state.next.sequence;
    let known = log::checkpoints(&disk.list()?).contains(&sequence);
    match unreadable.first() {
        None if known => {}
        None => save(disk, cluster, config, &state)?,
        Some(error) => {
            tracing::error!(%error, "a checkpoint can't be read; those before it are kept");
            write_checkpoint(disk, cluster, config, &state)?;
        }
    }
    Ok(sequence)
}

/// A directory without the log's segments from `end` on, which the namenode may be writing.
struct Frozen<'a> {
    disk: &'a RealDisk,
    end: u64,
}

impl Disk for Frozen<'_> {
    type File = <RealDisk as Disk>::File;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.disk.list()?;
        names.retain(|name| log::segments(std::slice::from_ref(name)).iter().all(|first| *first < self.end));
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.disk.open(name)
    }

    fn create(&self, _: &str) -> io::Result<Self::File> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }
}
