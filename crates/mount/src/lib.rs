//! Any store as a directory of this host, by FUSE.
//!
//! ```text
//!   programs ── kernel ── /dev/fuse
//!                            │ requests
//!                          Face (fuser) ── a task each ──→ Core ── names, nodes, handles
//!                                                           │
//!                                     Plain: written at its end     Logical: written anywhere
//!                                           │                            │
//!                                        a store's file          a container of PLFS
//! ```
//!
//! Plain files have what their store can: they are written from the begin on and appended to. Files
//! whose names match a pattern are containers of PLFS, with writes at any place by any number of
//! writers.
//!
//! This room must never: read flags; name a store; act for another user than [`Identity`] says; answer a
//! write before it is in order with those before it; report a failed write as success at close(2).

mod core;
mod face;
mod fault;
mod listing;
mod logical;
mod nodes;
mod overlay;
mod patience;
mod place;
mod plain;
mod times;

pub use core::{Identity, Settings};
pub use glob::Pattern;
pub use patience::Patience;

use crate::core::Core;
use crate::face::Face;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use strait_store::{FileSystem, StorePath};

/// Threads that receive requests. Each only starts a task; two keep one from waiting for the other's
/// copy of a write.
const THREADS: usize = 2;
/// Pause between attempts to unmount a directory in use.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// How a store is mounted.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source that mount(8) and df(1) show.
    pub source: String,
    /// Let all users of this host use the mount, as themselves. Only with [`Identity::Caller`].
    pub allow_other: bool,
    /// Behaviour.
    pub settings: Settings,
}

/// A mounted store. Dropping it without [`Mount::end`] leaves the directory unusable until it is
/// unmounted.
pub struct Mount {
    core: Arc<Core>,
    directory: PathBuf,
    session: BackgroundSession,
}

impl Mount {
    /// Mounts `root` of a store on a directory, and serves it on the caller's tokio runtime.
    ///
    /// # Errors
    /// The directory can't be mounted on, or FUSE isn't there.
    pub fn begin(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        directory: &Path,
        options: Options,
    ) -> io::Result<Self> {
        let directory = place::prepare(directory)?;
        let read_only = options.settings.read_only;
        let core = Arc::new(Core::new(store, root, options.settings));
        let face = Face::new(core.clone(), tokio::runtime::Handle::current());
        let acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        let place = place::Options { source: options.source, allow_other: options.allow_other, read_only };
        let mut config = Config::default();
        (config.acl, config.n_threads) = (acl, Some(THREADS));
        let session = if nix::unistd::geteuid().is_root() {
            let device = place::mount(&directory, &place)?;
            Session::from_fd(face, device, acl, config)
                .inspect_err(|_| drop(place::unmount(&directory, true)))?
        } else {
            config.mount_options = place::for_fusermount(&place);
            Session::new(face, &directory, &config)?
        };
        let mount = Self { core, session: session.spawn()?, directory };
        if !place::raise_read_ahead(&mount.directory) {
            tracing::debug!("the kernel's read-ahead stays as it is; root may raise it");
        }
        Ok(mount)
    }

    /// The directory, without links.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether umount(8), or an abort of the connection, ended the mount.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Writes out all files, and unmounts. A directory in use is detached after some seconds: open
    /// files then fail.
    ///
    /// # Errors
    /// The directory stays mounted.
    pub async fn end(self) -> io::Result<()> {
        self.core.settle_all().await;
        if self.has_ended() {
            return Ok(());
        }
        let until = tokio::time::Instant::now() + place::IN_USE;
        let mut told = false;
        loop {
            let directory = self.directory.clone();
            let detach = tokio::time::Instant::now() >= until;
            let unmounted = tokio::task::spawn_blocking(move || place::unmount(&directory, detach)).await;
            match unmounted.map_err(io::Error::other)? {
                Ok(()) => break,
                Err(_) if self.has_ended() => break,
                Err(error) if detach => return Err(error),
                Err(_) => {}
            }
            if !told {
                told = true;
                tracing::warn!(
                    "{} is in use ({} open files); it is detached in {} s",
                    self.directory.display(),
                    self.core.open_handles(),
                    place::IN_USE.as_secs()
                );
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
        // Those that were open until now.
        self.core.settle_all().await;
        Ok(())
    }
}
