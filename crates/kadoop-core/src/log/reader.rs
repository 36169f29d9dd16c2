//! Reads the log, and tells a torn end from a gap.

use super::{
    FORMAT_VERSION, LogError,
    frame::{ALIGNMENT, HEADER_BYTES, claimed_bytes, parse_frame, parse_segment_header},
    segment_name, segments,
};
use crate::{
    disk::{Disk, DiskFile, read_whole},
    faults::{Fault, Faults},
};
use std::io;

/// Bytes of a segment in memory at a time, unless a frame is larger. Small, since a running namenode
/// reads its log to make a checkpoint.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// Called with each record and its number. Returns an error if the record is invalid.
type Each<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), &'static str>;

/// The state of the log's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// The log ends with a complete frame.
    Clean,
    /// The log ends with a write that a crash cut short. No answer relied on the records in it.
    Torn {
        /// The file.
        segment: String,
        /// Offset of the torn write, in bytes.
        offset: u64,
    },
}

/// Calls `each` with the number and bytes of each record after number `after`, in order. Returns the
/// number of the last record, and the state of the log's end.
///
/// # Errors
/// An I/O error of the disk; a gap; damage other than a torn end; errors of `each`.
pub fn read_log<D: Disk>(
    disk: &D,
    cluster: u64,
    after: u64,
    faults: Faults,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), &'static str>,
) -> Result<(u64, Tail), LogError> {
    let all = segments(&disk.list()?);
    let begin = all.partition_point(|first| *first <= after + 1).saturating_sub(1);
    let mut next = after + 1;
    let mut tail = Tail::Clean;
    for (index, first) in all.iter().enumerate().skip(begin) {
        let name = segment_name(*first);
        let last = index + 1 == all.len();
        let file = disk.open(&name)?;
        if !header_fits(&file.read_vec(0, HEADER_BYTES)?, cluster, *first, &name)? {
            // A crash interrupted the making of the segment, so it can't contain records.
            if last && good_frame_behind(&read_whole(&file)?, 0, cluster).is_none() {
                return Ok((next - 1, Tail::Torn { segment: name, offset: 0 }));
            }
            return Err(LogError::Damaged { file: name, offset: 0 });
        }
        if *first > next {
            return Err(LogError::Gap { segment: name, expected: next, found: *first });
        }
        let mut sequence = *first;
        tail = read_segment(&file, cluster, faults, &name, &mut sequence, &mut |number, record| {
            if number < next {
                return Ok(());
            }
            next = number + 1;
            each(number, record)
        })?;
    }
    Ok((next - 1, tail))
}

/// Whether the header is valid. An error if it is valid, but belongs to another cluster, another
/// segment or a newer version.
fn header_fits(bytes: &[u8], cluster: u64, first: u64, name: &str) -> Result<bool, LogError> {
    let Some(header) = parse_segment_header(bytes) else { return Ok(false) };
    let foreign = |why| Err(LogError::Foreign { file: name.to_owned(), why });
    if header.version > FORMAT_VERSION {
        return foreign("written by a newer version of this program");
    }
    if header.cluster != cluster {
        return foreign("belongs to another cluster");
    }
    if header.first_sequence != first {
        return foreign("the file was renamed: it begins with another record than its name says");
    }
    Ok(true)
}

pub(super) fn read_segment<F: DiskFile>(
    file: &F,
    cluster: u64,
    faults: Faults,
    name: &str,
    sequence: &mut u64,
    each: Each<'_>,
) -> Result<Tail, LogError> {
    let trusting = faults.has(Fault::TornFrameRead);
    let mut window = Window { file, start: 0, bytes: Vec::new() };
    let mut offset = HEADER_BYTES as u64;
    loop {
        let claimed = claimed_bytes(window.at(offset, HEADER_BYTES)?);
        let frame = parse_frame(window.at(offset, claimed)?, cluster, trusting);
        let Some(frame) = frame.filter(|frame| frame.first_sequence == *sequence) else { break };
        for record in &frame.records {
            each(*sequence, record).map_err(|why| LogError::Record { sequence: *sequence, why })?;
            *sequence += 1;
        }
        offset += frame.bytes as u64;
    }
    if window.is_blank_from(offset)? {
        return Ok(Tail::Clean);
    }
    let bytes = read_whole(file)?;
    match good_frame_behind(&bytes, offset as usize, cluster) {
        Some(_) => Err(LogError::Damaged { file: name.to_owned(), offset }),
        None => Ok(Tail::Torn { segment: name.to_owned(), offset }),
    }
}

/// A part of a file.
struct Window<'f, F> {
    file: &'f F,
    /// Offset of its first byte.
    start: u64,
    bytes: Vec<u8>,
}

impl<F: DiskFile> Window<'_, F> {
    /// The bytes from `offset` on: `least` or more, or fewer at the file's end. The offset must not
    /// decrease from call to call.
    fn at(&mut self, offset: u64, least: usize) -> io::Result<&[u8]> {
        let passed = ((offset - self.start) as usize).min(self.bytes.len());
        if self.bytes.len() - passed < least {
            self.bytes.drain(..passed);
            self.start += passed as u64;
            let (from, end) = (self.start + self.bytes.len() as u64, self.file.length()?);
            // Read no more than the file has: a damaged length may be huge.
            let wanted = (least.max(PIECE_BYTES) - self.bytes.len()) as u64;
            self.bytes.extend(self.file.read_vec(from, wanted.min(end.saturating_sub(from)) as usize)?);
        }
        Ok(self.bytes.get((offset - self.start) as usize..).unwrap_or_default())
    }

    /// Whether the file is all zeroes from `offset` on.
    fn is_blank_from(&mut self, mut offset: u64) -> io::Result<bool> {
        loop {
            let bytes = self.at(offset, 1)?;
            if bytes.is_empty() || !is_blank(bytes) {
                return Ok(bytes.is_empty());
            }
            offset += bytes.len() as u64;
        }
    }
}

/// Whether the bytes are all zeroes, as preallocated bytes are before the first write. After a crash,
/// a segment consists mostly of these. So compare whole blocks, which takes a fiftieth of the time of
/// a comparison byte by byte.
pub(super) fn is_blank(bytes: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROES.len()).all(|block| *block == ZEROES[..block.len()])
}

/// Offset of a valid frame at or after `offset`. Tries each multiple of 8 bytes, since the length in
/// an invalid frame can't be trusted.
fn good_frame_behind(bytes: &[u8], offset: usize, cluster: u64) -> Option<usize> {
    (offset..bytes.len()).step_by(ALIGNMENT).find(|at| parse_frame(&bytes[*at..], cluster, false).is_some())
}
