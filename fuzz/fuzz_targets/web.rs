//! The words of HTTP requests: any text is a value or an error, and each value keeps its promises.
//! Input: a byte that picks the word, then its text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::time::{Duration, SystemTime};
use strait_web::{
    Conditions, ContentRange, EntityTag, Fields, Framing, Host, Part, Query, Range, State, encode_path, path,
};

fuzz_target!(|data: &[u8]| {
    let Some((word, bytes)) = data.split_first() else { return };
    if word % 7 == 6 {
        return framing(bytes);
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match word % 7 {
        0 => target(text),
        1 => query(text),
        2 => range(text),
        3 => drop(ContentRange::parse(text).map(|range| {
            assert!(range.length > 0);
            assert!(range.whole.is_none_or(|whole| range.first + range.length <= whole));
        })),
        4 => conditions(text),
        _ => {
            if let Some(Host::Name(name)) = Host::parse(text) {
                assert!(text.starts_with(name) && !name.contains(':'));
            }
        }
    }
});

/// Passes the bytes of a connection at once, and then in pieces of 1 to 256 bytes: the first byte sets that
/// length. Both must pass equally many bytes.
fn framing(bytes: &[u8]) {
    const MOST: usize = 1 << 10;
    let Some((size, bytes)) = bytes.split_first() else { return };
    let (mut whole, mut passed) = (Framing::new(MOST), 0);
    while let Ok(count @ 1..) = whole.pass(&bytes[passed..]) {
        passed += count;
    }
    let (mut bitten, mut done, mut end) = (Framing::new(MOST), 0, 0);
    while end < bytes.len() {
        end = (end + 1 + usize::from(*size)).min(bytes.len());
        let Ok(count) = bitten.pass(&bytes[done..end]) else { break };
        done += count;
    }
    assert_eq!(passed, done);
}

fn target(text: &str) {
    let Ok(decoded) = path(text) else { return };
    assert!(decoded.len() <= text.len() && !decoded.contains(&0));
    let slashes = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'/').count();
    assert_eq!(slashes(&decoded), slashes(text.as_bytes()), "a decoded slash");
    if let Ok(decoded) = std::str::from_utf8(&decoded) {
        assert_eq!(path(&encode_path(decoded)).as_deref(), Ok(decoded.as_bytes()));
    }
}

fn query(text: &str) {
    let Ok(mut query) = Query::parse(Some(text)) else { return };
    let _ = (query.number("limit"), query.switch("recursive"), query.take("after"));
    if query.end().is_ok() {
        assert_eq!(query, Query::default());
    }
}

fn range(text: &str) {
    let Some(range) = Range::parse(text) else { return };
    for length in [0, 1, 10, u64::MAX] {
        if let Part::Bytes(from, to) = range.of(length) {
            assert!(from < to && to <= length);
        }
    }
}

/// The lines of the text are the fields.
fn conditions(text: &str) {
    let mut lines = text.split('\n').map(Some);
    let mut next = || lines.next().flatten().filter(|line| !line.is_empty());
    let fields = Fields {
        if_match: next(),
        if_none_match: next(),
        if_modified_since: next(),
        if_unmodified_since: next(),
        if_range: next(),
    };
    let Ok(conditions) = Conditions::parse(&fields) else { return };
    let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
    let state = State { tag: EntityTag("a".to_owned()), modified };
    for current in [None, Some(&state)] {
        for is_query in [false, true] {
            let verdict = conditions.decide(current, is_query);
            assert!(!conditions.are_none() || verdict == strait_web::Verdict::Go);
        }
    }
    conditions.allow_range(&state, modified + Duration::from_secs(60));
}
