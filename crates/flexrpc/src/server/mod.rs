//! The server: several programs on one port, TCP and UDP, served by as many
//! threads as the load needs.

pub(crate) mod bonds;
pub(crate) mod carrying;
pub(crate) mod chains;
pub(crate) mod connection;
pub(crate) mod core;
pub(crate) mod datagrams;
pub(crate) mod downstream;
pub(crate) mod forwarder;
pub(crate) mod forwarding;
pub(crate) mod lent;
pub mod onc;
pub(crate) mod passing;
pub(crate) mod registry;
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
use crate::server::core::Core;
use crate::server::datagrams::Datagrams;
use crate::server::forwarder::Forwarder;
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

/// How often what has outlived its time is removed, unless it lives shorter.
const SWEEP: Duration = Duration::from_secs(5);

/// A sweep looks at every session: never more often than this.
const SWEEP_LEAST: Duration = Duration::from_millis(10);

/// How often a shutdown looks whether calls still run.
const LOOK: Duration = Duration::from_millis(2);

/// Ports tried until one is free for TCP and UDP.
const PORTS_TRIED: usize = 16;

/// How many workers there are.
#[derive(Clone, Copy, Debug)]
pub struct WorkerLimits {
    /// Kept even when there is nothing to do.
    pub least: usize,
    /// Never more. Each takes a stack (8 MiB of address space, some KiB of memory).
    pub most: usize,
    /// A worker ends after having had nothing to do for so long.
    pub dormant: Duration,
}

/// How a server behaves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Where to listen, for TCP and UDP. Port 0 takes a free one. Off loopback a
    /// key is required, or callers with certificates alone, or `allow_anonymous`.
    pub listen: SocketAddr,
    /// Whether to serve UDP beside TCP.
    pub udp: bool,
    /// The cluster's key: callers without it are refused.
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
    /// Bytes of answers, at a time, that callers have asked for and don't take; who
    /// leaves more is cut off, and can ask again while the results are kept. Results that
    /// services are still making aren't in it: one of `payload_bytes` each worker at most.
    pub send_bytes: usize,
    /// Connections at a time; each costs a descriptor and some hundred bytes.
    pub connections: usize,
    /// A connection on which nothing moves for so long is closed; the caller's
    /// next call opens another.
    pub connection_idle: Duration,
    /// The same within a message: who began one has it ready. In each such time
    /// [`limits::STALL_BYTES`] of a large one must come, or of an answer be taken.
    pub message_stall: Duration,
    /// Sessions and the response cache.
    pub admission: AdmissionLimits,
    /// Longest delivery chain, this callee included.
    pub chain_callees: usize,
    /// To whom calls of chains are passed on.
    pub forwarding: Forwarding,
    /// TLS for callers who come with it: by TCP, on the same port. [`Server::set_tls`]
    /// renews it.
    pub tls: Option<ServerTls>,
    /// Refuse callers without TLS; so nobody is served over UDP.
    pub tls_required: bool,
    /// How chains' next callees are called: by TLS if set. Calls that came by TLS are
    /// passed on in no other way.
    pub forwarding_tls: Option<ClientTls>,
    /// How long a chain's call without a deadline waits for the callees behind this
    /// one; their outcomes are then in doubt.
    pub chain_wait: Duration,
    /// A chain's next callee whose host acknowledges nothing for so long is lost, as of
    /// [`crate::ClientOptions::peer_silence`].
    pub peer_silence: Option<Duration>,
    /// How long a shutdown waits for running calls.
    pub drain: Duration,
    /// Callers in plain ONC RPC, on the same port.
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
            // Sixteen of the largest.
            receive_bytes: 16 * limits::MESSAGE_BYTES,
            send_bytes: 16 * limits::MESSAGE_BYTES,
            connections: 16_384,
            connection_idle: Duration::from_secs(600),
            message_stall: Duration::from_secs(30),
            admission: AdmissionLimits::default(),
            chain_callees: limits::CHAIN_CALLEES,
            forwarding: Forwarding::default(),
            tls: None,
            tls_required: false,
            forwarding_tls: None,
            peer_silence: None,
            // Far above what a rack's slowest disk takes for a payload.
            chain_wait: Duration::from_secs(600),
            drain: Duration::from_secs(30),
            onc: OncOptions::default(),
        }
    }
}

impl ServerOptions {
    /// Whether all callers hold the cluster's key or show a trusted certificate; but
    /// for those in plain ONC RPC whom the operator lets in by name.
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
    /// The forwarder's, which ends before the workers that execute for it.
    forwarding: Threads,
    address: SocketAddr,
    registration: Mutex<Option<Registration>>,
}

impl Server {
    /// A server with these options; register programs, then start it.
    pub fn builder(options: ServerOptions) -> ServerBuilder {
        ServerBuilder { core: Core::new(options) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a version of a program, or replaces it, while the server runs.
    ///
    /// # Errors
    /// It is served, but rpcbind refuses to make it known
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

    /// Replaces the rule to whom calls of chains are passed on; for those that begin
    /// from now on.
    pub fn set_forwarding(&self, forwarding: Forwarding) {
        self.workers.core.set_forwarding(forwarding);
    }

    /// Replaces [`ServerOptions::tls`] and [`ServerOptions::forwarding_tls`], as where
    /// certificates are renewed; for connections that begin from now on. Chains are passed
    /// on by no connection that was made before.
    ///
    /// # Errors
    /// So far callers had to show certificates, and now they wouldn't.
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

    /// Service workers at present.
    pub fn worker_count(&self) -> usize {
        self.workers.count()
    }

    /// Connections at present.
    pub fn connection_count(&self) -> usize {
        self.workers.connection_count()
    }

    /// Refuses what hasn't begun, waits for what has, and ends; who calls in the instant of
    /// the end itself is left in doubt. A server started
    /// afterwards is a new incarnation: it knows no session of this one. Returns
    /// whether all calls ended within [`ServerOptions::drain`]. A service that shuts its own
    /// server down waits for itself: the whole of that time.
    pub fn shutdown(self) -> bool {
        self.end()
    }

    fn end(&self) -> bool {
        let core = &self.workers.core;
        if core.draining.swap(true, Ordering::AcqRel) {
            // Dropped after its shutdown: that has waited already.
            return true;
        }
        // First, so that nobody is sent here any more.
        drop(self.registration.lock().unwrap_or_else(PoisonError::into_inner).take());
        self.workers.stop_listening();
        let since = clock::now();
        self.workers.chains.close();
        // Until then whoever calls is told that nothing begins any more.
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
    /// Adds a version of a program; of the same version a second time, replaces it.
    #[must_use]
    pub fn register(self, program: u32, version: u32, service: impl Service) -> Self {
        self.core.registry.register(program, version, Arc::new(service));
        self
    }

    /// Listens and serves until the returned server is dropped.
    ///
    /// # Errors
    /// The address can't be bound, threads or descriptors are lacking, the address
    /// is off loopback and anybody could call, TLS is required and there is none, or
    /// the programs are to be registered with rpcbind and can't be.
    pub fn start(self) -> io::Result<Server> {
        let options = &self.core.options;
        if options.tls_required && options.tls.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "TLS is required of callers, but the server has none: set ServerOptions::tls",
            ));
        }
        let guarded = options.knows_callers() || options.allow_anonymous;
        if !guarded && !options.listen.ip().is_loopback() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} is off loopback: set a cluster key, require certificates, or allow anonymous callers",
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
        // From here on, dropping the server ends what has been started.
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
        let forwarder = Forwarder::new(Arc::clone(&workers))?;
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

/// TCP and, if asked for, UDP on one port. If the port is for the system to
/// choose, it chooses for TCP; UDP may find that one taken.
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
    let connected = options.connection_idle.min(options.message_stall);
    let pause = (Duration::from_micros(remembered).min(connected) / 4).clamp(SWEEP_LEAST, SWEEP);
    loop {
        let until = crate::net::clock::after(crate::net::clock::now(), pause);
        match socket::wait(workers.stopped(), PollFlags::IN, Some(until)) {
            Ok(false) => {}
            Ok(true) | Err(_) => return,
        }
        workers.core.admission.sweep(crate::net::clock::now());
        workers.core.duplicates.sweep(crate::net::clock::now());
        workers.close_idle();
    }
}
