//! Functions by which programs read properties of the configuration.

use crate::failure::{Failure, Outcome, set_errno, tell};
use crate::{configuration, text};
use nix::libc::{self, ENOMEM, c_char, c_int};
use std::ffi::CString;

/// Runs `work`. Returns 0, or the errno, which it also sets.
fn numbered(work: impl FnOnce() -> Outcome<()>) -> c_int {
    tell(work).map_or_else(
        |errno| {
            set_errno(errno);
            errno
        },
        |()| 0,
    )
}

/// A copy of the text. The caller frees it by free(3) or by one of hdfs.h's functions.
pub fn copied(text: &[u8]) -> Outcome<*mut c_char> {
    let text = CString::new(text).map_err(|_| Failure::invalid("the text for the program has a NUL byte"))?;
    // SAFETY: it ends with a zero byte.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    if copy.is_null() { Err(Failure::new(ENOMEM, "no memory for a string")) } else { Ok(copy) }
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConfGetStr(key: *const c_char, val: *mut *mut c_char) -> c_int {
    numbered(|| {
        // SAFETY: as hdfs.h asks.
        let name = unsafe { text(key)? };
        let value = configuration::value(&configuration::load()?, &name);
        let value = value.map_or(Ok(std::ptr::null_mut()), |value| copied(value.as_bytes()))?;
        if val.is_null() {
            // SAFETY: strdup made it, or it is null.
            unsafe { libc::free(value.cast()) };
            return Err(Failure::invalid("the pointer to the value is null"));
        }
        // SAFETY: as hdfs.h asks.
        unsafe { val.write(value) };
        Ok(())
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConfGetInt(key: *const c_char, val: *mut i32) -> c_int {
    numbered(|| {
        // SAFETY: as hdfs.h asks.
        let name = unsafe { text(key)? };
        let Some(number) = configuration::number(&configuration::load()?, &name)? else { return Ok(()) };
        // SAFETY: as hdfs.h asks.
        let val = unsafe { val.as_mut() };
        *val.ok_or_else(|| Failure::invalid("the pointer to the number is null"))? = number;
        Ok(())
    })
}

/// See hdfs.h.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hdfsConfStrFree(val: *mut c_char) {
    // SAFETY: hdfsConfGetStr made it, or it is null.
    unsafe { libc::free(val.cast()) };
}
