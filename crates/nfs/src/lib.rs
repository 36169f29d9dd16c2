//! Any store as a server of NFS version 3, with its MOUNT protocol on the same port.
//!
//! ```text
//!   NFS clients ── ONC RPC over TCP ── FlexRPC ─ stubs by frpcgen from idl/nfs3.x
//!                                                  │ a call
//!       callers: for whom?, turns: now? ── procedures, mounting ── handles: which path?
//!                                              │         │
//!                       writing, reading, listing        attributes, fault: as NFS has them
//!                                              │
//!                                           a store
//! ```
//!
//! It is small on purpose, since it proves the interface compiler and FlexRPC's plain ONC RPC on a large
//! protocol. Stores write files at their end only, and so does this server.
//!
//! This room must never: read flags; name a store; act for another user than [`Rules`] say; call a write
//! stable before the store has synced or closed it; lose other writes without a new write verifier.

mod attributes;
mod callers;
mod fault;
mod handle;
mod identity;
mod listing;
mod log;
mod mounting;
mod procedures;
mod reading;
#[cfg(test)]
mod tests;
mod turns;
mod wire;
mod writing;

pub use callers::Rules;

use crate::callers::Callers;
use crate::handle::Handles;
use crate::listing::Listings;
use crate::procedures::CHANGES;
use crate::reading::Readings;
use crate::turns::Turns;
use crate::wire::{MountV3Server, NfsV3Server};
use crate::writing::Writings;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strait_flexrpc::{Forwarding, OncOptions, Procedure, RPCBIND_SOCKET, WorkerLimits};
use strait_store::{Capabilities, FileSystem, StorePath};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Most bytes of one READ, WRITE or page of a directory: 1 MiB, as Linux's clients take at most.
const TRANSFER_BYTES: usize = 1 << 20;
/// A call or a reply has so much around these bytes, at most: credentials, a handle, attributes.
const AROUND_BYTES: usize = 64 << 10;
/// Calls of all clients at a time. Each blocks a thread while the store works.
const MOST_CALLS: usize = 128;
/// Threads for calls. A quarter may wait for the first executions of repeated calls, without a turn; the
/// others have room for all calls with one, and refuse the rest.
const THREADS: usize = 2 * MOST_CALLS;
const _: () = assert!(THREADS - THREADS / 4 > MOST_CALLS);
/// Connections of all clients. A client has one, or a few. A user (beyond loopback, a host) has as many as
/// it leaves to others.
const MOST_CONNECTIONS: usize = 1_024;
/// Time for the files to be closed at the end.
const CLOSING: Duration = Duration::from_secs(60);
/// How often files that aren't used are closed.
const SWEEP: Duration = Duration::from_secs(1);

/// How a store is served.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address, for both programs, over TCP. Beyond loopback only with [`Rules::trust_uids`].
    pub listen: SocketAddr,
    /// The store's URI: handles of other stores are stale.
    pub store: String,
    /// Register the programs with this host's rpcbind, by which clients find the port.
    pub rpcbind: bool,
    /// Rules for callers.
    pub rules: Rules,
}

/// The state of one server.
struct Export {
    store: Arc<dyn FileSystem>,
    capabilities: Capabilities,
    handles: Handles,
    callers: Callers,
    writings: Writings,
    readings: Readings,
    listings: Listings,
    turns: Turns,
    runtime: Handle,
}

/// A running server. Drop it only after [`Server::end`], or files stay open.
pub struct Server {
    export: Arc<Export>,
    server: strait_flexrpc::Server,
    sweeping: JoinHandle<()>,
}

impl Server {
    /// Serves the directory `root` of a store. The store's work is done on the caller's tokio runtime,
    /// which must have threads of its own.
    ///
    /// # Errors
    /// The address can't be bound, or is beyond loopback without [`Rules::trust_uids`]; or rpcbind
    /// refuses the programs.
    pub fn start(store: Arc<dyn FileSystem>, root: StorePath, options: Options) -> io::Result<Self> {
        type Nfs = NfsV3Server<Arc<Export>>;
        type Mount = MountV3Server<Arc<Export>>;
        let Options { listen, store: uri, rpcbind, rules } = options;
        let server_options = strait_flexrpc::ServerOptions {
            listen,
            udp: false,
            allow_anonymous: rules.trust_uids,
            workers: WorkerLimits { most: THREADS, ..strait_flexrpc::ServerOptions::default().workers },
            payload_bytes: TRANSFER_BYTES + AROUND_BYTES,
            connections: MOST_CONNECTIONS,
            // A chain would connect to ports of this host in this user's name.
            forwarding: Forwarding::Nowhere,
            onc: OncOptions {
                repeated: CHANGES.map(|number| Procedure::new(Nfs::PROGRAM, Nfs::VERSION, number)).into(),
                rpcbind: rpcbind.then(|| PathBuf::from(RPCBIND_SOCKET)),
                local_users: true,
                ..OncOptions::default()
            },
            ..strait_flexrpc::ServerOptions::default()
        };
        let export = Arc::new(Export {
            capabilities: store.capabilities(),
            handles: Handles::new(&uri, root),
            callers: Callers::new(rules, identity::session(&uri, listen)),
            writings: Writings::new(store.clone()),
            readings: Readings::new(store.clone()),
            listings: Listings::default(),
            turns: Turns::new(MOST_CALLS),
            runtime: Handle::current(),
            store,
        });
        let server = strait_flexrpc::Server::builder(server_options)
            .register(Nfs::PROGRAM, Nfs::VERSION, NfsV3Server(export.clone()))
            .register(Mount::PROGRAM, Mount::VERSION, MountV3Server(export.clone()))
            .start()?;
        let swept = export.clone();
        let sweeping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                // A close may take long, or for ever. Other files are due meanwhile.
                let closed = swept.clone();
                tokio::spawn(async move { closed.writings.sweep().await });
                swept.readings.sweep();
                swept.listings.sweep();
            }
        });
        Ok(Self { export, server, sweeping })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Closes all files, and finishes running calls.
    pub async fn end(self) {
        let Self { export, server, sweeping } = self;
        // Before the port is free: a successor there has the same session, and would take the files over. But a
        // store that never answers mustn't keep the port.
        if tokio::time::timeout(CLOSING, export.writings.close_for_good()).await.is_err() {
            tracing::warn!("the store doesn't close all files; the port becomes free all the same");
        }
        let ended = tokio::task::spawn_blocking(move || server.shutdown()).await;
        if !matches!(ended, Ok(true)) {
            tracing::warn!("the server ended while calls were running: their clients get no answer");
        }
        sweeping.abort();
        // Those that failed to close before.
        export.writings.close_for_good().await;
    }
}
