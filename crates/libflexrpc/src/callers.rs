//! Handles, calls and multicasts.

use crate::fork::Process;
use crate::tls::frpc_tls;
use crate::xdr::{Routine, Xdr};
use crate::{guarded, text};
use bytes::Bytes;
use nix::libc::{c_char, c_int, c_uint, c_void, size_t, timeval};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use strait_flexrpc::{
    AuthSys, CallError, CallOptions, Client, ClientOptions, ClusterKey, Credentials, Doubt, FaultKind,
    Handle, KeyId, MulticastOptions, Procedure, Refusal, Transport, rpcbind_lookup,
};

/// The client of all handles without a key: they share its connections.
static SHARED: OnceLock<Client> = OnceLock::new();

/// Largest buffer for arguments that a handle keeps for its next call. Allocating a larger one costs
/// little beside sending it, and an idle handle shouldn't hold it.
const KEPT_BYTES: usize = 8 << 10;

/// See flexrpc.h.
pub struct frpc_handle {
    client: Client,
    /// The client's options, if it isn't the shared one.
    settings: Option<ClientOptions>,
    /// The callee speaks plain ONC RPC.
    onc: bool,
    /// Checked out by the first call, until the handle or its client changes.
    line: Option<Box<Handle>>,
    process: Process,
    callee: SocketAddr,
    /// Further addresses of the callee's name.
    others: Vec<SocketAddr>,
    transport: Transport,
    program: u32,
    version: u32,
    timeout: Option<Duration>,
    /// Of the latest call; credentials stay.
    options: CallOptions,
    /// Room for a call's arguments.
    args: Vec<u8>,
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

/// See flexrpc.h.
#[repr(C)]
pub struct frpc_auth_sys {
    pub machine: *const c_char,
    pub uid: u32,
    pub gid: u32,
    pub gids: *const u32,
    pub gid_count: size_t,
}

impl frpc_auth_sys {
    /// # Safety
    /// All pointers are valid or null.
    unsafe fn user(&self) -> Result<AuthSys, String> {
        // SAFETY: the caller's promise.
        let machine = unsafe { text(self.machine, "machine") }?.to_owned();
        if machine.len() > AuthSys::MACHINE_BYTES || self.gid_count > AuthSys::GROUPS {
            let (bytes, groups) = (AuthSys::MACHINE_BYTES, AuthSys::GROUPS);
            return Err(format!("AUTH_SYS has at most {bytes} bytes of a name and {groups} groups"));
        }
        let gids = match (self.gids.is_null(), self.gid_count) {
            (_, 0) => Vec::new(),
            (true, _) => return Err("a null pointer in place of the groups".to_owned()),
            // SAFETY: the caller's promise.
            (false, count) => unsafe { std::slice::from_raw_parts(self.gids, count) }.to_vec(),
        };
        Ok(AuthSys { machine, uid: self.uid, gid: self.gid, gids, ..AuthSys::default() })
    }
}

const CANT_ENCODE: c_int = 1;
const CANT_DECODE: c_int = 2;
const FAILED: c_int = 16;

impl frpc_outcome {
    const SUCCESS: Self = Self { stat: 0, code: 0, retry_safe: 0, text: [0; 256] };

    fn new(stat: c_int, retry_safe: bool, why: &str) -> Self {
        let mut made = Self { stat, retry_safe: retry_safe.into(), ..Self::SUCCESS };
        // A callee's text must neither end early, nor begin a line of a log, nor command a terminal.
        let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let end = why.floor_char_boundary(made.text.len() - 1);
        made.text[..end].copy_from_slice(&why.as_bytes()[..end]);
        made
    }

    /// Only the text's first byte changes, since a call's time matters: the text ends there.
    fn succeed(&mut self) {
        (self.stat, self.code, self.retry_safe, self.text[0]) = (0, 0, 0, 0);
    }

    fn of(failure: &Failure) -> Self {
        let error = match failure {
            Failure::Arguments => {
                return Self::new(CANT_ENCODE, true, "the arguments don't follow the interface");
            }
            Failure::Result => {
                let why = "executed, but the result doesn't follow the interface";
                return Self::new(CANT_DECODE, false, why);
            }
            Failure::Call(error) => error,
        };
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

/// Why a call has no result.
enum Failure {
    /// The arguments don't follow the interface.
    Arguments,
    /// The result doesn't follow it.
    Result,
    Call(CallError),
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl frpc_bytes {
    /// # Safety
    /// `this` is null, or valid with its data.
    pub unsafe fn key(this: *const Self) -> Result<Option<ClusterKey>, String> {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { Self::slice(this) })? else { return Ok(None) };
        ClusterKey::new(bytes).map(Some).map_err(|error| error.to_string())
    }

    /// # Safety
    /// `this` is null, or valid with its data.
    unsafe fn slice<'b>(this: *const Self) -> Result<Option<&'b [u8]>, String> {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { this.as_ref() }) else { return Ok(None) };
        if bytes.data.is_null() {
            return Err("a null pointer in place of the key's bytes".to_owned());
        }
        // SAFETY: the caller's promise.
        Ok(Some(unsafe { std::slice::from_raw_parts(bytes.data.cast::<u8>(), bytes.length) }))
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
        let process = Process::watched()?;
        let (callee, others) = addresses(host, (program, version), transport)?;
        Ok(Box::into_raw(Box::new(frpc_handle {
            client: SHARED.get_or_init(Client::default).clone(),
            settings: None,
            onc: false,
            line: None,
            process,
            callee,
            others,
            transport,
            program,
            version,
            timeout: None,
            options: CallOptions::default(),
            args: Vec::new(),
            required: None,
            store_and_forward: false,
            latest: frpc_outcome::SUCCESS,
        })))
    })
}

/// `HOST:PORT`, or `HOST`, whose rpcbind is then asked for the program's port.
fn addresses(
    host: &str,
    program: (u32, u32),
    transport: Transport,
) -> Result<(SocketAddr, Vec<SocketAddr>), String> {
    let has_port = match host.rsplit_once(':') {
        Some((before, port)) => {
            port.parse::<u16>().is_ok() && (!before.contains(':') || before.ends_with(']'))
        }
        None => false,
    };
    let about = |error: &dyn std::fmt::Display| format!("{host}: {error}");
    if has_port {
        let mut found = host.to_socket_addrs().map_err(|error| about(&error))?;
        let first = found.next().ok_or_else(|| about(&"no address"))?;
        return Ok((first, found.filter(|other| *other != first).collect()));
    }
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let (number, version) = program;
    let mut why = format!("its rpcbind has no program {number} version {version}");
    let until = Instant::now() + ClientOptions::default().connect_timeout;
    // A host may have an address of each family, and the program only one.
    for found in (bare, 0).to_socket_addrs().map_err(|error| about(&error))? {
        let patience = until.saturating_duration_since(Instant::now());
        match rpcbind_lookup(found.ip(), program, transport, patience) {
            Ok(Some(callee)) => return Ok((callee, Vec::new())),
            Ok(None) => {}
            Err(error) => why = format!("its rpcbind: {error}; HOST:PORT needs no rpcbind"),
        }
    }
    Err(about(&why))
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

impl frpc_handle {
    fn settings(&self) -> ClientOptions {
        self.settings.clone().unwrap_or_default()
    }

    /// Changes options, which takes a client of the handle's own.
    fn set(&mut self, change: impl FnOnce(&mut ClientOptions)) {
        let mut settings = self.settings();
        change(&mut settings);
        self.client = Client::new(settings.clone());
        self.settings = Some(settings);
        self.line = None;
    }
}

fn c_time(time: Duration) -> timeval {
    let tv_sec = time.as_secs().try_into().unwrap_or(i64::MAX);
    timeval { tv_sec, tv_usec: time.subsec_micros().into() }
}

/// A duration of C; `None` for zero.
pub fn duration(time: timeval) -> Option<Duration> {
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
        if value.is_null() && ![1002, 1005].contains(&option) {
            return Err("a null pointer in place of the option's value".to_owned());
        }
        // SAFETY, of all reads and writes below: the caller's promise for the option.
        match option {
            // SAFETY: see above.
            1 => handle.timeout = duration(unsafe { value.cast::<timeval>().read() }),
            2 => {
                let time = handle.timeout.or(handle.settings().timeout).unwrap_or_default();
                // SAFETY: see above.
                unsafe { value.cast::<timeval>().write(c_time(time)) };
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
            4 => {
                // SAFETY: see above.
                let first = duration(unsafe { value.cast::<timeval>().read() }).ok_or("a zero time")?;
                let first_us = u64::try_from(first.as_micros()).unwrap_or(u64::MAX);
                handle.set(|settings| {
                    settings.retry.first_us = first_us;
                    settings.retry.longest_us = settings.retry.longest_us.max(first_us);
                });
            }
            // SAFETY: see above.
            5 => unsafe {
                value
                    .cast::<timeval>()
                    .write(c_time(Duration::from_micros(handle.settings().retry.first_us)));
            },
            1001 => {
                // SAFETY: see above.
                let key = unsafe { frpc_bytes::key(value.cast()) }?;
                handle.set(|settings| settings.key = key);
            }
            // SAFETY: see above.
            1002 => match unsafe { value.cast::<frpc_auth_sys>().as_ref() } {
                None => handle.options.credentials = None,
                // SAFETY: see above.
                Some(auth) => handle.options.credentials = Some(Credentials::Sys(unsafe { auth.user() }?)),
            },
            1005 => {
                // SAFETY: see above.
                let tls = match unsafe { value.cast::<frpc_tls>().as_ref() } {
                    None => None,
                    // SAFETY: see above.
                    Some(tls) => Some(unsafe { tls.of_caller() }?),
                };
                handle.set(|settings| settings.tls = tls);
            }
            1006 => {
                // SAFETY: see above.
                handle.onc = unsafe { value.cast::<c_int>().read() } != 0;
                handle.line = None;
            }
            1007 => {
                // SAFETY: see above.
                let time = duration(unsafe { value.cast::<timeval>().read() }).ok_or("a zero time")?;
                handle.set(|settings| settings.connect_timeout = time);
            }
            // SAFETY: see above.
            1008 => unsafe { value.cast::<timeval>().write(c_time(handle.settings().connect_timeout)) },
            1009 => {
                // SAFETY: see above.
                let time = duration(unsafe { value.cast::<timeval>().read() });
                handle.set(|settings| settings.peer_silence = time);
            }
            1010 => {
                // SAFETY: see above.
                let most = unsafe { value.cast::<u32>().read() } as usize;
                handle.set(|settings| settings.payload_bytes = most);
            }
            1011 => {
                // SAFETY: see above.
                let bytes = (unsafe { frpc_bytes::slice(value.cast()) })?.ok_or("no key's name")?;
                let id = KeyId::new(bytes).ok_or("a key's name has 1 to 255 bytes")?;
                handle.set(|settings| settings.key_id = Some(id));
            }
            1012 => {
                // SAFETY: see above.
                let other = unsafe { &*value.cast::<frpc_handle>().cast_const() };
                (handle.client, handle.settings) = (other.client.clone(), other.settings.clone());
                handle.line = None;
            }
            1003 => {
                // SAFETY: see above.
                let required = unsafe { value.cast::<u32>().read() };
                handle.required = (required > 0).then_some(required as usize);
            }
            // SAFETY: see above.
            1004 => handle.store_and_forward = unsafe { value.cast::<c_int>().read() } != 0,
            other => return Err(format!("frpc_control: no option {other}; see enum frpc_option")),
        }
        Ok(1)
    })
}

/// Appends a value to `bytes`.
///
/// # Safety
/// The value fits the routine.
unsafe fn encode(routine: Routine, value: *const c_void, bytes: &mut Vec<u8>) -> Result<(), Failure> {
    // SAFETY: the caller's promise; encoding doesn't write to the value.
    let done = unsafe { routine(&mut Xdr::to(bytes), value.cast_mut()) };
    if done != 0 { Ok(()) } else { Err(Failure::Arguments) }
}

/// Decodes all of `bytes`; otherwise frees the parts already decoded.
///
/// # Safety
/// The value fits the routine.
unsafe fn decode(bytes: &[u8], routine: Routine, value: *mut c_void) -> Result<(), Failure> {
    let mut stream = Xdr::of(bytes);
    // SAFETY: the caller's promise.
    if unsafe { routine(&mut stream, value) } != 0 && stream.is_at_end() {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { routine(&mut Xdr::freeing(), value) };
    Err(Failure::Result)
}

impl frpc_handle {
    fn connected(&mut self) -> Result<Handle, CallError> {
        if self.onc {
            return Ok(self.client.onc_handle(self.callee, self.transport));
        }
        let mut made = self.client.handle(self.callee, self.transport);
        // A name may have addresses of both families, such as localhost, and the callee listen on one.
        for _ in 0..self.others.len() {
            if !matches!(made, Err(CallError::NotExecuted(Refusal::Unreachable))) {
                break;
            }
            let failed = std::mem::replace(&mut self.callee, self.others.remove(0));
            self.others.push(failed);
            made = self.client.handle(self.callee, self.transport);
        }
        made
    }

    /// The timeout of a call.
    fn patience(&self, timeout: timeval) -> Option<Duration> {
        self.timeout.or(duration(timeout))
    }

    /// # Safety
    /// The values fit the routines.
    unsafe fn call(
        &mut self,
        procedure: u32,
        args: (Routine, *const c_void),
        result: (Routine, *mut c_void),
        timeout: timeval,
    ) -> Result<(), Failure> {
        self.args.clear();
        // SAFETY: the caller's promise.
        unsafe { encode(args.0, args.1, &mut self.args) }?;
        self.options.timeout = self.patience(timeout);
        let answer = self.exchange(Procedure::new(self.program, self.version, procedure));
        if self.args.capacity() > KEPT_BYTES {
            self.args = Vec::new();
        }
        // SAFETY: the caller's promise.
        unsafe { decode(&answer?, result.0, result.1) }
    }

    /// The outcome of a failed call.
    fn told(&self, failure: &Failure) -> frpc_outcome {
        let told = frpc_outcome::of(failure);
        match failure {
            // A server of SunRPC closes the connection of a caller that it doesn't understand.
            Failure::Call(error @ CallError::NotExecuted(Refusal::Unreachable)) if !self.onc => {
                frpc_outcome::new(told.stat, true, &format!("{error}; a server of SunRPC needs FRPC_SET_ONC"))
            }
            _ => told,
        }
    }

    /// Sends the encoded arguments, and waits for the answer.
    fn exchange(&mut self, procedure: Procedure) -> Result<Bytes, CallError> {
        let here = Process::this();
        if self.process != here {
            self.line = None; // the parent's: the child opens its own
            self.process = here;
        }
        // Out of the handle meanwhile: a line that panics isn't used again.
        let mut line = match self.line.take() {
            Some(line) => line,
            None => Box::new(self.connected()?),
        };
        let answer = line.call_with(procedure, &[&self.args], &self.options);
        if matches!(answer, Ok(_) | Err(CallError::Fault(_))) {
            self.line = Some(line);
        }
        answer
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
        match unsafe { handle.call(procedure, (args_routine, args), (result_routine, result), timeout) } {
            Ok(()) => handle.latest.succeed(),
            Err(failure) => handle.latest = handle.told(&failure),
        }
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

/// See flexrpc.h.
///
/// # Safety
/// The handle is valid; the text is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_perror(handle: *const frpc_handle, prefix: *const c_char) {
    guarded((), || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_ref() }.ok_or("a null handle")?;
        // SAFETY: the caller's promise.
        let prefix = unsafe { text(prefix, "prefix") }?;
        let text = &handle.latest.text;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        eprintln!("{prefix}: {}", String::from_utf8_lossy(&text[..end]));
        Ok(())
    });
}

/// A multicast's results: one place for each callee, or none.
struct Places<'a>(&'a dyn Fn(usize) -> *mut c_void);

/// # Safety
/// The arrays have `count` elements; the values fit the routines.
unsafe fn multicast(
    (handles, count): (*const *mut frpc_handle, size_t),
    is_serial: bool,
    procedure: u32,
    args: (Routine, *const c_void),
    (result_routine, places): (Routine, Option<Places<'_>>),
    outcomes: *mut frpc_outcome,
    timeout: timeval,
) -> Result<c_int, String> {
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
        || (is_serial && first.transport != Transport::Tcp)
    {
        return Err("a multicast has one transport, and a serial one is over tcp".to_owned());
    }
    if handles.iter().any(|one| one.onc) {
        return Err("plain ONC RPC has no multicasts: call each handle".to_owned());
    }
    let mut bytes = Vec::new();
    // SAFETY: the caller's promise.
    let encoded = unsafe { encode(args.0, args.1, &mut bytes) };
    encoded.map_err(|_| "the arguments don't follow the interface")?;
    let bytes = [Bytes::from(bytes)];
    let callees: Vec<_> = handles.iter().map(|handle| handle.callee).collect();
    let procedure = Procedure::new(first.program, first.version, procedure);
    let options = MulticastOptions {
        call: CallOptions { timeout: first.patience(timeout), ..first.options.clone() },
        required: first.required,
        store_and_forward: first.store_and_forward,
        turn: None,
    };
    let all = if is_serial {
        first.client.call_chain(&callees, procedure, &bytes, &options)
    } else {
        first.client.call_parallel(&callees, first.transport, procedure, &bytes, &options)
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
            args_routine: Routine,
            args: *const c_void,
            result_routine: Routine,
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
    args_routine: Routine,
    args: *const c_void,
    result_routine: Routine,
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
