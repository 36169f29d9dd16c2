//! Operations on names: removing, renaming, directories, attributes, sizes.

use crate::copying::{copy, settled};
use crate::failure::{Failure, Outcome, reported};
use crate::{bytes, connection, hdfs_internal, optional, signed, tOffset, tTime, unsigned, utf8};
use nix::libc::{ENAMETOOLONG, c_char, c_int, c_short, size_t};
use std::ptr::null_mut;
use strait_store::{SetAttributes, StoreStatus};

/// Permission bits that a program can set.
const PERMISSION_BITS: u32 = 0o7777;
/// The value for hdfsUtime that leaves a time as it is.
const UNCHANGED: tTime = -1;

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsExists(fs: *mut hdfs_internal, path: *const c_char) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let path = fs.path(path)?;
        fs.run(async |store, who| store.stat(who, &path).await).map(|_| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsDelete(fs: *mut hdfs_internal, path: *const c_char, recursive: c_int) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let path = fs.path(path)?;
        fs.run(async |store, who| store.remove(who, &path, recursive != 0).await).map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsRename(
    fs: *mut hdfs_internal,
    oldPath: *const c_char,
    newPath: *const c_char,
) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, from, to) = unsafe { (connection(fs)?, bytes(oldPath)?, bytes(newPath)?) };
        let (from, to) = (fs.path(from)?, fs.path(to)?);
        let renamed = fs.run(async |store, who| {
            // If the source is missing, report that, whatever the target is.
            store.stat(who, &from).await?;
            let to = settled(store, who, from.name(), &to).await?;
            store.rename(who, &from, &to, false).await
        });
        renamed.map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsCopy(
    srcFS: *mut hdfs_internal,
    src: *const c_char,
    dstFS: *mut hdfs_internal,
    dst: *const c_char,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { copy_or_move(srcFS, src, dstFS, dst, false) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsMove(
    srcFS: *mut hdfs_internal,
    src: *const c_char,
    dstFS: *mut hdfs_internal,
    dst: *const c_char,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    unsafe { copy_or_move(srcFS, src, dstFS, dst, true) }
}

/// # Safety
/// As hdfs.h asks.
unsafe fn copy_or_move(
    source: *mut hdfs_internal,
    from: *const c_char,
    target: *mut hdfs_internal,
    to: *const c_char,
    remove: bool,
) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let (source, from) = unsafe { (connection(source)?, bytes(from)?) };
        // SAFETY: the caller's promise.
        let (target, to) = unsafe { (connection(target)?, bytes(to)?) };
        copy(source, &source.path(from)?, target, &target.path(to)?, remove).map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsCreateDirectory(fs: *mut hdfs_internal, path: *const c_char) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let path = fs.path(path)?;
        fs.run(async |store, who| store.mkdirs(who, &path, None).await).map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsTruncateFile(
    fs: *mut hdfs_internal,
    path: *const c_char,
    newlength: tOffset,
) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path, length) = unsafe { (connection(fs)?, bytes(path)?, unsigned(newlength)?) };
        let path = fs.path(path)?;
        // Return 1: when the stores return, the file can be written again.
        fs.run(async |store, who| store.truncate(who, &path, length).await).map(|()| 1)
    })
}

/// Sets attributes.
///
/// # Safety
/// As hdfs.h asks.
unsafe fn set(
    fs: *mut hdfs_internal,
    path: *const c_char,
    set: impl FnOnce() -> Outcome<SetAttributes>,
) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let (path, set) = (fs.path(path)?, set()?);
        fs.run(async |store, who| store.set_attributes(who, &path, &set).await).map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsSetReplication(
    fs: *mut hdfs_internal,
    path: *const c_char,
    replication: i16,
) -> c_int {
    let attributes = || {
        let count = u16::try_from(replication).ok().filter(|count| *count > 0);
        let count = count.ok_or_else(|| Failure::invalid(format!("invalid replication {replication}")))?;
        Ok(SetAttributes { replication: Some(count), ..SetAttributes::default() })
    };
    // SAFETY: as hdfs.h asks.
    unsafe { set(fs, path, attributes) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsChown(
    fs: *mut hdfs_internal,
    path: *const c_char,
    owner: *const c_char,
    group: *const c_char,
) -> c_int {
    // SAFETY: as hdfs.h asks.
    let (owner, group) = unsafe { (optional(owner), optional(group)) };
    if owner.is_none() && group.is_none() {
        return 0;
    }
    let attributes = || {
        let (owner, group) = (owner.map(utf8).transpose()?, group.map(utf8).transpose()?);
        Ok(SetAttributes { owner, group, ..SetAttributes::default() })
    };
    // SAFETY: as hdfs.h asks.
    unsafe { set(fs, path, attributes) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsChmod(fs: *mut hdfs_internal, path: *const c_char, mode: c_short) -> c_int {
    let permission = Some(u32::from(mode as u16) & PERMISSION_BITS);
    // SAFETY: as hdfs.h asks.
    unsafe { set(fs, path, || Ok(SetAttributes { permission, ..SetAttributes::default() })) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsUtime(
    fs: *mut hdfs_internal,
    path: *const c_char,
    mtime: tTime,
    atime: tTime,
) -> c_int {
    let milliseconds = |time: tTime| (time != UNCHANGED).then(|| time.saturating_mul(1_000));
    let (modified_ms, accessed_ms) = (milliseconds(mtime), milliseconds(atime));
    // SAFETY: as hdfs.h asks.
    unsafe { set(fs, path, || Ok(SetAttributes { modified_ms, accessed_ms, ..SetAttributes::default() })) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetWorkingDirectory(
    fs: *mut hdfs_internal,
    buffer: *mut c_char,
    bufferSize: size_t,
) -> *mut c_char {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let name = unsafe { connection(fs)? }.working_directory();
        if buffer.is_null() {
            return Err(Failure::invalid("the buffer is a null pointer"));
        }
        if name.len() >= bufferSize {
            return Err(Failure::new(ENAMETOOLONG, "the working directory's URI is longer than the buffer"));
        }
        // SAFETY: the buffer has room for the name and a zero byte.
        unsafe {
            std::ptr::copy_nonoverlapping(name.as_ptr(), buffer.cast(), name.len());
            buffer.add(name.len()).write(0);
        }
        Ok(buffer)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsSetWorkingDirectory(fs: *mut hdfs_internal, path: *const c_char) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        fs.set_working_directory(path).map(|()| 0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetDefaultBlockSize(fs: *mut hdfs_internal) -> tOffset {
    // SAFETY: as hdfs.h asks.
    reported(-1, || unsafe { connection(fs) }.map(|fs| signed(fs.default_block_size())))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetDefaultBlockSizeAtPath(
    fs: *mut hdfs_internal,
    path: *const c_char,
) -> tOffset {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        fs.path(path)?;
        Ok(signed(fs.default_block_size()))
    })
}

/// # Safety
/// As hdfs.h asks.
unsafe fn status(fs: *mut hdfs_internal, part: impl FnOnce(StoreStatus) -> u64) -> tOffset {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let fs = unsafe { connection(fs)? };
        fs.run(async |store, who| store.status(who).await).map(|status| signed(part(status)))
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetCapacity(fs: *mut hdfs_internal) -> tOffset {
    // SAFETY: as hdfs.h asks.
    unsafe { status(fs, |status| status.capacity) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetUsed(fs: *mut hdfs_internal) -> tOffset {
    // SAFETY: as hdfs.h asks.
    unsafe { status(fs, |status| status.used) }
}
