//! A replica's checksums on disk: appended records while it is open, one plain table
//! once it is sealed.

use crate::{
    crc32c::{crc32c, crc32c_append},
    disk::{DiskFile, read_whole},
};
use std::{collections::BTreeMap, io};

/// A record: the end of the bytes under the checksum, and the checksum; 4 bytes each.
const RECORD_BYTES: usize = 8;
const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"KSUM");
const TABLE_VERSION: u32 = 1;
/// Magic, version, unit, length.
const TABLE_HEADER_BYTES: usize = 16;

/// CRC-32C of each unit; the last unit may be partial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of bytes that they cover.
    pub length: u32,
    /// One checksum per unit.
    pub units: Vec<u32>,
}

impl Sums {
    /// Adds `bytes`, which follow. Returns the records to append on disk, one for each unit that
    /// grew.
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

    /// Cuts to `length`. `last` are the remaining bytes of the unit that is cut.
    pub fn cut(&mut self, length: u32, last: &[u8], unit: u32) {
        self.units.truncate(length.div_ceil(unit) as usize);
        self.length = length;
        if !length.is_multiple_of(unit)
            && let Some(sum) = self.units.last_mut()
        {
            *sum = crc32c(last);
        }
    }

    /// The table of a sealed replica.
    pub fn table(&self, unit: u32) -> Vec<u8> {
        let mut table = Vec::with_capacity(TABLE_HEADER_BYTES + 4 * self.units.len() + 4);
        let words = [TABLE_MAGIC, TABLE_VERSION, unit, self.length];
        words.iter().chain(&self.units).for_each(|word| table.extend_from_slice(&word.to_le_bytes()));
        let crc = crc32c(&table);
        table.extend_from_slice(&crc.to_le_bytes());
        table
    }

    /// The table's content, if it is valid.
    pub fn from_table(table: &[u8], unit: u32) -> Option<Self> {
        let (body, crc) = table.split_last_chunk::<4>()?;
        let words: Vec<u32> = body
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        let [TABLE_MAGIC, TABLE_VERSION, of, length, units @ ..] = &words[..] else { return None };
        let fits =
            body.len().is_multiple_of(4) && *of == unit && units.len() == length.div_ceil(unit) as usize;
        let sound = fits && crc32c(body) == u32::from_le_bytes(*crc);
        sound.then(|| Self { length: *length, units: units.to_vec() })
    }
}

/// The longest prefix of `data` that the appended records prove, in any state after a crash.
///
/// # Errors
/// The disk's. Unreadable bytes may have been synced, so a read error doesn't shorten the prefix.
pub fn provable<F: DiskFile>(data: &F, records: &F, unit: u32) -> io::Result<Sums> {
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    for record in read_whole(records)?.chunks_exact(RECORD_BYTES) {
        let word =
            |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
        if word(0) != 0 {
            ends.insert(word(0), word(4));
        }
    }
    let mut sums = Sums::default();
    let mut bytes = vec![0; unit as usize];
    loop {
        let start = sums.length;
        let there = data.read_at(start.into(), &mut bytes)?;
        let Some(furthest) = start.checked_add(there as u32).filter(|end| *end > start) else {
            return Ok(sums);
        };
        // Find the furthest end within this unit that verifies.
        let within = ends.range(start + 1..=furthest).rev();
        let mut proven = within.filter(|(end, sum)| crc32c(&bytes[..(*end - start) as usize]) == **sum);
        let Some((end, sum)) = proven.next() else { return Ok(sums) };
        sums.units.push(*sum);
        sums.length = *end;
        if *end - start < unit {
            return Ok(sums);
        }
    }
}
