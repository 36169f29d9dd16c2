//! The gateway: Thrift and REST.
//!
//! ```text
//!   socket ─ input ─→ Request ─ dispatch ─→ legacy (DfsService, 2009) ─┐
//!            (scanned before                v2, mutate (DfsV2)         ─┼→ turns → store
//!             it is held)                     │ sessions, handles, retries
//!   socket ←─ connection (answers in order) ←─┘ memory (one budget for all)
//! ```
//!
//! `pool` holds the rules by which users share memory and turns. `slow` ends connections that keep
//! memory from others. `processor` bounds how many tasks of one user are ready to run.
//!
//! There is one TCP port, and one task for each connection. [`Config`] names the stores, the clients to
//! serve and the limits. Every limit has a name and a reason in [`Limits`].
//!
//! # HTTP
//!
//! ```text
//!   sniff ─ Thrift ─→ connection: many requests at once, sessions of the connection
//!         └ HTTP ───→ http (hyper): one request at a time, each with a Context of its own
//!                       site: Host, Origin, CORS → token → thrift: memory → body ─→ Request ─→ dispatch
//!                                                        → rest: memory → pieces of bodies ⇄ store
//! ```
//!
//! A Thrift message over TCP or HTTP becomes a `Request`. After that, only `Peer::http` shows the
//! difference: over HTTP, a peer on loopback has no default identity, and `init` doesn't attach its
//! session to the connection. `http` reads no byte of a body before the user's share has memory for it. The
//! token in the head names the user; without a token, a body has 64 KiB at most. `slow` ends slow HTTP
//! clients, too.
//!
//! This room must never: take memory for bytes that a client has only announced; let a client use a
//! store that the operator didn't configure; execute a mutation twice because its client sent it twice;
//! act for a principal with the gateway's own rights; read command-line flags.

mod closed;
mod config;
mod connection;
mod context;
mod copies;
mod departure;
mod dispatch;
mod errors;
mod handles;
mod homes;
mod http;
mod input;
mod legacy;
mod legacy_names;
mod listings;
mod logins;
mod mac;
mod memory;
mod mutate;
mod pace;
mod passwords;
mod peer;
mod places;
mod pool;
mod processor;
mod refusal;
mod request;
mod retry;
mod server;
mod session;
mod shared;
mod slow;
mod temporary;
mod tls;
mod token;
mod turns;
mod v2;

pub use config::{Access, Config, ConfiguredStore, HttpAccess, Limits, LocalRoot, Service2009};
pub use homes::Homes;
pub use passwords::PasswordFile;
pub use server::{Gateway, Reload};
pub use shared::GatewayNumbers;
pub use strait_flexrpc::overflow_user;
pub use tls::{CertificateFacts, Tls, TlsFiles};
