//! A sealed replica: a file with bytes that never change, followed by the table of their checksums.
//!
//! To change the stamp, the datanode appends another table, and then renames the file. So the table that
//! counts is the one with the stamp that is in the file's name. In memory, a sealed replica takes only
//! the numbers of its name. Earlier versions wrote the table to a separate file. The scrub, or a change
//! of the stamp, joins these two files.

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

/// A sealed replica, as described by its file's name. A datanode may have millions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sealed {
    pub stamp: Stamp,
    pub length: u32,
    /// Number of its data directory.
    pub directory: u16,
    /// Whether damage was found since its datanode started.
    pub damaged: bool,
    /// Whether its table is in a separate file.
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

    /// The name of the file with its bytes.
    pub fn file(&self, chunk: ChunkId) -> String {
        name(chunk, self.stamp, self.kind())
    }

    /// The names of all its files.
    pub fn files(&self, chunk: ChunkId) -> Vec<String> {
        let table = self.split.then(|| name(chunk, self.stamp, Kind::Table));
        std::iter::once(self.file(chunk)).chain(table).collect()
    }

    /// A replica that an earlier version sealed in two files.
    ///
    /// # Errors
    /// An I/O error of the disk. Inner: the table is damaged, or belongs to another replica.
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
    /// An I/O error of the disk. Inner: there is no valid table, or only tables of another replica.
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

    /// The last table after the bytes that names this replica.
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

    /// Number of tables after the bytes. The last one may be torn.
    fn tables<F: DiskFile>(&self, data: &F, config: &Config) -> io::Result<u64> {
        let behind = data.length()?.saturating_sub(self.length.into());
        Ok(behind.div_ceil(table_bytes(self.length, config.unit_bytes)))
    }

    /// Gives the replica a stamp, which may be its current one, and joins the two files of a split one.
    /// After a crash, it has the old name or the new one. Returns the replica as it is named now: after
    /// a failure, that is the new name if the file couldn't be renamed back.
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
            // If this fails, the next start removes the leftover file.
            let _ = disk.remove(&name(of.chunk, self.stamp, Kind::Table));
        }
        (after, Ok(()))
    }

    /// Appends a table with the stamp `to` after the other tables, on disk.
    fn put_table<D: Disk>(
        &self,
        disk: &D,
        opened: &Opened<D::File>,
        (of, to): (Claim, Stamp),
        config: &Config,
    ) -> Result<(), Failure> {
        let data = &opened.data;
        // The file's sealed name may be only in memory, so sync it first. If a crash brought back the open
        // replica's name, the file with two tables would prove nothing.
        sync_names(disk)?;
        let behind = self.tables(data, config)? * table_bytes(self.length, config.unit_bytes);
        let table = opened.sums.table(config.unit_bytes, Claim { stamp: to, ..of });
        data.write_at(u64::from(self.length) + behind, &table)?;
        if config.faults.has(Fault::SealNotSynced) { Ok(()) } else { sync_bytes(data) }
    }
}

/// The table in a separate file: of a split replica, or of one whose seal by an earlier version lacked
/// only the final name.
pub(super) fn read_table<D: Disk>(disk: &D, claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    let table = disk.open(&name(claim.chunk, claim.stamp, Kind::Table));
    let table = table.and_then(|table| read_whole(&table)).map_err(|_| Unproven::Invalid)?;
    from_table(&table, claim, config)
}

/// As [`Sums::from_table`], except for a planted fault.
pub(super) fn from_table(table: &[u8], claim: Claim, config: &Config) -> Result<Sums, Unproven> {
    match Sums::from_table(table, config.unit_bytes, claim) {
        Err(Unproven::Another(named)) if config.faults.has(Fault::ReplicaUnproven) => {
            Sums::from_table(table, config.unit_bytes, named)
        }
        sums => sums,
    }
}
