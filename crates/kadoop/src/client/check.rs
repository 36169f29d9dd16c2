//! Bytes that were read, compared with their checksums.

use crate::{
    Config,
    error::{Error, Result},
    faults::Fault,
    messages::{Piece, Read},
};
use bytes::Bytes;

/// Bytes that agree with their checksums. There is no other way to make one, so that no
/// unchecked byte gets further; checking is left to the thread that received them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub(crate) bytes: Bytes,
    /// How many bytes of the chunk are visible.
    pub(crate) visible: u32,
}

impl Checked {
    /// Compares what `read` was answered.
    ///
    /// # Errors
    /// Corrupt.
    pub fn of(read: &Read, piece: Piece, config: &Config) -> Result<Self> {
        let unit = config.unit_bytes;
        let mut rest = &piece.bytes[..];
        let mut at = read.offset;
        let mut sums = piece.sums.iter();
        let careless = config.faults.has(Fault::SumsNotChecked);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min((unit - at % unit) as usize));
            if sums.next() != Some(&crc32c::crc32c(part)) && !careless {
                return Err(Error::Corrupt);
            }
            at = at.saturating_add(part.len() as u32);
            rest = behind;
        }
        if sums.next().is_some() || piece.bytes.len() > read.length as usize {
            return Err(Error::Corrupt);
        }
        Ok(Self { bytes: piece.bytes, visible: piece.visible })
    }
}
