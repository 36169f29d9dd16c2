//! The C decoders that frpcgen writes, on libflexrpc, under sanitizers: they read no byte beyond a message,
//! leak nothing, and take the memory that docs/flexrpc-c.md allows; what decodes is encoded again.
//! `c/harness.c` makes these claims.
#![no_main]

use flexrpc as _;
use libfuzzer_sys::fuzz_target;

#[link(name = "c_harness", kind = "static")]
unsafe extern "C" {
    fn c_stubs_try(input: *const u8, length: usize);
}

// The order counts: the harness needs the stubs, and gcc's sanitizers must come before the C library.
#[link(name = "c_stubs", kind = "static")]
#[link(name = "asan")]
#[link(name = "ubsan")]
unsafe extern "C" {}

fuzz_target!(|data: &[u8]| {
    // SAFETY: it reads at most `length` bytes from `input`.
    unsafe { c_stubs_try(data.as_ptr(), data.len()) }
});
