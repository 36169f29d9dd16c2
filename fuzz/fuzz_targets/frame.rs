//! FlexRPC's frames: heads, extensions, outcomes of chains. Input: one byte that
//! picks the reader, then its bytes. A message that was read must be written the same.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use strait_flexrpc::proto::chain::{decode_outcomes, encode_outcomes};
use strait_flexrpc::proto::extension::Extension;
use strait_flexrpc::proto::frame::{HEAD_BYTES, Head, MAGIC, VERSION};

fuzz_target!(|data: &[u8]| {
    let Some((selector, rest)) = data.split_first() else { return };
    match selector {
        0 => drop(Head::decode(rest)),
        1 => head(rest),
        2 => extension(rest),
        count => outcomes(Bytes::copy_from_slice(rest), usize::from(count - 2)),
    }
});

/// A head whose checksum holds, which a fuzzer hardly finds by itself.
fn head(fields: &[u8]) {
    let Some(fields) = fields.get(..HEAD_BYTES) else { return };
    let mut bytes = fields.to_vec();
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[8..14].fill(0);
    let crc = crc32c::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&crc.to_be_bytes());
    if let Ok(head) = Head::decode(&bytes) {
        let head = head.expect("all of its bytes are there");
        assert_eq!(head.encode(&[]), bytes);
    }
}

fn extension(bytes: &[u8]) {
    if let Ok(extension) = Extension::decode(bytes) {
        assert_eq!(Extension::decode(&extension.encode()), Ok(extension));
    }
}

fn outcomes(bytes: Bytes, count: usize) {
    if let Ok(outcomes) = decode_outcomes(&bytes, count) {
        let again = Bytes::from(encode_outcomes(&outcomes));
        assert_eq!(decode_outcomes(&again, count), Ok(outcomes));
    }
}
