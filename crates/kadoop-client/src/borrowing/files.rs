//! A borrowed replica.

use crate::buffers::Buffers;
use bytes::Bytes;
use rustix::io::{Errno, pread};
use std::{
    fs::File,
    io::{self, Read as _},
};
use strait_kadoop_core::{
    Config,
    client::Checked,
    datanode::{Claim, Sums, Unproven},
    error::{Error, Result},
    messages::Read,
};
use strait_kadoop_wire::lending::Lent;

/// Largest table of checksums held in memory: that of a chunk of 256 MiB. Replicas of larger chunks
/// are read over TCP.
const MAX_TABLE_BYTES: u64 = 256 << 10;

/// A replica's bytes and their checksums.
#[derive(Debug)]
pub(super) struct Files {
    data: File,
    sums: Sums,
}

impl Files {
    /// Reads the whole table of checksums, and closes its file.
    ///
    /// # Errors
    /// InvalidData: the files aren't a sealed replica's; the operating system's. Inner error Corrupt: they
    /// are another replica's.
    pub(super) fn of(lent: Lent, unit_bytes: u32, claim: Claim) -> io::Result<Result<Self>> {
        let strange = || io::Error::new(io::ErrorKind::InvalidData, "the lent file isn't a sealed replica");
        let (data, table) = (lent.data.metadata()?, lent.table.metadata()?);
        // Check first: a read of another kind of file might never return.
        if !data.is_file() || !table.is_file() || table.len() > MAX_TABLE_BYTES {
            return Err(strange());
        }
        let mut bytes = Vec::with_capacity(table.len() as usize);
        lent.table.take(MAX_TABLE_BYTES).read_to_end(&mut bytes)?;
        match Sums::from_table(&bytes, unit_bytes, claim) {
            Ok(sums) => Ok(Ok(Self { data: lent.data, sums })),
            Err(Unproven::Another(_)) => Ok(Err(Error::Corrupt)),
            Err(Unproven::Invalid) => Err(strange()),
        }
    }

    /// Answers a read.
    ///
    /// # Errors
    /// Those of [`Checked::of_sealed`], for example Corrupt: a checksum doesn't match. Disk: the file can't
    /// be read.
    pub(super) fn read(&self, read: &Read, config: &Config, buffers: &Buffers) -> Result<Checked> {
        Checked::of_sealed(read, &self.sums, config, |offset, length| self.fetch(offset, length, buffers))
    }

    /// Reads `length` bytes, or fewer at the file's end.
    fn fetch(&self, offset: u32, length: usize, buffers: &Buffers) -> Result<Bytes> {
        let mut buffer = buffers.take(length);
        let mut filled = 0;
        while filled < length {
            match pread(&self.data, &mut buffer.bytes[filled..length], u64::from(offset) + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Error::Disk),
            }
        }
        Ok(buffer.freeze(filled))
    }
}
