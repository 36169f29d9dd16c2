//! A failed call's errno and texts.

use crate::process::is_of_a_parent;
use nix::errno::Errno;
use nix::libc::c_char;
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use strait_store::{ErrorKind, Result, fail};

/// What a thread can ask about its latest error.
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
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| fail(ErrorKind::Internal, "libstrait panicked; please report it"));
    done.unwrap_or_else(|error| {
        let row = error.kind().row();
        let errno = if is_of_a_parent(&error) { Errno::EBADF } else { Errno::from_raw(row.errno) };
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
