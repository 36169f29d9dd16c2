//! A connection's bytes, as they trickle in: which wire, and where each message
//! ends. Input: one byte that picks the size of the pieces, then the bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strait_wire::{Scan, Scanner, Sniff, sniff};

/// Small, so that the limit is met often.
const MAX_BYTES: usize = 4 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((piece, bytes)) = data.split_first() else { return };
    let verdict = sniff(bytes);
    for end in 0..bytes.len().min(8) {
        let early = sniff(&bytes[..end]);
        assert!(early == Sniff::NeedMore || early == verdict, "more bytes changed the verdict");
    }
    let Sniff::Thrift(wire) = verdict else { return };

    let whole = Scanner::new(wire, MAX_BYTES).scan(bytes);
    let mut scanner = Scanner::new(wire, MAX_BYTES);
    let mut end = 0;
    loop {
        let found = scanner.scan(&bytes[..end]);
        match &found {
            Ok(Scan::NeedMore(at_least)) => {
                assert!(*at_least > end, "what is there already is asked for again");
                assert!(*at_least <= MAX_BYTES + 4, "more is asked for than the limit");
            }
            Ok(Scan::Complete { start, end: message_end }) => {
                assert!(start < message_end && *message_end <= end);
            }
            Err(_) => {}
        }
        if end == bytes.len() || !matches!(found, Ok(Scan::NeedMore(_))) {
            assert_eq!(found, whole, "in pieces and whole give different answers");
            return;
        }
        end = bytes.len().min(end + 1 + usize::from(*piece));
    }
});
