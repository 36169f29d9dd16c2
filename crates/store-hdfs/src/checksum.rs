//! HDFS's checksum of a file, combined from its blocks' checksums, which datanodes compute. It equals the
//! output of `hdfs dfs -checksum` with the same `dfs.checksum.combine.mode`.

use super::blocks::block_of;
use super::config::ChecksumMode;
use super::shared::Shared;
use super::wire::{LocatedBlocks, OpBlockChecksumResponse, block_checksum_type, crc_type};
use futures::stream::{self, StreamExt, TryStreamExt};
use md5::{Digest, Md5};
use strait_crc::crc32c_combine;
use strait_store::Checksum;
use strait_store::crc;
use strait_store::{Error, ErrorKind, Result, fail};

/// Concurrent requests for blocks: enough to keep several datanodes busy, and few for any of them.
const BLOCKS_AT_ONCE: usize = 8;
const MD5_BYTES: usize = 16;
/// Hadoop digests its whole buffer, not only the contents: the blocks' MD5s, then zeros up to the buffer's
/// capacity, which begins at 32 bytes and doubles.
const FIRST_BUFFER_BYTES: usize = 32;

/// The checksum of a closed file.
pub(super) async fn of_file(shared: &Shared, user: &str, path: &str) -> Result<Checksum> {
    let Shared { namenode, datanodes, checksum_mode, .. } = shared;
    let located = namenode.locate(user, path, 0, i64::MAX as u64).await?;
    check(&located)?;
    let kind = match checksum_mode {
        ChecksumMode::Md5Md5Crc => block_checksum_type::MD5_CRC,
        ChecksumMode::CompositeCrc => block_checksum_type::COMPOSITE_CRC,
    };
    let blocks = located.blocks.into_iter().map(|block| block_of(block, datanodes));
    let blocks = stream::iter(blocks)
        .map(|block| async move { Ok::<_, Error>((block.length, datanodes.checksum(&block, kind).await?)) });
    let blocks: Vec<(u64, OpBlockChecksumResponse)> = blocks.buffered(BLOCKS_AT_ONCE).try_collect().await?;
    match checksum_mode {
        ChecksumMode::Md5Md5Crc => combine(blocks.into_iter().map(|(_, answer)| answer).collect()),
        ChecksumMode::CompositeCrc => compose(&blocks),
    }
}

fn strange(what: &str) -> Error {
    Error::new(ErrorKind::Internal, format!("datanodes' checksums {what}"))
}

/// Combines the file's CRC from its blocks' CRCs, each with the block's length.
fn compose(blocks: &[(u64, OpBlockChecksumResponse)]) -> Result<Checksum> {
    // For an empty file, Hadoop has only this kind of checksum.
    let Some((_, first)) = blocks.first() else { return combine(Vec::new()) };
    let mut crc = 0;
    for (length, block) in blocks {
        let kind = block.options.as_ref().and_then(|options| options.kind);
        let value = <[u8; 4]>::try_from(&block.checksum[..]).ok();
        let Some(value) = value.filter(|_| kind == Some(block_checksum_type::COMPOSITE_CRC)) else {
            let message = "a datanode can't compute a composite CRC (Hadoop can since version 3.1.1); unset \
                           dfs.checksum.combine.mode";
            return fail(ErrorKind::Unsupported, message);
        };
        if block.crc_type != crc_type::CRC32C || block.crc_type != first.crc_type {
            return fail(ErrorKind::Unsupported, "a composite CRC needs chunks with CRC-32C checksums");
        }
        let next = u32::from_be_bytes(value);
        crc = crc32c_combine(crc, next, *length);
    }
    Ok(crc::checksum(crc))
}

fn check(located: &LocatedBlocks) -> Result<()> {
    if located.under_construction {
        let message = "the file is open for writing; HDFS has its checksum once the writer closes it or its \
                       lease is recovered";
        return fail(ErrorKind::Busy, message);
    }
    if located.erasure_coding.is_some() {
        return fail(ErrorKind::Unsupported, "not supported for erasure-coded files");
    }
    Ok(())
}

/// The layout of `MD5MD5CRC32FileChecksum`: bytes per CRC, CRCs per block (0 for a single block), MD5.
fn combine(blocks: Vec<OpBlockChecksumResponse>) -> Result<Checksum> {
    let Some(first) = blocks.first() else { return Ok(assemble(0, 0, "CRC32", Vec::new())) };
    let mut buffer = Vec::new();
    for block in &blocks {
        if block.checksum.len() != MD5_BYTES {
            return Err(strange("aren't MD5s"));
        }
        if (block.bytes_per_crc, block.crc_type) != (first.bytes_per_crc, first.crc_type) {
            return Err(strange("are of different kinds"));
        }
        buffer.extend_from_slice(&block.checksum);
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
        let checksum = combine(Vec::new()).unwrap();
        assert_eq!(checksum.algorithm, "MD5-of-0MD5-of-0CRC32");
        assert_eq!(
            strait_store::hex::encode(&checksum.value),
            "00000000000000000000000070bc8f4b72a86921468bf8e8441dce51"
        );
    }

    #[test]
    fn answers_that_do_not_fit_together_are_an_error() {
        let block = |md5: usize, crc_type| OpBlockChecksumResponse {
            bytes_per_crc: 512,
            crc_per_block: 8,
            checksum: vec![1; md5],
            crc_type,
            options: None,
        };
        assert!(combine(vec![block(15, crc_type::CRC32C)]).is_err());
        assert!(combine(vec![block(16, 9)]).is_err());
        assert!(combine(vec![block(16, crc_type::CRC32C), block(16, crc_type::CRC32)]).is_err());
        assert!(combine(vec![block(16, crc_type::CRC32C)]).is_ok());
        let md5_all_the_same = [(512, block(16, crc_type::CRC32C))];
        assert_eq!(compose(&md5_all_the_same).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
