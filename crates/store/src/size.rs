//! Numbers of bytes, as people and Hadoop's configuration write them.

/// Units of 1,024 each, by their first letters.
const UNITS: &str = "kmgtpe";

/// The bytes that `text` means: a number, perhaps with one of the units k, m, g, t, p, e, in upper or lower
/// case. None if `text` has another form, or the number is too large.
pub fn bytes(text: &str) -> Option<u64> {
    let unit = text.chars().last()?.to_ascii_lowercase();
    let (number, shift) = match UNITS.find(unit) {
        Some(index) => (&text[..text.len() - 1], 10 * (index as u32 + 1)),
        None => (text, 0),
    };
    // A number has no sign here, but `parse` would accept one.
    let is_plain = number.bytes().all(|digit| digit.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(1 << shift)
}

/// As [`bytes()`], but the unit may also have the form `64MiB`, `64Mi` or `64MB`, or be `B`.
pub fn bytes_of_person(text: &str) -> Option<u64> {
    let end = |text: &str, letter: u8| {
        text.as_bytes().last().is_some_and(|last| last.eq_ignore_ascii_case(&letter))
    };
    let text = if end(text, b'b') { &text[..text.len() - 1] } else { text };
    if !end(text, b'i') {
        return bytes(text);
    }
    let text = &text[..text.len() - 1];
    if text.ends_with(|last: char| last.is_ascii_digit()) { None } else { bytes(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_bytes_may_have_a_unit() {
        for (text, wanted) in [
            ("134217728", Some(128 << 20)),
            ("128m", Some(128 << 20)),
            ("128M", Some(128 << 20)),
            ("0", Some(0)),
            ("4k", Some(4 << 10)),
            ("1g", Some(1 << 30)),
            ("15e", Some(15 << 60)),
            ("16e", None),
            ("18446744073709551616", None),
            ("m", None),
            ("-1m", None),
            ("+1m", None),
            ("1 m", None),
            ("1.5m", None),
            ("1mm", None),
            ("ü", None),
            ("", None),
        ] {
            assert_eq!((bytes(text), bytes_of_person(text)), (wanted, wanted), "{text:?}");
        }
    }

    #[test]
    fn a_person_may_write_a_unit_in_full() {
        for (text, wanted) in [
            ("64mib", Some(64 << 20)),
            ("64MiB", Some(64 << 20)),
            ("64Mi", Some(64 << 20)),
            ("64MB", Some(64 << 20)),
            ("512B", Some(512)),
            ("512i", None),
            ("512ib", None),
            ("64bb", None),
            ("b", None),
            ("ib", None),
            ("üb", None),
        ] {
            assert_eq!(bytes_of_person(text), wanted, "{text:?}");
            assert_eq!(bytes(text), None, "{text:?}");
        }
    }
}
