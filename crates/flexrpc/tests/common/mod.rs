//! A service that counts its executions, and helpers that tests start.

pub mod proxy;
pub mod raw;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use strait_flexrpc::{
    Client, Credentials, Fault, Procedure, Reply, Request, Server, ServerBuilder, ServerOptions, ServiceError,
};
pub use strait_testkit::wait::eventually;
use strait_testkit::wait::pause;

/// The tests' program.
pub const PROGRAM: u32 = 0x2000_0042;
/// Returns its arguments.
pub const ECHO: u32 = 1;
/// Returns its arguments, and logs them as executed.
pub const COUNT: u32 = 2;
/// Fails with error 13, and its arguments as the message.
pub const FAIL: u32 = 3;
/// Panics.
pub const PANIC: u32 = 4;
/// Takes as many milliseconds as its argument says.
pub const SLEEP: u32 = 5;
/// Returns the number of running calls of [`SLEEP`].
pub const RUNNING: u32 = 6;

/// Takes two seconds if the service is marked.
pub const SLEEP_IF_MARKED: u32 = 7;

/// As [`COUNT`], but sometimes slow. Rarely, it stalls the whole service: see [`SLOW_EVERY`] and
/// [`STALL_EVERY`].
pub const COUNT_SLOWLY: u32 = 8;

/// The service refuses it, as if one of its limits were reached.
pub const FULL: u32 = 10;

/// Runs until [`Service::let_go`].
pub const HOLD: u32 = 9;

/// Of this many executions of [`COUNT_SLOWLY`], one takes 50 ms.
pub const SLOW_EVERY: usize = 50;

/// Of this many executions, one delays all others, for longer than impatient callers wait.
pub const STALL_EVERY: usize = 2_000;

/// Longest run of a call of [`HOLD`].
const LONGEST_HOLD: Duration = Duration::from_secs(20);

/// Length of a stall.
pub const STALL: Duration = Duration::from_millis(450);

/// Procedure `number` of the tests' program.
pub fn procedure(number: u32) -> Procedure {
    Procedure::new(PROGRAM, 1, number)
}

/// A log of the service's work.
#[derive(Default)]
pub struct Service {
    log: Mutex<Vec<Vec<u8>>>,
    running: AtomicUsize,
    credentials: Mutex<Credentials>,
    marked: AtomicBool,
    let_go: (Mutex<bool>, Condvar),
}

impl Service {
    /// Calls of [`COUNT`] that were executed.
    pub fn executed(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// Their arguments.
    pub fn log(&self) -> Vec<Vec<u8>> {
        self.log.lock().unwrap().clone()
    }

    /// Calls of [`SLEEP`] and [`HOLD`] under way.
    pub fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// Makes [`SLEEP_IF_MARKED`] slow.
    pub fn mark(&self, marked: bool) {
        self.marked.store(marked, Ordering::SeqCst);
    }

    /// Ends all calls of [`HOLD`], present and future.
    pub fn let_go(&self) {
        *self.let_go.0.lock().unwrap() = true;
        self.let_go.1.notify_all();
    }

    /// Credentials of the latest call.
    pub fn last_credentials(&self) -> Credentials {
        self.credentials.lock().unwrap().clone()
    }

    fn sleep(&self, millis: u32) {
        self.running.fetch_add(1, Ordering::SeqCst);
        pause("the call takes so long", Duration::from_millis(millis.into()));
        self.running.fetch_sub(1, Ordering::SeqCst);
    }

    fn call(&self, request: &Request, reply: &mut Reply) -> Result<(), ServiceError> {
        *self.credentials.lock().unwrap() = request.credentials.clone();
        match request.procedure.number {
            ECHO => reply.put(&request.args),
            COUNT => {
                self.log.lock().unwrap().push(request.args.to_vec());
                reply.put(&request.args);
            }
            COUNT_SLOWLY => {
                let executed = {
                    let mut log = self.log.lock().unwrap();
                    log.push(request.args.to_vec());
                    if log.len().is_multiple_of(STALL_EVERY) {
                        pause("the service stalls", STALL);
                    }
                    log.len()
                };
                if executed.is_multiple_of(SLOW_EVERY) {
                    pause("a slow call", Duration::from_millis(50));
                }
                reply.put(&request.args);
            }
            FAIL => return Err(Fault::application(13, String::from_utf8_lossy(&request.args)).into()),
            PANIC => panic!("as asked"),
            SLEEP => {
                let millis = request.args.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                self.sleep(millis);
            }
            HOLD => {
                let (let_go, changed) = &self.let_go;
                self.running.fetch_add(1, Ordering::SeqCst);
                // The wait is bounded, so that a test ends even if it fails before it lets go.
                let held = let_go.lock().unwrap();
                drop(changed.wait_timeout_while(held, LONGEST_HOLD, |let_go| !*let_go).unwrap());
                self.running.fetch_sub(1, Ordering::SeqCst);
            }
            SLEEP_IF_MARKED if self.marked.load(Ordering::SeqCst) => self.sleep(2000),
            SLEEP_IF_MARKED => {}
            RUNNING => reply.put(&(self.running() as u32).to_be_bytes()),
            FULL => return Err(ServiceError::Overloaded),
            _ => return Err(ServiceError::NoSuchProcedure),
        }
        Ok(())
    }
}

/// A server on a free port, with its service.
pub fn server() -> (Server, Arc<Service>) {
    let service = Arc::new(Service::default());
    (start(ServerOptions::default(), &service), service)
}

/// A server of `service`.
pub fn start(options: ServerOptions, service: &Arc<Service>) -> Server {
    builder(options, service).start().expect("the server starts")
}

/// The same if the port may still be taken.
pub fn try_start(options: ServerOptions, service: &Arc<Service>) -> Option<Server> {
    builder(options, service).start().ok()
}

/// The server before it starts.
pub fn builder(options: ServerOptions, service: &Arc<Service>) -> ServerBuilder {
    let service = Arc::clone(service);
    Server::builder(options)
        .register(PROGRAM, 1, move |request: &Request, reply: &mut Reply| service.call(request, reply))
}

/// A client with default options.
pub fn client() -> Client {
    Client::default()
}
