//! The tokens of Thrift's JSON protocol: strings, numbers, brackets.
//!
//! ```text
//!   [1,"stat",1,7,{"1":{"rec":{"1":{"i64":5}}},"2":{"str":"/a"}}]
//!    │  name  │ │  └ fields by id, each an object of its type's name and its value
//!    version  kind, sequence
//! ```
//!
//! A list is `["i32",2,4,5]`, a bool 0 or 1, `binary` base64. A `string` is a JSON string. The
//! interface of 2009 has exact bytes in its strings. Bytes that aren't UTF-8 stand in the JSON text
//! unescaped, as Apache's C++ library sends and accepts them.
//!
//! Source: Apache Thrift's TJSONProtocol, which no specification describes.

use crate::{DecodeError, TType};
use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::{Buf, BufMut, Bytes, BytesMut};

type Result<T> = std::result::Result<T, DecodeError>;

/// Some of Apache's libraries send padding and some don't. All accept it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Deepest nesting of brackets in a message. A struct within a struct takes two levels, and a list of
/// structs one more.
const MAX_BRACKETS: u32 = 128;
/// Deepest nesting within a skipped value. The remaining levels are for the fields around it, so that
/// the decoder accepts no message that the scanner refuses.
const MAX_SKIPPED_BRACKETS: u32 = 96;
/// Longest number: an i64 has 20 bytes, and a double of full precision 24.
const MAX_NUMBER_BYTES: usize = 32;

/// The name of a type in JSON.
pub(crate) fn type_name(kind: TType) -> &'static str {
    match kind {
        TType::Bool => "tf",
        TType::I8 => "i8",
        TType::Double => "dbl",
        TType::I16 => "i16",
        TType::I32 => "i32",
        TType::I64 => "i64",
        TType::String => "str",
        TType::Struct => "rec",
        TType::Map => "map",
        TType::Set => "set",
        TType::List => "lst",
    }
}

fn type_of(name: &[u8]) -> Result<TType> {
    Ok(match name {
        b"tf" => TType::Bool,
        b"i8" => TType::I8,
        b"dbl" => TType::Double,
        b"i16" => TType::I16,
        b"i32" => TType::I32,
        b"i64" => TType::I64,
        b"str" => TType::String,
        b"rec" => TType::Struct,
        b"map" => TType::Map,
        b"set" => TType::Set,
        b"lst" => TType::List,
        _ => return Err(DecodeError::Malformed("an unknown type name")),
    })
}

/// Finds the end of a bracketed value, in constant memory. It resumes at its last position.
#[derive(Debug, Default)]
pub(crate) struct Brackets {
    /// Bytes looked at.
    position: usize,
    depth: u32,
    /// One bit for each open bracket, the innermost lowest: 1 for an object.
    objects: u128,
    in_string: bool,
}

impl Brackets {
    /// The end of the value that `buffer` begins with; none if the value isn't complete yet.
    pub(crate) fn end(&mut self, buffer: &[u8], max_depth: u32) -> Result<Option<usize>> {
        loop {
            if self.in_string && !self.string(buffer) {
                return Ok(None);
            }
            let Some(byte) = buffer.get(self.position) else { return Ok(None) };
            self.position += 1;
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ if self.depth == 0 && !matches!(byte, b'[' | b'{') => {
                    return Err(DecodeError::Malformed("not a JSON message"));
                }
                b'"' => self.in_string = true,
                b'[' | b'{' => {
                    if self.depth == max_depth {
                        return Err(DecodeError::TooDeep);
                    }
                    self.depth += 1;
                    self.objects = self.objects << 1 | u128::from(*byte == b'{');
                }
                b']' | b'}' => {
                    if (self.objects & 1 == 1) != (*byte == b'}') {
                        return Err(DecodeError::Malformed("brackets that don't match"));
                    }
                    self.depth -= 1;
                    self.objects >>= 1;
                    if self.depth == 0 {
                        return Ok(Some(self.position));
                    }
                }
                b'!'..=b'~' => {}
                _ => return Err(DecodeError::Malformed("a byte that JSON doesn't allow outside of strings")),
            }
        }
    }

    /// Skips the rest of a string, and returns whether its end has arrived.
    fn string(&mut self, buffer: &[u8]) -> bool {
        loop {
            let rest = buffer.get(self.position..).unwrap_or_default();
            match rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                None => {
                    self.position = self.position.max(buffer.len());
                    return false;
                }
                Some(at) if rest[at] == b'"' => {
                    self.position += at + 1;
                    self.in_string = false;
                    return true;
                }
                // The escaped byte may lie past the end.
                Some(at) => self.position += at + 2,
            }
        }
    }
}

/// Bytes of space that `text` begins with.
fn space(text: &[u8]) -> usize {
    text.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')).count()
}

/// The next byte that isn't space, without consuming it.
pub(crate) fn peek(from: &mut Bytes) -> Result<u8> {
    from.advance(space(from));
    from.first().copied().ok_or(DecodeError::Truncated)
}

/// Reads a punctuation mark.
pub(crate) fn expect(from: &mut Bytes, mark: u8) -> Result<()> {
    if peek(from)? != mark {
        return Err(DecodeError::Malformed("JSON punctuation is missing"));
    }
    from.advance(1);
    Ok(())
}

/// A string's bytes: shared with the message, unless the string has escapes.
pub(crate) fn string(from: &mut Bytes) -> Result<Bytes> {
    let (length, escapes) = string_ahead(from)?;
    let raw = from.split_to(length);
    from.advance(1);
    if escapes { unescape(&raw) } else { Ok(raw) }
}

/// Consumes a string's first quote. Gives the length up to its last one, and whether it has escapes.
fn string_ahead(from: &mut Bytes) -> Result<(usize, bool)> {
    expect(from, b'"')?;
    let mut escapes = false;
    let mut at = 0;
    loop {
        let rest = from.get(at..).ok_or(DecodeError::Truncated)?;
        at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\')).ok_or(DecodeError::Truncated)?;
        if from[at] == b'"' {
            return Ok((at, escapes));
        }
        escapes = true;
        at += 2;
    }
}

/// A short string's value. Without escapes it is read in place.
fn short<T>(from: &mut Bytes, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
    let (length, escapes) = string_ahead(from)?;
    let value = if escapes { read(&unescape(&from[..length])?) } else { read(&from[..length]) };
    from.advance(length + 1);
    value
}

const BROKEN: DecodeError = DecodeError::Malformed("an escape that JSON doesn't have");

/// The four hexadecimal digits that `rest` begins with.
fn unit(rest: &mut &[u8]) -> Result<u32> {
    let (digits, after) = rest.split_first_chunk::<4>().ok_or(BROKEN)?;
    *rest = after;
    digits.iter().try_fold(0, |value, digit| Ok(value << 4 | char::from(*digit).to_digit(16).ok_or(BROKEN)?))
}

fn unescape(raw: &[u8]) -> Result<Bytes> {
    let mut text = Vec::new();
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        text.extend_from_slice(&rest[..at]);
        let (escape, after) = rest[at + 1..].split_first().ok_or(BROKEN)?;
        rest = after;
        text.push(match escape {
            b'"' | b'\\' | b'/' => *escape,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let mut code = unit(&mut rest)?;
                if (0xd800..0xdc00).contains(&code) {
                    rest = rest.strip_prefix(b"\\u").ok_or(BROKEN)?;
                    let low = Some(unit(&mut rest)?).filter(|low| (0xdc00..0xe000).contains(low));
                    code = 0x1_0000 + ((code - 0xd800) << 10) + (low.ok_or(BROKEN)? - 0xdc00);
                }
                let found = char::from_u32(code).ok_or(BROKEN)?;
                text.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return Err(BROKEN),
        });
    }
    text.extend_from_slice(rest);
    Ok(text.into())
}

/// A string that holds base64.
pub(crate) fn base64(from: &mut Bytes) -> Result<Bytes> {
    let text = string(from)?;
    BASE64.decode(&text).map(Bytes::from).map_err(|_| DecodeError::Malformed("binary that isn't base64"))
}

const NOT_WHOLE: DecodeError = DecodeError::Malformed("not a whole number of 64 bits");

/// A whole number.
pub(crate) fn integer(from: &mut Bytes) -> Result<i64> {
    peek(from)?;
    let (value, length) = digits(from)?;
    from.advance(length);
    Ok(value)
}

/// The number that `bytes` begin with, and how many bytes it has.
fn digits(bytes: &[u8]) -> Result<(i64, usize)> {
    let digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'-';
    let length = bytes.iter().take(MAX_NUMBER_BYTES).take_while(digit).count();
    let text = std::str::from_utf8(&bytes[..length]).map_err(|_| NOT_WHOLE)?;
    Ok((text.parse().map_err(|_| NOT_WHOLE)?, length))
}

/// A field's id. It is an object's key, so it is quoted.
pub(crate) fn quoted_integer(from: &mut Bytes) -> Result<i64> {
    const NO_ID: DecodeError = DecodeError::Malformed("not a field's id");
    // A bad id is malformed, never a message that ends too early: the text in quotes is complete.
    short(from, |text| {
        let text = &text[space(text)..];
        match digits(text) {
            Ok((value, length)) if length == text.len() => Ok(value),
            _ => Err(NO_ID),
        }
    })
}

/// A type's name.
pub(crate) fn kind(from: &mut Bytes) -> Result<TType> {
    short(from, type_of)
}

/// Skips any value.
pub(crate) fn skip(from: &mut Bytes) -> Result<()> {
    match peek(from)? {
        b'[' | b'{' => {
            let end = Brackets::default().end(from, MAX_SKIPPED_BRACKETS)?;
            from.advance(end.ok_or(DecodeError::Truncated)?);
            Ok(())
        }
        b'"' => string(from).map(drop),
        _ => {
            let number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
            let length = from.iter().take(MAX_NUMBER_BYTES).take_while(number).count();
            if length == 0 {
                return Err(DecodeError::Malformed("not a value"));
            }
            from.advance(length);
            Ok(())
        }
    }
}

/// The end of the message that `buffer` begins with.
pub(crate) fn message_end(brackets: &mut Brackets, buffer: &[u8]) -> Result<Option<usize>> {
    brackets.end(buffer, MAX_BRACKETS)
}

/// Writes a string.
pub(crate) fn put_string(to: &mut BytesMut, bytes: &[u8]) {
    to.put_u8(b'"');
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, 0..0x20 | b'"' | b'\\')) {
        to.put_slice(&rest[..at]);
        match rest[at] {
            mark @ (b'"' | b'\\') => to.put_slice(&[b'\\', mark]),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                to.put_slice(b"\\u00");
                to.put_slice(&[HEX[usize::from(control >> 4)], HEX[usize::from(control & 15)]]);
            }
        }
        rest = &rest[at + 1..];
    }
    to.put_slice(rest);
    to.put_u8(b'"');
}

/// Writes bytes as base64.
pub(crate) fn put_base64(to: &mut BytesMut, bytes: &[u8]) {
    to.put_u8(b'"');
    let start = to.len();
    to.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The space is exact, since base64 is written with padding.
    let written = BASE64.encode_slice(bytes, &mut to[start..]).unwrap_or(0);
    to.truncate(start + written);
    to.put_u8(b'"');
}

/// Writes a number.
pub(crate) fn put_integer(to: &mut BytesMut, value: i64) {
    /// Digits of an i64, and its sign.
    const MOST: usize = 20;
    let mut text = [0; MOST];
    let mut at = MOST;
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        text[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    to.put_slice(&text[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<Bytes> {
        string(&mut Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn escapes_are_read_and_half_surrogates_refused() {
        assert_eq!(read(r#""a\/\u00e4\n\ud83d\ude00\\""#).unwrap(), "a/\u{e4}\n\u{1f600}\\");
        for broken in [
            r#""\ud83d""#,
            r#""\ud83d\u0041""#,
            r#""\ud83d\uffff""#,
            r#""\u+123""#,
            r#""\udc00""#,
            r#""\u12""#,
            r#""\x""#,
        ] {
            assert!(matches!(read(broken), Err(DecodeError::Malformed(_))), "{broken}");
        }
        assert_eq!(read(r#""cut\"#), Err(DecodeError::Truncated));
    }

    #[test]
    fn a_key_without_a_number_is_malformed_and_not_cut_short() {
        for key in [r#""""#, r#"" ""#, r#""-""#, r#""1x""#] {
            let read = quoted_integer(&mut Bytes::from_static(key.as_bytes()));
            assert!(matches!(read, Err(DecodeError::Malformed(_))), "{key}");
        }
        assert_eq!(quoted_integer(&mut Bytes::from_static(b"\"1")), Err(DecodeError::Truncated));
    }

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for value in [0, 7, -1, 10, -305, i64::MAX, i64::MIN, i64::MIN + 1] {
            let mut text = BytesMut::new();
            put_integer(&mut text, value);
            assert_eq!(text, value.to_string());
            assert_eq!(integer(&mut text.freeze()), Ok(value));
        }
    }

    #[test]
    fn types_have_one_name_each() {
        use TType::*;
        for kind in [Bool, I8, Double, I16, I32, I64, String, Struct, Map, Set, List] {
            assert_eq!(type_of(type_name(kind).as_bytes()), Ok(kind));
        }
        assert_eq!(super::kind(&mut Bytes::from_static(br#""\u0073tr":"#)), Ok(String), "with an escape");
    }

    #[test]
    fn base64_is_read_with_and_without_padding() {
        for text in [r#""AQ==""#, r#""AQ""#] {
            assert_eq!(base64(&mut Bytes::from_static(text.as_bytes())).unwrap(), [1][..]);
        }
    }

    #[test]
    fn brackets_are_bounded_and_matched() {
        let end = |text: &[u8]| message_end(&mut Brackets::default(), text);
        assert_eq!(end(br#"[{"]":"\"]"}] "#), Ok(Some(13)));
        assert_eq!(end(b"\r\n [1] "), Ok(Some(6)));
        assert!(matches!(end(b"\"[]\""), Err(DecodeError::Malformed(_))));
        assert!(matches!(end(b"[}"), Err(DecodeError::Malformed(_))));
        assert_eq!(end(&[b'['; MAX_BRACKETS as usize]), Ok(None));
        assert_eq!(end(&[b'['; MAX_BRACKETS as usize + 1]), Err(DecodeError::TooDeep));
        assert!(matches!(end(b"[\xff"), Err(DecodeError::Malformed(_))));
    }
}
