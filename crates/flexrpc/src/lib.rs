//! FlexRPC: remote procedure calls for cluster file systems, after the paper
//! "FlexRPC: A Flexible Remote Procedure Call Facility for Modern Cluster File
//! Systems" (Kim, Lee, Kim; KAIST).
//!
//! Each callee executes a call at most once. Calls go over TCP or UDP, to one callee or to many. A
//! caller's outcome never claims more than is certain.
//!
//! ```text
//!  client                                              server
//!  Client ─ pool of handles (one socket, one caller)   Server ─ service workers, epoll
//!     │     sessions, one per callee                      │     registry of programs
//!     └──── proto: call, frame, answer  ── frames ──  proto: admission (sessions, response cache)
//! ```
//!
//! - [`proto`]: the protocol as pure state machines. No socket, thread or clock.
//! - `net`: sockets, plain or under TLS; buffers, frames as they arrive, spinning
//!   and sleeping.
//! - `client`, `server`: the shells that drive `proto` by sockets and threads.
//!
//! FlexRPC must never execute a call twice, or report a call as not executed if it may have been.
//! It must bound the memory for bytes that a peer announces but hasn't sent
//! ([`limits::STALL_BYTES`] for a message), and never panic on bytes that it receives. It knows
//! nothing of files.
//!
//! # Outcomes
//!
//! A call at a callee ends in one of four ways ([`Outcome`]): a value, an error, not executed (and
//! it never will be), or unknown. The caller has few duties:
//!
//! 1. Repeat a call, as a new call, only if its outcome is "not executed", or if a second execution
//!    does no harm.
//! 2. Treat every callee of a multicast by its own outcome.
//! 3. Give calls a timeout. It travels with the call, and callees don't begin a call whose caller
//!    has stopped waiting.
//!
//! # Requests
//!
//! A call carries the id of the request for which its caller works, if any
//! ([`RequestId::current`]). The service works for the same request while it executes the call. So
//! one id appears in the logs of every hop, along chains too. The id is a hint for logs and has no
//! other effect.
//!
//! # Security
//!
//! By default servers listen on loopback. On any other address a server needs a cluster key
//! ([`proto::auth`] says against which attackers it helps), certificates of its callers, or an
//! option that admits anybody. Callers may also have keys of their own, by which services know them
//! ([`KeyLookup`]). [`Forwarding`] decides where a chain may lead: for unknown callers, to loopback
//! only.
//!
//! TLS runs over TCP, on the same port ([`ServerTls`], [`ClientTls`]). Each hop of a chain is a TLS
//! connection of its own, so each callee decrypts the arguments before it passes them on. A callee
//! never forwards an encrypted call in clear text.
//!
//! # Plain ONC RPC
//!
//! Unmodified SunRPC clients call the same services on the same port ([`OncOptions`]), over TCP and
//! UDP. Over UDP the server recognises retransmissions as far as their protocol allows
//! ([`proto::onc::duplicates`]). Over TCP it recognises calls that a client repeats over another
//! connection, for the procedures of [`OncOptions::repeated`]. These clients hold no cluster key.
//! If one is set, they may call only the programs that the operator names.
//!
//! # Example
//!
//! This example calls with raw bytes. Interfaces in rpcgen's language become typed clients and
//! services (`crates/frpcgen`). `tests/idl/tests/first_steps.rs` shows a small one, with a cluster
//! key, multicasts and a chain.
//!
//! ```
//! use strait_flexrpc::{Client, Procedure, Reply, Request, Server, ServerOptions, Transport};
//!
//! let server = Server::builder(ServerOptions::default())
//!     .register(0x2000_0001, 1, |request: &Request, reply: &mut Reply| {
//!         reply.put(&request.args);
//!         Ok(())
//!     })
//!     .start()?;
//! let client = Client::default();
//! let mut handle = client.handle(server.address(), Transport::Tcp)?;
//! let echo = Procedure::new(0x2000_0001, 1, 1);
//! assert_eq!(handle.call(echo, &[b"hello, ", b"callee"])?, "hello, callee");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod client;
mod net;
#[cfg(all(test, shuttle))]
mod orders;
pub mod proto;
mod request_id;
mod server;
#[cfg(test)]
mod sim;
pub mod stub;
mod sync;
mod tls;

pub use client::handle::Handle;
pub use client::onc::{RPCBIND_PORT, rpcbind_lookup, rpcbind_lookup_at};
pub use client::{CallOptions, Client, ClientOptions, MulticastOptions, Turn};
pub use net::origin::Origin;
pub use net::owner::{local_user, overflow_user};
pub use net::socket::unpace_within_a_host;
pub use net::spin::SPIN;
pub use proto::admission::AdmissionLimits;
pub use proto::auth::{AuthSys, ClusterKey, Credentials, KeyTooShort};
pub use proto::bond::{Holder, KeyId, KeyLookup, OwnKey, OwnKeys};
pub use proto::call::{RetryPolicy, Transport};
pub use proto::ids::{CallId, Procedure, SessionId};
pub use proto::limits;
pub use proto::onc::duplicates::DuplicateLimits;
pub use proto::status::{CallError, Doubt, Fault, FaultKind, Obstacle, Outcome, Refusal};
pub use request_id::{Entered, RequestId};
pub use server::forwarding::Forwarding;
pub use server::onc::{OncAccess, OncOptions, RPCBIND_SOCKET};
pub use server::service::{Reply, Request, Service, ServiceError};
pub use server::{Server, ServerBuilder, ServerOptions, WorkerLimits};
pub use tls::{ClientTls, Identity, ServerTls, TlsError, Trust};
