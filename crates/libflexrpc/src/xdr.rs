//! XDR routines with the signatures of `rpc/xdr.h`. Values that they decode come from `malloc`, so
//! that C programs can free parts of them.
//!
//! Decoding allocates only for bytes that arrived: a count must fit the bytes left, and a message
//! has a budget of memory ([`MEMORY_PER_BYTE`]). Pointers nest at most [`DEPTH`] deep.

use nix::libc::{self, c_char, c_int, c_uint, c_void};

/// Encode, as in `enum xdr_op`.
pub const ENCODE: c_uint = 0;
/// Decode.
pub const DECODE: c_uint = 1;
/// Free what decoding allocated.
pub const FREE: c_uint = 2;

/// Bytes of memory that decoding may allocate for each byte on the wire. A pointer to a struct of
/// 64 words, all absent, needs about as many.
const MEMORY_PER_BYTE: u64 = 64;
/// Memory for any message, however short.
const MEMORY_BASE: u64 = 1 << 20;
/// Pointers inside pointers. Each takes some 300 bytes of stack in a C program; lists that end in
/// their link don't count.
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
}

/// A routine for one type.
pub type Routine = unsafe extern "C" fn(*mut Xdr, *mut c_void) -> c_int;

impl Xdr {
    /// Appends to `to`, which must stay where it is while this is used.
    pub fn to(to: &mut Vec<u8>) -> Self {
        let null = std::ptr::null_mut();
        Self { op: ENCODE, depth: 0, at: null, base: null, left: 0, memory: 0, growing: to }
    }

    /// Reads `bytes`, which must outlive this.
    pub fn of(bytes: &[u8]) -> Self {
        let at = bytes.as_ptr().cast_mut().cast();
        let memory = MEMORY_BASE + MEMORY_PER_BYTE * bytes.len() as u64;
        let growing = std::ptr::null_mut();
        Self { op: DECODE, depth: 0, at, base: at, left: bytes.len(), memory, growing }
    }

    /// Frees values.
    pub fn freeing() -> Self {
        Self { op: FREE, ..Self::of(&[]) }
    }

    /// Whether no byte is left.
    pub fn is_at_end(&self) -> bool {
        self.left == 0
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        // SAFETY: `growing` is null, or the vector of `to`, which nobody else uses meanwhile.
        if let Some(to) = unsafe { self.growing.as_mut() } {
            to.extend_from_slice(bytes);
            return true;
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

    /// Zeroed memory, or null.
    fn allocate(&mut self, bytes: u64) -> *mut c_char {
        let Some(left) = self.memory.checked_sub(bytes) else { return std::ptr::null_mut() };
        self.memory = left;
        // SAFETY: calloc takes any size; never zero, whose result may be null.
        unsafe { libc::calloc(1, (bytes as usize).max(1)).cast() }
    }

    fn put_padded(&mut self, bytes: &[u8]) -> bool {
        self.put(bytes) && self.put(&[0; 3][..bytes.len().wrapping_neg() & 3])
    }

    /// Copies `count` bytes and skips their padding, which must be zero (RFC 4506, section 4.9).
    ///
    /// # Safety
    /// `to` has room for them.
    unsafe fn take_padded(&mut self, to: *mut c_char, count: usize) -> bool {
        let Some(bytes) = self.take(count) else { return false };
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), count) };
        self.take(count.wrapping_neg() & 3).is_some_and(|pad| pad.iter().all(|byte| *byte == 0))
    }
}

/// Numbers: `$wire` is the type on the wire, `$ok` the condition for values of `$wire`.
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
                    // As libtirpc: a narrow type takes the low bits.
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

/// See flexrpc.h. It has the arguments that callers pass, so that its cast draws no warning.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_xdr_void(_: *mut Xdr, _: *mut c_void) -> c_int {
    1
}

/// See flexrpc.h. On the wire, 0 and 1 only.
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
/// The stream is valid; the value has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_opaque(xdrs: *mut Xdr, value: *mut c_char, count: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &mut *xdrs };
    match xdrs.op {
        _ if count == 0 => 1,
        // SAFETY: the caller's promise.
        ENCODE => xdrs
            .put_padded(unsafe { std::slice::from_raw_parts(value.cast_const().cast(), count as usize) })
            .into(),
        // SAFETY: the caller's promise.
        DECODE => unsafe { xdrs.take_padded(value, count as usize) }.into(),
        _ => 1,
    }
}

/// Frees `*value` and makes it null.
///
/// # Safety
/// `*value` is null or from `malloc`.
unsafe fn release(value: &mut *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(value.cast()) };
    *value = std::ptr::null_mut();
}

/// Allocates unless the caller gave room, and fills it with `count` bytes and a zero.
///
/// # Safety
/// `*value` is null or has room for `count` bytes and, for strings, a zero.
unsafe fn fill(xdrs: &mut Xdr, value: &mut *mut c_char, count: u32, is_text: bool) -> bool {
    if xdrs.left < count as usize {
        return false;
    }
    let allocated = value.is_null();
    if allocated {
        if count == 0 && !is_text {
            return true;
        }
        *value = xdrs.allocate(u64::from(count) + 1);
        if value.is_null() {
            return false;
        }
    }
    // SAFETY: room for the bytes, by the caller's promise or just allocated.
    if !unsafe { xdrs.take_padded(*value, count as usize) } {
        return false; // xdr_free of the whole value releases the room
    }
    if is_text {
        // SAFETY: room for one more.
        unsafe { *value.add(count as usize) = 0 };
        // SAFETY: the bytes were just written. A zero inside would shorten the string.
        let text = unsafe { std::slice::from_raw_parts(value.cast_const().cast::<u8>(), count as usize) };
        return !text.contains(&0);
    }
    true
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid; `*value` has `*count` bytes, or is null when decoding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_bytes(
    xdrs: *mut Xdr,
    value: *mut *mut c_char,
    count: *mut c_uint,
    max: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    let (xdrs, value, count) = unsafe { (&mut *xdrs, &mut *value, &mut *count) };
    match xdrs.op {
        ENCODE => {
            if *count > max || (value.is_null() && *count > 0) || !xdrs.word(*count) {
                return 0;
            }
            // SAFETY: the caller's promise.
            unsafe { frpc_xdr_opaque(xdrs, *value, *count) }
        }
        DECODE => {
            let Some(found) = xdrs.taken_word().filter(|found| *found <= max) else { return 0 };
            *count = found;
            // SAFETY: the caller's promise.
            unsafe { fill(xdrs, value, found, false) }.into()
        }
        _ => {
            // SAFETY: decoding allocated it.
            unsafe { release(value) };
            1
        }
    }
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid; `*value` ends with a zero byte, or is null when decoding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_string(xdrs: *mut Xdr, value: *mut *mut c_char, max: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let (xdrs, value) = unsafe { (&mut *xdrs, &mut *value) };
    match xdrs.op {
        ENCODE => {
            if value.is_null() {
                return 0;
            }
            // SAFETY: the caller's promise.
            let text = unsafe { std::ffi::CStr::from_ptr(*value) }.to_bytes();
            match c_uint::try_from(text.len()) {
                Ok(count) if count <= max => (xdrs.word(count) && xdrs.put_padded(text)).into(),
                _ => 0,
            }
        }
        DECODE => {
            let Some(count) = xdrs.taken_word().filter(|count| *count <= max) else { return 0 };
            // SAFETY: the caller's promise.
            unsafe { fill(xdrs, value, count, true) }.into()
        }
        _ => {
            // SAFETY: decoding allocated it.
            unsafe { release(value) };
            1
        }
    }
}

/// See flexrpc.h.
///
/// # Safety
/// As for [`frpc_xdr_string`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_wrapstring(xdrs: *mut Xdr, value: *mut *mut c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { frpc_xdr_string(xdrs, value, c_uint::MAX) }
}

/// See flexrpc.h.
///
/// # Safety
/// `value` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_vector(
    xdrs: *mut Xdr,
    value: *mut c_char,
    count: c_uint,
    element: c_uint,
    routine: Routine,
) -> c_int {
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        if unsafe { routine(xdrs, value.add(index * element as usize).cast()) } == 0 {
            return 0;
        }
    }
    1
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid; `*value` has `*count` elements, or is null when decoding.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_array(
    xdrs: *mut Xdr,
    value: *mut *mut c_char,
    count: *mut c_uint,
    max: c_uint,
    element: c_uint,
    routine: Routine,
) -> c_int {
    // SAFETY: the caller's promise.
    let (stream, value, count) = unsafe { (&mut *xdrs, &mut *value, &mut *count) };
    match stream.op {
        ENCODE => {
            let fits = *count <= max && (!value.is_null() || *count == 0);
            if !(fits && stream.word(*count)) {
                return 0;
            }
        }
        DECODE => {
            let Some(found) = stream.taken_word().filter(|found| *found <= max) else { return 0 };
            // Every element takes four bytes at least.
            if found as usize > stream.left / 4 {
                return 0;
            }
            *count = found;
            if value.is_null() && found > 0 {
                *value = stream.allocate(u64::from(found) * u64::from(element));
                if value.is_null() {
                    *count = 0;
                    return 0;
                }
            }
        }
        _ if value.is_null() => return 1,
        _ => {}
    }
    // SAFETY: the caller's promise, or just allocated.
    let done = unsafe { frpc_xdr_vector(xdrs, *value, *count, element, routine) };
    // SAFETY: the caller's promise; `stream` isn't used any more.
    if unsafe { (*xdrs).op } == FREE {
        // SAFETY: decoding allocated it.
        unsafe { release(value) };
    }
    done
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_next(
    xdrs: *mut Xdr,
    next: *mut *mut c_char,
    bytes: c_uint,
    more: *mut c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let (xdrs, next, more) = unsafe { (&mut *xdrs, &mut *next, &mut *more) };
    *more = (!next.is_null()).into();
    // SAFETY: the caller's promise.
    if unsafe { frpc_xdr_bool(xdrs, more) } == 0 {
        return 0;
    }
    if xdrs.op == DECODE && *more != 0 && next.is_null() {
        *next = xdrs.allocate(bytes.into());
        return (!next.is_null()).into();
    }
    if xdrs.op == DECODE && *more == 0 {
        *next = std::ptr::null_mut();
    }
    1
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_pointer(
    xdrs: *mut Xdr,
    value: *mut *mut c_char,
    bytes: c_uint,
    routine: Routine,
) -> c_int {
    let mut more = 0;
    // SAFETY: the caller's promise.
    if unsafe { frpc_xdr_next(xdrs, value, bytes, &mut more) } == 0 {
        return 0;
    }
    if more == 0 {
        return 1;
    }
    // SAFETY: the caller's promise.
    unsafe { frpc_xdr_reference(xdrs, value, bytes, routine) }
}

/// See flexrpc.h.
///
/// # Safety
/// All pointers are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_reference(
    xdrs: *mut Xdr,
    value: *mut *mut c_char,
    bytes: c_uint,
    routine: Routine,
) -> c_int {
    // SAFETY: the caller's promise.
    let (stream, value) = unsafe { (&mut *xdrs, &mut *value) };
    if value.is_null() {
        match stream.op {
            FREE => return 1,
            DECODE => *value = stream.allocate(bytes.into()),
            _ => return 0,
        }
        if value.is_null() {
            return 0;
        }
    }
    if stream.depth >= DEPTH && stream.op != FREE {
        return 0;
    }
    stream.depth += 1;
    // SAFETY: the caller's promise, or just allocated.
    let done = unsafe { routine(xdrs, (*value).cast()) };
    // SAFETY: the caller's promise; `stream` isn't used any more.
    let stream = unsafe { &mut *xdrs };
    stream.depth -= 1;
    if stream.op == FREE {
        // SAFETY: decoding allocated it.
        unsafe { release(value) };
    }
    done
}

/// See flexrpc.h.
///
/// # Safety
/// The value fits the routine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_free(routine: Routine, value: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe { routine(&mut Xdr::freeing(), value) };
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_getpos(xdrs: *mut Xdr) -> c_uint {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &*xdrs };
    // SAFETY: `growing` is null, or the vector of `to`.
    match unsafe { xdrs.growing.as_ref() } {
        Some(to) => to.len() as c_uint,
        None => (xdrs.at as usize - xdrs.base as usize) as c_uint,
    }
}

/// See flexrpc.h.
///
/// # Safety
/// `at` has `bytes` bytes for as long as the stream is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrmem_create(xdrs: *mut Xdr, at: *mut c_char, bytes: c_uint, op: c_uint) {
    let memory = MEMORY_BASE + MEMORY_PER_BYTE * u64::from(bytes);
    let growing = std::ptr::null_mut();
    let made = Xdr { op, depth: 0, at, base: at, left: bytes as usize, memory, growing };
    // SAFETY: the caller's promise; the memory may be uninitialized.
    unsafe { xdrs.write(made) };
}
