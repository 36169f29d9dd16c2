//! Permission, owner, group and times.

use super::names::{gid_of, uid_of};
use super::root::{descriptor_path, from_errno};
use crate::{ErrorKind, Result, SetAttributes, fail};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// All permission bits.
const ALL_BITS: u32 = 0o7777;
/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

/// Only the superuser can change a file's owner (chown(2)).
pub(super) fn can_change_owners() -> bool {
    rustix::process::geteuid().is_root()
}

/// `given` or `default`, if a file (or directory) is allowed to have it.
pub(super) fn checked_permission(given: Option<u32>, default: u32, directory: bool) -> Result<Mode> {
    let bits = given.unwrap_or(default);
    if bits & !ALL_BITS != 0 {
        return fail(ErrorKind::InvalidArgument, "invalid mode: the maximum is 7777");
    }
    if bits & SET_ID_BITS != 0 && !directory {
        return fail(
            ErrorKind::PermissionDenied,
            "a set-user-id or set-group-id file would lend out the rights of the process that serves it",
        );
    }
    Ok(Mode::from_raw_mode(bits))
}

/// Clears a file's set-id bits before its content changes. The kernel does this for a `write` of
/// every process without CAP_FSETID (write(2)). A gateway that runs as root has that capability, and
/// must not extend it to its callers.
pub(super) fn clear_set_id_bits(file: impl AsFd) -> Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&file).map_err(from_errno)?.st_mode);
    // Without the group's execute bit, the set-group-id bit marks mandatory locks and gives no rights.
    let group_bit = if mode.contains(Mode::XGRP) { Mode::SGID } else { Mode::empty() };
    let lent = mode & (Mode::SUID | group_bit);
    if lent.is_empty() {
        return Ok(());
    }
    match rustix::fs::fchmod(&file, mode - lent) {
        // This process is neither the owner nor root. It lacks CAP_FSETID, so the kernel itself clears
        // the bits.
        Err(Errno::PERM) => Ok(()),
        changed => changed.map_err(from_errno),
    }
}

/// Sets the given attributes of `node`. Checks all of them before it sets any.
pub(super) fn set(node: OwnedFd, set: &SetAttributes) -> Result<()> {
    if set.replication.is_some() {
        return fail(ErrorKind::Unsupported, "this store can't change a file's replication");
    }
    if (set.owner.is_some() || set.group.is_some()) && !can_change_owners() {
        return fail(ErrorKind::Unsupported, "this store runs as a user who can't change owners");
    }
    let stat = rustix::fs::fstat(&node).map_err(from_errno)?;
    let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let mode = set.permission.map(|bits| checked_permission(Some(bits), 0, directory)).transpose()?;
    let owner = set.owner.as_deref().map(uid_of).transpose()?;
    let group = set.group.as_deref().map(gid_of).transpose()?;

    // Acts on the node itself, even if its name means another file by now.
    let target = descriptor_path(&node);
    if owner.is_some() || group.is_some() {
        let (owner, group) = (owner.map(Uid::from_raw), group.map(Gid::from_raw));
        rustix::fs::chownat(CWD, &target, owner, group, AtFlags::empty()).map_err(from_errno)?;
    }
    if let Some(mode) = mode {
        rustix::fs::chmodat(CWD, &target, mode, AtFlags::empty()).map_err(from_errno)?;
    }
    if set.modified_ms.is_some() || set.accessed_ms.is_some() {
        let times = Timestamps {
            last_modification: timespec(set.modified_ms),
            last_access: timespec(set.accessed_ms),
        };
        rustix::fs::utimensat(CWD, &target, &times, AtFlags::empty()).map_err(from_errno)?;
    }
    Ok(())
}

fn timespec(milliseconds: Option<i64>) -> Timespec {
    match milliseconds {
        Some(ms) => Timespec { tv_sec: ms.div_euclid(1_000), tv_nsec: ms.rem_euclid(1_000) * 1_000_000 },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    }
}

/// Milliseconds since 1970 of seconds and nanoseconds.
pub(super) fn milliseconds(seconds: i64, nanoseconds: u64) -> i64 {
    let sub_second = i64::try_from(nanoseconds / 1_000_000).unwrap_or_default();
    seconds.saturating_mul(1_000).saturating_add(sub_second)
}
