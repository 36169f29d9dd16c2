//! A replacement for Hadoop's C library libhdfs, over every store and without a JVM. `include/hdfs.h` is the
//! manual, and `docs/libhdfs.md` lists the differences.
//!
//! ```text
//!   C program ── connections, names, listings, streams, zero_copy, properties (pointers, errno)
//!                     │
//!                filesystem (a connection) ── file (an open file), copying ── strait-store-any
//!                     │
//!                process (state of one process)       failure (errno and texts)
//! ```
//!
//! This room must never: install a signal handler, or take a signal that is meant for the program;
//! let a panic cross into C; in a forked child, touch its parent's connections or locks.

#![allow(non_camel_case_types, non_snake_case, reason = "hdfs.h has these names")]
#![allow(clippy::missing_safety_doc, reason = "hdfs.h states the duties of each function's caller")]

mod configuration;
mod connections;
mod copying;
mod failure;
mod file;
mod filesystem;
mod listings;
mod names;
mod process;
mod properties;
mod streams;
mod zero_copy;

use failure::{Failure, Outcome};
use filesystem::Connection;
use nix::libc::c_char;
use std::ffi::CStr;
use std::sync::Arc;

/// Size of one read or write.
pub type tSize = i32;
/// Seconds since 1970-01-01 UTC.
pub type tTime = nix::libc::time_t;
/// An offset in a file.
pub type tOffset = i64;
/// A port.
pub type tPort = u16;

/// A connection.
pub struct hdfs_internal(Arc<Connection>);

/// The connection behind a caller's handle.
///
/// # Safety
/// `fs` is null, or comes from a connect function and wasn't disconnected.
unsafe fn connection<'c>(fs: *const hdfs_internal) -> Outcome<&'c Arc<Connection>> {
    // SAFETY: the caller's promise.
    match unsafe { fs.as_ref() } {
        Some(fs) => Ok(&fs.0),
        None => Err(Failure::bad_handle("the connection is a null pointer")),
    }
}

/// The bytes of a caller's string; `None` for a null pointer.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn optional<'c>(text: *const c_char) -> Option<&'c [u8]> {
    // SAFETY: the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// The bytes of a caller's string. A null pointer is an error.
///
/// # Safety
/// As [`optional`].
unsafe fn bytes<'c>(text: *const c_char) -> Outcome<&'c [u8]> {
    // SAFETY: the caller's promise.
    unsafe { optional(text) }.ok_or_else(|| Failure::invalid("a string argument is a null pointer"))
}

/// As [`bytes`], for a text that must be UTF-8.
///
/// # Safety
/// As [`optional`].
unsafe fn text(text: *const c_char) -> Outcome<String> {
    // SAFETY: the caller's promise.
    utf8(unsafe { bytes(text)? })
}

fn utf8(text: &[u8]) -> Outcome<String> {
    String::from_utf8(text.to_vec()).map_err(|_| Failure::invalid("a string argument isn't UTF-8"))
}

fn unsigned(number: i64) -> Outcome<u64> {
    u64::try_from(number).map_err(|_| Failure::invalid(format!("{number} is negative")))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsGetLastExceptionRootCause() -> *mut c_char {
    failure::last_cause().unwrap_or(std::ptr::null()).cast_mut()
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub extern "C" fn hdfsGetLastExceptionStackTrace() -> *mut c_char {
    failure::last_trace().unwrap_or(std::ptr::null()).cast_mut()
}
