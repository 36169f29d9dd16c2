//! Opaques, strings, arrays, pointers and unions.

use super::{DECODE, DEPTH, ENCODE, FREE, Routine, Xdr, frpc_xdr_bool, frpc_xdr_enum, frpc_xdr_u_int};
use nix::libc::{self, c_char, c_int, c_uint, c_void};

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

/// Frees `*value`, and sets it to null.
///
/// # Safety
/// `*value` is null or from `malloc`.
unsafe fn release(value: &mut *mut c_char) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(value.cast()) };
    *value = std::ptr::null_mut();
}

/// Takes `count` bytes, and copies them to the caller's buffer or, if that is null, to allocated memory. Adds
/// a zero byte to strings. It allocates only after the bytes have arrived.
///
/// # Safety
/// `*value` is null, or points to `count` writable bytes, and one more for a string's zero.
unsafe fn fill(xdrs: &mut Xdr, value: &mut *mut c_char, count: u32, is_text: bool) -> bool {
    let Some(bytes) = xdrs.take(count as usize) else { return false };
    if is_text && bytes.contains(&0) {
        return false; // a zero byte inside would shorten the C string
    }
    let (bytes, length) = (bytes.as_ptr(), count as usize);
    if value.is_null() {
        if count > 0 || is_text {
            // SAFETY: the stream keeps the bytes until the next ones are taken.
            *value = unsafe { xdrs.allocate_copy(bytes, length) };
            if value.is_null() {
                return false;
            }
        }
    } else {
        // SAFETY: as above; the caller promised a buffer of this size.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes, value.cast(), length);
            if is_text {
                *value.add(length) = 0;
            }
        }
    }
    // If this fails, the memory stays in the value, and is freed with the whole value (`frpc_xdr_free`).
    xdrs.skip_padding(count as usize)
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
            // Each element takes at least four bytes.
            if stream.stream.is_null() && found as usize > stream.left / 4 {
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
    // Count this level, since an array can contain arrays of its own type.
    let (inside, mut done) = (c_uint::from(*count > 0), 0);
    if stream.depth + inside <= DEPTH || stream.op == FREE {
        stream.depth += inside;
        // SAFETY: the caller's promise, or just allocated.
        done = unsafe { frpc_xdr_vector(xdrs, *value, *count, element, routine) };
        // SAFETY: the caller's promise; `stream` isn't used any more.
        unsafe { (*xdrs).depth -= inside };
    }
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
/// All pointers are valid; `choices` ends with a null routine; the value fits the routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_union(
    xdrs: *mut Xdr,
    discriminant: *mut c_int,
    value: *mut c_char,
    choices: *const xdr_discrim,
    otherwise: Option<Routine>,
) -> c_int {
    // SAFETY: the caller's promise.
    if unsafe { frpc_xdr_enum(xdrs, discriminant) } == 0 {
        return 0;
    }
    let mut choice = choices;
    // SAFETY: the caller promised that the list ends with a null routine.
    while let Some(routine) = unsafe { (*choice).routine } {
        // SAFETY: the caller's promise.
        if unsafe { (*choice).value == *discriminant } {
            // SAFETY: the caller's promise.
            return unsafe { routine(xdrs, value.cast()) };
        }
        // SAFETY: this wasn't the last element.
        choice = unsafe { choice.add(1) };
    }
    match otherwise {
        // SAFETY: the caller's promise.
        Some(routine) => unsafe { routine(xdrs, value.cast()) },
        // A union that failed to decode has nothing to free.
        // SAFETY: the caller's promise.
        None => (unsafe { (*xdrs).op } == FREE).into(),
    }
}

/// See flexrpc.h.
#[repr(C)]
pub struct xdr_discrim {
    value: c_int,
    routine: Option<Routine>,
}

/// See flexrpc.h.
#[repr(C)]
pub struct netobj {
    length: c_uint,
    bytes: *mut c_char,
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_netobj(xdrs: *mut Xdr, value: *mut netobj) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { frpc_xdr_bytes(xdrs, &raw mut (*value).bytes, &raw mut (*value).length, 1024) }
}

/// See flexrpc.h.
#[repr(C)]
pub struct opaque_auth {
    flavor: c_int,
    base: *mut c_char,
    length: c_uint,
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_opaque_auth(xdrs: *mut Xdr, value: *mut opaque_auth) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let done = frpc_xdr_enum(xdrs, &raw mut (*value).flavor) != 0
            && frpc_xdr_bytes(xdrs, &raw mut (*value).base, &raw mut (*value).length, 400) != 0;
        done.into()
    }
}

/// See flexrpc.h.
#[repr(C)]
pub struct netbuf {
    most: c_uint,
    length: c_uint,
    bytes: *mut c_char,
}

/// See flexrpc.h. As libtirpc does, it takes over the sender's `maxlen`, but it allocates only for bytes that
/// have arrived. If the program gave a buffer, it decodes at most that buffer's `maxlen` bytes.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_netbuf(xdrs: *mut Xdr, value: *mut netbuf) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let room = if (*value).bytes.is_null() { c_uint::MAX } else { (*value).most };
        if frpc_xdr_u_int(xdrs, &raw mut (*value).most) == 0 {
            return 0;
        }
        let most = (*value).most.min(room);
        if (*xdrs).op == DECODE && !(*value).bytes.is_null() {
            (*value).most = room;
        }
        frpc_xdr_bytes(xdrs, &raw mut (*value).bytes, &raw mut (*value).length, most)
    }
}
