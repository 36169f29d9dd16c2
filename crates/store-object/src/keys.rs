//! Converts a store's paths to keys of objects, and back.
//!
//! A key is the path without its first slash, under the prefix that the store's URI names.
//! Crate object_store accepts no control characters in keys. A private-use character replaces each of them,
//! as in `strait_store::encoding`: U+10FE00 + `b` for byte `b`.

use object_store::path::Path;
use strait_store::{ErrorKind, Result, StorePath, fail};

/// Name of the empty object that marks a directory without entries.
pub const MARKER: &str = ".strait-directory";
/// The escapes begin at U+10FE00, to which the control character's code is added.
const ESCAPES: u32 = 0x10_fe00;

/// The keys of one store.
#[derive(Debug, Clone)]
pub struct Keys {
    /// Empty, or ends with a slash.
    prefix: String,
}

impl Keys {
    /// Keys beneath this directory of the bucket.
    pub fn beneath(root: &StorePath) -> Self {
        let prefix = if root.is_root() { String::new() } else { format!("{}/", escaped(root.relative())) };
        Self { prefix }
    }

    /// The key of a file.
    ///
    /// # Errors
    /// InvalidArgument if the name is reserved, or can't be a key.
    pub fn file(&self, path: &StorePath) -> Result<Path> {
        if path.name() == MARKER {
            return fail(ErrorKind::InvalidArgument, "this name is reserved for the markers of directories");
        }
        if path.relative().chars().any(is_escape) {
            return fail(
                ErrorKind::InvalidArgument,
                "the name has a character that is reserved to escape control characters",
            );
        }
        parsed(&format!("{}{}", self.prefix, escaped(path.relative())))
    }

    /// The prefix of all keys of a directory's entries.
    pub fn directory(&self, path: &StorePath) -> String {
        let slash = if path.is_root() { "" } else { "/" };
        format!("{}{}{slash}", self.prefix, escaped(path.relative()))
    }

    /// The key of a directory's marker.
    ///
    /// # Errors
    /// InvalidArgument if the directory's name can't be a key.
    pub fn marker(&self, path: &StorePath) -> Result<Path> {
        parsed(&format!("{}{MARKER}", self.directory(path)))
    }

    /// The path in the store of a key. None if the key isn't in the store.
    pub fn path(&self, key: &Path) -> Option<String> {
        key.as_ref().strip_prefix(self.prefix.as_str()).map(|inner| format!("/{}", unescaped(inner)))
    }
}

/// The key with prefix `to` instead of `from`. None if it lacks that prefix, or the new key is invalid.
pub fn moved(key: &Path, from: &str, to: &str) -> Option<Path> {
    let rest = key.as_ref().strip_prefix(from)?;
    Path::parse(format!("{to}{rest}")).ok()
}

fn parsed(key: &str) -> Result<Path> {
    Path::parse(key)
        .or_else(|error| fail(ErrorKind::InvalidArgument, format!("the path can't be a key: {error}")))
}

fn is_escape(character: char) -> bool {
    let code = u32::from(character).wrapping_sub(ESCAPES);
    code < 0x20 || code == 0x7f
}

fn escaped(text: &str) -> String {
    let escape = |character: char| match character.is_ascii_control() {
        true => char::from_u32(ESCAPES + u32::from(character)).unwrap_or(character),
        false => character,
    };
    text.chars().map(escape).collect()
}

fn unescaped(text: &str) -> String {
    let plain = |character: char| match is_escape(character) {
        true => char::from_u32(u32::from(character) - ESCAPES).unwrap_or(character),
        false => character,
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_its_key() {
        for root in ["/", "/lab/x"] {
            let keys = Keys::beneath(&StorePath::parse(root).unwrap());
            for path in ["/a", "/a b/ü%2F", "/a\tb\n", "/\u{7f}"] {
                let path = StorePath::parse(path).unwrap();
                let key = keys.file(&path).unwrap();
                assert!(!key.as_ref().contains(char::is_control));
                assert_eq!(keys.path(&key).as_deref(), Some(path.as_str()));
            }
        }
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        let keys = Keys::beneath(&StorePath::root());
        for path in ["/d/.strait-directory", "/\u{10fe09}"] {
            let refused = keys.file(&StorePath::parse(path).unwrap()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        }
    }
}
