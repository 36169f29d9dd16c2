//! A namenode's log, in readable form.

use crate::storage_directory;
use std::{io, path::Path};
use strait_kadoop_core::{
    disk::{Disk as _, RealDisk},
    faults::Faults,
    log::{self, LogError, Tail},
    namenode::Transaction,
};

/// Calls `each` with the number and contents of each transaction in the log of a namenode's directory,
/// in order. After `each` returns false, it isn't called again. Returns the state of the log's end.
/// Takes no lock, so a running namenode isn't disturbed; its write under way may look like a torn end.
///
/// # Errors
/// The directory isn't a namenode's; the log has a gap or is damaged; the operating system's.
pub fn dump_log(directory: &Path, mut each: impl FnMut(u64, &Transaction) -> bool) -> Result<Tail, LogError> {
    let unused = || io::Error::new(io::ErrorKind::NotFound, "no namenode has used this directory");
    let [cluster] = storage_directory::kept(directory, [storage_directory::CLUSTER])?.ok_or_else(unused)?;
    let disk = RealDisk::open(directory)?;
    let names = disk.list()?;
    let segments = log::segments(&names);
    if segments.is_empty() && log::checkpoints(&names).is_empty() {
        // It's a datanode's directory: that also has the cluster's number in its identity file.
        return Err(unused().into());
    }
    // Records before the oldest segment are in a checkpoint.
    let before = segments.first().map_or(0, |first| first.saturating_sub(1));
    let mut wanted = true;
    let (_, tail) = log::read_log(&disk, cluster, before, Faults::NONE, |sequence, record| {
        wanted = wanted && each(sequence, &Transaction::decode(record)?);
        Ok(())
    })?;
    Ok(tail)
}
