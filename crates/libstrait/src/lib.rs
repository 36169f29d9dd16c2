//! Strait's C library. `include/strait.h` is the manual.
//!
//! ```text
//!   C program ── lib.rs (pointers, errno) ── file.rs (an open file) ── strait-plfs ── a store
//!                                  process.rs (state of one process)
//! ```
//!
//! `mpi/` is a library in C on top of this one: MPI-IO for programs that weren't written for Strait.
//!
//! Only this file handles C pointers and errno; the other files are plain Rust.

#![allow(non_camel_case_types)]

mod file;
mod process;

use file::File;
use nix::errno::Errno;
use nix::libc::{c_char, c_int, c_void, mode_t, off_t, size_t, ssize_t};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use strait_store::{Error, ErrorKind, FileStatus, Result, fail};

/// An open logical file.
pub struct strait_plfs(File);

/// Most bytes of one write: the limit of a slice.
const MAX_WRITE_BYTES: size_t = isize::MAX as size_t;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Runs `work`. If it fails, sets errno and the thread's error text, and returns `failed`.
fn reported<T>(failed: T, work: impl FnOnce() -> Result<T>) -> T {
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| fail(ErrorKind::Internal, "libstrait panicked; please report it"));
    done.unwrap_or_else(|error| {
        // A child process used a file that its parent process opened.
        let errno = if file::is_of_a_parent(&error) {
            Errno::EBADF
        } else {
            Errno::from_raw(error.kind().row().errno)
        };
        let text = error.to_string().replace('\0', "\\0");
        // While a thread ends, its thread-local storage is gone. Then the text is lost, and only errno
        // remains.
        let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
        errno.set();
        failed
    })
}

/// A caller's string, which must be a URI.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn text<'c>(text: *const c_char) -> Result<&'c str> {
    if text.is_null() {
        return fail(ErrorKind::InvalidArgument, "the URI is a null pointer");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let wrong = |_| Error::new(ErrorKind::InvalidArgument, "the URI isn't UTF-8; escape other bytes");
    text.to_str().map_err(wrong)
}

/// The file behind a caller's handle.
///
/// # Safety
/// `file` is null, or comes from [`strait_plfs_open`] and wasn't closed.
unsafe fn handle<'c>(file: *const strait_plfs) -> Result<&'c File> {
    // SAFETY: the caller's promise.
    match unsafe { file.as_ref() } {
        Some(file) => Ok(&file.0),
        None => fail(ErrorKind::InvalidArgument, "the file is a null pointer"),
    }
}

fn check_buffer(buffer: *const c_void) -> Result<()> {
    match buffer.is_null() {
        true => fail(ErrorKind::InvalidArgument, "the buffer is a null pointer"),
        false => Ok(()),
    }
}

fn unsigned(number: off_t) -> Result<u64> {
    let negative = |_| Error::new(ErrorKind::InvalidArgument, "an offset or length is negative");
    u64::try_from(number).map_err(negative)
}

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
        let file = unsafe { handle(file)? };
        if n == 0 {
            return Ok(0);
        }
        check_buffer(bytes)?;
        if n > MAX_WRITE_BYTES {
            return fail(ErrorKind::InvalidArgument, "the length of the write is above SSIZE_MAX");
        }
        // SAFETY: the caller's promise; the buffer isn't null, and a slice can have this length.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), n) };
        file.write_at(unsigned(offset)?, bytes)?;
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
        let file = unsafe { handle(file)? };
        let (mut at, mut done) = (unsigned(offset)?, 0);
        if n > 0 {
            check_buffer(bytes)?;
        }
        while done < n {
            let piece = file.read_at(at, n - done)?;
            if piece.is_empty() {
                break;
            }
            // SAFETY: the caller's promise; a piece has at most `n - done` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), bytes.cast::<u8>().add(done), piece.len())
            };
            done += piece.len();
            at += piece.len() as u64;
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
    reported(-1, || unsafe { handle(file)? }.sync().map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_truncate(file: *mut strait_plfs, length: off_t) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || unsafe { handle(file)? }.truncate(unsigned(length)?).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// `file` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_length(file: *mut strait_plfs) -> off_t {
    // SAFETY: the caller's promise. Lengths fit into off_t.
    reported(-1, || unsafe { handle(file)? }.length().map(|length| length as off_t))
}

/// See strait.h.
///
/// # Safety
/// `file` is open, and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_close(file: *mut strait_plfs) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        unsafe { handle(file)? };
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
    reported(-1, || file::flatten(unsafe { text(uri)? }, unsafe { text(to)? }).map(|()| 0))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_finalize(uri: *const c_char, to: *const c_char) -> i64 {
    // SAFETY: the caller's promise. Lengths fit into an i64.
    reported(-1, || file::finalize(unsafe { text(uri)? }, unsafe { text(to)? }).map(|moved| moved as i64))
}

/// See strait.h.
///
/// # Safety
/// Both end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_rename(uri: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || file::rename(unsafe { text(uri)? }, unsafe { text(to)? }).map(|()| 0))
}

/// See strait.h.
#[repr(C)]
pub struct strait_status {
    size: u64,
    modified_ms: i64,
    mode: u32,
    uid: u32,
    gid: u32,
    reserved: u32,
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte; `status` is null, or points to a writable status.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_stat(uri: *const c_char, status: *mut strait_status) -> c_int {
    reported(-1, || {
        // SAFETY: the caller's promise.
        let found = file::status(unsafe { text(uri)? })?;
        if status.is_null() {
            return fail(ErrorKind::InvalidArgument, "the status is a null pointer");
        }
        let (uid, gid) = (process::user_id(&found.owner), process::group_id(&found.group));
        let FileStatus { length: size, modified_ms, permission: mode, .. } = found;
        // SAFETY: the caller's promise.
        unsafe { status.write(strait_status { size, modified_ms, mode, uid, gid, reserved: 0 }) };
        Ok(0)
    })
}

/// See strait.h.
///
/// # Safety
/// `uri` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strait_plfs_remove(uri: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    reported(-1, || file::remove(unsafe { text(uri)? }).map(|()| 0))
}

/// See strait.h.
#[unsafe(no_mangle)]
pub extern "C" fn strait_error() -> *const c_char {
    LAST_ERROR.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}
