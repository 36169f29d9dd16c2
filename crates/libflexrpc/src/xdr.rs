//! XDR routines with the signatures of `rpc/xdr.h`. They allocate decoded values by `malloc`, so that C
//! programs can free parts of them.
//!
//! Decoding allocates only for bytes that arrived: an array's count must fit the remaining bytes, and each
//! message has a budget of memory ([`MEMORY_PER_BYTE`]). Pointers and arrays nest at most [`DEPTH`] deep.

mod composite;
pub mod streams;

use composite::frpc_xdr_opaque;
use nix::libc::{self, c_char, c_int, c_uint, c_void};
use streams::Stream;

/// Encode, as in `enum xdr_op`.
pub const ENCODE: c_uint = 0;
/// Decode.
pub const DECODE: c_uint = 1;
/// Free what decoding allocated.
pub const FREE: c_uint = 2;

/// Most bytes of memory that decoding allocates for each byte on the wire. A pointer to a struct of 64
/// optional fields, all absent, needs about as many.
const MEMORY_PER_BYTE: u64 = 64;
/// Memory in bytes that decoding may allocate for each message in addition, however short the message is.
const MEMORY_BASE: u64 = 1 << 20;
/// Most levels of nested pointers and arrays. Each level takes some 300 bytes of stack in a C program. The
/// elements of a list don't count as levels if the link is the last field of an element.
const DEPTH: c_uint = 500;

/// See flexrpc.h.
#[repr(C)]
pub struct Xdr {
    op: c_uint,
    depth: c_uint,
    at: *mut c_char,
    base: *mut c_char,
    left: usize,
    memory: u64,
    growing: *mut Vec<u8>,
    stream: *mut Stream,
    public: *mut c_char,
}

/// A routine for one type.
pub type Routine = unsafe extern "C" fn(*mut Xdr, *mut c_void) -> c_int;

/// The program's routine. A null one is an error.
pub fn given(routine: Option<Routine>) -> Result<Routine, String> {
    routine.ok_or_else(|| {
        "an XDR routine is a null pointer: use xdr_void for no value; each call has a reply".to_owned()
    })
}

impl Xdr {
    /// A stream that appends to `to`, which must not move while the stream is used.
    pub fn to(to: &mut Vec<u8>) -> Self {
        Self { growing: to, ..Self::at(ENCODE, std::ptr::null_mut(), 0) }
    }

    /// A stream that reads `bytes`, which must outlive it.
    pub fn of(bytes: &[u8]) -> Self {
        Self::at(DECODE, bytes.as_ptr().cast_mut().cast(), bytes.len())
    }

    /// A stream over memory.
    fn at(op: c_uint, at: *mut c_char, left: usize) -> Self {
        let memory = MEMORY_BASE + MEMORY_PER_BYTE * left as u64;
        let (growing, stream, public) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        Self { op, depth: 0, at, base: at, left, memory, growing, stream, public }
    }

    /// A stream with which routines free values.
    pub fn freeing() -> Self {
        Self { op: FREE, ..Self::of(&[]) }
    }

    /// Whether no byte is left.
    pub fn is_at_end(&self) -> bool {
        self.left == 0
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: `growing` is null, or the vector given to `to`, which nothing else uses now.
        if let Some(to) = unsafe { self.growing.as_mut() } {
            to.extend_from_slice(bytes);
            return true;
        }
        // SAFETY: null, or made by `streams`, and not destroyed yet.
        if let Some(stream) = unsafe { self.stream.as_mut() } {
            return stream.put(bytes);
        }
        if self.left < bytes.len() {
            return false;
        }
        // SAFETY: the stream has `left` bytes of room from `at` on.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.cast(), bytes.len());
            self.at = self.at.add(bytes.len());
        }
        self.left -= bytes.len();
        true
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        // SAFETY: null, or made by `streams`, and not destroyed yet.
        if let Some(stream) = unsafe { self.stream.as_mut() } {
            let taken = stream.take(count)?;
            self.memory = self.memory.saturating_add(MEMORY_PER_BYTE * count as u64);
            return Some(taken);
        }
        if self.left < count {
            return None;
        }
        let at = self.at.cast_const().cast::<u8>();
        self.left -= count;
        // SAFETY: the stream has `left` bytes from `at` on, `count` at least.
        unsafe {
            self.at = self.at.add(count);
            Some(if count == 0 { &[] } else { std::slice::from_raw_parts(at, count) })
        }
    }

    fn word(&mut self, value: u32) -> bool {
        self.put(&value.to_be_bytes())
    }

    fn taken_word(&mut self) -> Option<u32> {
        self.take(4).map(|bytes| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Allocates zeroed memory. Returns null beyond the budget, or if there is no memory.
    fn allocate(&mut self, bytes: u64) -> *mut c_char {
        if !self.may_allocate(bytes) {
            return std::ptr::null_mut();
        }
        // SAFETY: calloc takes any size; never zero, whose result may be null.
        unsafe { libc::calloc(1, (bytes as usize).max(1)).cast() }
    }

    /// Allocates a copy of bytes with a zero byte after them. Returns null as [`Self::allocate`] does. It
    /// doesn't use zeroed memory, which would be written twice.
    ///
    /// # Safety
    /// `bytes` points to `count` bytes.
    unsafe fn allocate_copy(&mut self, bytes: *const u8, count: usize) -> *mut c_char {
        if !self.may_allocate(count as u64 + 1) {
            return std::ptr::null_mut();
        }
        // SAFETY: malloc takes any size; the caller's promise; the copy has room for `count` bytes and one more.
        unsafe {
            let copy: *mut c_char = libc::malloc(count + 1).cast();
            if !copy.is_null() {
                std::ptr::copy_nonoverlapping(bytes, copy.cast(), count);
                *copy.add(count) = 0;
            }
            copy
        }
    }

    /// Takes `bytes` from the budget. Returns false if the budget has fewer.
    fn may_allocate(&mut self, bytes: u64) -> bool {
        let left = self.memory.checked_sub(bytes);
        self.memory = left.unwrap_or(self.memory);
        left.is_some()
    }

    fn put_padded(&mut self, bytes: &[u8]) -> bool {
        self.put(bytes) && self.put(&[0; 3][..bytes.len().wrapping_neg() & 3])
    }

    fn skip_padding(&mut self, count: usize) -> bool {
        self.take(count.wrapping_neg() & 3).is_some_and(|pad| pad.iter().all(|byte| *byte == 0))
    }

    /// Copies `count` bytes and skips their padding, which must be zero (RFC 4506, section 4.9).
    ///
    /// # Safety
    /// `to` points to `count` writable bytes.
    unsafe fn take_padded(&mut self, to: *mut c_char, count: usize) -> bool {
        let Some(bytes) = self.take(count) else { return false };
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), count) };
        self.skip_padding(count)
    }
}

/// Routines for numbers: `$c` is the type in C, `$wire` the type on the wire, and `$bytes` its size.
macro_rules! numbers {
    ($($name:ident, $c:ty, $wire:ty, $bytes:literal;)*) => {$(
        /// See flexrpc.h.
        ///
        /// # Safety
        /// Stream and value are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(xdrs: *mut Xdr, value: *mut $c) -> c_int {
            // SAFETY: the caller's promise.
            let (xdrs, value) = unsafe { (&mut *xdrs, &mut *value) };
            match xdrs.op {
                ENCODE => match <$wire>::try_from(*value) {
                    Ok(value) => xdrs.put(&value.to_be_bytes()).into(),
                    Err(_) => 0,
                },
                DECODE => match xdrs.take($bytes).and_then(|bytes| bytes.try_into().ok()) {
                    // As in libtirpc, a narrow type takes the low bits.
                    Some(bytes) => {
                        *value = <$wire>::from_be_bytes(bytes) as $c;
                        1
                    }
                    None => 0,
                },
                _ => 1,
            }
        }
    )*};
}

numbers! {
    frpc_xdr_char, i8, i32, 4;
    frpc_xdr_int8_t, i8, i32, 4;
    frpc_xdr_u_char, u8, u32, 4;
    frpc_xdr_short, i16, i32, 4;
    frpc_xdr_u_short, u16, u32, 4;
    frpc_xdr_int, i32, i32, 4;
    frpc_xdr_u_int, u32, u32, 4;
    frpc_xdr_long, libc::c_long, i32, 4;
    frpc_xdr_u_long, libc::c_ulong, u32, 4;
    frpc_xdr_int64_t, i64, i64, 8;
    frpc_xdr_uint64_t, u64, u64, 8;
    frpc_xdr_float, f32, f32, 4;
    frpc_xdr_double, f64, f64, 8;
    frpc_xdr_enum, i32, i32, 4;
}

/// See flexrpc.h. It has the parameters of other routines, so that C compilers don't warn about casts of it.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_xdr_void(_: *mut Xdr, _: *mut c_void) -> c_int {
    1
}

/// See flexrpc.h. Refuses values on the wire other than 0 and 1.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_bool(xdrs: *mut Xdr, value: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    let (xdrs, value) = unsafe { (&mut *xdrs, &mut *value) };
    match xdrs.op {
        ENCODE => xdrs.word((*value != 0).into()).into(),
        DECODE => match xdrs.taken_word() {
            Some(word @ (0 | 1)) => {
                *value = word as c_int;
                1
            }
            _ => 0,
        },
        _ => 1,
    }
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_quadruple(xdrs: *mut Xdr, value: *mut c_char) -> c_int {
    // SAFETY: the caller's promise; the type has 16 bytes.
    unsafe { frpc_xdr_opaque(xdrs, value, 16) }
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_des_block(xdrs: *mut Xdr, value: *mut c_char) -> c_int {
    // SAFETY: the caller's promise; the type has 8 bytes.
    unsafe { frpc_xdr_opaque(xdrs, value, 8) }
}
