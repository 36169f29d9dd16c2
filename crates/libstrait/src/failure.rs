//! A failed call's errno and texts.

use nix::errno::Errno;
use nix::libc::{c_char, c_int};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::CString;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use strait_store::{Error, ErrorKind, Result, fail};

/// Causes of InvalidArgument for which C has an errno of their own.
#[derive(Debug, Clone, Copy)]
pub enum Cause {
    /// The handle is another process's, or can't do this.
    BadHandle,
    /// Two paths in different stores.
    TwoStores,
}

impl Cause {
    fn errno(self) -> Errno {
        match self {
            Self::BadHandle => Errno::EBADF,
            Self::TwoStores => Errno::EXDEV,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.errno().desc())
    }
}

impl std::error::Error for Cause {}

/// An error with this cause.
pub fn because(cause: Cause, message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).caused_by(cause)
}

/// While it lives, the thread isn't cancelled (pthread_cancel(3)): a cancellation can't unwind Rust's frames.
struct NotCancelled(c_int);

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

impl NotCancelled {
    fn begin() -> Self {
        let mut before = 0;
        // SAFETY: the place for the earlier state is valid.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for NotCancelled {
    fn drop(&mut self) {
        // SAFETY: the state is one that the function gave; the earlier one isn't wanted.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// The texts of a thread's latest error.
#[derive(Default)]
struct Told {
    text: CString,
    kind: CString,
    path: CString,
}

thread_local! {
    static LATEST: RefCell<Told> = RefCell::default();
}

/// Runs `work`. If it fails, sets errno and the thread's texts, and returns `failed`.
pub fn reported<T>(failed: T, work: impl FnOnce() -> Result<T>) -> T {
    let _whole = NotCancelled::begin();
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| fail(ErrorKind::Internal, "libstrait panicked; please report it"));
    done.unwrap_or_else(|error| {
        let row = error.kind().row();
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Cause>());
        let errno = cause.map_or(Errno::from_raw(row.errno), |cause| cause.errno());
        let c_text = |text: &str| CString::new(text.replace('\0', "\\0")).unwrap_or_default();
        let told =
            Told { text: c_text(&error.to_string()), kind: c_text(row.name), path: c_text(error.path()) };
        // While a thread ends, its thread-local storage is gone. Then the texts are lost, and only errno
        // remains.
        let _ = LATEST.try_with(|latest| *latest.borrow_mut() = told);
        errno.set();
        failed
    })
}

fn latest(which: impl FnOnce(&Told) -> &CString) -> *const c_char {
    LATEST.try_with(|latest| which(&latest.borrow()).as_ptr()).unwrap_or(c"".as_ptr())
}

/// See strait.h.
#[unsafe(no_mangle)]
pub extern "C" fn strait_error() -> *const c_char {
    latest(|told| &told.text)
}

/// See strait.h.
#[unsafe(no_mangle)]
pub extern "C" fn strait_error_kind() -> *const c_char {
    latest(|told| &told.kind)
}

/// See strait.h.
#[unsafe(no_mangle)]
pub extern "C" fn strait_error_path() -> *const c_char {
    latest(|told| &told.path)
}
