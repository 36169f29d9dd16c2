//! HDFS's checksum of a file: the MD5 of the blocks' MD5s of their chunks'
//! CRCs, computed by the datanodes; the same bytes as `hdfs dfs -checksum`
//! prints.

use super::blocks::Block;
use super::datanode::Datanodes;
use super::namenode::Namenode;
use super::wire::{LocatedBlocks, OpBlockChecksumResponse, crc_type};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::types::Checksum;
use futures::stream::{self, StreamExt, TryStreamExt};
use md5::{Digest, Md5};

/// Blocks asked about at a time: enough to keep several datanodes busy, few
/// for any of them.
const BLOCKS_AT_ONCE: usize = 8;
const MD5_BYTES: usize = 16;
/// Hadoop digests its whole buffer, not only what is in it: the blocks' MD5s
/// and zeroes up to the buffer's capacity, which begins at 32 and doubles.
const FIRST_BUFFER_BYTES: usize = 32;

/// The checksum of a closed file.
pub(super) async fn of_file(
    namenode: &Namenode,
    datanodes: &Datanodes,
    user: &str,
    path: &str,
) -> Result<Checksum> {
    let located = namenode.locate(user, path, 0, i64::MAX as u64).await?;
    check(&located)?;
    let blocks = located.blocks.into_iter().map(|block| Block::of(block, datanodes));
    let blocks = stream::iter(blocks).map(|block| async move { datanodes.checksum(&block).await });
    let blocks: Vec<OpBlockChecksumResponse> = blocks.buffered(BLOCKS_AT_ONCE).try_collect().await?;
    combine(&blocks)
}

fn check(located: &LocatedBlocks) -> Result<()> {
    if located.under_construction {
        return fail(ErrorKind::Busy, "the file is being written");
    }
    if located.erasure_coding.is_some() {
        return fail(ErrorKind::Unsupported, "not of erasure-coded files");
    }
    Ok(())
}

/// As `MD5MD5CRC32FileChecksum` has it: CRC bytes, CRCs a block (0 where there
/// is but one block), MD5.
fn combine(blocks: &[OpBlockChecksumResponse]) -> Result<Checksum> {
    let Some(first) = blocks.first() else { return Ok(assemble(0, 0, "CRC32", Vec::new())) };
    let strange = |what: &str| Error::new(ErrorKind::Internal, format!("datanodes' checksums {what}"));
    let mut buffer = Vec::new();
    for block in blocks {
        if block.md5.len() != MD5_BYTES {
            return Err(strange("aren't MD5s"));
        }
        if (block.bytes_per_crc, block.crc_type) != (first.bytes_per_crc, first.crc_type) {
            return Err(strange("are of different kinds"));
        }
        buffer.extend_from_slice(&block.md5);
    }
    let kind = match first.crc_type {
        crc_type::CRC32 => "CRC32",
        crc_type::CRC32C => "CRC32C",
        _ => return Err(strange("are of an unknown kind")),
    };
    let crc_per_block = if blocks.len() > 1 { first.crc_per_block } else { 0 };
    Ok(assemble(first.bytes_per_crc, crc_per_block, kind, buffer))
}

fn assemble(bytes_per_crc: u32, crc_per_block: u64, kind: &str, mut buffer: Vec<u8>) -> Checksum {
    buffer.resize(buffer.len().next_power_of_two().max(FIRST_BUFFER_BYTES), 0);
    let mut value = bytes_per_crc.to_be_bytes().to_vec();
    value.extend(crc_per_block.to_be_bytes());
    value.extend(Md5::digest(&buffer));
    Checksum { algorithm: format!("MD5-of-{crc_per_block}MD5-of-{bytes_per_crc}{kind}"), value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_has_hadoops_constant() {
        let checksum = combine(&[]).unwrap();
        assert_eq!(checksum.algorithm, "MD5-of-0MD5-of-0CRC32");
        let hex: String = checksum.value.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51");
    }

    #[test]
    fn answers_that_do_not_fit_together_are_an_error() {
        let block = |md5: usize, crc_type| OpBlockChecksumResponse {
            bytes_per_crc: 512,
            crc_per_block: 8,
            md5: vec![1; md5],
            crc_type,
        };
        assert!(combine(&[block(15, crc_type::CRC32C)]).is_err());
        assert!(combine(&[block(16, 9)]).is_err());
        assert!(combine(&[block(16, crc_type::CRC32C), block(16, crc_type::CRC32)]).is_err());
        assert!(combine(&[block(16, crc_type::CRC32C)]).is_ok());
    }
}
