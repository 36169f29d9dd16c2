//! The gateway: Thrift and REST.
//!
//! ```text
//!   socket ─ input ─→ Request ─ dispatch ─→ legacy (DfsService, 2009) ─┐
//!            (scanned before                v2, mutate (DfsV2)         ─┼→ turns → store
//!             it is held)                     │ sessions, handles, retries
//!   socket ←─ connection (answers in order) ←─┘ memory (one budget for all)
//! ```
//!
//! `fair` holds the rules by which users share memory and turns. `slow` ends clients that keep memory
//! from others. `processor` keeps one user's ready tasks few.
//!
//! One TCP port, one task a connection. [`Config`] names the stores, the clients to serve and the
//! limits. Every limit has a name and a reason in [`Limits`].
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
//! Both ways of Thrift meet at `Request`: behind it nothing knows how a message came, but for
//! `Peer`'s `http`. That takes loopback's default identity away, and keeps `init`'s session
//! off the connection. `http` reads no byte of a body before the user's share has memory for it: the
//! user is known by the token in the head, and a body without one has 64 KiB at most. The same flow
//! counts the moved bytes, so `slow` ends slow HTTP clients, too.
//!
//! This room must never: take memory that a client only claims; let a client
//! name a store that the operator didn't configure; execute a mutation twice
//! because its client asked twice; lend its own rights to a principal; read
//! flags.

mod closed;
mod config;
mod connection;
mod context;
mod copies;
mod departure;
mod dispatch;
mod errors;
mod fair;
mod handles;
mod hex;
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
mod processor;
mod random;
mod refusal;
mod request;
mod retry;
mod server;
mod session;
mod shared;
mod shares;
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
