//! Floor 0: FlexRPC, remote procedure calls for cluster file systems, after the paper
//! "FlexRPC: A Flexible Remote Procedure Call Facility for Modern Cluster File
//! Systems" (Kim, Lee, Kim; KAIST).
//!
//! A call is executed at most once, over TCP and UDP, to one callee or to many;
//! and what is said of its outcome is certain.
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
//! It must never execute a call twice, claim that a call wasn't executed when it
//! may have been, take memory for what is only claimed, or panic over bytes from
//! outside. It knows nothing of files.
//!
//! # Outcomes
//!
//! A call at a callee ends as one of four ([`Outcome`]): a value, an error, not
//! executed (and it never will be), or unknown. A caller's duties are few:
//!
//! 1. Ask again, as a new call, only where the outcome is "not executed", or the
//!    procedure may be repeated.
//! 2. Treat every callee of a multicast by its own outcome.
//! 3. Give calls a timeout; it travels with the call, and callees don't begin what
//!    nobody waits for.
//!
//! # Requests
//!
//! A call tells its callee for which request its caller works
//! ([`strait_telemetry::RequestId::current`]), if for any, and a service works for that
//! request while it executes the call: one number goes through every hop, along chains as
//! well, into all their logs. It is a hint that changes nothing else.
//!
//! # Security
//!
//! Servers listen on loopback unless told. Off loopback they want a cluster key
//! ([`proto::auth`] says against whom it helps), certificates of their callers, or
//! leave to serve anybody. Beside the cluster's key, callers may have keys of their own, by
//! which services know them ([`KeyLookup`]). Where a chain may lead is for [`Forwarding`] to say: for
//! callers that nobody knows, on loopback alone.
//!
//! TLS is over TCP, on the same port ([`ServerTls`], [`ClientTls`]). Each hop of a
//! chain is a connection under TLS of its own, so each callee reads what it passes
//! on; what came encrypted doesn't leave in the clear.
//!
//! # Plain ONC RPC
//!
//! Unmodified SunRPC clients call the same services on the same port
//! ([`OncOptions`]): over TCP, and over UDP, where retransmissions are told as far
//! as their protocol allows ([`proto::onc::duplicates`]). They hold no cluster key,
//! so where one is set they may call only programs that the operator names.
//!
//! # Example
//!
//! With bytes as they are. Interfaces in rpcgen's language become typed clients and services
//! (`crates/frpcgen`); `tests/idl/tests/first_steps.rs` shows a small one, with a cluster key,
//! multicasts and a chain.
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
pub mod proto;
mod server;
#[cfg(test)]
mod sim;
pub mod stub;
mod sync;
mod tls;

pub use client::handle::Handle;
pub use client::{CallOptions, Client, ClientOptions, MulticastOptions, Turn};
pub use net::spin::SPIN;
pub use proto::admission::AdmissionLimits;
pub use proto::auth::{AuthSys, ClusterKey, Credentials, KeyTooShort};
pub use proto::bond::{Holder, KeyId, KeyLookup, OwnKey, OwnKeys};
pub use proto::call::{RetryPolicy, Transport};
pub use proto::ids::{CallId, Procedure, SessionId};
pub use proto::limits;
pub use proto::onc::duplicates::DuplicateLimits;
pub use proto::status::{CallError, Doubt, Fault, FaultKind, Outcome, Refusal};
pub use server::forwarding::Forwarding;
pub use server::onc::{OncAccess, OncOptions, RPCBIND_SOCKET};
pub use server::service::{Reply, Request, Service, ServiceError};
pub use server::{Server, ServerBuilder, ServerOptions, WorkerLimits};
pub use tls::{ClientTls, Identity, ServerTls, TlsError, Trust};
