//! Handles and calls.

mod multicasts;
mod options;
mod outcome;

use crate::xdr::{Routine, Xdr, given};
use crate::{DEFECT, guarded, text};
use bytes::Bytes;
use nix::libc::{c_char, c_int, c_void, size_t, timeval};
use outcome::{FAILED, Failure, UNKNOWN, frpc_outcome};
use parking_lot::{Mutex, MutexGuard};
use std::cell::UnsafeCell;
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strait_flexrpc::{
    AuthSys, CallError, CallOptions, Client, ClientOptions, ClusterKey, Handle, Obstacle, Procedure, Refusal,
    Transport, rpcbind_lookup,
};
use strait_fork::Process;

/// The client of all handles that don't have their own options. They share its connections.
static SHARED: OnceLock<Client> = OnceLock::new();

/// Largest buffer for arguments that a handle keeps for its next call. Allocating a larger one costs little
/// compared to sending it, and an idle handle shouldn't occupy so much memory.
const KEPT_BYTES: usize = 8 << 10;

/// Longest accepted key. A longer one is probably a mistake in the length.
const MOST_KEY_BYTES: usize = 1 << 16;

/// Timeout of calls that give none, and the time for which other functions wait while the handle is busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// See flexrpc.h.
pub struct frpc_handle {
    /// Threads that share the handle call one after the other, as with a `CLIENT` of libtirpc.
    caller: Mutex<Caller>,
    /// Timeout of all calls by the handle, in microseconds; 0 if it has none of its own. It is outside
    /// the lock, since it also bounds the wait for the lock.
    timeout_us: AtomicU64,
    /// The outcome of the latest call. Only the thread that has locked `caller` writes it.
    latest: UnsafeCell<frpc_outcome>,
}

/// A handle's callee, options and connection.
struct Caller {
    client: Client,
    /// The client's options, if it isn't the shared one.
    settings: Option<ClientOptions>,
    /// Whether the callee speaks plain ONC RPC.
    onc: bool,
    /// The connection, which the first call opens. It is dropped if the callee or the client changes.
    line: Option<Box<Handle>>,
    process: Process,
    callee: SocketAddr,
    /// Further addresses of the callee's name.
    others: Vec<SocketAddr>,
    transport: Transport,
    program: u32,
    version: u32,
    /// Options of the latest call. The credentials apply to all calls.
    options: CallOptions,
    /// Buffer for a call's encoded arguments.
    args: Vec<u8>,
    required: Option<usize>,
    store_and_forward: bool,
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
            return Err(format!("AUTH_SYS allows at most {bytes} bytes of machine name and {groups} groups"));
        }
        let gids = match (self.gids.is_null(), self.gid_count) {
            (_, 0) => Vec::new(),
            (true, _) => {
                return Err("gids is a null pointer, although gid_count isn't 0".to_owned());
            }
            // SAFETY: the caller's promise.
            (false, count) => unsafe { std::slice::from_raw_parts(self.gids, count) }.to_vec(),
        };
        Ok(AuthSys { machine, uid: self.uid, gid: self.gid, gids, ..AuthSys::default() })
    }
}

impl frpc_bytes {
    /// # Safety
    /// `this` is null, or it and its data are valid.
    pub unsafe fn key(this: *const Self) -> Result<Option<ClusterKey>, String> {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { Self::slice(this) })? else { return Ok(None) };
        ClusterKey::new(bytes).map(Some).map_err(|error| error.to_string())
    }

    /// # Safety
    /// `this` is null, or it and its data are valid.
    unsafe fn slice<'b>(this: *const Self) -> Result<Option<&'b [u8]>, String> {
        // SAFETY: the caller's promise.
        let Some(bytes) = (unsafe { this.as_ref() }) else { return Ok(None) };
        if bytes.data.is_null() {
            return Err("the key's data is a null pointer".to_owned());
        }
        if bytes.length > MOST_KEY_BYTES {
            return Err(format!("the key has {} bytes: it must have at most {MOST_KEY_BYTES}", bytes.length));
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
            other => return Err(format!("unknown transport '{other}': use tcp or udp")),
        };
        let process =
            Process::watched().map_err(|error| format!("can't watch for forks (pthread_atfork): {error}"))?;
        let (callee, others) = addresses(host, (program, version), transport)?;
        let caller = Caller {
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
            options: CallOptions::default(),
            args: Vec::new(),
            required: None,
            store_and_forward: false,
        };
        let latest = UnsafeCell::new(frpc_outcome::SUCCESS);
        let (caller, timeout_us) = (Mutex::new(caller), AtomicU64::new(0));
        Ok(Box::into_raw(Box::new(frpc_handle { caller, timeout_us, latest })))
    })
}

/// The callee's addresses for `HOST:PORT`, or for `HOST`, whose rpcbind tells the program's port.
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
    let about = |error: &dyn std::fmt::Display| format!("'{host}': {error}");
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_name = !has_port && (!host.contains(':') || bare.parse::<Ipv6Addr>().is_ok());
    if host.is_empty() || host.starts_with(':') && has_port || !has_port && !is_name {
        return Err(about(&"not HOST:PORT; a port is a number up to 65535"));
    }
    if has_port {
        let mut found = host.to_socket_addrs().map_err(|error| about(&error))?;
        let first = found.next().ok_or_else(|| about(&"the name has no address"))?;
        return Ok((first, found.filter(|other| *other != first).collect()));
    }
    let (number, version) = program;
    let mut why = format!("its rpcbind has no program {number} version {version}");
    let until = Instant::now() + ClientOptions::default().connect_timeout;
    // The host may have addresses of both families, and the program may listen on one of them only.
    for found in (bare, 0).to_socket_addrs().map_err(|error| about(&error))? {
        let patience = until.saturating_duration_since(Instant::now());
        match rpcbind_lookup(found.ip(), program, transport, patience) {
            Ok(Some(callee)) => return Ok((callee, Vec::new())),
            Ok(None) => {}
            Err(error) => why = format!("asking its rpcbind failed: {error}; HOST:PORT needs no rpcbind"),
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
    /// The handle's own timeout.
    fn timeout(&self) -> Option<Duration> {
        let micros = self.timeout_us.load(Ordering::Relaxed);
        (micros != 0).then(|| Duration::from_micros(micros))
    }

    fn set_timeout(&self, timeout: Option<Duration>) {
        let micros = timeout.map_or(0, |time| time.as_micros().try_into().unwrap_or(u64::MAX));
        self.timeout_us.store(micros, Ordering::Relaxed);
    }

    /// Locks the handle. Waits at most `patience` while another thread uses it.
    fn caller(&self, patience: Duration) -> Result<MutexGuard<'_, Caller>, String> {
        let why =
            "another thread's call, or an outer call of this thread, kept the handle busy until the timeout";
        self.caller.try_lock_for(patience).ok_or_else(|| why.to_owned())
    }
}

impl Caller {
    fn settings(&self) -> ClientOptions {
        self.settings.clone().unwrap_or_default()
    }

    /// Changes options. From then on, the handle has its own client.
    fn set(&mut self, change: impl FnOnce(&mut ClientOptions)) {
        let mut settings = self.settings();
        change(&mut settings);
        self.client = Client::new(settings.clone());
        self.settings = Some(settings);
        self.line = None;
    }
}

/// Converts a C duration; `None` for zero.
pub fn duration(time: timeval) -> Result<Option<Duration>, String> {
    let (Ok(seconds), Ok(micros)) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) else {
        return Err("the time is negative".to_owned());
    };
    let time = Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros));
    Ok(Some(time).filter(|time| !time.is_zero()))
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

/// Decodes `bytes`, all of them. If that fails, frees the parts that were decoded.
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

impl Caller {
    fn connected(&mut self, time: Duration) -> Result<Handle, CallError> {
        if self.onc {
            return Ok(self.client.onc_handle(self.callee, self.transport));
        }
        let begun = Instant::now();
        // A name such as localhost may have addresses of both families, and the callee may listen on one
        // only. Each remaining address gets an equal part of the remaining time.
        let mut addresses = 1 + self.others.len() as u32;
        loop {
            let part = time.saturating_sub(begun.elapsed()) / addresses;
            let made = self.client.handle_within(self.callee, self.transport, part);
            addresses -= 1;
            if addresses == 0 || !matches!(made, Err(CallError::NotExecuted(Refusal::Unreachable(_)))) {
                return made;
            }
            let failed = std::mem::replace(&mut self.callee, self.others.remove(0));
            self.others.push(failed);
        }
    }

    /// # Safety
    /// The values fit the routines.
    unsafe fn call(
        &mut self,
        procedure: u32,
        args: (Routine, *const c_void),
        result: (Routine, *mut c_void),
        (timeout, waited): (Option<Duration>, Duration),
    ) -> Result<(), Failure> {
        self.args.clear();
        // SAFETY: the caller's promise.
        unsafe { encode(args.0, args.1, &mut self.args) }?;
        self.options.timeout = timeout;
        if !waited.is_zero() {
            let whole = self.options.timeout.unwrap_or(PATIENCE);
            self.options.timeout = Some(whole.saturating_sub(waited));
        }
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
            Failure::Call(error @ CallError::NotExecuted(Refusal::Unreachable(obstacle)))
                if !self.onc && self.is_other_protocol(*obstacle) =>
            {
                frpc_outcome::new(told.stat, true, &format!("{error}; for a SunRPC server, set FRPC_SET_ONC"))
            }
            _ => told,
        }
    }

    /// Whether the callee is perhaps a SunRPC server. Such a server closes connections with requests that it
    /// doesn't understand, and ignores such datagrams.
    fn is_other_protocol(&self, obstacle: Obstacle) -> bool {
        match obstacle {
            Obstacle::HungUp => true,
            Obstacle::TimedOut => self.transport == Transport::Udp,
            _ => false,
        }
    }

    /// Sends the encoded arguments, and waits for the answer.
    fn exchange(&mut self, procedure: Procedure) -> Result<Bytes, CallError> {
        if !self.process.is_this() {
            self.line = None; // the parent process's connection: the child opens its own
            self.process = Process::this();
        }
        // Take the line out of the handle during the call: if the call panics, the line isn't used again.
        let mut line = match self.line.take() {
            Some(line) => line,
            None => {
                let (begun, time) = (Instant::now(), self.options.timeout.unwrap_or(PATIENCE));
                let line = Box::new(self.connected(time)?);
                self.options.timeout = Some(time.saturating_sub(begun.elapsed()));
                line
            }
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
/// The handle is valid; the values fit the routines, which don't use the handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_call(
    handle: *mut frpc_handle,
    procedure: u32,
    args_routine: Option<Routine>,
    args: *const c_void,
    result_routine: Option<Routine>,
    result: *mut c_void,
    timeout: timeval,
) -> c_int {
    guarded(FAILED, || {
        let (args, result) = ((given(args_routine)?, args), (given(result_routine)?, result));
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_ref() }.ok_or("the handle is a null pointer")?;
        let timeout = handle.timeout().or(duration(timeout)?);
        let (mut caller, waited) = match handle.caller.try_lock() {
            Some(caller) => (caller, Duration::ZERO),
            None => {
                let begun = Instant::now();
                (handle.caller(timeout.unwrap_or(PATIENCE))?, begun.elapsed())
            }
        };
        // SAFETY: the caller's promise.
        let called = catch_unwind(AssertUnwindSafe(|| unsafe {
            caller.call(procedure, args, result, (timeout, waited))
        }));
        // SAFETY: the caller is locked.
        let latest = unsafe { &mut *handle.latest.get() };
        match called {
            Ok(Ok(())) => latest.succeed(),
            Ok(Err(failure)) => *latest = caller.told(&failure),
            Err(_) => *latest = frpc_outcome::new(UNKNOWN, false, DEFECT),
        }
        Ok(latest.stat)
    })
}

/// See flexrpc.h.
///
/// # Safety
/// The handle is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_outcome_of(handle: *const frpc_handle) -> *const frpc_outcome {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.map_or(std::ptr::null(), |handle| handle.latest.get().cast_const())
}

/// See flexrpc.h.
///
/// # Safety
/// The handle is valid; the text is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_perror(handle: *const frpc_handle, prefix: *const c_char) {
    guarded((), || {
        // SAFETY: the caller's promise.
        let handle = unsafe { handle.as_ref() }.ok_or("the handle is a null pointer")?;
        // SAFETY: the caller's promise.
        let prefix = unsafe { text(prefix, "prefix") }?;
        // A call that is under way will change the text of the latest one.
        let Some(locked) = handle.caller.try_lock() else {
            let _ = writeln!(std::io::stderr(), "{prefix}: another call by this handle is under way");
            return Ok(());
        };
        // SAFETY: no other thread writes it now.
        let text = unsafe { (*handle.latest.get()).text };
        drop(locked);
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        // If standard error is closed, there is no other place to report it.
        let _ = writeln!(std::io::stderr(), "{prefix}: {}", String::from_utf8_lossy(&text[..end]));
        Ok(())
    });
}
