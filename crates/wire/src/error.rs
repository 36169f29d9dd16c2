//! Errors of scanning and decoding.

use crate::TType;

/// The reason why bytes aren't a message of the interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside a value.
    #[error("the message ends too early")]
    Truncated,
    /// The message claims more than the limit.
    #[error("a length of {claimed} is claimed, but the limit is {limit} bytes")]
    TooLong {
        /// The claimed size, in bytes or elements.
        claimed: u64,
        /// The limit in force, in bytes.
        limit: usize,
    },
    /// A list has more elements than the limit.
    #[error("a list of {claimed} elements, but the limit is {limit}")]
    TooManyElements {
        /// The announced number.
        claimed: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A negative length or count.
    #[error("a negative length")]
    NegativeSize,
    /// Nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("the message is nested too deeply")]
    TooDeep,
    /// No such type.
    #[error("unknown type code {0}")]
    UnknownType(u8),
    /// A known field has another type than the interface says.
    #[error("field {field} of {name} has type {found:?}, but {expected:?} is expected")]
    WrongFieldType {
        /// The struct.
        name: &'static str,
        /// The field's id.
        field: i16,
        /// The interface's type.
        expected: TType,
        /// The message's type.
        found: TType,
    },
    /// A list's elements have another type than the interface says.
    #[error("a list of {found:?}, but {expected:?} is expected")]
    WrongElementType {
        /// The interface's type.
        expected: TType,
        /// The message's type.
        found: TType,
    },
    /// A mandatory field is missing.
    #[error("field {field} of {name} is missing")]
    MissingField {
        /// The struct.
        name: &'static str,
        /// The field's name.
        field: &'static str,
    },
    /// Text that isn't UTF-8.
    #[error("a string isn't UTF-8")]
    NotUtf8,
    /// Any other bytes that aren't Thrift.
    #[error("not a Thrift message: {0}")]
    Malformed(&'static str),
}
