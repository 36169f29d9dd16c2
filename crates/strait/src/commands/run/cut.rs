//! The bytes of an input: a whole file, or the whole records of a part of it.

use crate::context::Place;
use crate::failure::Failure;
use std::ops::Range;
use strait_dispatch::Slice;
use strait_dispatch::split::Edge;
use strait_store::{Error, ErrorKind, FileReader, MAX_CHUNK_BYTES, hex};

/// Sizes of the first and of the largest read in the search for a record's end. Most records are short. For a
/// long one, larger reads save round trips.
const FIRST_LOOK: usize = 64 << 10;
const LONGEST_LOOK: usize = MAX_CHUNK_BYTES;

/// The store's identity of the file's contents, in hexadecimal.
pub fn identity(reader: &dyn FileReader) -> Option<String> {
    reader.identity().map(|identity| hex::encode(&identity))
}

/// The byte range of the file that is the input.
///
/// # Errors
/// Busy: another file has the name now, or the file is shorter than when it was split.
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
        return Err(other("another file has this name since the split; run the command again").into());
    }
    if reader.length() < slice.length {
        return Err(other("the file became shorter after the split; run the command again").into());
    }
    let Some(first) = found(reader, slice.first()).await? else { return Ok(slice.end..slice.end) };
    let last = found(reader, slice.last()).await?.unwrap_or(slice.length);
    Ok(first..last.max(first))
}

/// The position of an edge; `None` if the file ends before it.
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
