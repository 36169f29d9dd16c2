//! Failures: an errno for programs, a text for people.

use nix::libc::{EBADF, EINVAL, EIO, c_int};
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::CString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use strait_store::Error;

/// The errno in hdfs.h for failures that have no errno of their own.
pub const EINTERNAL: c_int = 255;

/// A failed call.
#[derive(Debug)]
pub struct Failure {
    errno: c_int,
    cause: String,
    /// The causes of `cause`, one per line.
    trace: String,
}

/// Result of a call.
pub type Outcome<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this errno and text.
    pub fn new(errno: c_int, cause: impl Into<String>) -> Self {
        Self { errno, cause: cause.into(), trace: String::new() }
    }

    /// A failure because of an invalid argument: EINVAL.
    pub fn invalid(cause: impl Into<String>) -> Self {
        Self::new(EINVAL, cause)
    }

    /// A failure because of a handle that is null or that this process can't use: EBADF.
    pub fn bad_handle(cause: impl Into<String>) -> Self {
        Self::new(EBADF, cause)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut trace = String::new();
        let mut below = error.source();
        while let Some(cause) = below {
            trace.push_str(&format!("caused by: {cause}\n"));
            below = cause.source();
        }
        Self { errno: error.kind().row().errno, cause: error.to_string(), trace }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

#[derive(Default)]
struct Last {
    cause: Option<CString>,
    trace: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

/// Runs `work`. If it fails, sets errno and this thread's text of the last failure, and returns `failed`.
pub fn reported<T>(failed: T, work: impl FnOnce() -> Outcome<T>) -> T {
    tell(work).unwrap_or_else(|errno| {
        set_errno(errno);
        failed
    })
}

/// Runs `work`. If it fails, keeps the text as this thread's last failure, and returns the errno.
pub fn tell<T>(work: impl FnOnce() -> Outcome<T>) -> std::result::Result<T, c_int> {
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failure::new(EIO, "internal error in libhdfs (a panic); please report it")));
    let last = match &done {
        Ok(_) => Last::default(),
        Err(failure) => {
            let c = |text: String| CString::new(text.replace('\0', "\\0")).ok();
            Last {
                cause: c(failure.cause.clone()),
                trace: c(format!("{}\n{}", failure.cause, failure.trace)),
            }
        }
    };
    // While a thread ends, its thread-local storage is gone. Then the text is lost, and only errno remains.
    let _ = LAST.try_with(|kept| *kept.borrow_mut() = last);
    done.map_err(|failure| failure.errno)
}

/// Sets the calling thread's errno.
pub fn set_errno(errno: c_int) {
    nix::errno::Errno::set_raw(errno);
}

/// The text of the thread's last failure, if its last call failed.
pub fn last_cause() -> Option<*const nix::libc::c_char> {
    LAST.try_with(|last| last.borrow().cause.as_ref().map(|text| text.as_ptr())).ok()?
}

/// The text of [`last_cause`], followed by its causes.
pub fn last_trace() -> Option<*const nix::libc::c_char> {
    LAST.try_with(|last| last.borrow().trace.as_ref().map(|text| text.as_ptr())).ok()?
}
