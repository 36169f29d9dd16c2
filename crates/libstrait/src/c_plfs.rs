//! The functions for logical files.

use crate::arguments::{buffer_of, bytes_of, give, pointed, text, unsigned};
use crate::c_files::strait_status;
use crate::failure::reported;
use crate::plfs::{self, File};
use nix::libc::{c_char, c_int, c_void, mode_t, off_t, size_t, ssize_t};

/// An open logical file.
pub struct strait_plfs(File);

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_open(
    uri: *const c_char,
    flags: c_int,
    mode: mode_t,
    writer: u32,
) -> *mut strait_plfs {
    reported(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let file = File::open(unsafe { text(uri)? }, flags, mode, writer)?;
        Ok(Box::into_raw(Box::new(strait_plfs(file))))
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open; `bytes` has `n` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_pwrite(
    file: *mut strait_plfs,
    bytes: *const c_void,
    n: size_t,
    offset: off_t,
) -> ssize_t {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let file = &unsafe { pointed(file)? }.0;
        // SAFETY: the caller's promise.
        file.write_at(unsigned(offset)?, unsafe { bytes_of(bytes, n)? })?;
        Ok(n as ssize_t)
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open; `bytes` points to `n` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_pread(
    file: *mut strait_plfs,
    bytes: *mut c_void,
    n: size_t,
    offset: off_t,
) -> ssize_t {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let file = &unsafe { pointed(file)? }.0;
        // SAFETY: the caller's promise.
        let into = unsafe { buffer_of(bytes, n)? };
        let (start, mut done) = (unsigned(offset)?, 0);
        while done < n {
            let piece = file.read_at(start + done as u64, n - done)?;
            if piece.is_empty() {
                break;
            }
            into[done..done + piece.len()].copy_from_slice(&piece);
            done += piece.len();
        }
        Ok(done as ssize_t)
    })
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_sync(file: *mut strait_plfs) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)? }.0.sync().map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_truncate(file: *mut strait_plfs, length: off_t) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { pointed(file)? }.0.truncate(unsigned(length)?).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_length(file: *mut strait_plfs) -> off_t {
    // SAFETY: the caller's promise. Lengths fit into off_t.
    reported(-1, || unsafe { pointed(file)? }.0.length().map(|length| length as off_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open, and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_close(file: *mut strait_plfs) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        unsafe { pointed(file)? };
        // SAFETY: the caller's promise; strait_plfs_open made the box.
        unsafe { Box::from_raw(file) }.0.close().map(|()| 0)
    })
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_flatten(uri: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || plfs::flatten(unsafe { text(uri)? }, unsafe { text(to)? }).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_finalize(uri: *const c_char, to: *const c_char) -> i64 {
    // SAFETY: the caller's promise. Lengths fit into an i64.
    reported(-1, || plfs::finalize(unsafe { text(uri)? }, unsafe { text(to)? }).map(|moved| moved as i64))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_rename(uri: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || plfs::rename(unsafe { text(uri)? }, unsafe { text(to)? }).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; `status` is null, or points to a writable status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_stat(uri: *const c_char, status: *mut strait_status) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let found = plfs::status(unsafe { text(uri)? })?;
        // SAFETY: the caller's promise.
        unsafe { give(status, strait_status::of(&found)) }
    })
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_remove(uri: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || plfs::remove(unsafe { text(uri)? }).map(|()| 0))
}
