//! A server of NFS version 3 and of its MOUNT protocol, on one port, over any store.
//!
//! ```text
//!   NFS clients ── ONC RPC over TCP ── FlexRPC ─ stubs by frpcgen from idl/nfs3.x
//!                                                  │ a call
//!     callers: which user?, turns: now? ── procedures, mounting ── handles: which path?
//!                                              │         │
//!                       writing, reading, listing        attributes, fault: in NFS's form
//!                                              │
//!                                           a store
//! ```
//!
//! The server is small on purpose: it shows that the interface compiler and FlexRPC's plain ONC RPC work for
//! a large protocol. Stores write files only at their end, and so does this server.
//!
//! This room must never: read flags; name a store; act for another user than [`Rules`] say; report a write as
//! stable before the store has synced or closed it; lose an unstable write without a new write verifier.

mod attributes;
mod callers;
mod fault;
mod handle;
mod identity;
mod listing;
#[cfg(test)]
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

/// Most bytes of one READ, WRITE or page of a directory: 1 MiB, the maximum of Linux's clients.
const TRANSFER_BYTES: usize = 1 << 20;
/// Most bytes of a call or a reply in addition to these: credentials, a handle, attributes.
const AROUND_BYTES: usize = 64 << 10;
/// Most calls of all clients that run at once. Each blocks a thread while the store works.
const MOST_CALLS: usize = 128;
/// Threads for calls. Up to a quarter of them can wait for the first executions of repeated calls; these
/// calls take no turn. The other threads suffice for all calls that have a turn, and to refuse further calls.
const THREADS: usize = 2 * MOST_CALLS;
const _: () = assert!(THREADS - THREADS / 4 > MOST_CALLS);
/// Most connections of all clients. A client has one, or a few. A user (or, beyond loopback, a host) can have
/// at most as many as remain free for others.
const MOST_CONNECTIONS: usize = 1_024;
/// Longest wait for files to be closed when the server ends.
const CLOSING: Duration = Duration::from_secs(60);
/// Interval at which unused files are closed.
const SWEEP: Duration = Duration::from_secs(1);

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The TCP address for both programs. An address beyond loopback needs [`Rules::trust_uids`].
    pub listen: SocketAddr,
    /// The store's URI. Handles that were made for another URI are stale.
    pub store: String,
    /// Whether to register the programs with this host's rpcbind, by which clients find the port.
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

/// A running server. End it by [`Server::end`]: if it is dropped instead, files stay open.
pub struct Server {
    export: Arc<Export>,
    server: strait_flexrpc::Server,
    sweeping: JoinHandle<()>,
}

impl Server {
    /// Serves the directory `root` of a store. The store runs on the caller's tokio runtime, which must be
    /// multi-threaded.
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
            // Forwarding a chained call would connect to ports of this host as this process's user.
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
                // Don't wait: a close may take long, or forever, and the next sweep must close other files.
                let closed = swept.clone();
                tokio::spawn(async move { closed.writings.sweep().await });
                swept.readings.sweep();
                swept.listings.sweep();
            }
        });
        Ok(Self { export, server, sweeping })
    }

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Closes all files, and finishes running calls.
    pub async fn end(self) {
        let Self { export, server, sweeping } = self;
        // Close the files before the port is free. Another server that starts at this port has the same
        // session, and would take the files over. But if the store never answers, free the port anyway.
        if tokio::time::timeout(CLOSING, export.writings.close_for_good()).await.is_err() {
            tracing::warn!("the store hasn't closed all files in time; the server frees its port anyway");
        }
        let ended = tokio::task::spawn_blocking(move || server.shutdown()).await;
        if !matches!(ended, Ok(true)) {
            tracing::warn!("the server stopped while calls were running: it sends their clients no reply");
        }
        sweeping.abort();
        // Try again to close the files whose close has failed.
        export.writings.close_for_good().await;
    }
}
