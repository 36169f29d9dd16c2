//! Checkpoints, made while the namenode runs. As a start does, this loads the latest checkpoint and the
//! log after it. It takes no lock, but until it ends, a second copy of the namespace is in memory.

use super::commit::Commit;
use std::io;
use strait_kadoop_core::{
    Config,
    disk::{Disk, RealDisk},
    log::{self, LogError},
    namenode::{Loaded, load_part, save, write_checkpoint},
};

/// Writes a checkpoint of all records in the log, and returns the number of the last one.
///
/// # Errors
/// An I/O error of the disk; the log is damaged or has failed.
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
            tracing::error!(%error, "a checkpoint can't be read; older checkpoints and their log are kept");
            write_checkpoint(disk, cluster, config, &state)?;
        }
    }
    Ok(sequence)
}

/// The directory without the log's segments from `end` on: the namenode may be writing them.
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
