//! CRCs of adjacent parts, many times, for second parts of one length.

use crate::{crc32c, crc32c_append};

/// Combines as [`crc32c_combine`](crate::crc32c_combine) does, but in nanoseconds, if all second parts
/// have one fixed length. Appending such a part changes the first part's CRC linearly in its bits. So four
/// tables suffice, one for each byte of the CRC.
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
    #[inline]
    pub fn combine(&self, crc: u32, next: u32) -> u32 {
        let bytes = crc.to_le_bytes();
        self.0.iter().zip(bytes).fold(next, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc32c_combine;

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
}
