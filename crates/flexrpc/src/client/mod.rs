//! The client: handles from a pool, single calls and multicasts.

pub(crate) mod gather;
pub(crate) mod handle;
pub(crate) mod handshake;
pub(crate) mod line;
pub(crate) mod message;
pub(crate) mod onc;
pub(crate) mod parallel;
pub(crate) mod serial;
pub(crate) mod session;
pub(crate) mod turn;
pub(crate) mod workers;

use crate::client::gather::Gather;
use crate::client::handle::Handle;
use crate::client::handle::Idle;
use crate::client::message::Sum;
use crate::client::session::Sessions;
pub use crate::client::turn::Turn;
use crate::client::workers::{CallingWorkers, Multicast, Subcall};
use crate::net::clock;
use crate::net::pool::Handles;
use crate::net::spin::SPIN;
use crate::proto::auth::{ClusterKey, Credentials};
use crate::proto::bond::KeyId;
use crate::proto::call::{RetryPolicy, Transport};
use crate::proto::ids::Procedure;
use crate::proto::limits;
use crate::proto::status::{CallError, Outcome};
use crate::tls::ClientTls;
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use strait_fork::Process;

/// A client's options.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Timeout of a call, retransmissions and reconnects included. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// Timeout of connecting and of the handshake.
    pub connect_timeout: Duration,
    /// Time without acknowledgements after which a TCP connection counts as lost, even if a call has
    /// time left; at least 2 s. The kernel (`TCP_USER_TIMEOUT`) also drops a connection if the callee
    /// reads nothing for this time while bytes for it wait. A value makes the kernel probe idle
    /// connections now and then. With `None`, the kernel doesn't probe: it ends a connection only if bytes stay
    /// unacknowledged for many minutes. A call whose bytes were acknowledged then waits until its timeout.
    pub peer_silence: Option<Duration>,
    /// When to send calls again.
    pub retry: RetryPolicy,
    /// The caller's credentials, unless a call has its own.
    pub credentials: Credentials,
    /// The cluster's key, or this caller's own.
    pub key: Option<ClusterKey>,
    /// Names `key` for servers that look it up ([`crate::KeyLookup`]); `None` if `key` is the
    /// cluster's.
    pub key_id: Option<KeyId>,
    /// How long to spin for an answer before sleeping; zero for never.
    pub spin: Duration,
    /// Most idle handles that are kept, over all callees (section IV.B).
    pub pooled_handles: usize,
    /// Longest delivery chain; servers have a limit of their own.
    pub chain_callees: usize,
    /// Most calling workers. Multicasts with large arguments use them.
    pub calling_workers: usize,
    /// A calling worker ends after this time without work.
    pub calling_dormant: Duration,
    /// Largest accepted result, in bytes.
    pub payload_bytes: usize,
    /// TLS configuration. If set, all calls use TLS, over TCP only.
    pub tls: Option<ClientTls>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(30)),
            connect_timeout: Duration::from_secs(5),
            peer_silence: None,
            retry: RetryPolicy::default(),
            credentials: Credentials::None,
            key: None,
            key_id: None,
            spin: SPIN,
            // Each takes a descriptor; on many systems a process has 1,024 by default.
            pooled_handles: 512,
            chain_callees: limits::CHAIN_CALLEES,
            // Each is a thread that waits for one callee: this suffices for 16 multicasts to 16
            // callees each.
            calling_workers: 256,
            calling_dormant: Duration::from_secs(10),
            payload_bytes: limits::MESSAGE_BYTES,
            tls: None,
        }
    }
}

/// Options of one call that differ from its client's.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The call's timeout; `None` for the client's.
    pub timeout: Option<Duration>,
    /// The caller's credentials; `None` for the client's.
    pub credentials: Option<Credentials>,
}

/// Options of a multicast that differ from its client's.
#[derive(Clone, Debug, Default)]
pub struct MulticastOptions {
    /// Timeout and credentials.
    pub call: CallOptions,
    /// Parallel multicasting: the number of callees, at least one, that must return a value before
    /// the multicast ends. With `None`, or more than there are callees, it waits for every outcome.
    /// A callee that it doesn't wait for is [`crate::Doubt::Abandoned`], or not executed if the
    /// call hadn't been sent whole.
    pub required: Option<usize>,
    /// Serial multicasting: each callee passes the call on only after the whole call has arrived,
    /// instead of as it arrives. Slower; for comparison.
    pub store_and_forward: bool,
    /// Serial multicasting: calls with the same turn leave this host one after another.
    pub turn: Option<Turn>,
}

/// Makes calls, from any number of threads. Clones share pool and sessions. In a forked child a
/// client starts with an empty pool, no sessions and no threads. Handles from before the fork
/// belong to the parent; the child can only drop them. Children of vfork, `_Fork` and the bare system
/// calls can't use clients: these calls don't run the handler by which a client notices a fork.
#[derive(Clone)]
pub struct Client {
    /// State in the process that made the client.
    shared: Arc<Shared>,
}

/// A client in one process. A forked child uses nothing of its parent's. Calls in the same sessions
/// would repeat identifiers, the threads don't exist in the child, and a lock that one of them held
/// at the fork stays locked for ever.
pub(crate) struct Shared {
    pub(crate) options: ClientOptions,
    pub(crate) sessions: Sessions,
    pub(crate) handles: Handles<Idle>,
    workers: CallingWorkers<Subcall>,
    /// The process that owns this state.
    pub(crate) process: Process,
    /// The client's state in a forked child, from its first use there.
    forked: OnceLock<Arc<Shared>>,
}

impl Shared {
    fn new(options: ClientOptions) -> Arc<Self> {
        let handles = Handles::new(options.pooled_handles);
        let workers = CallingWorkers::new(options.calling_workers, options.calling_dormant);
        let (sessions, process, forked) = (Sessions::default(), Process::this(), OnceLock::new());
        Arc::new(Self { options, sessions, handles, workers, process, forked })
    }

    /// Closes a child's copies of its parent's idle connections. While a copy is open, the callee
    /// doesn't notice that the parent closed the connection.
    fn close_copies(&self) {
        self.handles.try_drain().into_iter().for_each(Idle::leave_to_parent);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.process.is_this() {
            self.workers.close();
        } else {
            self.close_copies();
        }
    }
}

impl Client {
    /// A client with these options.
    pub fn new(options: ClientOptions) -> Self {
        Self { shared: Shared::new(options) }
    }

    fn here(&self) -> &Arc<Shared> {
        let mut shared = &self.shared;
        // Each call reads this; no thread writes to its cache line.
        while !shared.process.is_this() {
            let parents = shared;
            shared = parents.forked.get_or_init(|| {
                parents.close_copies();
                Shared::new(parents.options.clone())
            });
        }
        shared
    }

    /// Checks out a handle to `callee`: a pooled one, or a new connection. Dropping it returns it
    /// to the pool.
    ///
    /// # Errors
    /// [`CallError::NotExecuted`]: the callee can't be reached or refuses a
    /// session.
    pub fn handle(&self, callee: SocketAddr, transport: Transport) -> Result<Handle, CallError> {
        self.handle_within(callee, transport, self.shared.options.connect_timeout)
    }

    /// [`Client::handle`], which takes at most `time`.
    ///
    /// # Errors
    /// Those of [`Client::handle`].
    pub fn handle_within(
        &self,
        callee: SocketAddr,
        transport: Transport,
        time: Duration,
    ) -> Result<Handle, CallError> {
        let mut handle = self.idle_handle(callee, transport);
        let patience = clock::after(clock::now(), time.min(self.shared.options.connect_timeout));
        handle.make_ready(Some(patience))?;
        Ok(handle)
    }

    /// A handle to a callee that speaks plain ONC RPC (SunRPC), such as libtirpc's servers. It
    /// connects at its first call, and closes its connection when it is dropped.
    ///
    /// ONC RPC promises less: over UDP the callee may execute a call once for each transmission.
    /// There are no deadlines at the callee, no cluster key and no multicasts. With
    /// [`ClientOptions::tls`] the handle negotiates RPC with TLS (RFC 9289), over TCP, and makes no
    /// call to a server without TLS.
    pub fn onc_handle(&self, callee: SocketAddr, transport: Transport) -> Handle {
        Handle::onc(Arc::clone(self.here()), (callee, transport))
    }

    /// Makes one call with a pooled handle, like [`Client::handle`] and then [`Handle::call`].
    ///
    /// # Errors
    /// The errors of [`Handle::call`].
    pub fn call(
        &self,
        callee: SocketAddr,
        transport: Transport,
        procedure: Procedure,
        args: &[&[u8]],
    ) -> Result<Bytes, CallError> {
        self.idle_handle(callee, transport).call(procedure, args)
    }

    /// Calls `procedure` of all callees at once with the same arguments (parallel multicasting,
    /// section III.B). Returns when all have answered, or `required` of them have returned a value.
    /// The outcomes are in the order of `callees`.
    pub fn call_parallel(
        &self,
        callees: &[SocketAddr],
        transport: Transport,
        procedure: Procedure,
        args: &[Bytes],
        options: &MulticastOptions,
    ) -> Vec<Outcome> {
        let handles = callees.iter().map(|callee| self.idle_handle(*callee, transport)).collect();
        let multicast = Arc::new(self.multicast(callees.len(), procedure, args, options));
        let Shared { workers, options, .. } = &**self.here();
        parallel::call(&multicast, handles, workers, options.spin);
        multicast.gather.take()
    }

    /// Calls `procedure` of all callees along a delivery chain (serial
    /// multicasting, section III.B): the arguments leave this host once, and each
    /// callee passes them on as they arrive. Over TCP only. Returns each callee's
    /// outcome in the order of `callees`, all at once; `required` has no effect.
    ///
    /// The client first connects to every callee. If it can't reach one, no callee executes the
    /// call, and the others' outcomes are [`crate::Refusal::NotForwarded`].
    ///
    /// If the chain breaks, outcomes of later callees are lost. While there is time, the client
    /// asks these callees directly. This revokes the call at callees that haven't begun it.
    pub fn call_chain(
        &self,
        callees: &[SocketAddr],
        procedure: Procedure,
        args: &[Bytes],
        options: &MulticastOptions,
    ) -> Vec<Outcome> {
        if let Err(refusal) = serial::check(callees, self.shared.options.chain_callees) {
            return vec![Outcome::NotExecuted(refusal); callees.len()];
        }
        let handles = callees.iter().map(|callee| self.idle_handle(*callee, Transport::Tcp)).collect();
        let multicast = self.multicast(callees.len(), procedure, args, options);
        serial::call(&multicast, handles, self.shared.caller(&options.call), options.store_and_forward)
    }

    fn multicast(
        &self,
        degree: usize,
        procedure: Procedure,
        args: &[Bytes],
        options: &MulticastOptions,
    ) -> Multicast {
        let slices: Vec<&[u8]> = args.iter().map(|slice| &slice[..]).collect();
        Multicast {
            procedure,
            sum: Sum::of(&slices),
            args: args.to_vec(),
            turn: options.turn.clone(),
            extension: self.shared.extension(&options.call),
            deadline: self.shared.deadline(&options.call, clock::now()),
            gather: Gather::new(degree, options.required),
        }
    }

    /// The number of calling workers.
    pub fn calling_workers(&self) -> usize {
        self.here().workers.count()
    }

    /// The number of idle handles.
    pub fn pooled_handles(&self) -> usize {
        self.here().handles.len()
    }

    fn idle_handle(&self, callee: SocketAddr, transport: Transport) -> Handle {
        let shared = self.here();
        let callee = (callee, transport);
        let idle = shared.handles.check_out(callee);
        Handle::new(Arc::clone(shared), callee, idle)
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new(ClientOptions::default())
    }
}
