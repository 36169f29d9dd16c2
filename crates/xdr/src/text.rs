//! `string`: bytes meant as text.

use crate::Opaque;
use bytes::Bytes;
use std::fmt;
use std::str::{self, Utf8Error};

/// The exact bytes of an XDR string.
///
/// RFC 4506 requires ASCII. But peers send UTF-8, and file names in any encoding. So a `Text` has bytes until
/// a program calls [`Text::as_str`]. It keeps NUL bytes, but for a C peer, the string ends at the first one.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Text<'a>(Opaque<'a>);

impl<'a> Text<'a> {
    /// The bytes as sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text as UTF-8, which includes ASCII.
    ///
    /// # Errors
    /// The bytes aren't UTF-8.
    pub fn as_str(&self) -> Result<&str, Utf8Error> {
        str::from_utf8(&self.0)
    }

    /// The same text, independent of its owner.
    pub fn into_owned(self) -> Text<'static> {
        Text(self.0.into_owned())
    }

    pub(crate) fn as_opaque(&self) -> &Opaque<'a> {
        &self.0
    }

    pub(crate) fn from_opaque(bytes: Opaque<'a>) -> Self {
        Self(bytes)
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl<'a> From<&'a String> for Text<'a> {
    fn from(text: &'a String) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl<'a> From<&'a [u8]> for Text<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for Text<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

impl From<Bytes> for Text<'_> {
    fn from(bytes: Bytes) -> Self {
        Self(bytes.into())
    }
}

impl AsRef<[u8]> for Text<'_> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for Text<'_> {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Text<'_> {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

/// Shows invalid UTF-8 as replacement characters.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
