//! What C programs pass: texts, buffers, numbers and handles.

use nix::libc::{c_char, c_int, c_void, off_t, size_t};
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use strait_store::{Error, ErrorKind, Result, fail};

/// Most bytes of one read or write: the limit of a slice.
const MAX_BYTES: size_t = isize::MAX as size_t;

/// A caller's string: a URI or a name.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
pub unsafe fn text<'c>(text: *const c_char) -> Result<&'c str> {
    if text.is_null() {
        return fail(ErrorKind::InvalidArgument, "the URI is a null pointer");
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let wrong =
        |_| Error::new(ErrorKind::InvalidArgument, "the URI isn't UTF-8, so it names no file of a store");
    text.to_str().map_err(wrong)
}

/// A caller's strings.
///
/// # Safety
/// `list` is null, or points to `count` pointers, each as for [`text`].
pub unsafe fn texts<'c>(list: *const *const c_char, count: size_t) -> Result<Vec<&'c str>> {
    if count > 0 && list.is_null() {
        return fail(ErrorKind::InvalidArgument, "the list of URIs is a null pointer");
    }
    // SAFETY: the caller's promise.
    (0..count).map(|i| unsafe { text(*list.add(i)) }).collect()
}

/// A caller's path on this host.
///
/// # Safety
/// `path` is null, or ends with a zero byte.
pub unsafe fn local_path<'c>(path: *const c_char) -> Result<&'c Path> {
    if path.is_null() {
        return fail(ErrorKind::InvalidArgument, "the local path is a null pointer");
    }
    // SAFETY: the caller's promise.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes())))
}

/// The value behind a caller's handle.
///
/// # Safety
/// `handle` is null, or comes from a function of this library and wasn't closed.
pub unsafe fn pointed<'c, T>(handle: *const T) -> Result<&'c T> {
    // SAFETY: the caller's promise.
    match unsafe { handle.as_ref() } {
        Some(pointed) => Ok(pointed),
        None => fail(ErrorKind::InvalidArgument, "the handle is a null pointer"),
    }
}

/// The bytes that a caller passes.
///
/// # Safety
/// `bytes` is null, or points to `n` bytes that nobody changes meanwhile.
pub unsafe fn bytes_of<'c>(bytes: *const c_void, n: size_t) -> Result<&'c [u8]> {
    if n == 0 {
        return Ok(&[]);
    }
    check_buffer(bytes, n)?;
    // SAFETY: the caller's promise; the buffer isn't null, and a slice can have this length.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), n) })
}

/// The buffer that a caller wants filled.
///
/// # Safety
/// `bytes` is null, or points to `n` bytes that only this call uses meanwhile.
pub unsafe fn buffer_of<'c>(bytes: *mut c_void, n: size_t) -> Result<&'c mut [u8]> {
    if n == 0 {
        return Ok(&mut []);
    }
    check_buffer(bytes, n)?;
    // SAFETY: the caller's promise; the buffer isn't null, and a slice can have this length.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes.cast::<u8>(), n) })
}

fn check_buffer(bytes: *const c_void, n: size_t) -> Result<()> {
    if bytes.is_null() {
        return fail(ErrorKind::InvalidArgument, "the buffer is a null pointer");
    }
    match n > MAX_BYTES {
        true => fail(ErrorKind::InvalidArgument, "the length of the buffer is above SSIZE_MAX"),
        false => Ok(()),
    }
}

/// Gives a result to the caller, and returns 0.
///
/// # Safety
/// `into` is null or writable.
pub unsafe fn give<T>(into: *mut T, result: T) -> Result<c_int> {
    if into.is_null() {
        return fail(ErrorKind::InvalidArgument, "the place for the result is a null pointer");
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(result) };
    Ok(0)
}

/// A number that C passes with a sign.
pub fn unsigned(number: off_t) -> Result<u64> {
    let negative = |_| Error::new(ErrorKind::InvalidArgument, "an offset or length is negative");
    u64::try_from(number).map_err(negative)
}
