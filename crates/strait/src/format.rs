//! Formats values for people, in the manner of `ls` and `hdfs dfs`.

use chrono::{DateTime, Local, Utc};
use std::borrow::Cow;
use strait_store::FileStatus;

/// `drwxr-xr-x`, with `t`, `s` and their capitals if those bits are set.
pub fn permission(status: &FileStatus) -> String {
    let bits = status.permission;
    let mut text = String::with_capacity(10);
    text.push(if status.is_directory() { 'd' } else { '-' });
    // For owner, group, others: the shift, the special bit, its letter.
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let class = bits >> shift;
        text.push(if class & 4 != 0 { 'r' } else { '-' });
        text.push(if class & 2 != 0 { 'w' } else { '-' });
        text.push(match (class & 1 != 0, bits & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// Bytes, for people: `812`, `1.5K`, `64.0M`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1_024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    // A value that would print as 1024.0 belongs to the next unit.
    while value >= 1_023.95 && unit + 1 < UNITS.len() {
        value /= 1_024.0;
        unit += 1;
    }
    format!("{value:.1}{}", UNITS[unit])
}

/// `2009-06-30 17:05`, in local time.
pub fn local_minute(ms: i64) -> String {
    match DateTime::<Utc>::from_timestamp_millis(ms) {
        Some(time) => time.with_timezone(&Local).format("%Y-%m-%d %H:%M").to_string(),
        None => ms.to_string(),
    }
}

/// `2009-06-30 17:05:59`, in UTC.
pub fn utc_second(ms: i64) -> String {
    match DateTime::<Utc>::from_timestamp_millis(ms) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S").to_string(),
        None => ms.to_string(),
    }
}

/// Text without characters that could manipulate a terminal: control characters, line separators
/// and marks that change the order in which a line is shown. Each is spelled as in Rust: `\n`,
/// `\u{1b}`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(strait_telemetry::misleads) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match strait_telemetry::misleads(c) {
            true => plain.extend(c.escape_default()),
            false => plain.push(c),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use strait_store::FileType;

    #[test]
    fn sizes_have_one_digit_after_the_point() {
        for (bytes, text) in [
            (0, "0"),
            (1_023, "1023"),
            (1_024, "1.0K"),
            (1_536, "1.5K"),
            (64 << 20, "64.0M"),
            ((1 << 20) - 1, "1.0M"),
            (u64::MAX, "16.0E"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(escaped("a\x1b[2J\n\u{9b}\u{7f} ü"), "a\\u{1b}[2J\\n\\u{9b}\\u{7f} ü");
        assert_eq!(escaped("a\u{202e}b\u{2028}c\u{2066}"), "a\\u{202e}b\\u{2028}c\\u{2066}");
    }

    #[test]
    fn permissions_look_as_ls_shows_them() {
        let with = |permission, file_type| {
            permission_of(FileStatus {
                path: "/x".into(),
                file_type,
                length: 0,
                replication: 1,
                block_size: 0,
                modified_ms: 0,
                accessed_ms: 0,
                permission,
                owner: String::new(),
                group: String::new(),
                link: false,
            })
        };
        assert_eq!(with(0o755, FileType::Directory), "drwxr-xr-x");
        assert_eq!(with(0o640, FileType::File), "-rw-r-----");
        assert_eq!(with(0o1777, FileType::Directory), "drwxrwxrwt");
        assert_eq!(with(0o7000, FileType::File), "---S--S--T");
    }

    fn permission_of(status: FileStatus) -> String {
        permission(&status)
    }
}
