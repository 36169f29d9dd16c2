//! Reads a replica's bytes, and compares them with its checksums.

use super::failure::disk;
use crate::{
    Config,
    check::Sums,
    disk::DiskFile,
    error::{Error, Result},
    messages::{Digest, Digested, Piece, Read},
};
use strait_crc::{Appended, crc32c, crc32c_combine};

/// A replica's file, which begins with the replica's bytes, and the replica's checksums.
pub(super) struct Content<'a, F> {
    pub data: &'a F,
    pub sums: &'a Sums,
}

impl<F: DiskFile> Content<'_, F> {
    /// Reads bytes, but none after the first `visible` bytes of the replica. Compares only partly read
    /// units with their checksums: the reader does that with whole ones.
    pub fn read(&self, read: &Read, visible: u32, config: &Config) -> Result<Piece> {
        let unit = config.unit_bytes;
        let begin = read.offset.min(visible);
        let end = begin.saturating_add(read.length.min(config.write_bytes)).min(visible);
        let bytes = self.data.read_vec(begin.into(), (end - begin) as usize).map_err(disk)?;
        let mut sums = Vec::with_capacity(bytes.len() / unit as usize + 2);
        let mut at = begin;
        while at < end {
            let (stop, sum) = self.sum(at, end, unit)?;
            sums.push(sum);
            at = stop;
        }
        Ok(Piece { bytes: bytes.into(), sums, visible })
    }

    /// The checksum of the bytes from `at` to the end of their unit, or to `end` if that comes before.
    /// Also returns the offset where these bytes end.
    fn sum(&self, at: u32, end: u32, unit: u32) -> Result<(u32, u32)> {
        let first = at - at % unit;
        let whole = first.saturating_add(unit).min(self.sums.length);
        let stop = whole.min(end);
        let stored = *self.sums.units.get((at / unit) as usize).ok_or(Error::Corrupt)?;
        if at == first && stop == whole {
            return Ok((stop, stored));
        }
        let mut all = vec![0; (whole - first) as usize];
        self.data.read_at(first.into(), &mut all).map_err(disk)?;
        if crc32c(&all) != stored {
            return Err(Error::Corrupt);
        }
        Ok((stop, crc32c(&all[(at - first) as usize..(stop - first) as usize])))
    }

    /// The digest of visible bytes. It is computed from the checksums alone, except for parts of units:
    /// the scrub compares whole units on disk with their checksums. `units` combines whole units.
    pub fn digest(&self, read: &Read, visible: u32, units: &Appended, config: &Config) -> Result<Digested> {
        let begin = read.offset.min(visible);
        let end = begin.saturating_add(read.length).min(visible);
        let (mut at, mut crc) = (begin, 0);
        while at < end {
            let (stop, sum) = self.sum(at, end, config.unit_bytes)?;
            crc = match stop - at {
                bytes if bytes == config.unit_bytes => units.combine(crc, sum),
                bytes => crc32c_combine(crc, sum, bytes.into()),
            };
            at = stop;
        }
        Ok(Digested { digest: Digest { crc, length: end - begin }, visible })
    }

    /// Compares about `bytes` bytes with their checksums, from the beginning of the unit that has offset
    /// `from`. Returns the offset at which it stopped.
    ///
    /// # Errors
    /// Corrupt: a unit can't be read, or doesn't match its checksum.
    pub fn verify(&self, from: u32, bytes: u32, config: &Config) -> Result<u32> {
        let unit = config.unit_bytes;
        let mut buffer = vec![0; unit as usize];
        let mut at = from - from % unit;
        let end = from.saturating_add(bytes).min(self.sums.length);
        while at < end {
            let sum = self.sums.units.get((at / unit) as usize).ok_or(Error::Corrupt)?;
            let length = (self.sums.length - at).min(unit);
            let part = &mut buffer[..length as usize];
            let read = self.data.read_at(at.into(), part);
            if read.is_ok_and(|read| read == part.len()) && crc32c(part) == *sum {
                at += length;
            } else {
                return Err(Error::Corrupt);
            }
        }
        Ok(at)
    }
}
