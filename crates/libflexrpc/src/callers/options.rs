//! `frpc_control`: the options of a handle. Their names are those of `enum frpc_option` without `FRPC_`.

use super::{PATIENCE, duration, frpc_auth_sys, frpc_bytes, frpc_handle};
use crate::guarded;
use crate::tls::frpc_tls;
use nix::libc::{c_int, c_uint, c_void, timeval};
use std::time::Duration;
use strait_flexrpc::{Credentials, KeyId};

options! { "FRPC_",
    SET_TIMEOUT = 1,
    GET_TIMEOUT = 2,
    GET_SERVER_ADDR = 3,
    SET_RETRY_TIMEOUT = 4,
    GET_RETRY_TIMEOUT = 5,
    GET_VERS = 12,
    SET_VERS = 13,
    GET_PROG = 14,
    SET_PROG = 15,
    SET_KEY = 1001,
    SET_AUTH_SYS = 1002,
    SET_REQUIRED = 1003,
    SET_STORE_AND_FORWARD = 1004,
    SET_TLS = 1005,
    SET_ONC = 1006,
    SET_CONNECT_TIMEOUT = 1007,
    GET_CONNECT_TIMEOUT = 1008,
    SET_PEER_SILENCE = 1009,
    SET_RESULT_BYTES = 1010,
    SET_KEY_ID = 1011,
    SET_LIKE = 1012,
}

fn c_time(time: Duration) -> timeval {
    let tv_sec = time.as_secs().try_into().unwrap_or(i64::MAX);
    timeval { tv_sec, tv_usec: time.subsec_micros().into() }
}

/// See flexrpc.h.
///
/// # Safety
/// `value` has the type that the option names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_control(handle: *mut frpc_handle, option: c_uint, value: *mut c_void) -> c_int {
    guarded(0, || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_ref() }.ok_or("the handle is a null pointer")?;
        let name = name(option)
            .ok_or_else(|| format!("frpc_control: unknown option {option} (enum frpc_option)"))?;
        // SAFETY: the caller's promise.
        unsafe { control(handle, option, value) }.map_err(|error| format!("{name}: {error}"))?;
        Ok(1)
    })
}

/// # Safety
/// `value` has the type that the option names.
unsafe fn control(handle: &frpc_handle, option: c_uint, value: *mut c_void) -> Result<(), String> {
    if value.is_null() && ![SET_AUTH_SYS, SET_TLS].contains(&option) {
        return Err("the option is a null pointer: pass the value's address".to_owned());
    }
    // SAFETY: the caller's promise for the option, as for all reads and writes below.
    let time = || duration(unsafe { value.cast::<timeval>().read() });
    if option == SET_LIKE {
        // SAFETY: see above.
        let other = unsafe { &*value.cast::<frpc_handle>().cast_const() }.caller(PATIENCE)?;
        let (client, settings) = (other.client.clone(), other.settings.clone());
        drop(other); // unlock it, since it may be the same handle
        let mut handle = handle.caller(PATIENCE)?;
        (handle.client, handle.settings, handle.line) = (client, settings, None);
        return Ok(());
    }
    if option == SET_TIMEOUT {
        handle.set_timeout(time()?);
        return Ok(());
    }
    let own_timeout = handle.timeout();
    let mut handle = handle.caller(PATIENCE)?;
    match option {
        GET_TIMEOUT => {
            let time = own_timeout.or(handle.settings().timeout).unwrap_or_default();
            // SAFETY: see above.
            unsafe { value.cast::<timeval>().write(c_time(time)) };
        }
        GET_SERVER_ADDR => {
            let mut address = handle.callee.to_string().into_bytes();
            address.truncate(63);
            address.push(0);
            // SAFETY: see above; at most 64 bytes.
            unsafe { std::ptr::copy_nonoverlapping(address.as_ptr(), value.cast(), address.len()) };
        }
        // SAFETY: see above.
        GET_VERS => unsafe { value.cast::<u32>().write(handle.version) },
        // SAFETY: see above.
        SET_VERS => handle.version = unsafe { value.cast::<u32>().read() },
        // SAFETY: see above.
        GET_PROG => unsafe { value.cast::<u32>().write(handle.program) },
        // SAFETY: see above.
        SET_PROG => handle.program = unsafe { value.cast::<u32>().read() },
        SET_RETRY_TIMEOUT => {
            let first = time()?.ok_or("the time must not be zero")?;
            let first_us = u64::try_from(first.as_micros()).unwrap_or(u64::MAX);
            handle.set(|settings| {
                settings.retry.first_us = first_us;
                settings.retry.longest_us = settings.retry.longest_us.max(first_us);
            });
        }
        // SAFETY: see above.
        GET_RETRY_TIMEOUT => unsafe {
            value.cast::<timeval>().write(c_time(Duration::from_micros(handle.settings().retry.first_us)));
        },
        SET_KEY => {
            // SAFETY: see above.
            let key = unsafe { frpc_bytes::key(value.cast()) }?;
            handle.set(|settings| settings.key = key);
        }
        // SAFETY: see above.
        SET_AUTH_SYS => match unsafe { value.cast::<frpc_auth_sys>().as_ref() } {
            None => handle.options.credentials = None,
            // SAFETY: see above.
            Some(auth) => handle.options.credentials = Some(Credentials::Sys(unsafe { auth.user() }?)),
        },
        SET_TLS => {
            // SAFETY: see above.
            let tls = match unsafe { value.cast::<frpc_tls>().as_ref() } {
                None => None,
                // SAFETY: see above.
                Some(tls) => Some(unsafe { tls.of_caller() }?),
            };
            handle.set(|settings| settings.tls = tls);
        }
        SET_ONC => {
            // SAFETY: see above.
            handle.onc = unsafe { value.cast::<c_int>().read() } != 0;
            handle.line = None;
        }
        SET_CONNECT_TIMEOUT => {
            let time = time()?.ok_or("the time must not be zero")?;
            handle.set(|settings| settings.connect_timeout = time);
        }
        // SAFETY: see above.
        GET_CONNECT_TIMEOUT => unsafe {
            value.cast::<timeval>().write(c_time(handle.settings().connect_timeout))
        },
        SET_PEER_SILENCE => {
            let time = time()?;
            handle.set(|settings| settings.peer_silence = time);
        }
        SET_RESULT_BYTES => {
            // SAFETY: see above.
            let most = unsafe { value.cast::<u32>().read() } as usize;
            if most == 0 {
                return Err("the minimum is 1 byte".to_owned());
            }
            handle.set(|settings| settings.payload_bytes = most);
        }
        SET_KEY_ID => {
            // SAFETY: see above.
            let bytes = (unsafe { frpc_bytes::slice(value.cast()) })?.ok_or("there is no key id")?;
            let id = KeyId::new(bytes).ok_or("a key id must have 1 to 255 bytes")?;
            handle.set(|settings| settings.key_id = Some(id));
        }
        SET_REQUIRED => {
            // SAFETY: see above.
            let required = unsafe { value.cast::<u32>().read() };
            handle.required = (required > 0).then_some(required as usize);
        }
        // SAFETY: see above.
        SET_STORE_AND_FORWARD => handle.store_and_forward = unsafe { value.cast::<c_int>().read() } != 0,
        _ => return Err("not implemented".to_owned()),
    }
    Ok(())
}
