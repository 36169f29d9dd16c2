//! The bytes of a segment: a header, then frames, each aligned to 8 bytes.

use super::FORMAT_VERSION;
use strait_crc::{crc32c, crc32c_append};

/// Largest frame, in bytes. It bounds the time of a commit, and the memory that a reader allocates for
/// a damaged length.
pub const MAX_FRAME_BYTES: usize = 16 << 20;
pub(super) const HEADER_BYTES: usize = 32;
pub(super) const ALIGNMENT: usize = 8;
const SEGMENT_MAGIC: u32 = u32::from_le_bytes(*b"KLOG");
const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"KFRM");

/// A verified frame.
pub(super) struct Frame<'a> {
    pub first_sequence: u64,
    pub records: Vec<&'a [u8]>,
    /// Size with header and padding.
    pub bytes: usize,
}

pub(super) fn segment_header(cluster: u64, first_sequence: u64) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&SEGMENT_MAGIC.to_le_bytes());
    header[4..8].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[8..16].copy_from_slice(&cluster.to_le_bytes());
    header[16..24].copy_from_slice(&first_sequence.to_le_bytes());
    let crc = crc32c(&header[..28]);
    header[28..].copy_from_slice(&crc.to_le_bytes());
    header
}

pub(super) struct SegmentHeader {
    pub version: u32,
    pub cluster: u64,
    pub first_sequence: u64,
}

pub(super) fn parse_segment_header(bytes: &[u8]) -> Option<SegmentHeader> {
    let header = bytes.get(..HEADER_BYTES)?;
    (u32_at(header, 0)? == SEGMENT_MAGIC && u32_at(header, 28)? == crc32c(&header[..28])).then_some(
        SegmentHeader {
            version: u32_at(header, 4)?,
            cluster: u64_at(header, 8)?,
            first_sequence: u64_at(header, 16)?,
        },
    )
}

/// Writes one frame of `records` at the end of `to`.
pub(super) fn write_frame(to: &mut Vec<u8>, cluster: u64, first_sequence: u64, records: &[Vec<u8>]) {
    let start = to.len();
    to.extend_from_slice(&FRAME_MAGIC.to_le_bytes());
    to.extend_from_slice(&(records.len() as u32).to_le_bytes());
    to.extend_from_slice(&cluster.to_le_bytes());
    to.extend_from_slice(&first_sequence.to_le_bytes());
    to.extend_from_slice(&[0; 8]); // length and checksum, below
    for record in records {
        to.extend_from_slice(&(record.len() as u32).to_le_bytes());
        to.extend_from_slice(record);
    }
    let length = (to.len() - start - HEADER_BYTES) as u32;
    to[start + 24..start + 28].copy_from_slice(&length.to_le_bytes());
    let crc = checksum(&to[start..]);
    to[start + 28..start + 32].copy_from_slice(&crc.to_le_bytes());
    to.resize(start + (to.len() - start).next_multiple_of(ALIGNMENT), 0);
}

/// Size of the frame at the beginning of `bytes`, as its header says; the size of a header if there is
/// no frame.
pub(super) fn claimed_bytes(bytes: &[u8]) -> usize {
    let payload = u32_at(bytes, 24).filter(|_| u32_at(bytes, 0) == Some(FRAME_MAGIC)).unwrap_or(0);
    (HEADER_BYTES + payload as usize).next_multiple_of(ALIGNMENT)
}

/// The frame at the beginning of `bytes`, if it is complete and belongs to `cluster`. A frame contains
/// the cluster's random number, so users can't forge one by their files' names and contents.
pub(super) fn parse_frame(bytes: &[u8], cluster: u64, trusting: bool) -> Option<Frame<'_>> {
    if u32_at(bytes, 0)? != FRAME_MAGIC || u64_at(bytes, 8)? != cluster {
        return None;
    }
    let count = u32_at(bytes, 4)? as usize;
    let end = HEADER_BYTES.checked_add(u32_at(bytes, 24)? as usize)?;
    let frame = bytes.get(..end)?;
    if checksum(frame) != u32_at(bytes, 28)? && !trusting {
        return None;
    }
    // Each record takes at least the four bytes of its length. So a false count can't allocate more.
    let mut records = Vec::with_capacity(count.min(end / 4));
    let mut rest = &frame[HEADER_BYTES..];
    for _ in 0..count {
        let length = u32_at(rest, 0)? as usize;
        records.push(rest.get(4..4usize.checked_add(length)?)?);
        rest = &rest[4 + length..];
    }
    Some(Frame {
        first_sequence: u64_at(bytes, 16)?,
        records,
        bytes: end.next_multiple_of(ALIGNMENT).min(bytes.len()),
    })
}

/// The checksum over header (without the checksum itself) and payload.
fn checksum(frame: &[u8]) -> u32 {
    crc32c_append(crc32c(&frame[..28]), &frame[HEADER_BYTES..])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
