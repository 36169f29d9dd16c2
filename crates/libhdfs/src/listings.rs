//! Statuses, listings and locations, as hdfs.h's structures.

use crate::failure::{Outcome, reported, set_errno};
use crate::filesystem::Connection;
use crate::properties::copied;
use crate::{bytes, connection, hdfs_internal, signed, tOffset, tTime, unsigned};
use futures::StreamExt;
use nix::libc::{self, ENOMEM, c_char, c_int, c_short};
use std::ptr::{null_mut, write_bytes};
use strait_store::FileStatus;

/// A file or directory, as hdfs.h declares it.
#[repr(C)]
pub struct hdfsFileInfo {
    mKind: c_int,
    mName: *mut c_char,
    mLastMod: tTime,
    mSize: tOffset,
    mReplication: c_short,
    mBlockSize: tOffset,
    mOwner: *mut c_char,
    mGroup: *mut c_char,
    mPermissions: c_short,
    mLastAccess: tTime,
}

/// `tObjectKind`'s values.
const KIND_FILE: c_int = b'F' as c_int;
const KIND_DIRECTORY: c_int = b'D' as c_int;

/// Zeroed memory for `count` values, from the C allocator, since programs may free it by free(3).
fn allocated<T>(count: usize) -> Outcome<*mut T> {
    // SAFETY: calloc takes any numbers.
    let memory: *mut T = unsafe { libc::calloc(count.max(1), size_of::<T>()) }.cast();
    if memory.is_null() {
        return Err(crate::Failure::new(ENOMEM, "no memory for a listing"));
    }
    Ok(memory)
}

impl hdfsFileInfo {
    /// Fills a zeroed entry. After a failure, the entry has the strings allocated so far; the caller frees
    /// them.
    fn fill(&mut self, fs: &Connection, status: &FileStatus) -> Outcome<()> {
        self.mKind = if status.is_directory() { KIND_DIRECTORY } else { KIND_FILE };
        self.mLastMod = status.modified_ms.div_euclid(1_000);
        self.mSize = signed(status.length);
        self.mReplication = c_short::try_from(status.replication).unwrap_or(c_short::MAX);
        self.mBlockSize = signed(status.block_size);
        self.mPermissions = status.permission as c_short;
        self.mLastAccess = status.accessed_ms.div_euclid(1_000);
        self.mName = copied(&fs.name(&status.path))?;
        self.mOwner = copied(status.owner.as_bytes())?;
        self.mGroup = copied(status.group.as_bytes())?;
        Ok(())
    }
}

/// The statuses as an array, in memory from the C allocator.
fn array(fs: &Connection, statuses: &[FileStatus]) -> Outcome<*mut hdfsFileInfo> {
    let entries = allocated::<hdfsFileInfo>(statuses.len())?;
    for (index, status) in statuses.iter().enumerate() {
        // SAFETY: the array has that many entries, and all zeros are a valid entry.
        let entry = unsafe { &mut *entries.add(index) };
        if let Err(failure) = entry.fill(fs, status) {
            // SAFETY: the strings of these entries come from strdup, or are null.
            unsafe { hdfsFreeFileInfo(entries, index as c_int + 1) };
            return Err(failure);
        }
    }
    Ok(entries)
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetPathInfo(fs: *mut hdfs_internal, path: *const c_char) -> *mut hdfsFileInfo {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let path = fs.path(path)?;
        let status = fs.run(async |store, who| store.stat(who, &path).await)?;
        array(fs, &[status])
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsListDirectory(
    fs: *mut hdfs_internal,
    path: *const c_char,
    numEntries: *mut c_int,
) -> *mut hdfsFileInfo {
    let listed = || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let path = fs.path(path)?;
        let statuses = fs.run(async |store, who| {
            let mut entries = store.list(who, &path);
            let mut statuses = Vec::new();
            while let Some(entry) = entries.next().await {
                statuses.push(entry?);
            }
            Ok(statuses)
        })?;
        let count = c_int::try_from(statuses.len());
        let count =
            count.map_err(|_| crate::Failure::new(libc::EOVERFLOW, "more entries than an int counts"))?;
        // SAFETY: as hdfs.h asks.
        if let Some(number) = unsafe { numEntries.as_mut() } {
            *number = count;
        }
        // With errno 0, NULL means an empty directory and not a failure.
        set_errno(0);
        if count == 0 { Ok(null_mut()) } else { array(fs, &statuses) }
    };
    reported(null_mut(), listed)
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFreeFileInfo(hdfsFileInfo: *mut hdfsFileInfo, numEntries: c_int) {
    if hdfsFileInfo.is_null() {
        return;
    }
    for index in 0..usize::try_from(numEntries).unwrap_or(0) {
        // SAFETY: the array has that many entries; their strings come from strdup, or are null.
        unsafe {
            let entry = hdfsFileInfo.add(index);
            libc::free((*entry).mName.cast());
            libc::free((*entry).mOwner.cast());
            libc::free((*entry).mGroup.cast());
            write_bytes(entry, 0, 1);
        }
    }
    // SAFETY: calloc made it.
    unsafe { libc::free(hdfsFileInfo.cast()) };
}

/// See hdfs.h. Always 0: the stores don't report encryption zones.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsFileIsEncrypted(_hdfsFileInfo: *mut hdfsFileInfo) -> c_int {
    0
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsGetHosts(
    fs: *mut hdfs_internal,
    path: *const c_char,
    start: tOffset,
    length: tOffset,
) -> *mut *mut *mut c_char {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let (fs, path) = unsafe { (connection(fs)?, bytes(path)?) };
        let (path, start, length) = (fs.path(path)?, unsigned(start)?, unsigned(length)?);
        let range = start..start.saturating_add(length);
        let blocks = fs.run(async |store, who| {
            // Fail for a missing file also on stores that don't report locations.
            store.stat(who, &path).await?;
            store.block_locations(who, &path, range).await
        })?;
        let hosts = allocated::<*mut *mut c_char>(blocks.len() + 1)?;
        let filled = blocks.iter().enumerate().try_for_each(|(index, block)| {
            let names = allocated::<*mut c_char>(block.hosts.len() + 1)?;
            // SAFETY: the array has an entry for each block, and a null after them.
            unsafe { hosts.add(index).write(names) };
            block.hosts.iter().enumerate().try_for_each(|(index, host)| {
                let host = copied(host.as_bytes())?;
                // SAFETY: the array has an entry for each host, and a null after them.
                unsafe { names.add(index).write(host) };
                Ok(())
            })
        });
        if let Err(failure) = filled {
            // SAFETY: both kinds of arrays end with a null, filled or not.
            unsafe { hdfsFreeHosts(hosts) };
            return Err(failure);
        }
        Ok(hosts)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsFreeHosts(blockHosts: *mut *mut *mut c_char) {
    if blockHosts.is_null() {
        return;
    }
    // SAFETY: hdfsGetHosts made it: arrays that end with a null.
    unsafe {
        let mut block = blockHosts;
        while !(*block).is_null() {
            let mut host = *block;
            while !(*host).is_null() {
                libc::free((*host).cast());
                host = host.add(1);
            }
            libc::free((*block).cast());
            block = block.add(1);
        }
        libc::free(blockHosts.cast());
    }
}
