//! Files that hold a Kadoop cluster's key.

use crate::failure::Failure;
use crate::secret_file;
use std::io;
use std::path::Path;
use strait_kadoop_wire::Key;

/// The cluster's key from its file.
///
/// # Errors
/// The file is missing, holds something else, belongs to another user, or other users can read it.
pub fn load(path: &Path) -> Result<Key, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => Failure::other(error.to_string()),
        _ => Failure::local(error, "open key", path),
    };
    Key::read(secret_file::open(path, "key")?, path).map_err(failed)
}

/// As [`load`], but creates a new key if there is no file.
pub fn load_or_make(path: &Path) -> Result<Key, Failure> {
    if path.exists() {
        return load(path);
    }
    let failed = |error| Failure::local(error, "write key", path);
    let key = Key::generate().map_err(failed)?;
    match key.save(path) {
        Ok(()) => Ok(key),
        // Another process created the file first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(path),
        Err(error) => Err(failed(error)),
    }
}
