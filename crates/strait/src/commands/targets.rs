//! The targets of one command's sources.

use crate::failure::Failure;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use strait_store::encoding;

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
