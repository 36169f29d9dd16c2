//! Absolute, normalised paths: parsed once at the edge, trusted everywhere
//! behind it.

use crate::encoding;
use crate::error::{ErrorKind, Result, fail};
use std::fmt;

/// Longest path, in bytes. HDFS refuses more than 8,000 characters
/// (`HdfsConstants.MAX_PATH_LENGTH`), the lowest limit of the stores served.
pub const MAX_PATH_BYTES: usize = 8_000;
/// Longest single name, in bytes: NAME_MAX of Linux and HDFS's
/// `dfs.namenode.fs-limits.max-component-length`.
pub const MAX_NAME_BYTES: usize = 255;
/// Most components of a path: HDFS's `MAX_PATH_DEPTH`.
pub const MAX_PATH_DEPTH: usize = 1_000;

/// An absolute path within a store: UTF-8, begins with `/`, no empty, `.` or `..` component, no NUL, no
/// trailing slash (except for the root itself).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorePath(String);

impl StorePath {
    /// The root, `/`.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Parses `text`. Drops doubled and trailing slashes, and rejects everything else that isn't
    /// normalised.
    ///
    /// # Errors
    /// InvalidArgument for an empty or relative path, a `.` or `..`
    /// component, a NUL, and anything over the limits above.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &'static str| {
            // The message shows only the start of an over-long path.
            let mut shown: String = text.chars().take(200).collect();
            if shown.len() < text.len() {
                shown.push('…');
            }
            fail(ErrorKind::InvalidArgument, why).map_err(|e: crate::Error| e.at("path", shown))
        };
        if text.is_empty() {
            return refuse("the path is empty; paths begin with /");
        }
        if text.len() > MAX_PATH_BYTES {
            return refuse("the path is longer than 8,000 bytes");
        }
        if !text.starts_with('/') {
            return refuse("the path is relative; paths begin with /");
        }
        if text.contains('\0') {
            return refuse("the path has a NUL byte");
        }
        let mut normal = String::with_capacity(text.len());
        let mut depth = 0;
        for name in text.split('/').filter(|name| !name.is_empty()) {
            if name == "." || name == ".." {
                return refuse("the path has a component . or ..; give a path without it");
            }
            // For a name that isn't UTF-8, the limit applies to its own bytes, not to its encoding.
            let is_long =
                |name: &str| encoding::decode(name).is_none_or(|bytes| bytes.len() > MAX_NAME_BYTES);
            if name.len() > MAX_NAME_BYTES && is_long(name) {
                return refuse("a name in the path is longer than 255 bytes");
            }
            depth += 1;
            normal.push('/');
            normal.push_str(name);
        }
        if depth > MAX_PATH_DEPTH {
            return refuse("the path is more than 1,000 levels deep");
        }
        if normal.is_empty() {
            normal.push('/');
        }
        Ok(Self(normal))
    }

    /// Parses bytes from outside as [`StorePath::parse`] does; InvalidArgument if they aren't
    /// UTF-8.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse(text),
            Err(_) => fail(ErrorKind::InvalidArgument, "the path isn't UTF-8"),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path without its leading slash; empty for the root.
    pub fn relative(&self) -> &str {
        &self.0[1..]
    }

    /// Whether this is `/`.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The directory above; none for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let cut = self.0.rfind('/').unwrap_or(0);
        Some(Self(self.0[..cut.max(1)].to_owned()))
    }

    /// This directory's entry `name`.
    ///
    /// # Errors
    /// InvalidArgument if `name` isn't one plain component.
    pub fn join(&self, name: &str) -> Result<Self> {
        if name.is_empty() || name.contains('/') {
            return fail(ErrorKind::InvalidArgument, "a name is one component, without a slash");
        }
        let separator = if self.is_root() { "" } else { "/" };
        Self::parse(&format!("{}{separator}{name}", self.0))
    }

    /// Whether `other` is this path or lies beneath it.
    pub fn contains(&self, other: &Self) -> bool {
        self.is_root()
            || other.0.strip_prefix(&self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for StorePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<String> {
        StorePath::parse(text).ok().map(|path| path.0)
    }

    #[test]
    fn slashes_are_normalised_once() {
        assert_eq!(parsed("/a//b/").as_deref(), Some("/a/b"));
        assert_eq!(parsed("///").as_deref(), Some("/"));
        assert_eq!(parsed("/a b/ü").as_deref(), Some("/a b/ü"));
    }

    #[test]
    fn what_is_not_plain_is_refused() {
        let long_name = format!("/{}", "x".repeat(256));
        let long_path = "/x".repeat(5_000);
        let deep_path = "/x".repeat(1_001);
        for text in ["", "a", "/a/../b", "/..", "/.", "/a/./b", "/a\0b", &long_name, &long_path, &deep_path] {
            let error = StorePath::parse(text).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}");
        }
        assert!(StorePath::from_bytes(b"/\xff").is_err());
    }

    #[test]
    fn parent_name_join_and_contains_agree() {
        let path = StorePath::parse("/a/b").unwrap();
        assert_eq!(path.name(), "b");
        let parent = path.parent().unwrap();
        assert_eq!(parent.as_str(), "/a");
        assert_eq!(parent.join("b").unwrap(), path);
        assert_eq!(parent.parent(), Some(StorePath::root()));
        assert_eq!(StorePath::root().parent(), None);
        assert!(parent.contains(&path) && !path.contains(&parent));
        assert!(!StorePath::parse("/a/bc").unwrap().contains(&path));
        assert!(path.join("x/y").is_err());
    }
}
