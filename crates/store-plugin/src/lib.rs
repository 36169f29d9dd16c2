//! File systems that have only a C or C++ client: a library with the interface of
//! [`strait_store.h`](../include/strait_store.h), in this process or in a separate one.
//!
//! ```text
//!   ForeignStore (a store: blocking pool, time limits)
//!        │ strait_store::foreign (calls that block)
//!        ├──────────── Plugin: the library, in this process
//!        └─ Remote ─ Unix sockets ─ serve_parent, in the helper process ─ Plugin, or another library
//! ```
//!
//! Each running call to a helper has its own socket, so a call that hangs blocks no other. If a helper
//! crashes, the calls in flight fail, and the next call starts another helper.
//!
//! This room must never: load a library that a client named; trust a number or a text that a library
//! returns; wait for a library without a limit.

mod abi;
mod foreign_store;
mod helper;
mod plugin;
mod remote;
mod wire;

pub use foreign_store::{CALL_PATIENCE, ForeignStore};
pub use helper::{Opener, serve as serve_parent};
pub use plugin::Plugin;
pub use remote::{Launch, Remote};
pub use wire::Spec;

use std::sync::Arc;
use std::time::Duration;
use strait_store::foreign::Foreign;
use strait_store::{ErrorKind, Result, fail};

/// Where a library runs, and how long its calls may take.
#[derive(Debug, Clone)]
pub struct Place {
    /// The command of its helper process; None: this process.
    pub apart: Option<Launch>,
    /// Time limit of a call.
    pub patience: Duration,
}

/// Opens a library's file system as a store.
///
/// # Errors
/// TimedOut if the library doesn't open in time; else the library's error.
pub async fn open(spec: Spec, place: Place, opener: Opener) -> Result<ForeignStore> {
    let patience = place.patience;
    let opening = tokio::task::spawn_blocking(move || -> Result<Arc<dyn Foreign>> {
        match place.apart {
            None => opener(&spec),
            Some(launch) => Ok(Arc::new(Remote::start(launch, spec, patience)?)),
        }
    });
    match tokio::time::timeout(2 * patience, opening).await {
        Ok(Ok(opened)) => Ok(ForeignStore::new(opened?).with_patience(patience)),
        Ok(Err(_)) => fail(ErrorKind::Internal, "the thread that opened the library panicked"),
        Err(_) => {
            fail(ErrorKind::TimedOut, format!("the library doesn't open within {} s", 2 * patience.as_secs()))
        }
    }
}
