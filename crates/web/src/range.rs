//! Parts of a file: `Range` of a download, `Content-Range` of an upload (RFC 9110, section 14).

use crate::{Malformed, malformed, number};

/// A part of a file that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// From a first byte to a last one, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end of the file.
    Last(u64),
}

/// The bytes of a file that answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// From the first number up to, but without, the second; at least one byte.
    Bytes(u64, u64),
    /// The range has no byte of the file.
    None,
    /// The file is empty, so that no range can describe its end (section 14.1.2).
    Whole,
}

impl Range {
    /// Parses the field's value. None for another unit, several ranges or an invalid value: a server
    /// ignores these, and sends the whole file (section 14.2).
    pub fn parse(value: &str) -> Option<Self> {
        let (unit, set) = value.trim().split_once('=')?;
        let (first, last) = set.trim().split_once('-')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (first.trim(), last.trim()) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(|first| Self::From(first, None)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// The part that the range has of a file of this length.
    pub fn of(self, length: u64) -> Part {
        let (from, to) = match self {
            Self::From(first, last) => {
                (first, last.map_or(length, |last| last.saturating_add(1).min(length)))
            }
            Self::Last(count) => (length.saturating_sub(count), length),
        };
        match self {
            Self::Last(1..) if length == 0 => Part::Whole,
            _ if from < to => Part::Bytes(from, to),
            _ => Part::None,
        }
    }
}

/// The place of an upload's body in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Bytes.
    pub length: u64,
    /// The file's length afterwards, if the client knows it.
    pub whole: Option<u64>,
}

impl ContentRange {
    /// Parses `bytes FIRST-LAST/LENGTH`, where LENGTH may be `*`.
    ///
    /// # Errors
    /// For anything else, and for numbers that contradict each other.
    pub fn parse(value: &str) -> Result<Self, Malformed> {
        let parse = || {
            let (unit, rest) = value.trim().split_once(' ')?;
            let (range, whole) = rest.trim().split_once('/')?;
            let (first, last) = range.split_once('-')?;
            let (first, last) = (number(first)?, number(last)?);
            let whole = match whole {
                "*" => None,
                whole => Some(number(whole)?),
            };
            let agrees = first <= last && whole.is_none_or(|whole| last < whole);
            let length = (last.checked_sub(first)?).checked_add(1)?;
            (unit.eq_ignore_ascii_case("bytes") && agrees).then_some(Self { first, length, whole })
        };
        let why = || malformed("Content-Range must be: bytes FIRST-LAST/LENGTH, or /* for an unknown length");
        parse().map_or_else(why, Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_the_end_of_the_file() {
        let of = |value: &str| Range::parse(value).map(|range| range.of(10));
        assert_eq!(of("bytes=0-3"), Some(Part::Bytes(0, 4)));
        assert_eq!(of("bytes=9-"), Some(Part::Bytes(9, 10)));
        assert_eq!(of("Bytes = 2 - 99"), Some(Part::Bytes(2, 10)));
        assert_eq!(of("bytes=-4"), Some(Part::Bytes(6, 10)));
        assert_eq!(of("bytes=-99"), Some(Part::Bytes(0, 10)));
        assert_eq!(of("bytes=10-"), Some(Part::None));
        assert_eq!(of("bytes=-0"), Some(Part::None));
        assert_eq!(of("bytes=0-18446744073709551615"), Some(Part::Bytes(0, 10)));
        let of_empty = |value: &str| Range::parse(value).map(|range| range.of(0));
        assert_eq!(of_empty("bytes=0-"), Some(Part::None));
        assert_eq!(of_empty("bytes=-5"), Some(Part::Whole));
        assert_eq!(of_empty("bytes=-0"), Some(Part::None));
    }

    #[test]
    fn ranges_without_sense_are_ignored() {
        for value in
            ["", "bytes", "bytes=", "bytes=-", "bytes=3-2", "bytes=a-b", "lines=0-1", "bytes=0-1,3-4"]
        {
            assert_eq!(Range::parse(value), None, "{value}");
        }
        assert_eq!(Range::parse("bytes=99999999999999999999-"), None);
    }

    #[test]
    fn an_upload_names_its_place() {
        let place = |value| ContentRange::parse(value).ok();
        assert_eq!(place("bytes 5-9/10"), Some(ContentRange { first: 5, length: 5, whole: Some(10) }));
        assert_eq!(place("bytes 0-0/*"), Some(ContentRange { first: 0, length: 1, whole: None }));
        let most = "bytes 0-18446744073709551615/*";
        for value in ["", "bytes 5-4/10", "bytes 5-10/10", "bytes */10", "lines 0-1/2", "bytes 0-1", most] {
            assert!(ContentRange::parse(value).is_err(), "{value}");
        }
    }
}
