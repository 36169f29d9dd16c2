//! Names that aren't UTF-8, as text.
//!
//! Paths are text here and on every wire, but on Linux a name is bytes. In the text, a private-use
//! character represents each byte that isn't UTF-8: U+10FE00 + `b` stands for byte `b` (0x80 to
//! 0xff). If a name really contains such a character, its four bytes are represented in this way,
//! too. So every name has exactly one text, which gives the name's bytes back. A UTF-8 name is its
//! own text.

use std::borrow::Cow;

/// The escapes begin at U+10FE00, to which the byte is added.
const ESCAPES: u32 = 0x10_fe00;

/// A name's or path's text.
pub fn encode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(is_escape) => return Cow::Borrowed(text),
        _ => {}
    }
    let mut text = String::with_capacity(bytes.len() * 2);
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match is_escape(character) {
                true => text.extend(character.encode_utf8(&mut [0; 4]).bytes().filter_map(escape)),
                false => text.push(character),
            }
        }
        text.extend(chunk.invalid().iter().copied().filter_map(escape));
    }
    Cow::Owned(text)
}

/// The bytes of a name or path. None if no name has this text.
pub fn decode(text: &str) -> Option<Cow<'_, [u8]>> {
    if !text.contains(is_escape) {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match is_escape(character) {
            true => bytes.push((character as u32 - ESCAPES) as u8),
            false => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    (encode(&bytes) == text).then_some(Cow::Owned(bytes))
}

fn is_escape(character: char) -> bool {
    (ESCAPES + 0x80..=ESCAPES + 0xff).contains(&(character as u32))
}

fn escape(byte: u8) -> Option<char> {
    char::from_u32(ESCAPES + u32::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_stays_as_it_is() {
        for text in ["", "/a/grüße", "a\n\u{fffd}\u{10fe7f}\u{10ff00}"] {
            assert!(matches!(encode(text.as_bytes()), Cow::Borrowed(same) if same == text));
            assert_eq!(decode(text).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn a_byte_that_is_no_utf8_is_a_character_of_its_own() {
        assert_eq!(encode(b"a\xffb"), "a\u{10feff}b");
        assert_eq!(decode("a\u{10feff}b").unwrap(), &b"a\xffb"[..]);
    }

    #[test]
    fn no_two_texts_mean_one_name() {
        // These escapes spell "ü", which has a text of its own.
        assert_eq!(decode("\u{10fec3}\u{10febc}"), None);
        let escape = "\u{10feff}".as_bytes();
        let text = encode(escape);
        assert_eq!(text, "\u{10fef4}\u{10fe8f}\u{10febb}\u{10febf}");
        assert_eq!(decode(&text).unwrap(), escape);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = encode(&bytes).into_owned();
            let decoded = decode(&text).unwrap().into_owned();
            prop_assert_eq!(decoded, bytes);
        }
    }
}
