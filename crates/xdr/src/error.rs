//! Errors of decoding bytes and of encoding values.

#[cfg(doc)]
use crate::{MAX_DEPTH, MAX_NESTED_BYTES};
use std::error::Error;
use std::fmt;

/// The reason why bytes aren't a value of the requested type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The problem.
    pub problem: Problem,
    /// Number of correct bytes before it.
    pub offset_bytes: usize,
}

/// A problem with the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes end inside a value, or claim more elements than they can have.
    Truncated,
    /// The bytes continue after the value.
    Trailing {
        /// Number of further bytes.
        bytes: usize,
    },
    /// A length beyond the declared limit.
    TooLong {
        /// The length in the message, in bytes or elements.
        length: u32,
        /// The declared limit.
        limit: u32,
    },
    /// A bool that is neither 0 nor 1.
    NotABool(u32),
    /// A number beyond the range of its `char` or `short`.
    OutOfRange(u32),
    /// A number that isn't a value of the enum.
    NotInEnum {
        /// The enum, by its name in Rust.
        name: &'static str,
        /// The number.
        value: i32,
    },
    /// A discriminant for which the union has no arm.
    NoSuchArm {
        /// The union, by its name in Rust.
        name: &'static str,
        /// The discriminant.
        value: i64,
    },
    /// A type that only C headers define, so its encoding is unknown.
    Foreign {
        /// The type, by its name in Rust.
        name: &'static str,
    },
    /// Padding that isn't zero.
    Padding,
    /// Nested deeper than [`MAX_DEPTH`] or [`MAX_NESTED_BYTES`].
    TooDeep,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't decode the XDR at byte {}: {}", self.offset_bytes, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("it ends too early"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes follow"),
            Self::TooLong { length, limit } => write!(f, "length {length} exceeds the limit of {limit}"),
            Self::NotABool(value) => write!(f, "a bool of {value}"),
            Self::OutOfRange(value) => write!(f, "{value:#x} is beyond the type's range"),
            Self::NotInEnum { name, value } => write!(f, "{name} has no {value}"),
            Self::NoSuchArm { name, value } => write!(f, "{name} has no arm for {value}"),
            Self::Foreign { name } => {
                write!(f, "{name} has no definition in the .x file; give frpcgen one by --types")
            }
            Self::Padding => f.write_str("padding that isn't zero"),
            Self::TooDeep => f.write_str("nested too deep"),
        }
    }
}

impl Error for DecodeError {}

/// The reason why a value can't be encoded: it breaks a rule that its type can't express.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// The value is longer than the declared limit.
    TooLong {
        /// The value's length, in bytes or elements.
        length: usize,
        /// The declared limit.
        limit: u32,
    },
    /// The value doesn't have the declared length.
    WrongLength {
        /// The value's length, in bytes or elements.
        length: usize,
        /// The declared length.
        expected: u32,
    },
    /// A union with the default arm and a discriminant that has another arm.
    WrongArm {
        /// The union, by its name in Rust.
        name: &'static str,
        /// The discriminant.
        value: i64,
    },
    /// Nested deeper than [`MAX_DEPTH`] or [`MAX_NESTED_BYTES`].
    TooDeep,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { length, limit } => write!(f, "length {length} exceeds the limit of {limit}"),
            Self::WrongLength { length, expected } => {
                write!(f, "length {length} must be {expected}")
            }
            Self::WrongArm { name, value } => {
                write!(f, "{name}: {value} has its own arm, so it can't select the default arm")
            }
            Self::TooDeep => f.write_str("a value nested too deep"),
        }
    }
}

impl Error for EncodeError {}
