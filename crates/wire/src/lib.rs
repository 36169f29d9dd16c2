//! Strait's Thrift interface as bytes.
//!
//! ```text
//!   first bytes ─ sniff ─→ Wire {binary|unversioned|compact|JSON × framed|unframed}
//!   bytes so far ─ Scanner ─→ need more | message of n bytes | error      (its memory doesn't grow)
//!   message ─ Decoder ─→ Call (server) or Reply (client)
//!   Reply or Call ─ Encoder ─→ Encoded: a few segments, payloads not copied
//! ```
//!
//! Pure: bytes in, values out. No sockets, no threads, no clocks, so fuzzing covers all of it. The
//! server (`strait-gateway`) and the `strait://` client both use it, and `tests/schema.rs` checks
//! every message here against `idl/dfs.thrift`.
//!
//! This room must never: allocate by a size that a message claims before that many bytes have
//! arrived; panic on any input; know a method's purpose.
//!
//! Sources: the Apache Thrift specifications "Thrift Binary protocol encoding"
//! and "Thrift Compact protocol encoding"; for JSON, TJSONProtocol of its libraries.

mod call;
mod decode;
mod dfs;
mod encode;
mod error;
mod json;
mod legacy;
mod scan;
mod sniff;
mod value;

pub use call::*;
pub use decode::Decoder;
pub use dfs::*;
pub use encode::{Encoded, Encoder};
pub use error::DecodeError;
pub use legacy::*;
pub use scan::{Scan, Scanner};
pub use sniff::{Sniff, sniff};
pub use value::{FieldSchema, Secret, Struct, Text, Value, read_as};

/// Deepest nesting of a message. The interface itself needs 5. The rest leaves room for unknown
/// fields of newer clients, but a hostile message can't exhaust the stack.
pub const MAX_DEPTH: usize = 32;

/// The encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TBinaryProtocol, strict: each message begins with a version word.
    Binary,
    /// TBinaryProtocol, not strict: a message begins with its method's name, as with the first
    /// Thrift compilers. Answers have the same form, since clients of that age accept no other.
    Unversioned,
    /// TCompactProtocol.
    Compact,
    /// TJSONProtocol.
    Json,
}

/// The protocol and framing of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wire {
    /// The encoding.
    pub protocol: Protocol,
    /// Whether each message has its length, four bytes big-endian, before it
    /// (TFramedTransport).
    pub framed: bool,
}

impl Wire {
    /// All combinations of protocol and framing.
    pub const ALL: [Self; 8] = [
        Self { protocol: Protocol::Binary, framed: true },
        Self { protocol: Protocol::Binary, framed: false },
        Self { protocol: Protocol::Unversioned, framed: true },
        Self { protocol: Protocol::Unversioned, framed: false },
        Self { protocol: Protocol::Compact, framed: true },
        Self { protocol: Protocol::Compact, framed: false },
        Self { protocol: Protocol::Json, framed: true },
        Self { protocol: Protocol::Json, framed: false },
    ];
}

/// Thrift's types, with their numbers on the binary wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // the names say it
pub enum TType {
    Bool = 2,
    I8 = 3,
    Double = 4,
    I16 = 6,
    I32 = 8,
    I64 = 10,
    String = 11,
    Struct = 12,
    Map = 13,
    Set = 14,
    List = 15,
}

impl TType {
    fn from_binary(code: u8) -> Option<Self> {
        use TType::*;
        [Bool, I8, Double, I16, I32, I64, String, Struct, Map, Set, List]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }

    /// The type that has this code in the compact protocol. `Bool` has two codes, 1 and 2.
    fn from_compact(code: u8) -> Option<Self> {
        use TType::*;
        const BY_CODE: [TType; 12] = [Bool, Bool, I8, I16, I32, I64, Double, String, List, Set, Map, Struct];
        BY_CODE.get(usize::from(code).checked_sub(1)?).copied()
    }

    /// The type's code in the compact protocol. For `Bool` it is the code of `true`, which is also the
    /// element type of a list of bools.
    fn compact(self) -> u8 {
        use TType::*;
        match self {
            Bool => 1,
            I8 => 3,
            I16 => 4,
            I32 => 5,
            I64 => 6,
            Double => 7,
            String => 8,
            List => 9,
            Set => 10,
            Map => 11,
            Struct => 12,
        }
    }
}
