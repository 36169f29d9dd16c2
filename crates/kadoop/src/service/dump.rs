//! A namenode's log, for people.

use super::home;
use crate::{
    disk::{Disk as _, RealDisk},
    faults::Faults,
    log::{self, LogError, Tail},
    namenode::Transaction,
};
use std::{io, path::Path};

/// Gives `each` transaction that the log in a namenode's directory still has, with its
/// number, until it says false; and says how the log ends. Takes no lock: a namenode that
/// is running isn't disturbed, and the end may be a write that is under way.
///
/// # Errors
/// It isn't a namenode's directory; a gap; damage.
pub fn dump_log(directory: &Path, mut each: impl FnMut(u64, &Transaction) -> bool) -> Result<Tail, LogError> {
    let unused = || io::Error::new(io::ErrorKind::NotFound, "no namenode has used this directory");
    let [cluster] = home::kept(directory, ["cluster"])?.ok_or_else(unused)?;
    let disk = RealDisk::open(directory)?;
    let names = disk.list()?;
    let segments = log::segments(&names);
    if segments.is_empty() && log::checkpoints(&names).is_empty() {
        // A datanode's says the cluster's number, too.
        return Err(unused().into());
    }
    // What came before the oldest segment is in a checkpoint.
    let before = segments.first().map_or(0, |first| first.saturating_sub(1));
    let mut wanted = true;
    let (_, tail) = log::read_log(&disk, cluster, before, Faults::NONE, |sequence, record| {
        wanted = wanted && each(sequence, &Transaction::decode(record)?);
        Ok(())
    })?;
    Ok(tail)
}
