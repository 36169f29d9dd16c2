//! The checksums of chunks.

use crc_fast::CrcAlgorithm::{Crc32Iscsi, Crc32IsoHdlc};

/// CRC-32C of a chunk. At 512 bytes `crc-fast` takes 0.03 s for 1 GiB, a third of `crc32c`'s time.
pub(super) fn crc32c(chunk: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, chunk) as u32
}

/// CRC-32 of a chunk.
pub(super) fn crc32(chunk: &[u8]) -> u32 {
    crc_fast::checksum(Crc32IsoHdlc, chunk) as u32
}
