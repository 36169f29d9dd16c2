//! Names, records and errors of the two interfaces.

use chrono::DateTime;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, Result};
use strait_store::{ErrorKind, FileStatus, FileSystem, Principal, StorePath};

/// Of messages.
pub const STORE: &str = "Strait";

/// The file of an object. Paths of objects come encoded, and their encoding stays in the name.
pub fn encode(location: &Path) -> Result<StorePath> {
    StorePath::parse(&format!("/{location}")).map_err(|failure| error(failure, location.as_ref()))
}

/// The object of a file.
pub fn decode(path: &str) -> Result<Path, object_store::path::Error> {
    Path::parse(path)
}

/// The record of an object.
pub fn meta(status: &FileStatus, location: Path) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: DateTime::from_timestamp_millis(status.modified_ms).unwrap_or_default(),
        size: status.length,
        // Files are replaced as a whole, and within a millisecond hardly to the same length.
        e_tag: Some(format!("{:x}-{:x}", status.modified_ms, status.length)),
        version: None,
    }
}

/// Names the object in an error.
pub trait Named<T> {
    /// The result, with the other interface's error.
    fn named(self, location: &Path) -> Result<T>;
}

impl<T> Named<T> for strait_store::Result<T> {
    fn named(self, location: &Path) -> Result<T> {
        self.map_err(|failure| error(failure, location.as_ref()))
    }
}

/// The other interface's error.
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

/// A rename; where the store can't replace in one step, it removes the old file before.
pub async fn rename(
    files: &dyn FileSystem,
    who: &Principal,
    from: &StorePath,
    to: &StorePath,
    replace: bool,
) -> strait_store::Result<()> {
    if replace && !files.capabilities().rename_replace {
        match files.remove(who, to, false).await {
            Err(failure) if failure.kind() != ErrorKind::NotFound => return Err(failure),
            _ => return files.rename(who, from, to, false).await,
        }
    }
    files.rename(who, from, to, replace).await
}
