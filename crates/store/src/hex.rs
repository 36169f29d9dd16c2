//! Bytes as text, two lower-case digits each.

/// `bytes` as hex digits.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes of `text`; None if it isn't hex.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_reverses_encode_and_refuses_other_text() {
        assert_eq!(encode(&[0, 0x7f, 0xff]), "007fff");
        assert_eq!(decode("007fFF").unwrap(), [0, 0x7f, 0xff]);
        assert!(decode("0").is_none() && decode("0g").is_none() && decode("\u{e9}").is_none());
    }
}
