//! The checksum for stores without one of their own.

use crate::Checksum;
use strait_crc::Running;

/// HDFS's name for the CRC-32C of a file's whole content
/// (`dfs.checksum.combine.mode=COMPOSITE_CRC`). It doesn't depend on the block size, so it can be
/// compared with the checksums of copies in other stores.
const ALGORITHM: &str = "COMPOSITE-CRC32C";

/// A file's checksum in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Crc32c(Running);

impl Crc32c {
    /// The CRC of no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum, with its most significant byte first, as in HDFS.
    pub fn finish(self) -> Checksum {
        checksum(self.0.value())
    }
}

/// The checksum of a file whose content has this CRC-32C.
pub fn checksum(crc: u32) -> Checksum {
    Checksum { algorithm: ALGORITHM.to_owned(), value: crc.to_be_bytes().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_castagnoli_crc_of_rfc_3720() {
        let mut crc = Crc32c::new();
        crc.update(&[0; 16]);
        crc.update(&[0; 16]);
        // RFC 3720, B.4: 32 bytes of zeroes give aa 36 91 8a, least significant byte first.
        assert_eq!(crc.finish().value, [0x8a, 0x91, 0x36, 0xaa]);
    }
}
