//! XDR, the External Data Representation of RFC 4506.
//!
//! ```text
//!   value ─ Encode ─→ Encoder ─→ Encoded: small values in one buffer,
//!                                 large opaques as slices of the value
//!   &[u8] ─ Decoder ─→ value that borrows its opaques from the message   (server)
//!   Bytes ─ Decoder ─→ value that shares its opaques with the message    (client)
//! ```
//!
//! The code that `frpcgen` generates uses this crate. The crate doesn't know about calls. Each value has
//! exactly one encoding, and other bytes don't decode to it: padding must be zero, a bool 0 or 1, an enum one
//! of its values, a `char` or `short` within its range, and the message must end after the value. RFC 4506
//! requires this of senders. libtirpc doesn't check it on receipt. This crate does, so that equal values have
//! equal checksums.
//!
//! This crate must never: allocate by a length that a message only claims; panic on any input; let nesting
//! exhaust the stack; copy a large opaque.
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

/// The size of each XDR item is a multiple of this (RFC 4506, section 3).
pub const UNIT_BYTES: usize = 4;

/// Deepest nesting of a type that contains itself. Lists don't nest: they decode
/// into a `Vec`.
pub const MAX_DEPTH: u32 = 128;

/// Most bytes in memory of values nested in each other, without the memory that their pointers refer to. A
/// value with many small fields counts as [`FIELD_BYTES`] for each field.
///
/// Decoding has all of these values on the stack, some in four copies. Without optimisation, a level takes
/// eight times its size, plus 180 bytes for each field, plus 1 KiB (measured). That is at most 1.4 MiB, which
/// fits into a thread's 2 MiB. The bound belongs to the program, not to the protocol: another build can
/// refuse values that this one encodes. Types of up to 512 bytes and 32 fields reach [`MAX_DEPTH`].
pub const MAX_NESTED_BYTES: usize = 64 << 10;

/// Bytes that each field counts at least. Even a small field takes stack for its result and for its error,
/// and without optimisation each field has its own places for them.
pub const FIELD_BYTES: usize = 16;

/// The limit of a length if the interface declares none.
pub const UNLIMITED: u32 = u32::MAX;
