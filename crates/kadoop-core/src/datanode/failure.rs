//! Failures of a datanode's disk operations.

use crate::{
    disk::{Disk, DiskFile},
    error::Error,
};
use std::io;

/// A failed operation, and the state that it puts in doubt.
pub(super) enum Failure {
    /// The operation failed, or was refused, without further consequences.
    Refused(Error),
    /// A failed sync of the replica's files.
    Bytes(io::Error),
    /// A failed sync of the directory: names made since the last sync may be lost.
    Names(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Refused(disk(error))
    }
}

impl Failure {
    pub fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            Self::Bytes(error) | Self::Names(error) => disk(error),
        }
    }
}

pub(super) fn sync_bytes<F: DiskFile>(file: &F) -> Result<(), Failure> {
    file.sync_data().map_err(Failure::Bytes)
}

pub(super) fn sync_names<D: Disk>(disk_: &D) -> Result<(), Failure> {
    disk_.sync_names().map_err(Failure::Names)
}

pub(super) fn disk(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::NoSpace,
        _ => Error::Disk,
    }
}
