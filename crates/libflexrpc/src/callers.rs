//! Handles, calls and multicasts.

use crate::xdr::{Routine, Xdr};
use crate::{guarded, text};
use bytes::Bytes;
use nix::libc::{c_char, c_int, c_uint, c_void, size_t, timeval};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;
use std::time::Duration;
use strait_flexrpc::{
    AuthSys, CallError, CallOptions, Client, ClientOptions, ClusterKey, Credentials, Doubt, FaultKind,
    Handle, MulticastOptions, Procedure, Refusal, Transport,
};

/// The client of all handles without a key: they share its connections.
static SHARED: OnceLock<Client> = OnceLock::new();

/// See flexrpc.h.
pub struct frpc_handle {
    client: Client,
    /// Checked out by the first call, until the handle or its client changes.
    line: Option<Handle>,
    process: u32,
    callee: SocketAddr,
    transport: Transport,
    program: u32,
    version: u32,
    timeout: Option<Duration>,
    credentials: Option<Credentials>,
    required: Option<usize>,
    store_and_forward: bool,
    latest: frpc_outcome,
}

/// See flexrpc.h.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frpc_outcome {
    stat: c_int,
    code: u32,
    retry_safe: c_int,
    text: [u8; 256],
}

/// See flexrpc.h.
#[repr(C)]
pub struct frpc_bytes {
    data: *const c_void,
    length: size_t,
}

#[repr(C)]
struct frpc_auth_sys {
    machine: *const c_char,
    uid: u32,
    gid: u32,
}

const CANT_ENCODE: c_int = 1;
const CANT_DECODE: c_int = 2;
const FAILED: c_int = 16;

impl frpc_outcome {
    const SUCCESS: Self = Self { stat: 0, code: 0, retry_safe: 0, text: [0; 256] };

    fn new(stat: c_int, retry_safe: bool, why: &str) -> Self {
        let mut made = Self { stat, retry_safe: retry_safe.into(), ..Self::SUCCESS };
        let end = why.floor_char_boundary(made.text.len() - 1);
        made.text[..end].copy_from_slice(&why.as_bytes()[..end]);
        made
    }

    fn of(error: &CallError) -> Self {
        let (stat, code) = match error {
            CallError::Fault(fault) => match fault.kind {
                FaultKind::GarbageArguments => (11, 0),
                FaultKind::System => (12, 0),
                FaultKind::Application(code) => (101, code),
            },
            CallError::NotExecuted(refusal) => match refusal {
                Refusal::Unauthenticated => (7, 0),
                Refusal::ProgramUnavailable => (8, 0),
                Refusal::VersionMismatch { .. } => (9, 0),
                Refusal::ProcedureUnavailable => (10, 0),
                _ => (102, 0),
            },
            CallError::Unknown(Doubt::TimedOut) => (5, 0),
            CallError::Unknown(_) => (103, 0),
        };
        Self { code, ..Self::new(stat, error.is_retry_safe(), &error.to_string()) }
    }
}

impl frpc_bytes {
    /// # Safety
    /// `this` is null, or valid with its data.
    pub unsafe fn key(this: *const Self) -> Result<Option<ClusterKey>, String> {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { this.as_ref() }) else { return Ok(None) };
        if bytes.data.is_null() {
            return Err("a null pointer in place of the key's bytes".to_owned());
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.data.cast::<u8>(), bytes.length) };
        ClusterKey::new(bytes).map(Some).map_err(|error| error.to_string())
    }
}

/// See flexrpc.h.
///
/// # Safety
/// Both strings are null or end with zero bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_createhandle(
    host: *const c_char,
    program: u32,
    version: u32,
    transport: *const c_char,
) -> *mut frpc_handle {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: the caller's promise.
        let (host, transport) = unsafe { (text(host, "host")?, text(transport, "transport")?) };
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            other => return Err(format!("no transport '{other}'; there are tcp and udp")),
        };
        let mut found = host.to_socket_addrs().map_err(|error| format!("{host}: {error}"))?;
        let callee = found.next().ok_or_else(|| format!("{host}: no address"))?;
        Ok(Box::into_raw(Box::new(frpc_handle {
            client: SHARED.get_or_init(Client::default).clone(),
            line: None,
            process: std::process::id(),
            callee,
            transport,
            program,
            version,
            timeout: None,
            credentials: None,
            required: None,
            store_and_forward: false,
            latest: frpc_outcome::SUCCESS,
        })))
    })
}

/// See flexrpc.h.
///
/// # Safety
/// The handle is null or from [`frpc_createhandle`], and isn't used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_destroyhandle(handle: *mut frpc_handle) {
    guarded((), || {
        if !handle.is_null() {
            // SAFETY: the caller's promise; frpc_createhandle made the box.
            drop(unsafe { Box::from_raw(handle) });
        }
        Ok(())
    });
}

fn duration(time: timeval) -> Option<Duration> {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
        .filter(|time| !time.is_zero())
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
        if value.is_null() && option != 1002 {
            return Err("a null pointer in place of the option's value".to_owned());
        }
        // SAFETY, of all reads and writes below: the caller's promise for the option.
        match option {
            // SAFETY: see above.
            1 => handle.timeout = duration(unsafe { value.cast::<timeval>().read() }),
            2 => {
                let time = handle.timeout.or(ClientOptions::default().timeout).unwrap_or_default();
                let tv_sec = time.as_secs().try_into().unwrap_or(i64::MAX);
                let time = timeval { tv_sec, tv_usec: time.subsec_micros().into() };
                // SAFETY: see above.
                unsafe { value.cast::<timeval>().write(time) };
            }
            3 => {
                let mut address = handle.callee.to_string().into_bytes();
                address.truncate(63);
                address.push(0);
                // SAFETY: see above; at most 64 bytes.
                unsafe { std::ptr::copy_nonoverlapping(address.as_ptr(), value.cast(), address.len()) };
            }
            // SAFETY: see above.
            12 => unsafe { value.cast::<u32>().write(handle.version) },
            // SAFETY: see above.
            13 => handle.version = unsafe { value.cast::<u32>().read() },
            // SAFETY: see above.
            14 => unsafe { value.cast::<u32>().write(handle.program) },
            // SAFETY: see above.
            15 => handle.program = unsafe { value.cast::<u32>().read() },
            1001 => {
                // SAFETY: see above.
                let key = unsafe { frpc_bytes::key(value.cast()) }?;
                handle.line = None;
                handle.client = Client::new(ClientOptions { key, ..ClientOptions::default() });
            }
            // SAFETY: see above.
            1002 => match unsafe { value.cast::<frpc_auth_sys>().as_ref() } {
                None => handle.credentials = None,
                Some(auth) => {
                    // SAFETY: see above.
                    let machine = unsafe { text(auth.machine, "machine") }?.to_owned();
                    let user = AuthSys { machine, uid: auth.uid, gid: auth.gid, ..AuthSys::default() };
                    handle.credentials = Some(Credentials::Sys(user));
                }
            },
            1003 => {
                // SAFETY: see above.
                let required = unsafe { value.cast::<u32>().read() };
                handle.required = (required > 0).then_some(required as usize);
            }
            // SAFETY: see above.
            1004 => handle.store_and_forward = unsafe { value.cast::<c_int>().read() } != 0,
            other => return Err(format!("frpc_control: no option {other}")),
        }
        Ok(1)
    })
}

/// # Safety
/// The value fits the routine.
unsafe fn encoded(routine: Routine, value: *const c_void) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // SAFETY: the caller's promise; encoding doesn't write to the value.
    let done = unsafe { routine(&mut Xdr::to(&mut bytes), value.cast_mut()) };
    (done != 0).then_some(bytes)
}

/// Decodes all of `bytes`; otherwise frees the parts already decoded.
///
/// # Safety
/// The value fits the routine.
unsafe fn decoded(bytes: &[u8], routine: Routine, value: *mut c_void) -> frpc_outcome {
    let mut stream = Xdr::of(bytes);
    // SAFETY: the caller's promise.
    if unsafe { routine(&mut stream, value) } != 0 && stream.is_at_end() {
        return frpc_outcome::SUCCESS;
    }
    // SAFETY: the caller's promise.
    unsafe { routine(&mut Xdr::freeing(), value) };
    frpc_outcome::new(CANT_DECODE, false, "executed, but the result doesn't follow the interface")
}

impl frpc_handle {
    fn options(&self, timeout: timeval) -> CallOptions {
        let timeout = self.timeout.or(duration(timeout));
        CallOptions { timeout, credentials: self.credentials.clone() }
    }

    /// # Safety
    /// The values fit the routines.
    unsafe fn call(
        &mut self,
        procedure: u32,
        args: (Routine, *const c_void),
        result: (Routine, *mut c_void),
        timeout: timeval,
    ) -> frpc_outcome {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { encoded(args.0, args.1) }) else {
            return frpc_outcome::new(CANT_ENCODE, true, "the arguments don't follow the interface");
        };
        let procedure = Procedure::new(self.program, self.version, procedure);
        let options = self.options(timeout);
        if self.process != std::process::id() {
            self.line = None; // the parent's: the child opens its own
            self.process = std::process::id();
        }
        let mut line = match self.line.take() {
            Some(line) => line,
            None => match self.client.handle(self.callee, self.transport) {
                Ok(line) => line,
                Err(error) => return frpc_outcome::of(&error),
            },
        };
        match line.call_with(procedure, &[&bytes], &options) {
            Ok(value) => {
                self.line = Some(line);
                // SAFETY: the caller's promise.
                unsafe { decoded(&value, result.0, result.1) }
            }
            Err(error) => {
                if matches!(error, CallError::Fault(_)) {
                    self.line = Some(line);
                }
                frpc_outcome::of(&error)
            }
        }
    }
}

/// See flexrpc.h.
///
/// # Safety
/// The handle is valid and used by this thread only; the values fit the routines.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_call(
    handle: *mut frpc_handle,
    procedure: u32,
    args_routine: Routine,
    args: *const c_void,
    result_routine: Routine,
    result: *mut c_void,
    timeout: timeval,
) -> c_int {
    guarded(FAILED, || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_mut() }.ok_or("a null handle")?;
        // SAFETY: the caller's promise.
        handle.latest =
            unsafe { handle.call(procedure, (args_routine, args), (result_routine, result), timeout) };
        Ok(handle.latest.stat)
    })
}

/// See flexrpc.h.
///
/// # Safety
/// The handle is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_outcome_of(handle: *const frpc_handle) -> *const frpc_outcome {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.map_or(std::ptr::null(), |handle| &raw const handle.latest)
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
            args_routine: Routine,
            args: *const c_void,
            result_routine: Routine,
            results: *const *mut c_void,
            outcomes: *mut frpc_outcome,
            timeout: timeval,
        ) -> c_int {
            guarded(-1, || {
                if handles.is_null() || outcomes.is_null() || count == 0 {
                    return Err("a multicast needs handles, and room for outcomes".to_owned());
                }
                // SAFETY: the caller's promise.
                let handles = unsafe { std::slice::from_raw_parts(handles, count) };
                // SAFETY: the caller's promise.
                let handles = handles.iter().map(|handle| unsafe { handle.as_ref() });
                let handles = handles.collect::<Option<Vec<_>>>().ok_or("a null handle")?;
                let first = handles[0];
                if handles.iter().any(|one| one.transport != first.transport)
                    || ($is_serial && first.transport != Transport::Tcp)
                {
                    return Err("a multicast has one transport, and a serial one is over tcp".to_owned());
                }
                // SAFETY: the caller's promise.
                let bytes = unsafe { encoded(args_routine, args) };
                let bytes = [Bytes::from(bytes.ok_or("the arguments don't follow the interface")?)];
                let callees: Vec<_> = handles.iter().map(|handle| handle.callee).collect();
                let procedure = Procedure::new(first.program, first.version, procedure);
                let options = MulticastOptions {
                    call: first.options(timeout),
                    required: first.required,
                    store_and_forward: first.store_and_forward,
                    turn: None,
                };
                let all = if $is_serial {
                    first.client.call_chain(&callees, procedure, &bytes, &options)
                } else {
                    first.client.call_parallel(&callees, first.transport, procedure, &bytes, &options)
                };
                let mut values = 0;
                for (index, outcome) in all.into_iter().enumerate() {
                    let told = match outcome.into_result() {
                        Err(error) => frpc_outcome::of(&error),
                        Ok(_) if results.is_null() => frpc_outcome::SUCCESS,
                        // SAFETY: the caller's promise.
                        Ok(value) => unsafe { decoded(&value, result_routine, *results.add(index)) },
                    };
                    values += c_int::from(told.stat == 0);
                    // SAFETY: the caller's promise; the memory may be uninitialized.
                    unsafe { outcomes.add(index).write(told) };
                }
                Ok(values)
            })
        }
    };
}

multicast!(frpc_call_parallel, false);
multicast!(frpc_call_serial, true);
