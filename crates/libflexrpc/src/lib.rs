//! FlexRPC's C library. `include/flexrpc.h` declares its functions, and `docs/flexrpc-c.md` is the manual.
//!
//! ```text
//!   C program ── callers.rs (handles, options, calls, multicasts, outcomes) ─┬─ strait-flexrpc
//!      ├──────── callees.rs (programs, dispatch, the server) ───────────────┘
//!      └──────── xdr.rs (routines with the signatures of rpc/xdr.h)
//! ```
//!
//! A panic must never unwind into C, and functions must not dereference a pointer before its null check.

#![allow(non_camel_case_types)]

/// Declares options, and a function `name` that returns an option's name in the header: `$prefix` and
/// `$name`.
macro_rules! options {
    ($prefix:literal, $($name:ident = $number:literal,)*) => {
        $(const $name: c_uint = $number;)*

        fn name(option: c_uint) -> Option<&'static str> {
            match option {
                $($number => Some(concat!($prefix, stringify!($name))),)*
                _ => None,
            }
        }
    };
}

mod callees;
mod callers;
mod tls;
mod xdr;

use nix::libc::{c_char, c_int};
use std::cell::RefCell;
use std::ffi::{CStr, CString};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The text of an error after a panic.
const DEFECT: &str = "internal error in libflexrpc (a panic); please report it";

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// While it exists, pthread_cancel(3) is deferred, because its unwinding must not pass through Rust code.
struct Uncancelled(c_int);

impl Uncancelled {
    fn begin() -> Self {
        /// `PTHREAD_CANCEL_DISABLE`.
        const DISABLE: c_int = 1;
        let mut before = 0;
        // SAFETY: it writes the old state to `before`, and only fails for unknown states.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut unused = 0;
        // SAFETY: as above; the first call returned this state.
        unsafe { pthread_setcancelstate(self.0, &raw mut unused) };
    }
}

/// Runs `work`. If it fails or panics, sets the text of `frpc_error()` and returns `failed`: a panic must not
/// unwind into C.
fn guarded<T>(failed: T, work: impl FnOnce() -> Result<T, String>) -> T {
    let _uncancelled = Uncancelled::begin();
    let done = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(DEFECT.to_owned()));
    done.unwrap_or_else(|error| {
        let text = CString::new(error.replace('\0', "\\0")).unwrap_or_default();
        // A thread that is ending may have lost its thread-local variables.
        let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
        failed
    })
}

/// A caller's string. `what` names it in errors.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
unsafe fn text<'c>(text: *const c_char, what: &str) -> Result<&'c str, String> {
    if text.is_null() {
        return Err(format!("the {what} is a null pointer"));
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| format!("the {what} isn't UTF-8"))
}

/// See flexrpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_error() -> *const c_char {
    let last = LAST_ERROR.try_with(|last| last.borrow().as_ptr());
    last.unwrap_or(c"the thread is ending, so its error text is lost".as_ptr())
}
