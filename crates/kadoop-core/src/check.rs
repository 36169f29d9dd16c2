//! Checksums of a replica's units, and bytes that were compared with their checksums.

use crate::{
    Config,
    error::{Error, Result},
    faults::Fault,
    messages::{Digest, Digested, Piece, Read},
};
use bytes::Bytes;
use strait_crc::{crc32c, crc32c_append};

/// CRC-32C of each unit; the last unit may be partial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of bytes that the checksums cover.
    pub length: u32,
    /// One checksum per unit.
    pub units: Vec<u32>,
}

impl Sums {
    /// Adds the checksums of `bytes`, which follow the covered ones. Returns the records to append to
    /// the file of checksums: one for each unit that grew.
    pub fn extend(&mut self, bytes: &[u8], unit: u32) -> Vec<u8> {
        let mut records = Vec::new();
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = (unit - self.length % unit) as usize;
            let (part, behind) = rest.split_at(room.min(rest.len()));
            if self.length.is_multiple_of(unit) {
                self.units.push(0);
            }
            if let Some(last) = self.units.last_mut() {
                *last = crc32c_append(*last, part);
                self.length += part.len() as u32;
                records.extend_from_slice(&self.length.to_le_bytes());
                records.extend_from_slice(&last.to_le_bytes());
            }
            rest = behind;
        }
        records
    }

    /// The records of all units, as [`Sums::extend`] would return them for all bytes at once.
    pub fn records(&self, unit: u32) -> Vec<u8> {
        let ends = (1u64..).map(|count| (count * u64::from(unit)).min(self.length.into()) as u32);
        let record = |(end, sum): (u32, &u32)| [end.to_le_bytes(), sum.to_le_bytes()].concat();
        ends.zip(&self.units).flat_map(record).collect()
    }

    /// Drops the checksums of the bytes after `length`. `last` holds the bytes that remain of the last
    /// unit, if it becomes partial.
    pub fn cut(&mut self, length: u32, last: &[u8], unit: u32) {
        self.units.truncate(length.div_ceil(unit) as usize);
        self.length = length;
        if !length.is_multiple_of(unit)
            && let Some(sum) = self.units.last_mut()
        {
            *sum = crc32c(last);
        }
    }
}

/// Bytes that match their checksums, or a digest of such bytes. Only the checks below construct this
/// type, so a function that takes it never gets unchecked bytes. The thread that received the bytes
/// runs the check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked<P = Bytes> {
    pub(crate) content: P,
    /// Number of the chunk's visible bytes.
    pub(crate) visible: u32,
}

impl<P> Checked<P> {
    /// The checked bytes, or their digest.
    pub fn content(&self) -> &P {
        &self.content
    }

    /// Number of the chunk's visible bytes.
    pub fn visible(&self) -> u32 {
        self.visible
    }
}

impl Checked {
    /// Checks the answer to `read`.
    ///
    /// # Errors
    /// Corrupt: a checksum doesn't match, or the answer has too many bytes or checksums.
    pub fn of(read: &Read, piece: Piece, config: &Config) -> Result<Self> {
        let unit = config.unit_bytes;
        let mut rest = &piece.bytes[..];
        let mut at = read.offset;
        let mut sums = piece.sums.iter();
        let careless = config.faults.has(Fault::SumsNotChecked);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min((unit - at % unit) as usize));
            if sums.next() != Some(&crc32c(part)) && !careless {
                return Err(Error::Corrupt);
            }
            at = at.saturating_add(part.len() as u32);
            rest = behind;
        }
        if sums.next().is_some() || piece.bytes.len() > read.length as usize {
            return Err(Error::Corrupt);
        }
        Ok(Self { content: piece.bytes, visible: piece.visible })
    }

    /// Answers `read` from a sealed replica with the checksums `sums`. `fetch` reads whole units, by
    /// offset and length in bytes; it returns fewer bytes if the replica's file is too short.
    ///
    /// # Errors
    /// Corrupt: bytes are missing or don't match their checksums. Errors of `fetch`.
    pub fn of_sealed(
        read: &Read,
        sums: &Sums,
        config: &Config,
        fetch: impl FnOnce(u32, usize) -> Result<Bytes>,
    ) -> Result<Self> {
        let (unit, visible) = (config.unit_bytes, sums.length);
        let begin = read.offset.min(visible);
        let end = begin.saturating_add(read.length.min(config.write_bytes)).min(visible);
        let first = begin - begin % unit;
        let last = end.checked_next_multiple_of(unit).map_or(visible, |last| last.min(visible));
        let length = if begin == end { 0 } else { (last - first) as usize };
        let all = if length == 0 { Bytes::new() } else { fetch(first, length)? };
        let stored = |part: usize| sums.units.get((first / unit) as usize + part);
        let mut parts = all.chunks(unit as usize).enumerate();
        if all.len() != length || !parts.all(|(at, part)| stored(at) == Some(&crc32c(part))) {
            return Err(Error::Corrupt);
        }
        let bytes =
            if length == 0 { all } else { all.slice((begin - first) as usize..(end - first) as usize) };
        Ok(Self { content: bytes, visible })
    }
}

impl Checked<Digest> {
    /// Accepts a datanode's digest as the answer to `read`.
    ///
    /// # Errors
    /// Corrupt: it covers more than the request.
    pub fn digest(read: &Read, answer: &Digested) -> Result<Self> {
        let Digested { digest, visible } = *answer;
        if digest.length > read.length { Err(Error::Corrupt) } else { Ok(Self { content: digest, visible }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChunkId, Stamp};

    fn config() -> Config {
        Config { unit_bytes: 10, write_bytes: 40, ..Config::default() }
    }

    fn read(offset: u32, length: u32) -> Read {
        Read { chunk: ChunkId(1), stamp: Stamp(1), offset, length, acknowledged: 0 }
    }

    fn sealed(bytes: &[u8], read: &Read, of: &[u8]) -> Result<Checked> {
        let mut sums = Sums::default();
        sums.extend(of, 10);
        Checked::of_sealed(read, &sums, &config(), |offset, length| {
            let end = (offset as usize + length).min(bytes.len());
            Ok(Bytes::copy_from_slice(&bytes[(offset as usize).min(end)..end]))
        })
    }

    #[test]
    fn every_range_of_a_sealed_replica_is_what_it_holds() {
        let bytes: Vec<u8> = (0..57).collect();
        for (offset, length) in (0..60).flat_map(|offset| (0..60).map(move |length| (offset, length))) {
            let checked = sealed(&bytes, &read(offset, length), &bytes).unwrap();
            let begin = (offset as usize).min(57);
            let end = (begin + length.min(40) as usize).min(57);
            assert_eq!((&checked.content[..], checked.visible), (&bytes[begin..end], 57));
        }
        assert_eq!(sealed(&[], &read(u32::MAX, u32::MAX), &[]).unwrap().content, Bytes::new());
    }

    #[test]
    fn a_byte_that_changed_or_is_missing_is_noticed_by_who_reads_its_unit() {
        let bytes: Vec<u8> = (0..57).collect();
        let mut damaged = bytes.clone();
        damaged[33] ^= 1;
        assert_eq!(sealed(&damaged, &read(39, 1), &bytes), Err(Error::Corrupt));
        assert_eq!(sealed(&damaged, &read(0, 31), &bytes), Err(Error::Corrupt));
        assert_eq!(sealed(&damaged, &read(40, 17), &bytes).unwrap().content, bytes[40..]);
        assert_eq!(sealed(&bytes[..56], &read(56, 1), &bytes), Err(Error::Corrupt));
        assert_eq!(sealed(&bytes[..20], &read(30, 5), &bytes), Err(Error::Corrupt));
    }
}
