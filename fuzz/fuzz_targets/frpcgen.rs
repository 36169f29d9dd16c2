//! A source in the RPC language: an error, or code that parses as Rust, which
//! the compiler itself checks. Twice, since one input has one output.
#![no_main]

use frpcgen::Builder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(source) = str::from_utf8(data) else { return };
    let compile = || Builder::default().generate_from("fuzz.x", source).map_err(|error| error.to_string());
    let result = compile();
    if let Err(error) = &result {
        assert!(!error.contains("please report"), "{error}");
    }
    assert_eq!(result, compile());
});
