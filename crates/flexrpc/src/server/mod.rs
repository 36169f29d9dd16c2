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

/// How often a shutdown checks whether calls are still running.
const LOOK: Duration = Duration::from_millis(2);

/// How many ports to try until one is free for both TCP and UDP.
const PORTS_TRIED: usize = 16;

/// Bounds of the number of workers.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Fewest workers, which stay even without work.
    pub least: usize,
    /// Most workers. Each has a stack: 8 MiB of address space, and some KiB of memory.
    pub most: usize,
    /// A worker ends after this time without work.
    pub dormant: Duration,
}

/// A server's options.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address to listen on, for TCP and UDP. Port 0 takes a free one. If it isn't a loopback
    /// address, the server requires a key, or certificates of all callers, or `allow_anonymous`.
    pub listen: SocketAddr,
    /// Whether to serve UDP beside TCP.
    pub udp: bool,
    /// The cluster's key. If it is set, the server refuses callers without it, except those that `own_keys` or
    /// `keyless_programs` admit.
    pub key: Option<ClusterKey>,
    /// Callers' own keys, which the server accepts beside `key`. Only holders of `key` may make chain calls. If no
    /// `key` is set, callers without a key may make them.
    pub own_keys: Option<OwnKeys>,
    /// If a key is set: numbers of the programs that callers without any key may call, by TLS only.
    pub keyless_programs: Vec<u32>,
    /// Serves callers without a key on an address that isn't loopback.
    pub allow_anonymous: bool,
    /// Numbers of service workers.
    pub workers: WorkerLimits,
    /// How long to spin for the next call on a busy connection; zero for never.
    pub spin: Duration,
    /// Largest payload over TCP, in bytes, of calls and results.
    pub payload_bytes: usize,
    /// Memory for arriving calls larger than 128 KiB, in bytes over all connections. A call takes
    /// its part from its arrival to the end of its execution. If too little is left, the server
    /// refuses the call.
    pub receive_bytes: usize,
    /// Memory for finished answers that callers are slow to receive, in bytes over all connections.
    /// If too little is left, the server closes such a connection; the caller can ask again while
    /// the server keeps the result. Results under construction don't count: each worker has at most
    /// one, of at most `payload_bytes`.
    pub send_bytes: usize,
    /// Most connections; each takes a descriptor and some hundred bytes. If half of them are in
    /// use, a host gets another one only while it has fewer than are free.
    pub connections: usize,
    /// The server closes a connection after this idle time. The caller's next call opens another
    /// one.
    pub connection_idle: Duration,
    /// The same, for a connection over which no accepted call has arrived yet. Callers call as soon
    /// as they connect.
    pub greeting: Duration,
    /// The same while a message is under way, since its sender has all of it ready. A whole call
    /// may take this time to arrive, or an answer to leave, and the same again for each
    /// [`limits::STALL_BYTES`] of it.
    pub message_stall: Duration,
    /// Limits of sessions and of the response cache.
    pub admission: AdmissionLimits,
    /// Longest delivery chain, this callee included.
    pub chain_callees: usize,
    /// The callees to which the server may pass chain calls on.
    pub forwarding: Forwarding,
    /// TLS for callers that ask for it: over TCP, on the same port. [`Server::set_tls`] renews it.
    pub tls: Option<ServerTls>,
    /// Refuses callers without TLS, and so all callers over UDP.
    pub tls_required: bool,
    /// TLS for passing chain calls on to their next callees. The server never passes a call on
    /// without TLS if it came by TLS.
    pub forwarding_tls: Option<ClientTls>,
    /// How long a chain call without a deadline waits for the callees behind this one. After that,
    /// their outcomes are unknown.
    pub chain_wait: Duration,
    /// Time without acknowledgements after which a chain's next callee counts as lost: see
    /// [`crate::ClientOptions::peer_silence`].
    pub peer_silence: Option<Duration>,
    /// How long a shutdown waits for running calls.
    pub drain: Duration,
    /// Options for callers that use plain ONC RPC, on the same port.
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
    /// Whether all callers hold the cluster's key or show a trusted certificate. This ignores
    /// callers of plain ONC RPC that the operator admits.
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
    /// Makes a server with these options. Next, register programs, then start it.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder { core: Core::new(options) }
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a version of a program, or replaces it, while the server runs.
    ///
    /// # Errors
    /// Rpcbind can't be reached, or refuses to register the program ([`OncOptions::rpcbind`]). The
    /// server serves the program nevertheless.
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

    /// Replaces the rule for chains' next callees. It applies to calls that begin from now on.
    pub fn set_forwarding(&self, forwarding: Forwarding) {
        self.workers.core.set_forwarding(forwarding);
    }

    /// Replaces [`ServerOptions::tls`] and [`ServerOptions::forwarding_tls`], for example to renew
    /// certificates. New connections use them. The server passes no further chain call on over an
    /// older connection.
    ///
    /// # Errors
    /// The server requires certificates of its callers so far, but wouldn't with `callers`.
    pub fn set_tls(&self, callers: ServerTls, forwarding: Option<ClientTls>) -> io::Result<()> {
        if !self.workers.core.set_tls(callers, forwarding) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this server requires certificates of its callers: the new TLS settings must name the \
                 authorities of these certificates, too",
            ));
        }
        self.workers.chains.close_idle();
        Ok(())
    }

    /// For tests: the number of service workers.
    #[doc(hidden)]
    pub fn worker_count(&self) -> usize {
        self.workers.count()
    }

    /// The number of connections.
    pub fn connection_count(&self) -> usize {
        self.workers.connection_count()
    }

    /// Refuses new calls, waits for running ones, and ends. A call that arrives at the very end
    /// gets an unknown outcome. A server started afterwards is a new incarnation: it knows no
    /// session of this one. Returns whether all calls ended within [`ServerOptions::drain`]. A
    /// service mustn't shut down its own server: the shutdown would wait for the service's call,
    /// for all that time.
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
        // During this wait, the server refuses new calls.
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
    /// The address can't be bound; the system has too few threads or descriptors; anybody could
    /// call from other hosts, without `allow_anonymous`; TLS is required but not configured; or
    /// rpcbind can't be reached or refuses to register the programs.
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
                    "{} isn't a loopback address: give the server a cluster key, require certificates of its \
                     callers, or let it serve anonymous ones",
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
            return Err(io::Error::other("can't start the thread that forwards chain calls"));
        }
        if !threads.spawn("flexrpc-sweeper", move || sweep(&workers)) {
            return Err(io::Error::other("can't start the thread that removes expired state"));
        }
        server.tell_rpcbind(&core.registry.programs())?;
        Ok(server)
    }
}

/// Binds TCP and, if wanted, UDP to one port. If the system chooses the port, it chooses a free one
/// for TCP, which another socket may use for UDP. Then it tries other ports.
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
