//! A replica's checksums on disk: appended records while the replica is open, one plain table once it
//! is sealed. Both name the replica to which they belong.

use crate::{
    ChunkId, Stamp,
    check::Sums,
    disk::{DiskFile, read_whole},
};
use std::{collections::BTreeMap, io};
use strait_crc::crc32c;

/// A record: the offset at which the bytes under the checksum end, and the checksum; 4 bytes each.
const RECORD_BYTES: usize = 8;
/// Greater than any such offset, so no record begins with it.
const RECORDS_MAGIC: u32 = u32::from_le_bytes(*b"KREC") | 1 << 31;
/// Version of the records with a head. Version 1 had no head.
const RECORDS_VERSION: u32 = 2;
/// Size of the head: magic, version, claim, unit, CRC. It is as long as five records, so no record lies
/// in two sectors of a disk.
pub(super) const RECORDS_HEAD_BYTES: usize = 40;
const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"KSUM");
const TABLE_VERSION: u32 = 2;
/// Version of tables with the same words, but without a claim.
const UNCLAIMED_TABLE_VERSION: u32 = 1;
/// Size of a table's header: magic, version, unit, length, claim.
const TABLE_HEADER_BYTES: usize = 16 + CLAIM_BYTES;
/// Size of a claim: cluster, chunk, stamp.
const CLAIM_BYTES: usize = 24;
const CRC_BYTES: usize = 4;

/// The replica to which files belong, according to their names or to their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The cluster's random number.
    pub cluster: u64,
    /// The chunk.
    pub chunk: ChunkId,
    /// The stamp that the chunk had when the files were written.
    pub stamp: Stamp,
}

/// The reason why a file proves nothing about a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unproven {
    /// The file is torn or damaged, or of an unknown version.
    Invalid,
    /// The file is sound, but belongs to this other replica.
    Another(Claim),
}

impl Claim {
    fn bytes(self) -> [u8; CLAIM_BYTES] {
        let mut bytes = [0; CLAIM_BYTES];
        let numbers = [self.cluster, self.chunk.0, self.stamp.0];
        for (to, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Splits the claim at the beginning of `from` from the rest.
    fn split(from: &[u8]) -> Option<(Self, &[u8])> {
        let (cluster, rest) = from.split_first_chunk::<8>()?;
        let (chunk, rest) = rest.split_first_chunk::<8>()?;
        let (stamp, rest) = rest.split_first_chunk::<8>()?;
        let [cluster, chunk, stamp] = [cluster, chunk, stamp].map(|number| u64::from_le_bytes(*number));
        Some((Self { cluster, chunk: ChunkId(chunk), stamp: Stamp(stamp) }, rest))
    }

    /// Checks that a file whose content names `found` belongs to this replica.
    ///
    /// # Errors
    /// Another: it belongs to another replica.
    fn demand(self, found: Self) -> Result<(), Unproven> {
        if found == self { Ok(()) } else { Err(Unproven::Another(found)) }
    }

    /// The head of an open replica's records.
    pub(super) fn records_head(self, unit: u32) -> Vec<u8> {
        let mut head = Vec::with_capacity(RECORDS_HEAD_BYTES);
        put_words(&mut head, &[RECORDS_MAGIC, RECORDS_VERSION]);
        head.extend_from_slice(&self.bytes());
        put_words(&mut head, &[unit]);
        put_crc(&mut head);
        head
    }

    /// The records after the head, if the head names this replica.
    fn records(self, file: &[u8], unit: u32) -> Result<&[u8], Unproven> {
        let first = file.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        if first != RECORDS_MAGIC {
            // Version 1 begins with a record of the first unit. Other bytes are a head that isn't
            // completely on disk. Then no record was synced, either.
            return if (1..=unit).contains(&first) { Ok(file) } else { Err(Unproven::Invalid) };
        }
        let (head, records) = file.split_at_checked(RECORDS_HEAD_BYTES).ok_or(Unproven::Invalid)?;
        let body = split_crc(head).ok_or(Unproven::Invalid)?;
        let (words, rest) = split_words::<2>(body).ok_or(Unproven::Invalid)?;
        let (found, rest) = Self::split(rest).ok_or(Unproven::Invalid)?;
        if words[1] != RECORDS_VERSION || rest != unit.to_le_bytes() {
            return Err(Unproven::Invalid);
        }
        self.demand(found)?;
        Ok(records)
    }
}

fn put_words(to: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
}

fn put_crc(to: &mut Vec<u8>) {
    let crc = crc32c(to);
    put_words(to, &[crc]);
}

/// The bytes before the checksum at the end, if they match it.
fn split_crc(from: &[u8]) -> Option<&[u8]> {
    let (body, crc) = from.split_last_chunk::<4>()?;
    (crc32c(body) == u32::from_le_bytes(*crc)).then_some(body)
}

/// Splits the first `N` words from the rest.
fn split_words<const N: usize>(from: &[u8]) -> Option<([u32; N], &[u8])> {
    let (bytes, rest) = from.split_at_checked(4 * N)?;
    let mut words = [0; N];
    words.iter_mut().zip(all_words(bytes)).for_each(|(to, word)| *to = word);
    Some((words, rest))
}

fn all_words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
}

impl Sums {
    /// The table of a sealed replica.
    pub fn table(&self, unit: u32, claim: Claim) -> Vec<u8> {
        let mut table = Vec::with_capacity(TABLE_HEADER_BYTES + 4 * self.units.len() + CRC_BYTES);
        put_words(&mut table, &[TABLE_MAGIC, TABLE_VERSION, unit, self.length]);
        table.extend_from_slice(&claim.bytes());
        put_words(&mut table, &self.units);
        put_crc(&mut table);
        table
    }

    /// The checksums in the table, if it is valid and belongs to this replica. A table of version 1 names
    /// no replica, so it counts for the replica in its file's name.
    ///
    /// # Errors
    /// Invalid: the table is torn, damaged or of an unknown version. Another: it belongs to another
    /// replica.
    pub fn from_table(table: &[u8], unit: u32, claim: Claim) -> Result<Self, Unproven> {
        let (sums, found) = Self::parse(table, unit).ok_or(Unproven::Invalid)?;
        found.map_or(Ok(()), |found| claim.demand(found))?;
        Ok(sums)
    }

    fn parse(table: &[u8], unit: u32) -> Option<(Self, Option<Claim>)> {
        let body = split_crc(table)?;
        let ([magic, version, of, length], rest) = split_words(body)?;
        let (claim, rest) = match version {
            UNCLAIMED_TABLE_VERSION => (None, rest),
            TABLE_VERSION => Claim::split(rest).map(|(claim, rest)| (Some(claim), rest))?,
            _ => return None,
        };
        let fits = rest.len().is_multiple_of(4) && rest.len() / 4 == length.div_ceil(unit) as usize;
        let sound = magic == TABLE_MAGIC && of == unit && fits;
        sound.then(|| (Self { length, units: all_words(rest).collect() }, claim))
    }
}

/// Size of the table of a replica of `length` bytes.
pub(super) fn table_bytes(length: u32, unit: u32) -> u64 {
    (TABLE_HEADER_BYTES + CRC_BYTES) as u64 + u64::from(length.div_ceil(unit)) * 4
}

/// The length of a replica whose bytes and one table together have this size.
pub(super) fn length_before_table(size: u64, unit: u32) -> Option<u32> {
    let rest = size.checked_sub((TABLE_HEADER_BYTES + CRC_BYTES) as u64)?;
    let units = rest.div_ceil(u64::from(unit) + 4);
    let length = u32::try_from(rest.checked_sub(units * 4)?).ok()?;
    (u64::from(length) + table_bytes(length, unit) == size).then_some(length)
}

/// The longest prefix of `data` that the appended records prove, in any state after a crash. The inner
/// error is the other replica to which the records belong.
///
/// # Errors
/// An I/O error of the disk. A read error doesn't shorten the prefix, since the unreadable bytes may have
/// been synced.
pub fn provable<F: DiskFile>(
    data: &F,
    records: &F,
    unit: u32,
    claim: Claim,
) -> io::Result<Result<Sums, Claim>> {
    let mut ends: BTreeMap<u32, u32> = BTreeMap::new();
    let records = read_whole(records)?;
    let records = match claim.records(&records, unit) {
        Ok(records) => records,
        Err(Unproven::Invalid) => return Ok(Ok(Sums::default())),
        Err(Unproven::Another(found)) => return Ok(Err(found)),
    };
    for record in records.chunks_exact(RECORD_BYTES) {
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
            return Ok(Ok(sums));
        };
        // Find the furthest end within this unit that verifies.
        let within = ends.range(start + 1..=furthest).rev();
        let mut proven = within.filter(|(end, sum)| crc32c(&bytes[..(*end - start) as usize]) == **sum);
        let Some((end, sum)) = proven.next() else { return Ok(Ok(sums)) };
        sums.units.push(*sum);
        sums.length = *end;
        if *end - start < unit {
            return Ok(Ok(sums));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, RealDisk};

    const UNIT: u32 = 16;
    const OWN: Claim = Claim { cluster: 11, chunk: ChunkId(5), stamp: Stamp(7) };
    const OTHERS: [Claim; 3] =
        [Claim { cluster: 12, ..OWN }, Claim { chunk: ChunkId(6), ..OWN }, Claim { stamp: Stamp(8), ..OWN }];
    const BYTES: &[u8] = b"the bytes of two units and a part";

    fn sums() -> Sums {
        let mut sums = Sums::default();
        sums.extend(BYTES, UNIT);
        sums
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn with_crc(mut body: Vec<u8>) -> Vec<u8> {
        let crc = crc32c(&body);
        body.extend(crc.to_le_bytes());
        body
    }

    /// A table as version 1 wrote it.
    fn unclaimed_table() -> Vec<u8> {
        let mut table = b"KSUM".to_vec();
        table.extend(words(&[1, UNIT, 33]));
        table.extend(words(&sums().units));
        with_crc(table)
    }

    /// Records as version 1 wrote them.
    fn unclaimed_records() -> Vec<u8> {
        Sums::default().extend(BYTES, UNIT)
    }

    fn prove(records: &[u8]) -> Result<Sums, Claim> {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let [data, records] = [("data", BYTES), ("sums", records)].map(|(name, bytes)| {
            let file = disk.create(name).unwrap();
            file.write_at(0, bytes).unwrap();
            file
        });
        provable(&data, &records, UNIT, OWN).unwrap()
    }

    #[test]
    fn a_table_proves_the_replica_that_it_names_and_no_other() {
        let table = sums().table(UNIT, OWN);
        assert_eq!(Sums::from_table(&table, UNIT, OWN), Ok(sums()));
        for other in OTHERS {
            assert_eq!(Sums::from_table(&table, UNIT, other), Err(Unproven::Another(OWN)));
        }
        assert_eq!(Sums::from_table(&table, UNIT * 2, OWN), Err(Unproven::Invalid));
    }

    #[test]
    fn a_table_of_version_1_counts_for_any_replica() {
        for claim in [OWN, OTHERS[0], OTHERS[1], OTHERS[2]] {
            assert_eq!(Sums::from_table(&unclaimed_table(), UNIT, claim), Ok(sums()));
        }
    }

    #[test]
    fn a_files_size_tells_where_its_table_begins() {
        for length in 0..200 {
            let mut sums = Sums::default();
            sums.extend(&vec![7; length as usize], UNIT);
            let table = sums.table(UNIT, OWN).len() as u64;
            assert_eq!(table, table_bytes(length, UNIT));
            assert_eq!(length_before_table(u64::from(length) + table, UNIT), Some(length));
            assert_eq!(sums.records(UNIT), Sums::default().extend(&vec![7; length as usize], UNIT));
        }
        let lengths: Vec<u32> = (0..200).filter_map(|size| length_before_table(size, UNIT)).collect();
        assert!(lengths.is_sorted_by(|one, next| one < next), "no two of one size: {lengths:?}");
        assert_eq!(length_before_table(u64::MAX, UNIT), None);
    }

    #[test]
    fn a_torn_or_damaged_table_proves_nothing() {
        for table in [sums().table(UNIT, OWN), unclaimed_table()] {
            for at in 0..table.len() {
                let mut damaged = table.clone();
                damaged[at] ^= 0x10;
                // A shorter table with a matching checksum.
                let cut = with_crc(table[..at].to_vec());
                for bad in [&damaged[..], &table[..at], &cut] {
                    let proven = Sums::from_table(bad, UNIT, OWN);
                    assert!(proven == Err(Unproven::Invalid) || bad == table, "{at}: {proven:?}");
                }
            }
        }
        let mut later = sums().table(UNIT, OWN);
        later[4] += 1;
        later.truncate(later.len() - 4);
        assert_eq!(Sums::from_table(&with_crc(later), UNIT, OWN), Err(Unproven::Invalid));
    }

    #[test]
    fn records_prove_the_replica_that_their_head_names_and_no_other() {
        let with_head = |claim: Claim| [claim.records_head(UNIT), unclaimed_records()].concat();
        assert_eq!(prove(&with_head(OWN)), Ok(sums()));
        for other in OTHERS {
            assert_eq!(prove(&with_head(other)), Err(other));
        }
        assert_eq!(prove(&[]), Ok(Sums::default()));
        assert_eq!(OWN.records_head(UNIT).len(), RECORDS_HEAD_BYTES);
    }

    #[test]
    fn records_of_version_1_count_for_any_replica() {
        assert_eq!(prove(&unclaimed_records()), Ok(sums()));
        assert_eq!(prove(&unclaimed_records()[..12]).map(|proven| proven.length), Ok(UNIT));
    }

    /// No record is synced before the head, so such records don't count.
    #[test]
    fn records_behind_a_torn_head_prove_nothing() {
        let whole = [OWN.records_head(UNIT), unclaimed_records()].concat();
        for at in 0..RECORDS_HEAD_BYTES {
            let (mut damaged, mut begun, mut ended) = (whole.clone(), whole.clone(), whole.clone());
            damaged[at] ^= 0x10;
            begun[at..RECORDS_HEAD_BYTES].fill(0);
            ended[..=at].fill(0);
            for bad in [&damaged[..], &begun, &ended, &whole[..at]] {
                assert_eq!(prove(bad), Ok(Sums::default()), "{at}");
            }
        }
    }
}
