//! `opaque`: bytes that a message carries without interpretation.

use bytes::Bytes;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// Most bytes that the `Debug` output shows.
const SHOWN_BYTES: usize = 32;

/// Bytes that are borrowed or shared, so that passing them on needs no copy.
///
/// A server's handler borrows them from the receive buffer. A client's caller shares the reply's buffer. Both
/// can send borrowed and shared opaques.
#[derive(Clone)]
pub enum Opaque<'a> {
    /// Borrowed from an owner that outlives the value.
    Borrowed(&'a [u8]),
    /// Shared ownership; a clone shares the same bytes.
    Shared(Bytes),
}

impl Opaque<'_> {
    /// The same bytes, independent of their owner. Copies them if they are borrowed.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(bytes),
            Self::Shared(bytes) => bytes,
        }
    }

    /// As [`Opaque::into_bytes`], but returns an `Opaque`.
    pub fn into_owned(self) -> Opaque<'static> {
        Opaque::Shared(self.into_bytes())
    }
}

impl Deref for Opaque<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Opaque<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Opaque<'_> {
    fn default() -> Self {
        Self::Borrowed(&[])
    }
}

impl<'a> From<&'a [u8]> for Opaque<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Opaque<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Borrowed(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Opaque<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Borrowed(bytes)
    }
}

impl From<Vec<u8>> for Opaque<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Shared(bytes.into())
    }
}

impl From<Bytes> for Opaque<'_> {
    fn from(bytes: Bytes) -> Self {
        Self::Shared(bytes)
    }
}

impl PartialEq for Opaque<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Opaque<'_> {}

impl Hash for Opaque<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

/// Shows the length and the first bytes only, since a payload of a megabyte would flood a log.
impl fmt::Debug for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self[..self.len().min(SHOWN_BYTES)];
        let more = if shown.len() < self.len() { "…" } else { "" };
        write!(f, "{} bytes \"{}\"{more}", self.len(), shown.escape_ascii())
    }
}
