//! A namenode's log, in readable form.

use crate::home;
use std::{io, path::Path};
use strait_kadoop_core::{
    disk::{Disk as _, RealDisk},
    faults::Faults,
    log::{self, LogError, Tail},
    namenode::Transaction,
};

/// Passes `each` transaction that the log in a namenode's directory still has, with its number,
/// until it returns false. Returns the state of the log's end. It takes no lock, so it doesn't
/// disturb a running namenode, and the end may be a write under way.
///
/// # Errors
/// The directory isn't a namenode's; a gap; damage.
pub fn dump_log(directory: &Path, mut each: impl FnMut(u64, &Transaction) -> bool) -> Result<Tail, LogError> {
    let unused = || io::Error::new(io::ErrorKind::NotFound, "no namenode has used this directory");
    let [cluster] = home::kept(directory, [home::CLUSTER])?.ok_or_else(unused)?;
    let disk = RealDisk::open(directory)?;
    let names = disk.list()?;
    let segments = log::segments(&names);
    if segments.is_empty() && log::checkpoints(&names).is_empty() {
        // A datanode's identity file names the cluster's number, too.
        return Err(unused().into());
    }
    // Earlier records than the oldest segment's are in a checkpoint.
    let before = segments.first().map_or(0, |first| first.saturating_sub(1));
    let mut wanted = true;
    let (_, tail) = log::read_log(&disk, cluster, before, Faults::NONE, |sequence, record| {
        wanted = wanted && each(sequence, &Transaction::decode(record)?);
        Ok(())
    })?;
    Ok(tail)
}
