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
//! Another process may take the mount over while programs use it: [`Mount::take_over`].
//!
//! This room must never: read flags; name a store; act for another user than [`Identity`] says; answer a
//! write before it is in order with those before it; report a failed write as success at close(2).

mod core;
mod face;
mod fault;
mod gate;
mod handover;
mod identity;
mod listing;
mod logical;
mod nodes;
mod overlay;
mod patience;
mod place;
mod plain;
mod resume;
mod times;

pub use core::Settings;
pub use glob::Pattern;
pub use identity::Identity;
pub use patience::Patience;

use crate::core::Core;
use crate::face::Face;
use crate::gate::Gate;
use crate::handover::Terms;
use crate::handover::exchange::{self, LIMITS, Offer};
use fuser::{BackgroundSession, Config, Session, SessionACL};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strait_store::{FileSystem, StorePath};
use tokio::net::UnixListener;

/// Threads that receive requests. Each only starts a task; two keep one from waiting for the other's
/// copy of a write.
const THREADS: usize = 2;
/// Pause after a failed accept, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a refusal, which is logged: any user of the host may ask.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
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
    gate: Arc<Gate>,
    directory: PathBuf,
    terms: Terms,
    /// Another descriptor of the session's device, to hand over.
    device: OwnedFd,
    /// For the next process, from the one before.
    listener: Mutex<Option<UnixListener>>,
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
        let (terms, mut config) = (Terms::of(&options), config(&options));
        let (acl, read_only) = (config.acl, options.settings.read_only);
        let (core, gate) = (Arc::new(Core::new(store, root, options.settings)), Arc::default());
        let face = Face::new(core.clone(), Arc::clone(&gate), tokio::runtime::Handle::current());
        let place = place::Options { source: options.source, allow_other: options.allow_other, read_only };
        let session = if nix::unistd::geteuid().is_root() {
            let device = place::mount(&directory, &place)?;
            Session::from_fd(face, device, acl, config)
                .inspect_err(|_| drop(place::unmount(&directory, true)))?
        } else {
            config.mount_options = place::for_fusermount(&place);
            Session::new(face, &directory, &config)?
        };
        let device = session.as_fd().try_clone_to_owned()?;
        let session = session.spawn()?;
        let mount = Self { core, gate, directory, terms, device, listener: Mutex::default(), session };
        if !place::raise_read_ahead(&mount.directory) {
            tracing::debug!("the kernel's read-ahead stays as it is; root may raise it");
        }
        Ok(mount)
    }

    /// Goes on with the mount that another process of the same user serves on a directory. That process
    /// ends, and programs that use the mount only wait meanwhile. Source, user, patterns and
    /// `read_only` must be the same.
    ///
    /// # Errors
    /// There is no such mount, or its process refuses. It then goes on serving.
    pub async fn take_over(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        directory: &Path,
        options: Options,
    ) -> io::Result<Self> {
        let (directory, number) = place::served(directory)?;
        place::leave(&number)?;
        let (terms, config) = (Terms::of(&options), config(&options));
        let mut peer = exchange::connect(&number, &directory).await?;
        let (state, device, listener) = exchange::ask(&mut peer, &terms).await?;
        let core = Core::again(store, root, options.settings, state).await.map_err(io::Error::other)?;
        let (core, gate) = (Arc::new(core), Arc::default());
        let face = Face::new(core.clone(), Arc::clone(&gate), tokio::runtime::Handle::current());
        let session = resume::session(face, &device, config)?;
        exchange::take(peer).await?;
        let session = session.spawn()?;
        let listener = Mutex::new(Some(listener));
        Ok(Self { core, gate, directory, terms, device, listener, session })
    }

    /// Waits until another process has taken the mount over. Then only [`Mount::leave`] may follow.
    pub async fn taken_over(&self) {
        let inherited = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped with this future, so that a later mount finds its name free.
        let listener = match inherited {
            Some(listener) => listener,
            None => listen(&self.directory).await,
        };
        loop {
            let peer = match listener.accept().await {
                Ok((peer, _)) => peer,
                Err(error) => {
                    tracing::warn!("accepting a process that asks for the mount: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match exchange::offer(peer, &self.terms, LIMITS, || self.pause(&listener)).await {
                Ok(()) => return,
                Err(why) => tracing::warn!("another process asked for the mount, and didn't get it: {why}"),
            }
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
    }

    /// Reads no more requests, answers all, and closes all writers.
    async fn pause<'a>(&'a self, listener: &'a UnixListener) -> Result<Offer<'a, gate::Closed>, String> {
        let guard = self.gate.close(THREADS, || gate::knock(&self.directory)).await;
        let core = self.core.clone();
        // A task of its own, since a close that is dropped half-way may lose bytes.
        let closing = tokio::spawn(async move { core.close_writers().await });
        closing.await.map_err(|error| format!("closing files: {error}"))??;
        let descriptors = [self.device.as_fd(), listener.as_fd()];
        Ok(Offer { state: self.core.state().await, descriptors, guard })
    }

    /// Ends without unmounting.
    pub fn leave(self) {
        // Dropping it would unmount, if fusermount3 mounted.
        std::mem::forget(self.session);
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

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

/// Listens for the next process. A mount without that works, but can't be handed over.
async fn listen(directory: &Path) -> UnixListener {
    let mut told = false;
    loop {
        let listening = place::device(directory).and_then(|number| match number {
            Some(number) => exchange::listen(&number, directory),
            None => Err(io::ErrorKind::NotFound.into()),
        });
        match listening {
            Ok(listener) => return listener,
            Err(error) if !told => tracing::warn!("no process can take this mount over yet: {error}"),
            Err(_) => {}
        }
        told = true;
        tokio::time::sleep(exchange::LISTEN_PAUSE).await;
    }
}
