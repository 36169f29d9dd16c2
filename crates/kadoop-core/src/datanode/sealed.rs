//! A sealed replica: bytes that never change again, and behind them the table of their checksums.
//!
//! A new stamp appends another table, and then renames the file. So the table that counts is the one
//! that names the stamp in the file's name. Nothing of a sealed replica is in memory but the numbers
//! of its name. Earlier versions kept the table in a file of its own; the scrub, or a new stamp, joins
//! the two.

use super::{
    content::Content,
    failure::{Failure, sync_bytes, sync_names},
    is_of_one_file,
    names::{Kind, name},
    sums::{Claim, Unproven, table_bytes},
};
use crate::{
    ChunkId, Config, Stamp,
    check::Sums,
    disk::{Disk, DiskFile, read_whole},
    faults::Fault,
    messages::{ReplicaReport, ReplicaState},
};
use std::{io, sync::Arc};

/// A sealed replica, as its file's name tells. A datanode may have millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sealed {
    pub stamp: Stamp,
    pub length: u32,
    /// Number of its data directory.
    pub directory: u16,
    /// Whether damage was found since its datanode started.
    pub damaged: bool,
    /// Whether its table is in a file of its own.
    pub split: bool,
}

/// A sealed replica's open file, and its table.
#[derive(Debug, Clone)]
pub(super) struct Opened<F> {
    pub data: F,
    pub sums: Arc<Sums>,
}

impl<F> Opened<F> {
    pub fn content(&self) -> Content<'_, F> {
        Content { data: &self.data, sums: &self.sums }
    }
}

impl Sealed {
    pub fn report(&self, chunk: ChunkId) -> ReplicaReport {
        let Self { stamp, length, .. } = *self;
        ReplicaReport { chunk, stamp, length, state: ReplicaState::Sealed }
    }

    fn kind(&self) -> Kind {
        if self.split { Kind::Split } else { Kind::Sealed(self.length) }
    }

    /// The name of its bytes.
    pub fn file(&self, chunk: ChunkId) -> String {
        name(chunk, self.stamp, self.kind())
    }

    /// The names of all its files.
    pub fn files(&self, chunk: ChunkId) -> Vec<String> {
        let table = self.split.then(|| name(chunk, self.stamp, Kind::Table));
        std::iter::once(self.file(chunk)).chain(table).collect()
    }

    /// A replica that an earlier version sealed.
    ///
    /// # Errors
    /// The disk's. Inner: the table is damaged, or another replica's.
    pub fn split<D: Disk>(
        disk: &D,
        directory: u16,
        claim: Claim,
        config: &Config,
    ) -> io::Result<Result<Self, Unproven>> {
        let data = disk.open(&name(claim.chunk, claim.stamp, Kind::Split))?;
        let sealed = read_table(disk, claim, config).and_then(|sums| {
            let whole = data.length().is_ok_and(|length| length >= sums.length.into());
            whole.then_some(sums.length).ok_or(Unproven::Invalid)
        });
        let of = |length| Self { stamp: claim.stamp, length, directory, damaged: false, split: true };
        Ok(sealed.map(of))
    }

    /// Opens the file, and finds the table that names this replica.
    ///
    /// # Errors
    /// The disk's. Inner: no table proves the replica, or it proves another one.
    pub fn open<D: Disk>(
        &self,
        disk: &D,
        claim: Claim,
        config: &Config,
    ) -> io::Result<Result<Opened<D::File>, Unproven>> {
        let data = disk.open(&self.file(claim.chunk))?;
        let sums = match self.split {
            true => read_table(disk, claim, config),
            false => self.find_table(&data, claim, config)?,
        };
        let sums = sums.and_then(|sums| match sums.length == self.length {
            true => Ok(Arc::new(sums)),
            false => Err(Unproven::Invalid),
        });
        Ok(sums.map(|sums| Opened { data, sums }))
    }

    /// The last table behind the bytes that names the replica.
    fn find_table<F: DiskFile>(
        &self,
        data: &F,
        claim: Claim,
        config: &Config,
    ) -> io::Result<Result<Sums, Unproven>> {
        let step = table_bytes(self.length, config.unit_bytes);
        let mut other = Unproven::Invalid;
        for number in (0..self.tables(data, config)?).rev() {
            let table = data.read_vec(u64::from(self.length) + number * step, step as usize);
            let table = match table {
                Err(error) if !is_of_one_file(&error) => return Err(error),
                table => table.unwrap_or_default(),
            };
            match from_table(&table, claim, config) {
                Ok(sums) => return Ok(Ok(sums)),
                Err(Unproven::Another(found)) if other == Unproven::Invalid => {
                    other = Unproven::Another(found)
                }
                Err(_) => {}
            }
        }
        Ok(Err(other))
    }

    /// Number of tables behind the bytes; the last one may be torn.
    fn tables<F: DiskFile>(&self, data: &F, config: &Config) -> io::Result<u64> {
        let behind = data.length()?.saturating_sub(self.length.into());
        Ok(behind.div_ceil(table_bytes(self.length, config.unit_bytes)))
    }

    /// Gives the replica a stamp, which may be its own, and joins the files of a split one. A crash
    /// leaves it under the old name or the new one. Returns it as it is named now: after a failure that
    /// is the new name if the disk refused to rename it back.
    pub fn restamp<D: Disk>(
        &self,
        disk: &D,
        opened: &Opened<D::File>,
        (of, to): (Claim, Stamp),
        config: &Config,
    ) -> (Self, Result<(), Failure>) {
        let after = Self { stamp: to, split: false, ..*self };
        let (before, file) = (self.file(of.chunk), after.file(of.chunk));
        let renamed = self.put_table(disk, opened, (of, to), config);
        if let Err(failure) = renamed.and_then(|()| Ok(disk.rename(&before, &file)?)) {
            return (*self, Err(failure));
        }
        let synced = if config.faults.has(Fault::SealNameNotSynced) { Ok(()) } else { sync_names(disk) };
        if synced.is_err() {
            let undone = disk.rename(&file, &before).is_ok();
            return (if undone { *self } else { after }, synced);
        }
        if self.split {
            // The next start removes the leftover if this fails.
            let _ = disk.remove(&name(of.chunk, self.stamp, Kind::Table));
        }
        (after, Ok(()))
    }

    /// Puts a table for a stamp behind the others, on disk.
    fn put_table<D: Disk>(
        &self,
        disk: &D,
        opened: &Opened<D::File>,
        (of, to): (Claim, Stamp),
        config: &Config,
    ) -> Result<(), Failure> {
        let data = &opened.data;
        // The name may be in memory alone. Under an open replica's name, two tables prove nothing.
        sync_names(disk)?;
        let behind = self.tables(data, config)? * table_bytes(self.length, config.unit_bytes);
        let table = opened.sums.table(config.unit_bytes, Claim { stamp: to, ..of });
        data.write_at(u64::from(self.length) + behind, &table)?;
        if config.faults.has(Fault::SealNotSynced) { Ok(()) } else { sync_bytes(data) }
    }
}

/// The table of a split replica, or of one whose seal by an earlier version lacked only its name.
pub(super) fn read_table<D: Disk>(disk: &D, claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    let table = disk.open(&name(claim.chunk, claim.stamp, Kind::Table));
    let table = table.and_then(|table| read_whole(&table)).map_err(|_| Unproven::Invalid)?;
    from_table(&table, claim, config)
}

/// As [`Sums::from_table`].
pub(super) fn from_table(table: &[u8], claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    match Sums::from_table(table, config.unit_bytes, claim) {
        Err(Unproven::Another(named)) if config.faults.has(Fault::ReplicaUnproven) => {
            Sums::from_table(table, config.unit_bytes, named)
        }
        sums => sums,
    }
}
