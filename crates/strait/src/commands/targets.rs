//! The targets of one command's sources.

use crate::context::Place;
use crate::failure::Failure;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use strait_store::{ErrorKind, StorePath, encoding};

/// How to make a directory that is missing.
pub const WITH_PARENTS: &str = "make it with mkdir -p";

/// A name in a store as a name on this host, with the bytes that its text represents.
pub fn local_name(name: &str) -> OsString {
    encoding::decode(name).map_or_else(|| name.into(), |bytes| OsString::from_vec(bytes.into_owned()))
}

/// A name of this host as a name in a store.
pub fn stored_name(name: &OsStr) -> String {
    encoding::encode(name.as_bytes()).into_owned()
}

/// The file of this host that an operand names: the literal name if it exists.
pub fn local_path(operand: &str) -> PathBuf {
    let path = Path::new(operand);
    if path.symlink_metadata().is_ok() { path.to_owned() } else { local_name(operand).into() }
}

/// An error unless `directory`, which `operation` needs for the path of `place`, is one. A store would make it, but a
/// typing error shouldn't make a tree. If nothing is in its way, `remedy` makes it.
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
                let why = format!("{path} is a file, and not a directory; choose another name");
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

/// Refuses two sources of one target: the result would depend on chance.
pub struct Targets<'a> {
    operation: &'static str,
    sources: HashMap<String, &'a str>,
}

impl<'a> Targets<'a> {
    pub fn of(operation: &'static str) -> Self {
        Self { operation, sources: HashMap::new() }
    }

    /// # Errors
    /// A usage error, if another source has this target.
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
