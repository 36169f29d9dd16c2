//! POSIX permission bits, for the store in memory.

use crate::{ErrorKind, Principal, Result, fail};

/// The right to list a directory, or to read a file.
pub(super) const READ: u32 = 0o4;
/// The right to change a directory's entries, or to write a file.
pub(super) const WRITE: u32 = 0o2;
/// The right to traverse a directory.
pub(super) const TRAVERSE: u32 = 0o1;
/// In a directory with this bit, only an entry's owner can remove or rename the entry.
pub(super) const STICKY: u32 = 0o1000;
/// All permission bits.
pub(super) const ALL_BITS: u32 = 0o7777;

/// A node's owner and permissions.
#[derive(Debug, Clone)]
pub(super) struct Access {
    pub(super) owner: String,
    pub(super) group: String,
    pub(super) permission: u32,
}

impl Access {
    /// Whether the mode bits give `who` all of `wanted` ([`READ`], [`WRITE`], [`TRAVERSE`]). The caller
    /// checks for superusers. As in POSIX, only one class counts: owner, else group, else others. An
    /// owner without a bit doesn't get it from the group.
    pub(super) fn allows(&self, who: &Principal, wanted: u32) -> bool {
        let shift = if *who.user == *self.owner {
            6
        } else if who.groups.contains(&self.group) {
            3
        } else {
            0
        };
        (self.permission >> shift) & wanted == wanted
    }
}

/// `given` or `default`; `InvalidArgument` if it has other bits.
pub(super) fn checked(given: Option<u32>, default: u32) -> Result<u32> {
    match given {
        Some(bits) if bits & !ALL_BITS != 0 => {
            fail(ErrorKind::InvalidArgument, "invalid mode: the maximum is 7777")
        }
        _ => Ok(given.unwrap_or(default)),
    }
}
