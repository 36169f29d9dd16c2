//! The functions for files and directories of any store.

use crate::arguments::{buffer_of, bytes_of, give, local_path, pointed, text, texts, unsigned};
use crate::failure::reported;
use crate::paths::{self, Listing};
use crate::process::Owned;
use crate::streams::{Stream, permission};
use crate::{copies, process};
use nix::libc::{
    S_IFDIR, S_IFMT, S_IFREG, SEEK_CUR, SEEK_END, SEEK_SET, c_char, c_int, c_void, mode_t, off_t, size_t,
    ssize_t,
};
use std::collections::HashMap;
use std::ffi::CString;
use std::io::SeekFrom;
use std::sync::{Mutex, PoisonError};
use strait_store::{BlockLocation, ErrorKind, FileStatus, Result, SetAttributes, fail};

/// See strait.h.
pub struct strait_file(Stream);

/// See strait.h.
#[repr(C)]
pub struct strait_status {
    size: u64,
    modified_ms: i64,
    accessed_ms: i64,
    mode: u32,
    uid: u32,
    gid: u32,
    replication: u32,
}

/// Numbers of users and groups on this host, so that a listing looks each of them up once.
#[derive(Default)]
struct Numbers {
    users: HashMap<String, u32>,
    groups: HashMap<String, u32>,
}

impl Numbers {
    fn of(&mut self, found: &FileStatus) -> (u32, u32) {
        let look_up = |known: &mut HashMap<String, u32>, name: &String, number: fn(&str) -> u32| {
            known.get(name).copied().unwrap_or_else(|| *known.entry(name.clone()).or_insert(number(name)))
        };
        let user = look_up(&mut self.users, &found.owner, process::user_id);
        (user, look_up(&mut self.groups, &found.group, process::group_id))
    }
}

impl strait_status {
    /// The status as C programs get it.
    pub fn of(found: &FileStatus) -> Self {
        Self::with(found, &mut Numbers::default())
    }

    fn with(found: &FileStatus, numbers: &mut Numbers) -> Self {
        let (uid, gid) = numbers.of(found);
        let file_type = if found.is_directory() { S_IFDIR } else { S_IFREG };
        Self {
            size: found.length,
            modified_ms: found.modified_ms,
            accessed_ms: found.accessed_ms,
            mode: file_type | found.permission,
            uid,
            gid,
            replication: found.replication.into(),
        }
    }
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_open(uri: *const c_char, flags: c_int, mode: mode_t) -> *mut strait_file {
    reported(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let file = Stream::open(unsafe { text(uri)? }, flags, mode)?;
        Ok(Box::into_raw(Box::new(strait_file(file))))
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open; `bytes` points to `n` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_read(file: *mut strait_file, bytes: *mut c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)?.0.read(buffer_of(bytes, n)?) }.map(|read| read as ssize_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open; `bytes` points to `n` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_pread(
    file: *mut strait_file,
    bytes: *mut c_void,
    n: size_t,
    offset: off_t,
) -> ssize_t {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let read = unsafe { pointed(file)?.0.read_at(buffer_of(bytes, n)?, unsigned(offset)?) };
        read.map(|read| read as ssize_t)
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_seek(file: *mut strait_file, offset: off_t, whence: c_int) -> off_t {
    reported(-1, || {
        let to = match whence {
            SEEK_SET => SeekFrom::Start(unsigned(offset)?),
            SEEK_CUR => SeekFrom::Current(offset),
            SEEK_END => SeekFrom::End(offset),
            _ => {
                return fail(
                    ErrorKind::InvalidArgument,
                    "seek from where: SEEK_SET, SEEK_CUR or SEEK_END is needed",
                );
            }
        };
        // SAFETY: the caller's promise. Offsets above 2^63 - 1 can't be reached.
        unsafe { pointed(file)? }.0.seek(to).map(|offset| offset as off_t)
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open; `bytes` has `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_write(file: *mut strait_file, bytes: *const c_void, n: size_t) -> ssize_t {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)?.0.write(bytes_of(bytes, n)?) }.map(|written| written as ssize_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_position(file: *mut strait_file) -> off_t {
    // SAFETY: the caller's promise. Lengths fit into off_t.
    reported(-1, || unsafe { pointed(file)? }.0.position().map(|position| position as off_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_length(file: *mut strait_file) -> off_t {
    // SAFETY: the caller's promise. Lengths fit into off_t.
    reported(-1, || unsafe { pointed(file)? }.0.length().map(|length| length as off_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_flush(file: *mut strait_file) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)? }.0.flush().map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_sync(file: *mut strait_file) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)? }.0.sync().map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open, and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_close(file: *mut strait_file) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        unsafe { pointed(file)? };
        // SAFETY: the caller's promise; strait_open made the box.
        unsafe { Box::from_raw(file) }.0.close().map(|()| 0)
    })
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; `status` is null, or points to a writable status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_stat(uri: *const c_char, status: *mut strait_status) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let found = paths::stat(unsafe { text(uri)? })?;
        // SAFETY: the caller's promise.
        unsafe { give(status, strait_status::of(&found)) }
    })
}

/// See strait.h.
pub struct strait_listing {
    listing: Listing,
    /// The latest entry's name, which the caller may read until the next call; and the numbers of owners.
    latest: Mutex<(CString, Numbers)>,
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_list(uri: *const c_char) -> *mut strait_listing {
    reported(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let listing = Listing::begin(unsafe { text(uri)? })?;
        Ok(Box::into_raw(Box::new(strait_listing { listing, latest: Mutex::default() })))
    })
}

/// See strait.h.
///
/// # Safety
/// `listing` comes from `strait_list`; `name` and `status` are null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_list_next(
    listing: *mut strait_listing,
    name: *mut *const c_char,
    status: *mut strait_status,
) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let listing = unsafe { pointed(listing)? };
        let Some(entry) = listing.listing.next()? else { return Ok(0) };
        let mut latest = listing.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let (kept, numbers) = &mut *latest;
        *kept = CString::new(entry.name()).unwrap_or_default();
        // SAFETY: the caller's promise.
        unsafe {
            if !name.is_null() {
                name.write(kept.as_ptr());
            }
            if !status.is_null() {
                status.write(strait_status::with(&entry, numbers));
            }
        }
        Ok(1)
    })
}

/// See strait.h.
///
/// # Safety
/// `listing` is null, or comes from `strait_list` and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_list_end(listing: *mut strait_listing) {
    reported((), || {
        if !listing.is_null() {
            // SAFETY: the caller's promise; strait_list made the box.
            drop(unsafe { Box::from_raw(listing) });
        }
        Ok(())
    });
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_mkdirs(uri: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::mkdirs(unsafe { text(uri)? }, permission(mode)).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_rename(uri: *const c_char, to: *const c_char, replace: c_int) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::rename(unsafe { text(uri)? }, unsafe { text(to)? }, replace != 0).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_remove(uri: *const c_char, recursive: c_int) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::remove(unsafe { text(uri)? }, recursive != 0).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_truncate(uri: *const c_char, length: off_t) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::truncate(unsafe { text(uri)? }, unsigned(length)?).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `uri` and the `count` texts at `sources` end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_concat(
    uri: *const c_char,
    sources: *const *const c_char,
    count: size_t,
) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::concat(unsafe { text(uri)? }, &unsafe { texts(sources, count)? }).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_chmod(uri: *const c_char, mode: mode_t) -> c_int {
    // A status's mode has the type, too.
    let permission = match mode & S_IFMT {
        S_IFREG | S_IFDIR => mode & !S_IFMT,
        _ => mode,
    };
    // SAFETY: the caller's promise.
    unsafe { set(uri, SetAttributes { permission: Some(permission), ..SetAttributes::default() }) }
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; so do `owner` and `group`, unless they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_chown(
    uri: *const c_char,
    owner: *const c_char,
    group: *const c_char,
) -> c_int {
    reported(-1, || {
        let name = |name: *const c_char| match name.is_null() {
            true => Ok(None),
            // SAFETY: the caller's promise.
            false => unsafe { text(name) }.map(|name| Some(name.to_owned())),
        };
        let set = SetAttributes { owner: name(owner)?, group: name(group)?, ..SetAttributes::default() };
        // SAFETY: the caller's promise.
        paths::set_attributes(unsafe { text(uri)? }, &set).map(|()| 0)
    })
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_utime(uri: *const c_char, accessed_ms: i64, modified_ms: i64) -> c_int {
    let set = SetAttributes {
        accessed_ms: Some(accessed_ms),
        modified_ms: Some(modified_ms),
        ..SetAttributes::default()
    };
    // SAFETY: the caller's promise.
    unsafe { self::set(uri, set) }
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_set_replication(uri: *const c_char, replicas: c_int) -> c_int {
    reported(-1, || {
        let Ok(replicas) = u16::try_from(replicas) else {
            return fail(
                ErrorKind::InvalidArgument,
                format!("{replicas} replicas: 1 to 65535 can be asked for"),
            );
        };
        let set = SetAttributes { replication: Some(replicas), ..SetAttributes::default() };
        // SAFETY: the caller's promise.
        paths::set_attributes(unsafe { text(uri)? }, &set).map(|()| 0)
    })
}

/// # Safety
/// `uri` ends with a zero byte.
unsafe fn set(uri: *const c_char, set: SetAttributes) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::set_attributes(unsafe { text(uri)? }, &set).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_put(local: *const c_char, uri: *const c_char, replace: c_int) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || {
        copies::put(unsafe { local_path(local)? }, unsafe { text(uri)? }, replace != 0).map(|()| 0)
    })
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_get(uri: *const c_char, local: *const c_char, replace: c_int) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || {
        copies::get(unsafe { text(uri)? }, unsafe { local_path(local)? }, replace != 0).map(|()| 0)
    })
}

/// See strait.h.
pub struct strait_blocks(Owned<Mutex<Blocks>>);

struct Blocks {
    left: std::vec::IntoIter<BlockLocation>,
    /// The latest block's hosts, which the caller may read until the next call.
    hosts: CString,
}

/// See strait.h.
#[repr(C)]
pub struct strait_block {
    offset: u64,
    length: u64,
    hosts: *const c_char,
    corrupt: c_int,
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_locate(
    uri: *const c_char,
    offset: off_t,
    length: off_t,
) -> *mut strait_blocks {
    reported(std::ptr::null_mut(), || {
        let start = unsigned(offset)?;
        let range = start..start.saturating_add(unsigned(length)?);
        // SAFETY: the caller's promise.
        let (process, blocks) = paths::locate(unsafe { text(uri)? }, range)?;
        let blocks = Mutex::new(Blocks { left: blocks.into_iter(), hosts: CString::default() });
        Ok(Box::into_raw(Box::new(strait_blocks(Owned::new(process, blocks)))))
    })
}

/// See strait.h.
///
/// # Safety
/// `blocks` comes from `strait_locate`; `block` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_locate_next(blocks: *mut strait_blocks, block: *mut strait_block) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let (_, blocks) = unsafe { pointed(blocks)? }.0.get()?;
        if block.is_null() {
            return fail(ErrorKind::InvalidArgument, "the place for the block is a null pointer");
        }
        let mut blocks = blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(BlockLocation { offset, length, hosts, corrupt, .. }) = blocks.left.next() else {
            return Ok(0);
        };
        blocks.hosts = CString::new(hosts.join(",")).unwrap_or_default();
        let found = strait_block { offset, length, hosts: blocks.hosts.as_ptr(), corrupt: corrupt.into() };
        // SAFETY: the caller's promise.
        unsafe { give(block, found) }.map(|_| 1)
    })
}

/// See strait.h.
///
/// # Safety
/// `blocks` is null, or comes from `strait_locate` and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_locate_end(blocks: *mut strait_blocks) {
    reported((), || {
        if !blocks.is_null() {
            // SAFETY: the caller's promise; strait_locate made the box.
            drop(unsafe { Box::from_raw(blocks) });
        }
        Ok(())
    });
}

/// Bytes of the arrays in [`strait_checksum`], enough for the stores' names and SHA-512.
const CHECKSUM_BYTES: usize = 64;

/// See strait.h.
#[repr(C)]
pub struct strait_checksum {
    algorithm: [c_char; CHECKSUM_BYTES],
    value: [u8; CHECKSUM_BYTES],
    length: u32,
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; `checksum` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_file_checksum(uri: *const c_char, checksum: *mut strait_checksum) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let found = paths::checksum(unsafe { text(uri)? })?;
        // SAFETY: the caller's promise.
        unsafe { give(checksum, in_arrays(&found.algorithm, &found.value)?) }
    })
}

fn in_arrays(algorithm: &str, value: &[u8]) -> Result<strait_checksum> {
    if algorithm.len() >= CHECKSUM_BYTES || value.len() > CHECKSUM_BYTES {
        return fail(
            ErrorKind::Unsupported,
            format!("the checksum {algorithm} is too long for this library"),
        );
    }
    let mut arrays = strait_checksum {
        algorithm: [0; CHECKSUM_BYTES],
        value: [0; CHECKSUM_BYTES],
        length: value.len() as u32,
    };
    for (to, from) in arrays.algorithm.iter_mut().zip(algorithm.bytes()) {
        *to = from as c_char;
    }
    arrays.value[..value.len()].copy_from_slice(value);
    Ok(arrays)
}

/// See strait.h.
#[repr(C)]
pub struct strait_space {
    capacity: u64,
    used: u64,
    remaining: u64,
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; `space` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_statfs(uri: *const c_char, space: *mut strait_space) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let found = paths::status(unsafe { text(uri)? })?;
        let (capacity, used, remaining) = (found.capacity, found.used, found.remaining);
        // SAFETY: the caller's promise.
        unsafe { give(space, strait_space { capacity, used, remaining }) }
    })
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_can(uri: *const c_char, capability: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || paths::can(unsafe { text(uri)? }, unsafe { text(capability)? }).map(c_int::from))
}
