//! The bytes of an input: all of a file, or the whole records of a part of it.

use crate::context::Place;
use crate::failure::Failure;
use std::fmt::Write as _;
use std::ops::Range;
use strait_dispatch::Slice;
use strait_dispatch::split::Edge;
use strait_store::{Error, ErrorKind, FileReader, MAX_CHUNK_BYTES};

/// Sizes of the first and of the largest read that look for a record's end. Most records are short; for a
/// long one, larger reads save round trips.
const FIRST_LOOK: usize = 64 << 10;
const LONGEST_LOOK: usize = MAX_CHUNK_BYTES;

/// The store's identity of the file's contents, in hexadecimal.
pub fn identity(reader: &dyn FileReader) -> Option<String> {
    let mut text = String::new();
    for byte in reader.identity()? {
        // Writing to a String never fails.
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

/// The bytes of the file that are the input.
///
/// # Errors
/// Busy: another file has the name now, or it is shorter than it was when it was split.
pub async fn range(
    place: &Place,
    reader: &dyn FileReader,
    slice: Option<&Slice>,
) -> Result<Range<u64>, Failure> {
    let Some(slice) = slice else { return Ok(0..reader.length()) };
    let other = |why: &'static str| Error::new(ErrorKind::Busy, why).at("read a part of", &place.path);
    let is_other = match (&slice.identity, identity(reader)) {
        (Some(before), Some(now)) => *before != now,
        _ => false,
    };
    if is_other {
        return Err(other("another file has taken its name since it was split; run the command again").into());
    }
    if reader.length() < slice.length {
        return Err(other("it has become shorter since it was split; run the command again").into());
    }
    let Some(first) = found(reader, slice.first()).await? else { return Ok(slice.end..slice.end) };
    let last = found(reader, slice.last()).await?.unwrap_or(slice.length);
    Ok(first..last.max(first))
}

/// The place of an edge, if there is one.
async fn found(reader: &dyn FileReader, edge: Edge) -> Result<Option<u64>, Failure> {
    let (byte, mut from, until) = match edge {
        Edge::At(at) => return Ok(Some(at)),
        Edge::After { byte, from, until } => (byte, from, until),
    };
    let mut look = FIRST_LOOK;
    while from < until {
        let wanted = (until - from).min(look as u64) as usize;
        let bytes = reader.read_at(from, wanted).await?;
        if let Some(at) = bytes.iter().position(|other| *other == byte) {
            return Ok(Some(from + at as u64 + 1));
        }
        if bytes.is_empty() {
            return Ok(None);
        }
        from += bytes.len() as u64;
        look = (look * 2).min(LONGEST_LOOK);
    }
    Ok(None)
}
