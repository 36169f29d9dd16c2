//! Reads without a copy: the program gets the store's own buffer.

use crate::failure::{Failure, reported, set_errno};
use crate::streams::{hdfsFile_internal, input};
use crate::{optional, unsigned};
use bytes::Bytes;
use nix::libc::{EINVAL, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// Hadoop's only buffer pool that programs name (`ELASTIC_BYTE_BUFFER_POOL_CLASS`).
const POOL: &[u8] = b"org/apache/hadoop/io/ElasticByteBufferPool";

/// Options of zero-copy reads. They have no effect: checksums are always checked, and there is no buffer
/// pool.
pub struct hadoopRzOptions {
    skips_checksums: bool,
}

/// Bytes of a file.
pub struct hadoopRzBuffer(Bytes);

/// See hdfs.h.
#[unsafe(no_mangle)]
pub extern "C" fn hadoopRzOptionsAlloc() -> *mut hadoopRzOptions {
    Box::into_raw(Box::new(hadoopRzOptions { skips_checksums: false }))
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzOptionsSetSkipChecksum(opts: *mut hadoopRzOptions, skip: c_int) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        let options = unsafe { opts.as_mut() };
        options.ok_or_else(|| Failure::invalid("the options argument is a null pointer"))?.skips_checksums =
            skip != 0;
        Ok(0)
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzOptionsSetByteBufferPool(
    opts: *mut hadoopRzOptions,
    className: *const c_char,
) -> c_int {
    reported(-1, || {
        // SAFETY: as hdfs.h asks.
        match unsafe { optional(className) } {
            _ if opts.is_null() => Err(Failure::invalid("the options argument is a null pointer")),
            None | Some(POOL) => Ok(0),
            Some(other) => {
                Err(Failure::invalid(format!("{}: unknown buffer pool", String::from_utf8_lossy(other))))
            }
        }
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzOptionsFree(opts: *mut hadoopRzOptions) {
    if !opts.is_null() {
        // SAFETY: hadoopRzOptionsAlloc made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(opts) });
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopReadZero(
    file: *mut hdfsFile_internal,
    _opts: *mut hadoopRzOptions,
    maxLength: i32,
) -> *mut hadoopRzBuffer {
    reported(null_mut(), || {
        // SAFETY: as hdfs.h asks.
        let (input, most) = unsafe { (input(file, EINVAL)?, unsigned(maxLength.into())?) };
        let bytes = input.read_some(most as usize)?;
        set_errno(0);
        Ok(Box::into_raw(Box::new(hadoopRzBuffer(bytes))))
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzBufferLength(buffer: *const hadoopRzBuffer) -> i32 {
    // SAFETY: as hdfs.h asks. A buffer is shorter than the largest int.
    unsafe { buffer.as_ref() }.map_or(0, |buffer| buffer.0.len() as i32)
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzBufferGet(buffer: *const hadoopRzBuffer) -> *const c_void {
    // SAFETY: as hdfs.h asks.
    match unsafe { buffer.as_ref() } {
        Some(buffer) if !buffer.0.is_empty() => buffer.0.as_ptr().cast(),
        _ => null(),
    }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hadoopRzBufferFree(_file: *mut hdfsFile_internal, buffer: *mut hadoopRzBuffer) {
    if !buffer.is_null() {
        // SAFETY: hadoopReadZero made the box, and the caller gives it up.
        drop(unsafe { Box::from_raw(buffer) });
    }
}
