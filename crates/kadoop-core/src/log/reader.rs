//! Reading the log, and distinguishing a torn end from a gap.

use super::{
    FORMAT_VERSION, LogError,
    frame::{ALIGNMENT, HEADER_BYTES, parse_frame, parse_segment_header},
    segment_name, segments,
};
use crate::{
    disk::{Disk, read_whole},
    faults::{Fault, Faults},
};

/// Takes a record and its number; refuses an invalid one.
type Each<'a> = &'a mut dyn FnMut(u64, &[u8]) -> Result<(), &'static str>;

/// The state of the log's end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// It ends with a whole frame.
    Clean,
    /// It ends with a write that a crash cut short; none of its records was ever answered.
    Torn {
        /// The file.
        segment: String,
        /// Offset of the torn write, in bytes.
        offset: u64,
    },
}

/// Passes `each` record after number `after`, in order, with its number. Returns the number of the
/// last record, and the state of the log's end.
///
/// # Errors
/// The disk's; a gap; damage other than a torn end; refusals of `each`.
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
        let bytes = read_whole(&disk.open(&name)?)?;
        if !header_fits(&bytes, cluster, *first, &name)? {
            // A crash interrupted the making of the segment, so it can't contain records.
            if last && good_frame_behind(&bytes, 0, cluster).is_none() {
                return Ok((next - 1, Tail::Torn { segment: name, offset: 0 }));
            }
            return Err(LogError::Damaged { file: name, offset: 0 });
        }
        if *first > next {
            return Err(LogError::Gap { segment: name, expected: next, found: *first });
        }
        let mut sequence = *first;
        tail = read_segment(&bytes, cluster, faults, &name, &mut sequence, &mut |number, record| {
            if number < next {
                return Ok(());
            }
            next = number + 1;
            each(number, record)
        })?;
    }
    Ok((next - 1, tail))
}

/// Whether the header is valid; an error if it is, but isn't ours.
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
        return foreign("was renamed: it begins with another record");
    }
    Ok(true)
}

pub(super) fn read_segment(
    bytes: &[u8],
    cluster: u64,
    faults: Faults,
    name: &str,
    sequence: &mut u64,
    each: Each<'_>,
) -> Result<Tail, LogError> {
    let trusting = faults.has(Fault::TornFrameRead);
    let mut offset = HEADER_BYTES;
    while !is_blank(&bytes[offset..]) {
        let frame = parse_frame(&bytes[offset..], cluster, trusting);
        let Some(frame) = frame.filter(|frame| frame.first_sequence == *sequence) else {
            if good_frame_behind(bytes, offset, cluster).is_some() {
                return Err(LogError::Damaged { file: name.to_owned(), offset: offset as u64 });
            }
            return Ok(Tail::Torn { segment: name.to_owned(), offset: offset as u64 });
        };
        for record in &frame.records {
            each(*sequence, record).map_err(|why| LogError::Record { sequence: *sequence, why })?;
            *sequence += 1;
        }
        offset += frame.bytes;
    }
    Ok(Tail::Clean)
}

/// Whether the bytes were never written. After a crash a segment consists mostly of these, so
/// compare blocks: that takes a fiftieth of the time of a comparison by bytes.
fn is_blank(bytes: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROES.len()).all(|block| *block == ZEROES[..block.len()])
}

/// Offset of a valid frame at or behind `offset`, at any alignment of 8: lengths in a bad frame
/// mean nothing.
fn good_frame_behind(bytes: &[u8], offset: usize, cluster: u64) -> Option<usize> {
    (offset..bytes.len()).step_by(ALIGNMENT).find(|at| parse_frame(&bytes[*at..], cluster, false).is_some())
}
