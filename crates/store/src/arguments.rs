//! Checks of arguments that all stores refuse in the same words.

use crate::{Error, ErrorKind, MAX_CHUNK_BYTES, Result, fail};

/// An error if a read asks for more than [`MAX_CHUNK_BYTES`].
pub fn check_read(length: usize) -> Result<()> {
    match length > MAX_CHUNK_BYTES {
        false => Ok(()),
        true => fail(ErrorKind::InvalidArgument, "one read may ask for at most 4 MiB; read in pieces"),
    }
}

/// An error if an append has more than [`MAX_CHUNK_BYTES`] of data.
pub fn check_append(data: &[u8]) -> Result<()> {
    match data.len() > MAX_CHUNK_BYTES {
        false => Ok(()),
        true => fail(ErrorKind::InvalidArgument, "data has more than 4 MiB; append it in pieces"),
    }
}

/// The error if a directory's new name lies within the directory.
pub fn into_itself() -> Error {
    Error::new(ErrorKind::InvalidArgument, "a directory can't be moved into itself")
}
