//! The types of the trait's arguments and results.

use std::fmt;
use std::sync::Arc;

/// The user on whose behalf an operation acts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// User name, as the stores know it.
    pub user: Arc<str>,
    /// Group names; empty if the store looks them up itself.
    pub groups: Arc<[String]>,
    /// The session of that user. A store can let the session continue to write its open file from
    /// another process.
    pub session: Option<SessionSecret>,
}

/// A secret that one session's principals share at all gateways.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionSecret(pub [u8; 32]);

impl fmt::Debug for SessionSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session's secret")
    }
}

impl Principal {
    /// A user without groups of its own, in no session.
    pub fn new(user: &str) -> Self {
        Self { user: user.into(), groups: Arc::new([]), session: None }
    }
}

/// File or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// A store's record of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileStatus {
    /// Absolute path in the store. Text, not [`crate::StorePath`]: a store may
    /// have names that requests can't express.
    pub path: String,
    /// File or directory.
    pub file_type: FileType,
    /// Bytes; 0 for a directory.
    pub length: u64,
    /// Requested replicas; 0 for a directory, 1 if the store doesn't replicate.
    pub replication: u16,
    /// Bytes per block; 0 for a directory.
    pub block_size: u64,
    /// Last modification, milliseconds since 1970-01-01 UTC.
    pub modified_ms: i64,
    /// Last access, milliseconds since 1970-01-01 UTC; 0 if not kept.
    pub accessed_ms: i64,
    /// Permission bits, `0o7777` at most.
    pub permission: u32,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// The path's last name is a symbolic link; the other fields describe its target. Only listings
    /// set it, so that a walk down a tree stays in the tree.
    pub link: bool,
}

impl FileStatus {
    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// The last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Options for a new file. `None` means the store's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// Permission bits, `0o7777` at most, exactly as the file gets them (no
    /// umask).
    pub permission: Option<u32>,
    /// Replicas.
    pub replication: Option<u16>,
    /// Bytes per block.
    pub block_size: Option<u64>,
    /// Replicas on disk that make the file's bytes durable. It can only raise the store's own minimum.
    pub min_replicas: Option<u16>,
}

/// Attributes to set; `None` leaves an attribute unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits, `0o7777` at most.
    pub permission: Option<u32>,
    /// Owner's name.
    pub owner: Option<String>,
    /// Group's name.
    pub group: Option<String>,
    /// Modification time, milliseconds since 1970-01-01 UTC.
    pub modified_ms: Option<i64>,
    /// Access time, milliseconds since 1970-01-01 UTC.
    pub accessed_ms: Option<i64>,
    /// Replicas.
    pub replication: Option<u16>,
}

impl SetAttributes {
    /// Whether a file or directory already has these attributes.
    pub fn agrees_with(&self, status: &FileStatus) -> bool {
        let Self { permission, owner, group, modified_ms, accessed_ms, replication } = self;
        permission.is_none_or(|bits| bits == status.permission)
            && owner.as_ref().is_none_or(|name| *name == status.owner)
            && group.as_ref().is_none_or(|name| *name == status.group)
            && modified_ms.is_none_or(|time| time == status.modified_ms)
            && accessed_ms.is_none_or(|time| time == status.accessed_ms)
            && replication.is_none_or(|count| count == status.replication)
    }
}

/// One block (or chunk) of a file and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockLocation {
    /// First byte's offset in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Host names, nearest first if the store sorts them.
    pub hosts: Vec<String>,
    /// `host:port` of the data service on each host; empty if there is none.
    pub addresses: Vec<String>,
    /// Whether the store knows no good replica.
    pub corrupt: bool,
}

/// A store's checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// The store's name for it, for example `MD5-of-0MD5-of-512CRC32C`.
    /// Only checksums of the same name can be compared.
    pub algorithm: String,
    /// The bytes.
    pub value: Vec<u8>,
}

/// Capacity of a whole store, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreStatus {
    /// The total.
    pub capacity: u64,
    /// In use.
    pub used: u64,
    /// Free.
    pub remaining: u64,
    /// Whether the store has just started, and doesn't know all locations yet. Bytes that seem missing
    /// may still turn up.
    pub settling: bool,
}

/// A store's abilities, as data. They select the contract tests to run, and tell users in advance what
/// the store supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// [`crate::FileSystem::append`].
    pub append: bool,
    /// [`crate::FileSystem::truncate`].
    pub truncate: bool,
    /// [`crate::FileSystem::concat`].
    pub concat: bool,
    /// [`crate::FileSystem::rename`] with `replace` in one step.
    pub rename_replace: bool,
    /// [`crate::FileSystem::rename`] is one step. False: it copies and then removes, so both names
    /// exist in between, and a failure may leave both.
    pub atomic_rename: bool,
    /// Permission bits are kept.
    pub permissions: bool,
    /// Owner and group can be set.
    pub ownership: bool,
    /// Modification and access times can be set.
    pub times: bool,
    /// Replication can be set.
    pub replication: bool,
    /// [`crate::FileSystem::block_locations`].
    pub block_locations: bool,
    /// [`crate::FileSystem::checksum`].
    pub checksum: bool,
    /// [`crate::FileSystem::status`].
    pub status: bool,
    /// A file being written is visible to readers under its name, with all flushed bytes. False: the
    /// bytes become visible at the close, all at once. Until then, flush and sync promise nothing.
    pub visible_while_written: bool,
    /// The store refuses a second writer (`Busy`) while the first is open.
    pub exclusive_writer: bool,
    /// Acts as each call's principal. False: single-identity, the store does everything as the user
    /// of this process.
    pub per_user: bool,
    /// An abandoned file is writable again after this many milliseconds at the latest.
    pub recovery_ms: u32,
}

impl Capabilities {
    /// The capabilities of a store that can do everything, and recovers abandoned files within `recovery_ms`.
    pub const fn all(recovery_ms: u32) -> Self {
        Self {
            append: true,
            truncate: true,
            concat: true,
            rename_replace: true,
            atomic_rename: true,
            permissions: true,
            ownership: true,
            times: true,
            replication: true,
            block_locations: true,
            checksum: true,
            status: true,
            visible_while_written: true,
            exclusive_writer: true,
            per_user: true,
            recovery_ms,
        }
    }

    /// The flags by name, in a fixed order, for listings.
    pub fn flags(&self) -> [(&'static str, bool); 15] {
        [
            ("append", self.append),
            ("truncate", self.truncate),
            ("concat", self.concat),
            ("rename_replace", self.rename_replace),
            ("atomic_rename", self.atomic_rename),
            ("permissions", self.permissions),
            ("ownership", self.ownership),
            ("times", self.times),
            ("replication", self.replication),
            ("block_locations", self.block_locations),
            ("checksum", self.checksum),
            ("status", self.status),
            ("visible_while_written", self.visible_while_written),
            ("exclusive_writer", self.exclusive_writer),
            ("per_user", self.per_user),
        ]
    }
}
