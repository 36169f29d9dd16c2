//! XDR, the External Data Representation of RFC 4506.
//!
//! ```text
//!   value ─ Encode ─→ Encoder ─→ Encoded: small things in one buffer,
//!                                 large opaques as slices of the value
//!   &[u8] ─ Decoder ─→ value that borrows its opaques from the message   (server)
//!   Bytes ─ Decoder ─→ value that shares its opaques with the message    (client)
//! ```
//!
//! The code that `frpcgen` generates uses this crate, which knows nothing of calls. Each value has
//! one encoding, and nothing else decodes to it: padding must be zero, a bool 0 or 1, an enum one
//! of its values, a `char` or `short` in its range, and no byte may follow. RFC 4506 demands this
//! of senders. libtirpc doesn't check it on receipt; this crate does, so that equal values mean
//! equal checksums.
//!
//! This crate must never allocate by a length that a message only claims; panic on any input; let
//! nesting exhaust the stack; or copy a large opaque.
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

/// Every XDR item is a multiple of so many bytes (RFC 4506, section 3).
pub const UNIT_BYTES: usize = 4;

/// Deepest nesting of a type that contains itself. Lists don't nest: they decode
/// into a `Vec`.
pub const MAX_DEPTH: u32 = 128;

/// Most bytes in memory of nested values, without those behind their pointers. A value of many
/// small fields counts as [`FIELD_BYTES`] for each. Decoding holds all of them on the stack, some
/// four times over. Without optimisation a level takes eight times its size, 180 bytes for each
/// field, and 1 KiB, as measured. That is 1.4 MiB at most, so it fits a thread's 2 MiB. The bound
/// belongs to each program and not to the protocol: another build may refuse values that one
/// encodes. Types of up to 512 bytes and 32 fields reach [`MAX_DEPTH`].
pub const MAX_NESTED_BYTES: usize = 64 << 10;

/// Least count of a field. Even a small one takes a place for its result and one for its error, and
/// without optimisation each field has its own.
pub const FIELD_BYTES: usize = 16;

/// The limit of a length without a declared one.
pub const UNLIMITED: u32 = u32::MAX;
