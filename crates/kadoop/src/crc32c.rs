//! CRC-32C, by the crate that is fastest at units of 4 KiB: 44 GB/s of a core with the
//! instructions for vectors, which three running sums of the plain one take thrice as long for.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest};

/// CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// CRC-32C of what `crc` is of, and then `bytes`.
pub(crate) fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // A digest's state is what its value is before it is inverted.
    let mut digest = Digest::new_with_init_state(Crc32Iscsi, (!crc).into());
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

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
