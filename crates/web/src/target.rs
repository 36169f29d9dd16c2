//! Paths and queries of a request's target (RFC 3986).

use crate::{Malformed, malformed, number};
use std::fmt::Write;

/// Most parameters of a query; the longest documented query has seven.
const MAX_PARAMETERS: usize = 32;

/// The bytes of a path, each `%XX` decoded once. Refuses an encoded slash, which would split one name
/// into two, and a NUL byte, which no name in a store has.
///
/// # Errors
/// The path has an encoded slash, a NUL byte, or a `%` that isn't followed by two hexadecimal digits.
pub fn path(raw: &str) -> Result<Vec<u8>, Malformed> {
    let bytes = decode(raw.as_bytes(), false)?;
    if bytes.contains(&0) {
        return malformed("the path has a NUL byte");
    }
    // A raw slash separates names; a decoded one was meant as part of a name.
    let slashes = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'/').count();
    match slashes(&bytes) == slashes(raw.as_bytes()) {
        true => Ok(bytes),
        false => malformed(
            "the path has an encoded slash (%2F): write / itself, or put the path into the query (?path=/…)",
        ),
    }
}

/// A path as a target: encodes every byte that must not stand in a target unencoded.
pub fn encode_path(path: &str) -> String {
    let mut target = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                target.push(char::from(byte));
            }
            // Writing to a String doesn't fail.
            _ => drop(write!(target, "%{byte:02X}")),
        }
    }
    target
}

fn decode(raw: &[u8], plus_is_space: bool) -> Result<Vec<u8>, Malformed> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |digit: Option<&u8>| digit.and_then(|digit| char::from(*digit).to_digit(16));
                let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                    return malformed(
                        "a % isn't followed by two hexadecimal digits; write %25 for a % itself",
                    );
                };
                (high << 4 | low) as u8
            }
            b'+' if plus_is_space => b' ',
            byte => *byte,
        });
    }
    Ok(bytes)
}

/// The parameters of a target's query. A repeated or unknown parameter is an error, since a mistyped
/// `overwrite` must not be ignored.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the part after the question mark.
    ///
    /// # Errors
    /// For a bad encoding, text that isn't UTF-8, a repeated name, or too many parameters.
    pub fn parse(raw: Option<&str>) -> Result<Self, Malformed> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (text(name)?, text(value)?);
            if parameters.iter().any(|(known, _)| *known == name) {
                return malformed(format!("the query has {name:?} twice"));
            }
            if parameters.len() == MAX_PARAMETERS {
                return malformed(format!("the query has more than {MAX_PARAMETERS} parameters"));
            }
            parameters.push((name, value));
        }
        Ok(Self(parameters))
    }

    /// Removes a parameter and returns its value.
    pub fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Removes a parameter and returns its value as a number. The maximum is that of an i64, since
    /// Thrift and HDFS use these.
    ///
    /// # Errors
    /// The value isn't a decimal number, or is above the maximum.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, Malformed> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let invalid =
            || Malformed(format!("{name} must be a whole number below 2^63, not {:?}", shown(&text)));
        number(&text).filter(|number| i64::try_from(*number).is_ok()).ok_or_else(invalid).map(Some)
    }

    /// Removes a parameter and returns its value as a bool: false if it is absent, true for `?name`
    /// without a value.
    ///
    /// # Errors
    /// The value is neither `true` nor `false`.
    pub fn switch(&mut self, name: &str) -> Result<bool, Malformed> {
        match self.take(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true" | "") => Ok(true),
            Some(text) => malformed(format!("{name} must be true or false, not {:?}", shown(text))),
        }
    }

    /// Checks that no parameter is left. Call it after taking all parameters that the resource has.
    ///
    /// # Errors
    /// A parameter is left; the message names it.
    pub fn end(&self) -> Result<(), Malformed> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => malformed(format!("unknown query parameter {:?}", shown(name))),
        }
    }
}

fn text(raw: &str) -> Result<String, Malformed> {
    let text = String::from_utf8(decode(raw.as_bytes(), true)?);
    text.map_err(|_| Malformed("the query isn't UTF-8".to_owned()))
}

/// The beginning of a client's text, for a message about it.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_is_decoded_once() {
        assert_eq!(path("/a%20b/%C3%BC+%252e").unwrap(), "/a b/ü+%2e".as_bytes());
        assert_eq!(path("/%ff").unwrap(), b"/\xff");
    }

    #[test]
    fn encoded_slashes_nul_bytes_and_half_escapes_are_refused() {
        for raw in ["/a%2fb", "/a%2Fb", "/%2e%2e%2fetc", "/a%00", "/%", "/%2", "/%zz", "/a%-1"] {
            assert!(path(raw).is_err(), "{raw}");
        }
    }

    #[test]
    fn a_query_has_each_of_its_parameters_once() {
        let mut query = Query::parse(Some("limit=9&recursive&after=a+b%26")).unwrap();
        assert_eq!(query.number("limit"), Ok(Some(9)));
        assert_eq!(query.take("after").as_deref(), Some("a b&"));
        assert!(query.end().is_err());
        assert_eq!(query.switch("recursive"), Ok(true));
        assert_eq!((query.switch("recursive"), query.end()), (Ok(false), Ok(())));
        for raw in ["a=1&a=2", "a=%zz", "a=%ff"] {
            assert!(Query::parse(Some(raw)).is_err(), "{raw}");
        }
        let many: Vec<String> = (0..=MAX_PARAMETERS).map(|number| format!("p{number}")).collect();
        assert!(Query::parse(Some(&many.join("&"))).is_err());
        for raw in ["n=", "n=-1", "n=+1", "n=1e3", "n=9223372036854775808", "n=99999999999999999999"] {
            assert!(Query::parse(Some(raw)).unwrap().number("n").is_err(), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn every_path_comes_back_from_its_target(text in "(/[^/\0]{0,9}){0,4}") {
            prop_assert_eq!(path(&encode_path(&text)).unwrap(), text.into_bytes());
        }
    }
}
