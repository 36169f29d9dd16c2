//! Converts names, metadata and errors between Strait's interface and object_store's.

use chrono::DateTime;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, Result};
use strait_store::{ErrorKind, FileStatus, FileSystem, Principal, StorePath};

/// The store's name in error messages.
pub const STORE: &str = "Strait";

/// The path of an object's file. Object paths arrive percent-encoded, and the file's name keeps the encoding.
pub fn encode(location: &Path) -> Result<StorePath> {
    StorePath::parse(&format!("/{location}")).map_err(|failure| error(failure, location.as_ref()))
}

/// The object path of a file.
pub fn decode(path: &str) -> Result<Path, object_store::path::Error> {
    Path::parse(path)
}

/// An object's metadata, from the status of its file.
pub fn meta(status: &FileStatus, location: Path) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: DateTime::from_timestamp_millis(status.modified_ms).unwrap_or_default(),
        size: status.length,
        // Files are replaced as a whole. Two versions of a millisecond hardly ever have the same length.
        e_tag: Some(format!("{:x}-{:x}", status.modified_ms, status.length)),
        version: None,
    }
}

/// Adds the object's path to an error.
pub trait Named<T> {
    /// The result, with its error converted to object_store's.
    fn named(self, location: &Path) -> Result<T>;
}

impl<T> Named<T> for strait_store::Result<T> {
    fn named(self, location: &Path) -> Result<T> {
        self.map_err(|failure| error(failure, location.as_ref()))
    }
}

/// Converts to object_store's error.
pub fn error(failure: strait_store::Error, path: &str) -> Error {
    let path = path.to_owned();
    let kind = failure.kind();
    let source = Box::new(failure);
    match kind {
        ErrorKind::NotFound | ErrorKind::NotADirectory => Error::NotFound { path, source },
        ErrorKind::AlreadyExists | ErrorKind::IsADirectory => Error::AlreadyExists { path, source },
        ErrorKind::PermissionDenied => Error::PermissionDenied { path, source },
        ErrorKind::Unauthenticated => Error::Unauthenticated { path, source },
        ErrorKind::Unsupported => Error::NotSupported { source },
        _ => Error::Generic { store: STORE, source },
    }
}

/// Renames a file. If the store can't replace a file in one step, this removes the old file first, and sets
/// `removed`. If the rename fails then, `from` is the only version of the file.
pub async fn rename(
    files: &dyn FileSystem,
    who: &Principal,
    from: &StorePath,
    to: &StorePath,
    replace: bool,
    removed: &mut bool,
) -> strait_store::Result<()> {
    if from == to && replace {
        return files.stat(who, from).await.map(drop);
    }
    if !replace || files.capabilities().rename_replace {
        return files.rename(who, from, to, replace).await;
    }
    match files.remove(who, to, false).await {
        Ok(()) => *removed = true,
        Err(failure) if failure.kind() == ErrorKind::NotFound => {}
        Err(failure) => return Err(failure),
    }
    files.rename(who, from, to, false).await.map_err(|failure| match removed {
        true => {
            let message =
                format!("{}; the old file is removed, and the new one is {from}", failure.message());
            strait_store::Error::new(failure.kind(), message).at("rename to", to)
        }
        false => failure,
    })
}
