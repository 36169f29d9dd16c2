//! The targets of one command's copies or renames.

use crate::context::Place;
use crate::failure::Failure;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use strait_store::{ErrorKind, StorePath, encoding};

/// The remedy for a missing directory.
pub const WITH_PARENTS: &str = "create it with mkdir -p";

/// Converts a name in a store to one on this host, with the bytes that the name's text represents.
pub fn local_name(name: &str) -> OsString {
    encoding::decode(name).map_or_else(|| name.into(), |bytes| OsString::from_vec(bytes.into_owned()))
}

/// Converts a name on this host to one in a store.
pub fn stored_name(name: &OsStr) -> String {
    encoding::encode(name.as_bytes()).into_owned()
}

/// The local file that an operand names. An existing file with exactly this name takes precedence.
pub fn local_path(operand: &str) -> PathBuf {
    let path = Path::new(operand);
    if path.symlink_metadata().is_ok() { path.to_owned() } else { local_name(operand).into() }
}

/// An error unless `directory`, which `operation` on `place` needs, is a directory. A store would create it,
/// but a typing error shouldn't create a tree. `remedy` tells how to create it.
pub async fn check_directory(
    operation: &'static str,
    place: &Place,
    directory: &StorePath,
    remedy: &str,
) -> Result<(), Failure> {
    let refuse = |kind, why: String| Err(Failure::at(kind, operation, &place.path, why));
    let mut above = Some(directory.clone());
    while let Some(path) = above {
        match place.at(path.clone()).find().await {
            Ok(Some(status)) if !status.is_directory() => {
                let why = format!("{path} is a file, not a directory; choose another name");
                return refuse(ErrorKind::NotADirectory, why);
            }
            Ok(Some(_)) if path == *directory => return Ok(()),
            Ok(Some(_)) => break,
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => {}
            Err(error) if path == *directory => return Err(error.into()),
            // Looked at for the message alone, and perhaps not for this user to see.
            Err(_) => break,
        }
        above = path.parent();
    }
    refuse(ErrorKind::NotFound, format!("no directory {directory}; {remedy}"))
}

/// Refuses two sources with the same target: the result would depend on chance.
pub struct Targets<'a> {
    operation: &'static str,
    sources: HashMap<String, &'a str>,
}

impl<'a> Targets<'a> {
    pub fn of(operation: &'static str) -> Self {
        Self { operation, sources: HashMap::new() }
    }

    /// # Errors
    /// A usage error, if another source has the same target.
    pub fn add(&mut self, source: &'a str, target: impl Display) -> Result<(), Failure> {
        let target = target.to_string();
        match self.sources.get(&target) {
            Some(other) => {
                let operation = self.operation;
                Err(Failure::usage(format!("{operation}: {other} and {source} would both become {target}")))
            }
            None => {
                self.sources.insert(target, source);
                Ok(())
            }
        }
    }
}
