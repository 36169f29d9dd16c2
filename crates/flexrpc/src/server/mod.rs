//! The server: several programs on one port, over TCP and UDP. The number of threads follows the
//! load.

pub(crate) mod bonds;
pub(crate) mod chain;
pub(crate) mod connection;
pub(crate) mod core;
pub(crate) mod datagrams;
pub(crate) mod forwarding;
pub mod onc;
pub(crate) mod registry;
mod repeats;
pub(crate) mod running;
pub(crate) mod service;
pub(crate) mod threads;
pub(crate) mod workers;

use crate::net::clock;
use crate::net::socket;
use crate::net::spin::SPIN;
use crate::proto::admission::AdmissionLimits;
use crate::proto::auth::ClusterKey;
use crate::proto::bond::OwnKeys;
use crate::proto::limits;
use crate::proto::onc::rpcbind::Mapping;
use crate::server::chain::Forwarder;
use crate::server::core::Core;
use crate::server::datagrams::Datagrams;
use crate::server::forwarding::Forwarding;
use crate::server::onc::OncOptions;
use crate::server::onc::registration::Registration;
use crate::server::service::Service;
use crate::server::threads::Threads;
use crate::server::workers::Workers;
use crate::tls::{ClientTls, ServerTls};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the server removes expired state, unless its lifetime is shorter.
const SWEEP: Duration = Duration::from_secs(5);

/// Shortest time between sweeps, since a sweep visits every session.
const SWEEP_LEAST: Duration = Duration::from_millis(10);

/// How often a shutdown checks for running calls.
const LOOK: Duration = Duration::from_millis(2);

/// Ports tried until one is free for TCP and UDP.
const PORTS_TRIED: usize = 16;

/// Bounds of the number of workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Workers that stay even without work.
    pub least: usize,
    /// Most workers. Each takes a stack (8 MiB of address space, some KiB of memory).
    pub most: usize,
    /// A worker without work for so long ends.
    pub dormant: Duration,
}

/// A server's options.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address to listen on, for TCP and UDP. Port 0 takes a free one. Off loopback, the server
    /// requires a key, or that all callers have certificates, or `allow_anonymous`.
    pub listen: SocketAddr,
    /// Whether to serve UDP beside TCP.
    pub udp: bool,
    /// The cluster's key. The server refuses callers without it.
    pub key: Option<ClusterKey>,
    /// Callers' own keys, which the server accepts beside `key`. It forwards no chains of
    /// their holders.
    pub own_keys: Option<OwnKeys>,
    /// If a key is set: programs that callers without any key may call, by TLS only.
    pub keyless_programs: Vec<u32>,
    /// Serve callers without a key off loopback.
    pub allow_anonymous: bool,
    /// Service workers.
    pub workers: WorkerLimits,
    /// How long to spin for the next call on a busy connection; zero for never.
    pub spin: Duration,
    /// Largest payload over TCP, in bytes, of calls and results.
    pub payload_bytes: usize,
    /// Bytes of memory for calls larger than 128 KiB at a time, from their arrival
    /// to the end of their execution; beyond it they are refused.
    pub receive_bytes: usize,
    /// Bytes of answers, at a time, that callers have asked for and don't take. Beyond it the
    /// server cuts callers off; they can ask again while it keeps the results. Results in the
    /// making don't count: each worker has one of at most `payload_bytes`.
    pub send_bytes: usize,
    /// Connections at a time; each costs a descriptor and some hundred bytes. No host gets more
    /// than it leaves to others.
    pub connections: usize,
    /// The server closes a connection that was idle for so long. The caller's next call opens
    /// another.
    pub connection_idle: Duration,
    /// The same until the first call of a caller that the server lets in. Callers ask as soon as
    /// they connect.
    pub greeting: Duration,
    /// The same within a message, since its sender has it ready. In each such time,
    /// [`limits::STALL_BYTES`] of a large message must arrive, or of an answer be taken.
    pub message_stall: Duration,
    /// Sessions and the response cache.
    pub admission: AdmissionLimits,
    /// Longest delivery chain, this callee included.
    pub chain_callees: usize,
    /// The callees to which chain calls may be passed on.
    pub forwarding: Forwarding,
    /// TLS for callers that begin it: over TCP, on the same port. [`Server::set_tls`] renews it.
    pub tls: Option<ServerTls>,
    /// Refuse callers without TLS, and so all callers over UDP.
    pub tls_required: bool,
    /// TLS for calls to chains' next callees, if set. Calls that came by TLS are never passed on
    /// without it.
    pub forwarding_tls: Option<ClientTls>,
    /// How long a chain call without a deadline waits for the callees behind this one. Then their
    /// outcomes are in doubt.
    pub chain_wait: Duration,
    /// A chain's next callee whose host acknowledges nothing for so long is lost: see
    /// [`crate::ClientOptions::peer_silence`].
    pub peer_silence: Option<Duration>,
    /// How long a shutdown waits for running calls.
    pub drain: Duration,
    /// Access for callers in plain ONC RPC, on the same port.
    pub onc: OncOptions,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            udp: true,
            key: None,
            own_keys: None,
            keyless_programs: Vec::new(),
            allow_anonymous: false,
            workers: WorkerLimits { least: 2, most: 64, dormant: Duration::from_secs(10) },
            spin: SPIN,
            payload_bytes: limits::MESSAGE_BYTES,
            // Sixteen of the largest messages.
            receive_bytes: 16 * limits::MESSAGE_BYTES,
            send_bytes: 16 * limits::MESSAGE_BYTES,
            connections: 32_768,
            connection_idle: Duration::from_secs(600),
            greeting: Duration::from_secs(10),
            message_stall: Duration::from_secs(30),
            admission: AdmissionLimits::default(),
            chain_callees: limits::CHAIN_CALLEES,
            forwarding: Forwarding::default(),
            tls: None,
            tls_required: false,
            forwarding_tls: None,
            peer_silence: None,
            // Far longer than a rack's slowest disk takes for a payload.
            chain_wait: Duration::from_secs(600),
            drain: Duration::from_secs(30),
            onc: OncOptions::default(),
        }
    }
}

impl ServerOptions {
    /// Whether all callers hold the cluster's key or show a trusted certificate. Callers in plain
    /// ONC RPC that the operator admits don't count.
    pub(crate) fn knows_callers(&self) -> bool {
        let certified = self.tls_required && self.tls.as_ref().is_some_and(|tls| tls.certified);
        certified || self.key.is_some()
    }
}

/// A server that isn't listening yet.
pub struct ServerBuilder {
    core: Core,
}

/// A running server; dropping it shuts it down.
pub struct Server {
    workers: Arc<Workers>,
    datagrams: Option<Arc<Datagrams>>,
    threads: Threads,
    /// The forwarder's thread, which ends before the workers that execute calls for it.
    forwarding: Threads,
    address: SocketAddr,
    registration: Mutex<Option<Registration>>,
}

impl Server {
    /// A server with these options; register programs, then start it.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder { core: Core::new(options) }
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a version of a program, or replaces it, while the server runs.
    ///
    /// The server serves the program, but rpcbind refuses to register it ([`OncOptions::rpcbind`]).
    /// ([`OncOptions::rpcbind`]).
    pub fn register(&self, program: u32, version: u32, service: impl Service) -> io::Result<()> {
        self.workers.core.registry.register(program, version, Arc::new(service));
        self.tell_rpcbind(&[(program, version)])
    }

    fn tell_rpcbind(&self, programs: &[(u32, u32)]) -> io::Result<()> {
        let registration = self.registration.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(registration) = &*registration else { return Ok(()) };
        let udp = self.datagrams.is_some();
        let mappings = |(program, version): &(u32, u32)| Mapping::all(*program, *version, self.address, udp);
        registration.add(programs.iter().flat_map(mappings).collect())
    }

    /// Replaces the rule for chains' next callees, for calls that begin from now on.
    pub fn set_forwarding(&self, forwarding: Forwarding) {
        self.workers.core.set_forwarding(forwarding);
    }

    /// Replaces [`ServerOptions::tls`] and [`ServerOptions::forwarding_tls`], for example to renew
    /// certificates. New connections use them. No chain is passed on over a connection made before.
    ///
    /// # Errors
    /// The server demands certificates of callers so far, and wouldn't with `callers`.
    pub fn set_tls(&self, callers: ServerTls, forwarding: Option<ClientTls>) -> io::Result<()> {
        if !self.workers.core.set_tls(callers, forwarding) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "callers of this server show certificates: name the authorities that they come from",
            ));
        }
        self.workers.chains.close_idle();
        Ok(())
    }

    /// The number of service workers.
    pub fn worker_count(&self) -> usize {
        self.workers.count()
    }

    /// The number of connections.
    pub fn connection_count(&self) -> usize {
        self.workers.connection_count()
    }

    /// Refuses new calls, waits for running ones, and ends. A call that arrives at the very end is
    /// left in doubt. A server started afterwards is a new incarnation: it knows no session of this
    /// one. Returns whether all calls ended within [`ServerOptions::drain`]. A service that shuts
    /// down its own server waits for itself, for the whole of that time.
    pub fn shutdown(self) -> bool {
        self.end()
    }

    fn end(&self) -> bool {
        let core = &self.workers.core;
        if core.draining.swap(true, Ordering::AcqRel) {
            // The server was shut down before the drop, and has already waited.
            return true;
        }
        // Unregister first, so that rpcbind sends no more callers here.
        drop(self.registration.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.workers.stop_listening();
        let since = clock::now();
        self.workers.chains.close();
        // Meanwhile the server refuses new calls.
        while core.running.any() && clock::since(since) < core.options.drain {
            std::thread::sleep(LOOK);
        }
        self.workers.chains.end();
        let forwarded = self.forwarding.wait(core.options.drain.saturating_sub(clock::since(since)));
        self.workers.stop();
        if let Some(datagrams) = &self.datagrams {
            datagrams.stop();
        }
        let ended = self.threads.wait(core.options.drain.saturating_sub(clock::since(since)));
        self.workers.close_all();
        forwarded && ended
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl ServerBuilder {
    /// Adds a version of a program, or replaces it.
    #[must_use]
    pub fn register(self, program: u32, version: u32, service: impl Service) -> Self {
        self.core.registry.register(program, version, Arc::new(service));
        self
    }

    /// Listens and serves until the returned server is dropped.
    ///
    /// # Errors
    /// The address can't be bound; threads or descriptors are lacking; the address is off loopback
    /// and open to anybody; TLS is required but not configured; or rpcbind refuses to register the
    /// programs.
    pub fn start(self) -> io::Result<Server> {
        let options = &self.core.options;
        if options.tls_required && options.tls.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "TLS is required of callers, but the server has no certificate",
            ));
        }
        let guarded = options.knows_callers() || options.allow_anonymous;
        if !guarded && !options.listen.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} is off loopback: give the server a cluster key, require certificates of its callers, or \
                     let it serve anonymous ones",
                    options.listen
                ),
            ));
        }
        let (listener, udp) = bind(options.listen, options.udp).map_err(|error| {
            io::Error::new(error.kind(), format!("can't listen on {}: {error}", options.listen))
        })?;
        let address = socket::local_address(&listener)?;
        let threads = Threads::default();
        let core = Arc::new(self.core);
        let workers = Arc::new(Workers::new(Arc::clone(&core), Some(listener), threads.clone())?);
        let datagrams =
            udp.map(|udp| Datagrams::new(Arc::clone(&core), udp, threads.clone())).transpose()?.map(Arc::new);
        // From here on, dropping the server ends all started threads.
        let forwarding = Threads::default();
        let server = Server {
            workers: Arc::clone(&workers),
            datagrams,
            threads: threads.clone(),
            forwarding: forwarding.clone(),
            address,
            registration: Mutex::new(core.options.onc.rpcbind.clone().map(Registration::new)),
        };
        workers.start()?;
        if let Some(datagrams) = &server.datagrams {
            datagrams.start()?;
        }
        let chains = Arc::clone(&workers.chains);
        let forwarder = Forwarder::new(Arc::clone(&core), chains, Arc::clone(&workers))?;
        if !forwarding.spawn("flexrpc-forwarder", move || forwarder.run()) {
            return Err(io::Error::other("no thread for the forwarder"));
        }
        if !threads.spawn("flexrpc-sweeper", move || sweep(&workers)) {
            return Err(io::Error::other("no thread for the sweeper"));
        }
        server.tell_rpcbind(&core.registry.programs())?;
        Ok(server)
    }
}

/// Binds TCP and, if wanted, UDP to one port. If the system chooses the port, it chooses for TCP,
/// and the port may be taken for UDP.
fn bind(address: SocketAddr, udp: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let mut attempts = if address.port() == 0 { PORTS_TRIED } else { 1 };
    loop {
        let listener = socket::listen_tcp(address)?;
        if !udp {
            return Ok((listener, None));
        }
        attempts -= 1;
        match socket::bind_udp(socket::local_address(&listener)?) {
            Ok(udp) => return Ok((listener, Some(udp))),
            Err(error) if attempts == 0 => return Err(error),
            Err(_) => {}
        }
    }
}

fn sweep(workers: &Workers) {
    let options = &workers.core.options;
    let remembered = options.admission.result_us.min(options.admission.session_idle_us);
    let connected = options.connection_idle.min(options.message_stall).min(options.greeting);
    let pause = (Duration::from_micros(remembered).min(connected) / 4).clamp(SWEEP_LEAST, SWEEP);
    loop {
        let until = crate::net::clock::after(crate::net::clock::now(), pause);
        match socket::wait(workers.stopped(), PollFlags::IN, Some(until)) {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
        workers.core.admission.sweep(crate::net::clock::now());
        workers.core.duplicates.sweep(crate::net::clock::now());
        workers.core.repeats.sweep(crate::net::clock::now());
        workers.close_idle();
    }
}
