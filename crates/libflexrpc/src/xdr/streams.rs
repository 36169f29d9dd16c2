//! XDR streams (memory, files, records and counts), and the operations on streams.

use super::{ENCODE, MEMORY_BASE, Routine, Xdr};
use nix::libc::{self, FILE, c_char, c_int, c_long, c_uint, c_ulong, c_void};

/// Memory that decoding may allocate for a message from a stream, whose length isn't known in advance. It is
/// the size of the largest message over TCP.
const STREAM_MEMORY: u64 = 64 << 20;

/// Bytes to read at a time. So memory grows with the bytes that arrive, and not with the length that a sender
/// claims.
const STEP_BYTES: usize = 64 << 10;

/// Default size in bytes of written fragments, without their marks.
const FRAGMENT_BYTES: usize = 64 << 10;

/// The mark's bit for the last fragment of a record.
const LAST: u32 = 1 << 31;

/// The program's function that reads or writes bytes of a record stream: `(handle, buffer, length)`. Returns
/// the number of bytes read or written.
type Mover = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;

/// A stream that isn't a memory buffer.
pub enum Stream {
    /// Counts bytes, for `xdr_sizeof`.
    Count(u64),
    /// A file of the C library.
    File(*mut FILE, Vec<u8>),
    /// Records of RFC 5531, section 11.
    Records(Box<Records>),
}

/// Records, which the program's functions read and write.
pub struct Records {
    handle: *mut c_void,
    reader: Option<Mover>,
    writer: Option<Mover>,
    /// The fragment being written, after 4 bytes for its mark.
    out: Vec<u8>,
    most: usize,
    /// Bytes that arrived. The first `taken` of them were handed to routines, or skipped.
    arrived: Vec<u8>,
    taken: usize,
    /// Remaining bytes of the current fragment.
    left: usize,
    is_last: bool,
    piece: Vec<u8>,
}

impl Stream {
    pub(super) fn put(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Count(sum) => {
                *sum += bytes.len() as u64;
                true
            }
            // SAFETY: the program's file, which it keeps open.
            Self::File(file, _) => unsafe {
                libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), *file) == bytes.len()
            },
            Self::Records(records) => records.put(bytes),
        }
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&[u8]> {
        match self {
            Self::Count(_) => None,
            Self::File(file, piece) => {
                piece.clear();
                while piece.len() < count {
                    let (from, step) = (piece.len(), STEP_BYTES.min(count - piece.len()));
                    piece.resize(from + step, 0);
                    // SAFETY: room for `step` bytes; the program's file, which it keeps open.
                    if unsafe { libc::fread(piece[from..].as_mut_ptr().cast(), 1, step, *file) } != step {
                        return None;
                    }
                }
                Some(piece)
            }
            Self::Records(records) => records.take(count),
        }
    }
}

impl Records {
    fn put(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let room = (4 + self.most).saturating_sub(self.out.len());
            if room == 0 {
                if !self.send(false) {
                    return false;
                }
                continue;
            }
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.out.extend_from_slice(now);
            bytes = later;
        }
        true
    }

    /// Writes the fragment, with its mark.
    fn send(&mut self, is_last: bool) -> bool {
        let mark = (self.out.len() - 4) as u32 | if is_last { LAST } else { 0 };
        self.out[..4].copy_from_slice(&mark.to_be_bytes());
        let mut from = 0;
        while from < self.out.len() {
            let rest = &mut self.out[from..];
            let Ok(length) = c_int::try_from(rest.len()) else { return false };
            let Some(writer) = self.writer else { return false };
            // SAFETY: the program's function, with its handle and `length` bytes.
            match usize::try_from(unsafe { writer(self.handle, rest.as_mut_ptr().cast(), length) }) {
                Ok(sent @ 1..) => from += sent,
                _ => return false,
            }
        }
        self.out.truncate(4);
        true
    }

    /// Takes the record's next `count` bytes.
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        self.piece.clear();
        while self.piece.len() < count {
            if self.left == 0 && (self.is_last || !self.begin_fragment()) {
                return None;
            }
            let wanted = (count - self.piece.len()).min(self.left);
            if wanted == 0 {
                continue;
            }
            self.fill()?;
            let there = wanted.min(self.arrived.len() - self.taken);
            self.piece.extend_from_slice(&self.arrived[self.taken..self.taken + there]);
            self.taken += there;
            self.left -= there;
        }
        Some(&self.piece)
    }

    fn begin_fragment(&mut self) -> bool {
        let mut mark = [0; 4];
        for byte in &mut mark {
            if self.fill().is_none() {
                return false;
            }
            *byte = self.arrived[self.taken];
            self.taken += 1;
        }
        let mark = u32::from_be_bytes(mark);
        self.is_last = mark & LAST != 0;
        self.left = (mark & !LAST) as usize;
        // Refuse empty fragments that aren't the last: a sender could send them without end.
        self.left > 0 || self.is_last
    }

    /// Makes sure that at least one byte has arrived that wasn't taken. `None` if none arrives.
    fn fill(&mut self) -> Option<()> {
        if self.taken < self.arrived.len() {
            return Some(());
        }
        self.arrived.resize(STEP_BYTES, 0);
        self.taken = 0;
        let reader = self.reader?;
        // SAFETY: the program's function, with its handle and room for the bytes.
        let read = unsafe { reader(self.handle, self.arrived.as_mut_ptr().cast(), STEP_BYTES as c_int) };
        self.arrived.truncate(usize::try_from(read).unwrap_or(0).min(STEP_BYTES));
        (!self.arrived.is_empty()).then_some(())
    }

    fn skip(&mut self) -> bool {
        loop {
            while self.left > 0 {
                if self.fill().is_none() {
                    return false;
                }
                let there = self.left.min(self.arrived.len() - self.taken);
                self.taken += there;
                self.left -= there;
            }
            if self.is_last {
                return true;
            }
            if !self.begin_fragment() {
                return false;
            }
        }
    }
}

impl Xdr {
    fn over(op: c_uint, stream: Stream) -> Self {
        let stream = Box::into_raw(Box::new(stream));
        Self { stream, memory: STREAM_MEMORY, ..Self::at(op, std::ptr::null_mut(), 0) }
    }

    fn records(&mut self) -> Option<&mut Records> {
        // SAFETY: null, or made here and not destroyed yet.
        match unsafe { self.stream.as_mut() } {
            Some(Stream::Records(records)) => Some(records),
            _ => None,
        }
    }
}

/// See flexrpc.h.
///
/// # Safety
/// `at` has `bytes` bytes for as long as the stream is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrmem_create(xdrs: *mut Xdr, at: *mut c_char, bytes: c_uint, op: c_uint) {
    // SAFETY: the caller's promise; the memory may be uninitialized.
    unsafe { xdrs.write(Xdr::at(op, at, bytes as usize)) };
}

/// See flexrpc.h.
///
/// # Safety
/// The file stays open while the stream is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrstdio_create(xdrs: *mut Xdr, file: *mut FILE, op: c_uint) {
    // SAFETY: the caller's promise; the memory may be uninitialized.
    unsafe { xdrs.write(Xdr::over(op, Stream::File(file, Vec::new()))) };
}

/// See flexrpc.h.
///
/// # Safety
/// The functions fit the handle while the stream is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrrec_create(
    xdrs: *mut Xdr,
    send_bytes: c_uint,
    _receive_bytes: c_uint,
    handle: *mut c_void,
    reader: Option<Mover>,
    writer: Option<Mover>,
) {
    let most =
        if send_bytes == 0 { FRAGMENT_BYTES } else { (send_bytes as usize).clamp(4, LAST as usize - 8) };
    let records = Records {
        handle,
        reader,
        writer,
        out: vec![0; 4],
        most,
        arrived: Vec::new(),
        taken: 0,
        left: 0,
        is_last: true,
        piece: Vec::new(),
    };
    // SAFETY: the caller's promise; the memory may be uninitialized. Programs set x_op themselves.
    unsafe { xdrs.write(Xdr::over(ENCODE, Stream::Records(Box::new(records)))) };
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrrec_endofrecord(xdrs: *mut Xdr, _now: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &mut *xdrs }.records().is_some_and(|records| records.send(true)).into()
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrrec_skiprecord(xdrs: *mut Xdr) -> c_int {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &mut *xdrs };
    xdrs.memory = STREAM_MEMORY;
    let Some(records) = xdrs.records() else { return 0 };
    let done = records.skip();
    if done {
        records.is_last = false; // after a failure, the next call continues to skip the same record
    }
    done.into()
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdrrec_eof(xdrs: *mut Xdr) -> c_int {
    // SAFETY: the caller's promise.
    let ended = unsafe { &mut *xdrs }
        .records()
        .is_none_or(|records| !records.skip() || records.taken == records.arrived.len());
    ended.into()
}

/// See flexrpc.h.
///
/// # Safety
/// The value fits the routine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_sizeof(routine: Routine, value: *mut c_void) -> c_ulong {
    let mut counted = Stream::Count(0);
    let stream = &raw mut counted;
    let mut xdrs = Xdr { stream, memory: MEMORY_BASE, ..Xdr::at(ENCODE, std::ptr::null_mut(), 0) };
    // SAFETY: the caller's promise.
    let done = unsafe { routine(&raw mut xdrs, value) };
    match counted {
        Stream::Count(sum) if done != 0 => sum as c_ulong,
        _ => 0,
    }
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid, and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_destroy(xdrs: *mut Xdr) {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &mut *xdrs };
    if !xdrs.stream.is_null() {
        // SAFETY: `over` made the box.
        drop(unsafe { Box::from_raw(xdrs.stream) });
        xdrs.stream = std::ptr::null_mut();
    }
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
    if let Some(to) = unsafe { xdrs.growing.as_ref() } {
        return to.len() as c_uint;
    }
    // SAFETY: null, or made here and not destroyed yet.
    match unsafe { xdrs.stream.as_ref() } {
        // SAFETY: the program's file, which it keeps open.
        Some(Stream::File(file, _)) => unsafe { libc::ftell(*file) as c_uint },
        Some(Stream::Count(sum)) => *sum as c_uint,
        Some(Stream::Records(_)) => c_uint::MAX,
        None => (xdrs.at as usize - xdrs.base as usize) as c_uint,
    }
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_setpos(xdrs: *mut Xdr, position: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &mut *xdrs };
    // SAFETY: null, or made here and not destroyed yet.
    match unsafe { xdrs.stream.as_ref() } {
        // SAFETY: the program's file, which it keeps open.
        Some(Stream::File(file, _)) => unsafe {
            (libc::fseek(*file, c_long::from(position), libc::SEEK_SET) == 0).into()
        },
        Some(_) => 0,
        None if !xdrs.growing.is_null() => 0,
        None => {
            let whole = xdrs.at as usize - xdrs.base as usize + xdrs.left;
            if position as usize > whole {
                return 0;
            }
            // SAFETY: within the memory, whose end is `whole` bytes from `base`.
            xdrs.at = unsafe { xdrs.base.add(position as usize) };
            xdrs.left = whole - position as usize;
            1
        }
    }
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_inline(xdrs: *mut Xdr, bytes: c_uint) -> *mut i32 {
    // SAFETY: the caller's promise.
    let xdrs = unsafe { &mut *xdrs };
    let (at, bytes) = (xdrs.at, bytes as usize);
    let in_memory = xdrs.growing.is_null() && xdrs.stream.is_null();
    if !in_memory || xdrs.left < bytes || !at.cast::<i32>().is_aligned() {
        return std::ptr::null_mut();
    }
    // SAFETY: the memory has `left` bytes from `at` on.
    xdrs.at = unsafe { at.add(bytes) };
    xdrs.left -= bytes;
    at.cast()
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_getint32(xdrs: *mut Xdr, value: *mut i32) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { &mut *xdrs }.taken_word() {
        Some(word) => {
            // SAFETY: the caller's promise; the memory may be uninitialized.
            unsafe { value.write(word as i32) };
            1
        }
        None => 0,
    }
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_putint32(xdrs: *mut Xdr, value: *const i32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*xdrs).word(*value as u32) }.into()
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_getlong(xdrs: *mut Xdr, value: *mut c_long) -> c_int {
    let mut word = 0;
    // SAFETY: the caller's promise.
    if unsafe { frpc_xdr_getint32(xdrs, &raw mut word) } == 0 {
        return 0;
    }
    // SAFETY: the caller's promise; the memory may be uninitialized.
    unsafe { value.write(word.into()) };
    1
}

/// See flexrpc.h.
///
/// # Safety
/// Stream and value are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_putlong(xdrs: *mut Xdr, value: *const c_long) -> c_int {
    // SAFETY: the caller's promise.
    let Ok(word) = i32::try_from(unsafe { *value }) else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { frpc_xdr_putint32(xdrs, &raw const word) }
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid; `to` has room for `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_getbytes(xdrs: *mut Xdr, to: *mut c_char, count: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let Some(bytes) = unsafe { &mut *xdrs }.take(count as usize) else { return 0 };
    if count > 0 {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), count as usize) };
    }
    1
}

/// See flexrpc.h.
///
/// # Safety
/// The stream is valid; `from` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_xdr_putbytes(xdrs: *mut Xdr, from: *const c_char, count: c_uint) -> c_int {
    if count == 0 {
        return 1;
    }
    // SAFETY: the caller's promise.
    unsafe { (*xdrs).put(std::slice::from_raw_parts(from.cast(), count as usize)) }.into()
}
