//! Floor 0: XDR, the External Data Representation of RFC 4506.
//!
//! ```text
//!   value ─ Encode ─→ Encoder ─→ Encoded: small things in one buffer,
//!                                 large opaques as slices of the value
//!   &[u8] ─ Decoder ─→ value that borrows its opaques from the message   (server)
//!   Bytes ─ Decoder ─→ value that shares its opaques with the message    (client)
//! ```
//!
//! Code that `frpcgen` writes stands on it; nothing here knows of calls. One
//! value has one encoding, and nothing else decodes to it: padding must be zero,
//! a bool 0 or 1, an enum one of its values, a `char` or `short` in its range,
//! and nothing may follow. RFC 4506 says so of what is sent; libtirpc doesn't
//! check it on receipt, we do, so that equal values mean equal checksums.
//!
//! This crate must never: take memory by a length that a message only claims;
//! panic on any input; let nesting exhaust the stack; copy a large opaque.
#![forbid(unsafe_code)]

mod decode;
mod encode;
mod error;
mod nesting;
mod numbers;
mod opaque;
mod text;

pub use decode::{Decode, Decoder, from_bytes, from_shared};
pub use encode::{Encode, Encoded, Encoder, to_vec};
pub use error::{DecodeError, EncodeError, Problem};
pub use numbers::Number;
pub use opaque::Opaque;
pub use text::Text;

pub use bytes::Bytes;

/// Everything in XDR is a multiple of so many bytes (RFC 4506, section 3).
pub const UNIT_BYTES: usize = 4;

/// Deepest nesting of a type that contains itself. Lists don't nest: they decode
/// into a `Vec`.
pub const MAX_DEPTH: u32 = 128;

/// Most bytes in memory of values that are nested in each other, what they point to
/// aside; one of many small fields counts as [`FIELD_BYTES`] of each. Decoding has all of
/// them on the stack, some four times over. Without optimisation a level takes eight times
/// its size, 180 bytes for each field and 1 KiB, as measured: 1.4 MiB at most, so it fits
/// into a thread's 2 MiB. It is each program's own bound, no part of the protocol: what one
/// encodes, another build may refuse. Types of up to 512 bytes and 32 fields reach [`MAX_DEPTH`].
pub const MAX_NESTED_BYTES: usize = 64 << 10;

/// What a field counts at least: however small, it takes a place for its result and for its
/// error, and without optimisation each field has places of its own.
pub const FIELD_BYTES: usize = 16;

/// The limit of a length for which none is declared.
pub const UNLIMITED: u32 = u32::MAX;
