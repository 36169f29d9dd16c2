//! `frpc_control`: the options of a handle, by the names of `enum frpc_option` without `FRPC_`.

use super::{duration, frpc_auth_sys, frpc_bytes, frpc_handle};
use crate::guarded;
use crate::tls::frpc_tls;
use nix::libc::{c_int, c_uint, c_void, timeval};
use std::time::Duration;
use strait_flexrpc::{Credentials, KeyId};

const SET_TIMEOUT: c_uint = 1;
const GET_TIMEOUT: c_uint = 2;
const GET_SERVER_ADDR: c_uint = 3;
const SET_RETRY_TIMEOUT: c_uint = 4;
const GET_RETRY_TIMEOUT: c_uint = 5;
const GET_VERS: c_uint = 12;
const SET_VERS: c_uint = 13;
const GET_PROG: c_uint = 14;
const SET_PROG: c_uint = 15;
const SET_KEY: c_uint = 1001;
const SET_AUTH_SYS: c_uint = 1002;
const SET_REQUIRED: c_uint = 1003;
const SET_STORE_AND_FORWARD: c_uint = 1004;
const SET_TLS: c_uint = 1005;
const SET_ONC: c_uint = 1006;
const SET_CONNECT_TIMEOUT: c_uint = 1007;
const GET_CONNECT_TIMEOUT: c_uint = 1008;
const SET_PEER_SILENCE: c_uint = 1009;
const SET_RESULT_BYTES: c_uint = 1010;
const SET_KEY_ID: c_uint = 1011;
const SET_LIKE: c_uint = 1012;

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
        let handle = unsafe { handle.as_mut() }.ok_or("a null handle")?;
        if value.is_null() && ![SET_AUTH_SYS, SET_TLS].contains(&option) {
            return Err("a null pointer in place of the option's value".to_owned());
        }
        // SAFETY, of all reads and writes below: the caller's promise for the option.
        match option {
            // SAFETY: see above.
            SET_TIMEOUT => handle.timeout = duration(unsafe { value.cast::<timeval>().read() }),
            GET_TIMEOUT => {
                let time = handle.timeout.or(handle.settings().timeout).unwrap_or_default();
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
                // SAFETY: see above.
                let first = duration(unsafe { value.cast::<timeval>().read() }).ok_or("a zero time")?;
                let first_us = u64::try_from(first.as_micros()).unwrap_or(u64::MAX);
                handle.set(|settings| {
                    settings.retry.first_us = first_us;
                    settings.retry.longest_us = settings.retry.longest_us.max(first_us);
                });
            }
            // SAFETY: see above.
            GET_RETRY_TIMEOUT => unsafe {
                value
                    .cast::<timeval>()
                    .write(c_time(Duration::from_micros(handle.settings().retry.first_us)));
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
                // SAFETY: see above.
                let time = duration(unsafe { value.cast::<timeval>().read() }).ok_or("a zero time")?;
                handle.set(|settings| settings.connect_timeout = time);
            }
            // SAFETY: see above.
            GET_CONNECT_TIMEOUT => unsafe {
                value.cast::<timeval>().write(c_time(handle.settings().connect_timeout))
            },
            SET_PEER_SILENCE => {
                // SAFETY: see above.
                let time = duration(unsafe { value.cast::<timeval>().read() });
                handle.set(|settings| settings.peer_silence = time);
            }
            SET_RESULT_BYTES => {
                // SAFETY: see above.
                let most = unsafe { value.cast::<u32>().read() } as usize;
                handle.set(|settings| settings.payload_bytes = most);
            }
            SET_KEY_ID => {
                // SAFETY: see above.
                let bytes = (unsafe { frpc_bytes::slice(value.cast()) })?.ok_or("no key's name")?;
                let id = KeyId::new(bytes).ok_or("a key's name has 1 to 255 bytes")?;
                handle.set(|settings| settings.key_id = Some(id));
            }
            SET_LIKE => {
                // SAFETY: see above.
                let other = unsafe { &*value.cast::<frpc_handle>().cast_const() };
                (handle.client, handle.settings) = (other.client.clone(), other.settings.clone());
                handle.line = None;
            }
            SET_REQUIRED => {
                // SAFETY: see above.
                let required = unsafe { value.cast::<u32>().read() };
                handle.required = (required > 0).then_some(required as usize);
            }
            // SAFETY: see above.
            SET_STORE_AND_FORWARD => handle.store_and_forward = unsafe { value.cast::<c_int>().read() } != 0,
            other => return Err(format!("frpc_control: no option {other}; see enum frpc_option")),
        }
        Ok(1)
    })
}
