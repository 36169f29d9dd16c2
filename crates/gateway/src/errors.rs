//! Errors as clients get them: each service has its own exception.

use strait_store::{Error, ErrorKind, MAX_PATH_BYTES};
use strait_wire::{DfsError, DfsServiceIOException, NoException};

/// Most bytes of a message. It can have parts of the request, and its memory isn't counted.
const MAX_MESSAGE_BYTES: usize = 4 * MAX_PATH_BYTES;

fn bounded(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
    message
}

/// A Thrift exception made of a store's error.
pub trait Exception {
    /// The exception for this error.
    fn of(error: &Error) -> Self;
}

impl Exception for DfsError {
    fn of(error: &Error) -> Self {
        let row = error.kind().row();
        let what = match error.operation() {
            "" => error.message().to_owned(),
            operation => format!("{operation}: {}", error.message()),
        };
        Self {
            code: Some(row.thrift),
            kind: Some(row.name.to_owned()),
            message: Some(bounded(what)),
            path: Some(error.path().to_owned()).filter(|path| !path.is_empty()),
            retry_safe: Some(error.retry_safe()),
        }
    }
}

impl Exception for DfsServiceIOException {
    fn of(error: &Error) -> Self {
        Self { message: Some(bounded(error.to_string())) }
    }
}

impl Exception for NoException {
    fn of(_: &Error) -> Self {
        Self {}
    }
}

/// A mandatory argument.
pub fn required<T>(value: Option<T>, name: &'static str) -> Result<T, Error> {
    value.ok_or_else(|| Error::new(ErrorKind::InvalidArgument, format!("{name} is missing")))
}

/// An offset or length as Thrift's signed integer; a larger one becomes the maximum.
pub fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Thrift's signed integer as an offset or length.
pub fn unsigned(value: i64, name: &'static str) -> Result<u64, Error> {
    u64::try_from(value)
        .map_err(|_| Error::new(ErrorKind::InvalidArgument, format!("{name} is negative: {value}")))
}
