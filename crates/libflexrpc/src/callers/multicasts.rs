//! Multicasts: one call to several callees.

use super::outcome::frpc_outcome;
use super::{PATIENCE, decode, duration, encode, frpc_handle};
use crate::guarded;
use crate::xdr::{Routine, given};
use bytes::Bytes;
use nix::libc::{c_int, c_uint, c_void, size_t, timeval};
use std::time::Instant;
use strait_flexrpc::{CallOptions, MulticastOptions, Procedure, Transport};

/// Most callees of a multicast. A larger number is probably a mistake in the count.
const MOST_CALLEES: usize = 1 << 16;

/// Returns the address for the result of the callee with this index.
struct Places<'a>(&'a dyn Fn(usize) -> *mut c_void);

/// # Safety
/// The arrays have `count` elements; the values fit the routines.
unsafe fn multicast(
    (handles, count): (*const *mut frpc_handle, size_t),
    is_serial: bool,
    procedure: u32,
    args: (Option<Routine>, *const c_void),
    (result_routine, places): (Option<Routine>, Option<Places<'_>>),
    outcomes: *mut frpc_outcome,
    timeout: timeval,
) -> Result<c_int, String> {
    if handles.is_null() || outcomes.is_null() || count == 0 {
        return Err("a multicast needs at least one handle, and an array of outcomes".to_owned());
    }
    if count > MOST_CALLEES {
        return Err(format!("{count} handles: the maximum is {MOST_CALLEES}"));
    }
    // SAFETY: the caller's promise.
    let handles = unsafe { std::slice::from_raw_parts(handles, count) };
    // SAFETY: the caller's promise.
    let handles = handles.iter().map(|handle| unsafe { handle.as_ref() });
    let handles = handles.collect::<Option<Vec<_>>>().ok_or("a handle is a null pointer")?;
    let (args, result_routine) = ((given(args.0)?, args.1), given(result_routine)?);
    let timeout = handles[0].timeout().or(duration(timeout)?);
    let (begun, time) = (Instant::now(), timeout.unwrap_or(PATIENCE));
    let left = || time.saturating_sub(begun.elapsed());
    let (client, transport, program, mut options) = {
        let first = handles[0].caller(left())?;
        let options = MulticastOptions {
            call: CallOptions { timeout, ..first.options.clone() },
            required: first.required,
            store_and_forward: first.store_and_forward,
            turn: None,
        };
        (first.client.clone(), first.transport, (first.program, first.version), options)
    };
    let mut callees = Vec::with_capacity(count);
    for (index, handle) in handles.iter().enumerate() {
        let one = handle.caller(left())?;
        if one.transport != transport || (is_serial && transport != Transport::Tcp) {
            return Err("all handles must have the same transport, and tcp for a serial multicast".to_owned());
        }
        if one.onc {
            return Err("plain ONC RPC has no multicasts: call each handle separately".to_owned());
        }
        if is_serial && callees.contains(&one.callee) {
            return Err(format!("callee {index} ({}) is in the chain twice", one.callee));
        }
        callees.push(one.callee);
    }
    let mut bytes = Vec::new();
    // SAFETY: the caller's promise.
    let encoded = unsafe { encode(args.0, args.1, &mut bytes) };
    encoded.map_err(|_| "the arguments don't follow the interface")?;
    let bytes = [Bytes::from(bytes)];
    // Without a timeout the client's own counts, from here on.
    options.call.timeout = timeout.map(|_| left());
    let procedure = Procedure::new(program.0, program.1, procedure);
    let all = if is_serial {
        client.call_chain(&callees, procedure, &bytes, &options)
    } else {
        client.call_parallel(&callees, transport, procedure, &bytes, &options)
    };
    let mut values = 0;
    for (index, outcome) in all.into_iter().enumerate() {
        let done = match (outcome.into_result(), &places) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => Ok(()),
            // SAFETY: the caller's promise.
            (Ok(value), Some(places)) => unsafe { decode(&value, result_routine, (places.0)(index)) },
        };
        let told = done.map_or_else(|failure| frpc_outcome::of(&failure), |()| frpc_outcome::SUCCESS);
        values += c_int::from(told.stat == 0);
        // SAFETY: the caller's promise; the memory may be uninitialized.
        unsafe { outcomes.add(index).write(told) };
    }
    Ok(values)
}

macro_rules! multicast {
    ($name:ident, $is_serial:literal) => {
        /// See flexrpc.h.
        ///
        /// # Safety
        /// The arrays have `count` elements; the values fit the routines.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            handles: *const *mut frpc_handle,
            count: size_t,
            procedure: u32,
            args_routine: Option<Routine>,
            args: *const c_void,
            result_routine: Option<Routine>,
            results: *const *mut c_void,
            outcomes: *mut frpc_outcome,
            timeout: timeval,
        ) -> c_int {
            // SAFETY: the caller's promise.
            let place = |index| unsafe { *results.add(index) };
            let places = (!results.is_null()).then_some(Places(&place));
            let (handles, args) = ((handles, count), (args_routine, args));
            // SAFETY: the caller's promise.
            guarded(-1, || unsafe {
                multicast(handles, $is_serial, procedure, args, (result_routine, places), outcomes, timeout)
            })
        }
    };
}

multicast!(frpc_call_parallel, false);
multicast!(frpc_call_serial, true);

/// See flexrpc.h.
///
/// # Safety
/// The arrays have `count` elements; the values fit the routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_multicast(
    handles: *const *mut frpc_handle,
    count: size_t,
    pattern: c_uint,
    procedure: u32,
    args_routine: Option<Routine>,
    args: *const c_void,
    result_routine: Option<Routine>,
    results: *mut c_void,
    result_bytes: size_t,
    outcomes: *mut frpc_outcome,
    timeout: timeval,
) -> c_int {
    // SAFETY: the caller's promise: the array has an element for each handle.
    let place = |index| unsafe { results.cast::<u8>().add(index * result_bytes).cast() };
    let places = (!results.is_null()).then_some(Places(&place));
    let (handles, args) = ((handles, count), (args_routine, args));
    // SAFETY: the caller's promise.
    guarded(-1, || unsafe {
        multicast(handles, pattern != 0, procedure, args, (result_routine, places), outcomes, timeout)
    })
}
