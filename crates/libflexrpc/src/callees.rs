//! Registered programs, and the process's only server.

use crate::callers::{duration, frpc_auth_sys, frpc_bytes};
use crate::tls::frpc_tls;
use crate::xdr::{Routine, Xdr, given};
use crate::{guarded, text};
use nix::libc::{self, c_char, c_int, c_uint, c_void, timeval};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::ffi::{CStr, CString};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use strait_flexrpc::{
    ClusterKey, Credentials, Fault, OncAccess, RPCBIND_SOCKET, Reply, Request, Server, ServerOptions,
    ServiceError,
};
use strait_fork::Process;

options! { "FRPC_SVC_",
    SET_TLS = 2001,
    SET_TLS_REQUIRED = 2002,
    SET_ANONYMOUS = 2003,
    SET_RPCBIND = 2004,
    SET_ONC = 2005,
    SET_DRAIN = 2006,
    SET_WORKERS = 2007,
    SET_CALL_BYTES = 2008,
}

/// `FRPC_ONE_AT_A_TIME`.
const ONE_AT_A_TIME: c_uint = 1;

type Dispatch = unsafe extern "C" fn(*mut frpc_request);

/// See flexrpc.h.
#[repr(C)]
pub struct frpc_request {
    program: u32,
    version: u32,
    procedure: u32,
    authenticated: c_int,
    auth_sys: c_int,
    uid: u32,
    gid: u32,
    left_ms: i64,
    auth: *const frpc_auth_sys,
    peer: *const libc::sockaddr,
    call: *mut Call<'static>,
}

/// The address of a call's sender.
enum Peer {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl Peer {
    fn of(address: SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::V6(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }

    fn as_c(&self) -> *const libc::sockaddr {
        match self {
            Self::V4(address) => (&raw const *address).cast(),
            Self::V6(address) => (&raw const *address).cast(),
        }
    }
}

/// The Rust side of a request.
struct Call<'r> {
    args: &'r [u8],
    reply: &'r mut Reply,
    /// `None` until the dispatch function gives one.
    outcome: Option<Result<(), ServiceError>>,
}

struct Program {
    number: u32,
    version: u32,
    dispatch: Dispatch,
    one_at_a_time: bool,
}

/// The process's server.
struct Serving {
    /// The options that frpc_svc_control has set; `None` before its first call.
    options: Option<ServerOptions>,
    programs: Vec<Program>,
    server: Option<(Server, Process)>,
    ended: bool,
    /// Whether SunRPC's clients are allowed to call all programs, also if the server has a key.
    onc: bool,
    /// Whether the server was started before a fork. Then only the parent process has its threads.
    left: bool,
}

static SERVING: Mutex<Serving> = Mutex::new(Serving {
    options: None,
    programs: Vec::new(),
    server: None,
    ended: false,
    onc: false,
    left: false,
});
static ENDED: Condvar = Condvar::new();

/// Serializes the dispatch functions that aren't thread-safe.
struct Turns {
    running: Mutex<()>,
    /// Calls that wait for their turn or run. Each occupies a thread of the server.
    calls: AtomicUsize,
    most: usize,
}

/// A call's turn, until it is dropped.
struct Turn<'t>(&'t Turns, Option<MutexGuard<'t, ()>>);

impl Turns {
    /// Waits until no other one-at-a-time dispatch function runs, at most until the deadline. With `most` calls
    /// that wait or run, further ones are `Overloaded`: each occupies a worker thread, and the server's other
    /// RPC programs need workers.
    fn take(&self, deadline: Option<Instant>) -> Result<Turn<'_>, ServiceError> {
        let mut turn = Turn(self, None);
        if self.calls.fetch_add(1, Ordering::Relaxed) >= self.most {
            return Err(ServiceError::Overloaded);
        }
        turn.1 = Some(match deadline {
            Some(at) => self.running.try_lock_until(at).ok_or(ServiceError::DeadlinePassed)?,
            None => self.running.lock(),
        });
        Ok(turn)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
        if let Some(running) = self.1.take() {
            // To the call that has waited longest: a connection with many calls would take the turn again.
            MutexGuard::unlock_fair(running);
        }
    }
}

fn serving() -> MutexGuard<'static, Serving> {
    let mut serving = SERVING.lock();
    if let Some((server, _)) = serving.server.take_if(|(_, process)| !process.is_this()) {
        // Forget the server: dropping it would wait for threads that this process doesn't have.
        std::mem::forget(server);
        serving.left = true;
    }
    serving
}

/// See flexrpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_register_program(
    number: u32,
    version: u32,
    dispatch: Option<Dispatch>,
    flags: c_uint,
) -> c_int {
    guarded(-1, || {
        let dispatch = dispatch.ok_or("the dispatch function is a null pointer")?;
        let mut serving = serving();
        if serving.server.is_some() {
            return Err("the server runs already: register programs before it starts".to_owned());
        }
        if serving.programs.iter().any(|one| (one.number, one.version) == (number, version)) {
            return Err(format!("program {number} version {version} is registered already"));
        }
        serving.programs.push(Program {
            number,
            version,
            dispatch,
            one_at_a_time: flags & ONE_AT_A_TIME != 0,
        });
        Ok(0)
    })
}

fn dispatched(
    dispatch: Dispatch,
    turns: Option<&Turns>,
    request: &Request,
    reply: &mut Reply,
) -> Result<(), ServiceError> {
    let _turn = turns.map(|turns| turns.take(request.deadline)).transpose()?;
    if turns.is_some() && request.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Err(ServiceError::DeadlinePassed);
    }
    let mut call = Call { args: &request.args, reply, outcome: None };
    let user = match &request.credentials {
        Credentials::Sys(user) => Some(user),
        Credentials::None => None,
    };
    let machine = user.map(|user| CString::new(user.machine.replace('\0', "")).unwrap_or_default());
    let auth = user.zip(machine.as_ref()).map(|(user, machine)| frpc_auth_sys {
        machine: machine.as_ptr(),
        uid: user.uid,
        gid: user.gid,
        gids: user.gids.as_ptr(),
        gid_count: user.gids.len(),
    });
    let peer = Peer::of(request.peer);
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now()).as_millis();
    let mut shown = frpc_request {
        program: request.procedure.program,
        version: request.procedure.version,
        procedure: request.procedure.number,
        authenticated: request.authenticated.into(),
        auth_sys: user.is_some().into(),
        uid: user.map_or(0, |user| user.uid),
        gid: user.map_or(0, |user| user.gid),
        left_ms: request.deadline.map_or(-1, |deadline| left(deadline).try_into().unwrap_or(i64::MAX)),
        auth: auth.as_ref().map_or(std::ptr::null(), |auth| &raw const *auth),
        peer: peer.as_c(),
        call: (&raw mut call).cast(),
    };
    // SAFETY: the program registered this function; the request outlives it.
    unsafe { dispatch(&mut shown) };
    call.outcome.unwrap_or(Err(ServiceError::Unanswered))
}

/// # Safety
/// The request is null, or its dispatch function runs in this thread.
unsafe fn call<'r>(request: *mut frpc_request) -> Result<&'r mut Call<'static>, String> {
    // SAFETY: the caller's promise.
    let request = unsafe { request.as_ref() }.ok_or("the request is a null pointer")?;
    // SAFETY: the call lives as long as its request.
    unsafe { request.call.as_mut() }.ok_or_else(|| "the request's rq_private is null".to_owned())
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched; the value fits the routine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_getargs(
    request: *mut frpc_request,
    routine: Option<Routine>,
    args: *mut c_void,
) -> c_int {
    guarded(0, || {
        let routine = given(routine)?;
        // SAFETY: the caller's promise.
        let mut stream = Xdr::of(unsafe { call(request)? }.args);
        // SAFETY: the caller's promise.
        Ok((unsafe { routine(&mut stream, args) } != 0 && stream.is_at_end()).into())
    })
}

/// See flexrpc.h.
///
/// # Safety
/// The value fits the routine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_freeargs(
    _: *mut frpc_request,
    routine: Option<Routine>,
    args: *mut c_void,
) -> c_int {
    guarded(0, || {
        let routine = given(routine)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { routine(&mut Xdr::freeing(), args) })
    })
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched; the value fits the routine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_sendreply(
    request: *mut frpc_request,
    routine: Option<Routine>,
    result: *const c_void,
) -> c_int {
    guarded(0, || {
        let routine = given(routine)?;
        // SAFETY: the caller's promise.
        let call = unsafe { call(request)? };
        call.reply.clear();
        // SAFETY: the caller's promise; encoding doesn't write to the value.
        let done = unsafe { routine(&mut Xdr::to(call.reply.buffer()), result.cast_mut()) };
        call.outcome = Some(match done {
            0 => Err(Fault::system("the result doesn't follow the interface").into()),
            _ => Ok(()),
        });
        Ok((done != 0).into())
    })
}

/// # Safety
/// The request is being dispatched.
unsafe fn fail(request: *mut frpc_request, error: ServiceError) {
    guarded((), || {
        // SAFETY: the caller's promise.
        unsafe { call(request)? }.outcome = Some(Err(error));
        Ok(())
    });
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svcerr_noproc(request: *mut frpc_request) {
    // SAFETY: the caller's promise.
    unsafe { fail(request, ServiceError::NoSuchProcedure) };
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svcerr_decode(request: *mut frpc_request) {
    // SAFETY: the caller's promise.
    unsafe { fail(request, Fault::garbage_arguments("they don't follow the interface").into()) };
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svcerr_systemerr(request: *mut frpc_request) {
    // SAFETY: the caller's promise.
    unsafe { fail(request, Fault::system("the service failed").into()) };
}

/// See flexrpc.h.
///
/// # Safety
/// The request is being dispatched; the text is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svcerr_application(request: *mut frpc_request, code: u32, why: *const c_char) {
    // SAFETY: the caller's promise.
    let why = (!why.is_null()).then(|| unsafe { CStr::from_ptr(why) }.to_string_lossy());
    // SAFETY: the caller's promise.
    unsafe { fail(request, Fault::application(code, why.unwrap_or_default()).into()) };
}

/// See flexrpc.h.
///
/// # Safety
/// The string ends with a zero byte; the key is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svc_start(listen: *const c_char, key: *const frpc_bytes) -> c_int {
    guarded(-1, || {
        // SAFETY: the caller's promise.
        let (listen, key) = unsafe { (text(listen, "address")?, frpc_bytes::key(key)?) };
        start(listen, key)
    })
}

/// See flexrpc.h.
///
/// # Safety
/// `value` has the type that the option names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frpc_svc_control(option: c_uint, value: *const c_void) -> c_int {
    guarded(0, || {
        if value.is_null() {
            return Err("the option is a null pointer: pass the value's address".to_owned());
        }
        // SAFETY: the caller's promise for the option, as for all reads below.
        let is_on = || unsafe { value.cast::<c_int>().read() } != 0;
        // SAFETY: see above.
        let number = || unsafe { value.cast::<u32>().read() } as usize;
        let name = name(option)
            .ok_or_else(|| format!("frpc_svc_control: unknown option {option}; see enum frpc_svc_option"))?;
        let mut serving = serving();
        if serving.server.is_some() {
            return Err("the server runs already: set its options before it starts".to_owned());
        }
        let options = serving.options.get_or_insert_default();
        match option {
            // SAFETY: see above.
            SET_TLS => options.tls = Some(unsafe { (*value.cast::<frpc_tls>()).of_callee() }?),
            SET_TLS_REQUIRED => options.tls_required = is_on(),
            SET_ANONYMOUS => options.allow_anonymous = is_on(),
            SET_RPCBIND => options.onc.rpcbind = is_on().then(|| RPCBIND_SOCKET.into()),
            SET_ONC if is_on() => serving.onc = true,
            SET_ONC => {
                options.onc.access = OncAccess::Nobody;
                serving.onc = false;
            }
            // SAFETY: see above.
            SET_DRAIN => {
                options.drain = duration(unsafe { value.cast::<timeval>().read() })?.unwrap_or_default()
            }
            SET_WORKERS | SET_CALL_BYTES if number() == 0 => {
                return Err(format!("{name}: the minimum is 1"));
            }
            SET_WORKERS => {
                options.workers.most = number();
                options.workers.least = options.workers.least.min(options.workers.most);
            }
            SET_CALL_BYTES => options.payload_bytes = number(),
            _ => return Err(format!("{name}: not implemented")),
        }
        Ok(1)
    })
}

fn start(listen: &str, key: Option<ClusterKey>) -> Result<c_int, String> {
    let mut found = listen.to_socket_addrs().map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => format!("{listen}: the address isn't HOST:PORT"),
        _ => format!("{listen}: {error}"),
    })?;
    let found = found.next().ok_or_else(|| format!("{listen}: the name has no address"))?;
    let mut serving = serving();
    let options = serving.options.clone().unwrap_or_default();
    let mut options = ServerOptions { listen: found, key, ..options };
    if serving.onc {
        options.onc.access = OncAccess::Programs(serving.programs.iter().map(|one| one.number).collect());
    }
    if serving.server.is_some() {
        return Err("the server runs already".to_owned());
    }
    // If all programs take turns, no other program needs the threads of waiting calls.
    let others = serving.programs.iter().any(|program| !program.one_at_a_time);
    let most = if others { (options.workers.most / 2).max(1) } else { usize::MAX };
    let turns = Arc::new(Turns { running: Mutex::new(()), calls: AtomicUsize::new(0), most });
    let mut builder = Server::builder(options);
    for &Program { number, version, dispatch, one_at_a_time } in &serving.programs {
        let turns = one_at_a_time.then(|| Arc::clone(&turns));
        builder = builder.register(number, version, move |request: &Request, reply: &mut Reply| {
            dispatched(dispatch, turns.as_deref(), request, reply)
        });
    }
    let process = Process::this();
    let server = builder.start().map_err(|error| error.to_string())?;
    let port = server.address().port();
    serving.server = Some((server, process));
    (serving.ended, serving.left) = (false, false);
    Ok(port.into())
}

/// See flexrpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_svc_run() {
    guarded((), || {
        let mut here = serving();
        if here.left {
            let why = "a parent process started the server before a fork: start it in this process instead";
            return Err(why.to_owned());
        }
        if here.server.is_none() {
            drop(here);
            start("127.0.0.1:0", None)?;
            here = serving();
        }
        while !here.ended {
            ENDED.wait(&mut here);
        }
        let server = here.server.take();
        drop(here); // unlock, since a running call may call frpc_svc_exit
        server.map(|(server, _)| server.shutdown());
        Ok(())
    });
}

/// See flexrpc.h.
#[unsafe(no_mangle)]
pub extern "C" fn frpc_svc_exit() {
    serving().ended = true;
    ENDED.notify_all();
}
