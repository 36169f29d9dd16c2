//! A message that has every type of the language. Borrowed and shared decoding agree on it. If it
//! decodes, the value encodes to the same bytes.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use strait_idl_tests::types::Everything;
use strait_xdr::{from_bytes, from_shared, to_vec};

fuzz_target!(|data: &[u8]| {
    let shared = from_shared::<Everything>(Bytes::copy_from_slice(data));
    match from_bytes::<Everything>(data) {
        Ok(value) => {
            assert!(shared.is_ok(), "shared is refused, borrowed is not");
            assert_eq!(to_vec(&value).as_deref(), Ok(data), "it was encoded in another way");
        }
        Err(error) => assert_eq!(shared.err(), Some(error)),
    }
});
