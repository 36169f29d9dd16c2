//! Failures: an errno for programs, a text for people.

use nix::libc::{EBADF, EINVAL, EIO, c_int};
use std::cell::RefCell;
use std::error::Error as _;
use std::ffi::CString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use strait_store::Error;

/// hdfs.h's errno for a failure of the library that has no better one.
pub const EINTERNAL: c_int = 255;

/// A failed call.
#[derive(Debug)]
pub struct Failure {
    errno: c_int,
    cause: String,
    /// The causes below it, one a line.
    trace: String,
}

/// Result of a call.
pub type Outcome<T> = std::result::Result<T, Failure>;

impl Failure {
    /// With this errno and text.
    pub fn new(errno: c_int, cause: impl Into<String>) -> Self {
        Self { errno, cause: cause.into(), trace: String::new() }
    }

    /// The caller's mistake.
    pub fn invalid(cause: impl Into<String>) -> Self {
        Self::new(EINVAL, cause)
    }

    /// A handle that is none, or that this process may not use.
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

/// Runs `work`. Its failure becomes errno, the text of this thread's last failure, and `failed`.
pub fn reported<T>(failed: T, work: impl FnOnce() -> Outcome<T>) -> T {
    tell(work).unwrap_or_else(|errno| {
        set_errno(errno);
        failed
    })
}

/// Runs `work`, and keeps its failure's text. Returns the failure's errno.
pub fn tell<T>(work: impl FnOnce() -> Outcome<T>) -> std::result::Result<T, c_int> {
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(Failure::new(EIO, "a defect of libhdfs; please report it")));
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
    // Without thread-local storage, at a thread's end, the text is lost; errno stays.
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

/// The same with the causes below.
pub fn last_trace() -> Option<*const nix::libc::c_char> {
    LAST.try_with(|last| last.borrow().trace.as_ref().map(|text| text.as_ptr())).ok()?
}
