//! CRC-32C, by the crate that is fastest for units of 4 KiB: 44 GB/s per core with vector
//! instructions. Three interleaved sums with the scalar instruction take three times as long.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// Continues `crc` over `bytes`.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // A digest's state is its value before the final inversion.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, (!crc).into());
    digest.update(bytes);
    digest.finalize() as u32
}

/// CRC-32C of two adjacent parts: `crc` is that of the first part, `next` that of the second, whose
/// length is `bytes`. A call takes tens of microseconds; for many calls, use [`Appended`].
pub fn crc32c_combine(crc: u32, next: u32, bytes: u64) -> u32 {
    crc_fast::checksum_combine(Crc32Iscsi, crc.into(), next.into(), bytes) as u32
}

/// Combines as [`crc32c_combine`] does, but in nanoseconds, if all second parts have one fixed length.
/// Appending such a part changes the first part's CRC linearly in its bits. So four tables suffice,
/// one for each byte of the CRC.
#[derive(Debug)]
pub struct Appended([[u32; 256]; 4]);

impl Appended {
    /// Makes the tables for second parts of length `bytes`.
    pub fn of(bytes: usize) -> Self {
        let mut tables = [[0; 256]; 4];
        // Append zeroes, and then remove the CRC of the zeroes themselves by XOR. The result is the part
        // that depends on the first CRC.
        let zeroes = vec![0; bytes];
        let of_zeroes = crc32c(&zeroes);
        for (place, table) in tables.iter_mut().enumerate() {
            for byte in 1..256_usize {
                let lowest = byte & byte.wrapping_neg();
                table[byte] = match byte ^ lowest {
                    0 => crc32c_append((byte as u32) << (8 * place), &zeroes) ^ of_zeroes,
                    rest => table[rest] ^ table[lowest],
                };
            }
        }
        Self(tables)
    }

    /// CRC-32C of two parts: `crc` is that of the first, `next` that of the second.
    pub fn combine(&self, crc: u32, next: u32) -> u32 {
        let bytes = crc.to_le_bytes();
        self.0.iter().zip(bytes).fold(next, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_crcs_combine_to_that_of_the_whole_wherever_it_is_divided() {
        let bytes: Vec<u8> = (0..9_000u32).map(|at| (at.wrapping_mul(41) >> 2) as u8).collect();
        let whole = crc32c(&bytes);
        for first in [0, 1, 4_095, 4_096, 8_999, 9_000] {
            let (begin, rest) = bytes.split_at(first);
            let (begin, next) = (crc32c(begin), crc32c(rest));
            assert_eq!(crc32c_combine(begin, next, rest.len() as u64), whole, "{first}");
            assert_eq!(Appended::of(rest.len()).combine(begin, next), whole, "{first}");
        }
    }

    #[test]
    fn it_agrees_with_another_implementation_wherever_the_bytes_are_divided() {
        // The check value of the catalogue.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let bytes: Vec<u8> = (0..5_000u32).map(|at| (at.wrapping_mul(37) >> 3) as u8).collect();
        for length in (0..300).chain([1_023, 4_095, 4_096, 4_097, 5_000]) {
            let whole = ::crc32c::crc32c(&bytes[..length]);
            assert_eq!(crc32c(&bytes[..length]), whole, "{length}");
            for first in [0, 1, length / 3, length.saturating_sub(1), length] {
                let (begin, rest) = bytes[..length].split_at(first.min(length));
                assert_eq!(crc32c_append(crc32c(begin), rest), whole, "{first} of {length}");
            }
        }
    }
}
