//! Mounts any store on a directory of this host, through FUSE.
//!
//! ```text
//!   programs ── kernel ── /dev/fuse
//!                            │ requests
//!                          FuseServer (fuser) ── a task each ──→ Core ── names, nodes, handles
//!                                                                 │
//!                                           Plain: written at its end     Logical: written anywhere
//!                                                 │                            │
//!                                              a store's file          a container of PLFS
//! ```
//!
//! Plain files support what their store supports: programs write them from the start to the end, and append.
//! Files whose names match a pattern are PLFS containers: any number of writers can write them, at any
//! offset.
//!
//! Another process can take the mount over while programs use it: [`Mount::take_over`]. With a [`Keeper`],
//! the mount survives the kill of its process: [`Mount::go_on`].
//!
//! This room must never: read flags; name a store; act for another user than [`Identity`] says; answer a
//! write before it is in order with those before it; report a failed write as success at close(2).

mod claims;
mod core;
mod fault;
mod fuse;
mod gate;
mod handover;
mod identity;
mod keeper;
mod ledger;
mod listing;
mod logical;
mod nodes;
mod overlay;
mod patience;
mod place;
mod plain;
mod recall;
mod resume;
mod times;

pub use core::Settings;
pub use glob::Pattern;
pub use identity::Identity;
pub use keeper::{Ends, Keeper, Link};
pub use patience::Patience;

use crate::core::{Core, Kept};
use crate::fuse::FuseServer;
use crate::gate::Gate;
use crate::handover::Terms;
use crate::handover::exchange::{self, LIMITS, Offer};
use crate::ledger::{Ledger, Mounted};
use crate::recall::Found;
use fuser::{BackgroundSession, Config, Session, SessionACL};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use strait_store::{FileSystem, StorePath};
use tokio::net::UnixListener;

/// Threads that receive requests. Each only starts a task. With two, a thread needn't wait while the other
/// copies the bytes of a write.
const THREADS: usize = 2;
/// Time within which a process has read the requests that the kernel resends: the kernel sends them before
/// all others.
const RESENT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example if descriptors are used up.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a refused request for the mount, which is logged: any user of the host can send one.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Pause between attempts to unmount a directory that is in use.
const TRY_EVERY: Duration = Duration::from_millis(200);

/// How a store is mounted.
#[derive(Debug, Clone)]
pub struct Options {
    /// The source that mount(8) and df(1) show.
    pub source: String,
    /// Let all users of this host use the mount, each as themselves. Only with [`Identity::Caller`].
    pub allow_other: bool,
    /// The mount's behaviour.
    pub settings: Settings,
}

/// A mounted store. Dropping it without [`Mount::end`] leaves the directory unusable until it is
/// unmounted.
pub struct Mount {
    core: Arc<Core>,
    gate: Arc<Gate>,
    directory: PathBuf,
    terms: Terms,
    /// Another descriptor of the session's device, for a hand-over.
    device: OwnedFd,
    /// The listening socket that an earlier process handed over.
    listener: Mutex<Option<UnixListener>>,
    link: Option<Link>,
    session: BackgroundSession,
}

impl Mount {
    /// Mounts `root` of a store on a directory, and serves it on the caller's tokio runtime. With a
    /// keeper's `link`, the mount survives the kill of this process, if the kernel allows it.
    ///
    /// # Errors
    /// The directory can't be mounted on, or FUSE isn't available.
    pub fn begin(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        directory: &Path,
        options: Options,
        mut link: Option<Link>,
    ) -> io::Result<Self> {
        let directory = place::prepare(directory)?;
        let kept = kept(link.as_mut(), &directory)?;
        let ledger = kept.ledger.clone();
        let (terms, mut config) = (Terms::of(&options), config(&options));
        let (acl, read_only) = (config.acl, options.settings.read_only);
        let (core, gate) = (Arc::new(Core::new(store, root, options.settings, kept)), Arc::default());
        let server = FuseServer::new(core.clone(), Arc::clone(&gate), tokio::runtime::Handle::current());
        let place = place::Options { source: options.source, allow_other: options.allow_other, read_only };
        let session = if nix::unistd::geteuid().is_root() {
            let device = place::mount(&directory, &place)?;
            Session::from_fd(server, device, acl, config)
                .inspect_err(|_| drop(place::unmount(&directory, true)))?
        } else {
            config.mount_options = place::for_fusermount(&place);
            Session::new(server, &directory, &config)?
        };
        let device = session.as_fd().try_clone_to_owned()?;
        survives(link.as_ref(), &device, &ledger);
        let session = session.spawn()?;
        let listener = Mutex::default();
        let mount = Self { core, gate, directory, terms, device, listener, link, session };
        if !place::raise_read_ahead(&mount.directory) {
            tracing::debug!("the kernel's read-ahead stays as it is; root may raise it");
        }
        Ok(mount)
    }

    /// Takes over the mount that another process of the same user serves on a directory. That process ends.
    /// Programs that use the mount wait during the hand-over. Source, user, patterns and `read_only` must be
    /// the same.
    ///
    /// # Errors
    /// There is no such mount, or its process refuses. Then that process continues to serve.
    pub async fn take_over(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        directory: &Path,
        options: Options,
        mut link: Option<Link>,
    ) -> io::Result<Self> {
        let (directory, number) = place::served(directory)?;
        place::leave(&number)?;
        let (terms, config) = (Terms::of(&options), config(&options));
        let mut peer = exchange::connect(&number, &directory).await?;
        let (state, device, listener) = exchange::ask(&mut peer, &terms).await?;
        let kept = kept(link.as_mut(), &directory)?;
        let ledger = kept.ledger.clone();
        let core = Core::again(store, root, options.settings, kept, state).await.map_err(io::Error::other)?;
        core.record_all().await;
        let (core, gate) = (Arc::new(core), Arc::default());
        let server = FuseServer::new(core.clone(), Arc::clone(&gate), tokio::runtime::Handle::current());
        let session = resume::session(server, &device, config)?;
        exchange::take(peer).await?;
        survives(link.as_ref(), &device, &ledger);
        let session = session.spawn()?;
        if let Some(link) = &link {
            link.listens(listener.as_fd());
        }
        let listener = Mutex::new(Some(listener));
        let tidying = core.clone();
        tokio::spawn(async move { tidying.tidy().await });
        Ok(Self { core, gate, directory, terms, device, listener, link, session })
    }

    /// Continues the mount of a process that was killed, with the data that its keeper holds. Programs that
    /// use the mount wait until this process serves.
    ///
    /// # Errors
    /// The keeper holds no mount, or the record is incomplete or contradicts itself.
    pub async fn go_on(
        store: Arc<dyn FileSystem>,
        root: StorePath,
        options: Options,
        mut link: Link,
    ) -> io::Result<Self> {
        let (Some([record, bytes]), Some(device)) = (link.memory.take(), link.device.take()) else {
            return Err(io::Error::other("the keeper holds no mount"));
        };
        let (ledger, values) = Ledger::again(record, bytes)?;
        let found = Found::read(&ledger, &values)?;
        drop(values);
        let (terms, config, directory) = (Terms::of(&options), config(&options), found.mounted.directory());
        let ledger = Arc::new(ledger);
        let kept = Kept { ledger: ledger.clone(), past: found.past, mounted: Some(found.mounted) };
        let core = Core::again(store, root, options.settings, kept, found.state).await;
        let (core, gate) = (Arc::new(core.map_err(io::Error::other)?), Arc::default());
        let server = FuseServer::new(core.clone(), Arc::clone(&gate), tokio::runtime::Handle::current());
        let session = resume::session(server, &device, config)?;
        ledger.go_on();
        core.forget_stale();
        if let Err(error) = resume::resend(&device) {
            tracing::debug!(%error, "no request is resent"); // the mount was unmounted
        }
        let session = session.spawn()?;
        link.serves(None);
        let tidying = core.clone();
        tokio::spawn(async move {
            tidying.tidy().await;
            tokio::time::sleep(RESENT).await;
            tidying.forget_past();
        });
        let listener = link.listener.take().map(|listener| {
            let listener = std::os::unix::net::UnixListener::from(listener);
            listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener))
        });
        let listener = Mutex::new(listener.transpose()?);
        Ok(Self { core, gate, directory, terms, device, listener, link: Some(link), session })
    }

    /// Waits until another process has taken the mount over. Then the caller must call only [`Mount::leave`].
    pub async fn taken_over(&self) {
        let inherited = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Dropped with this future, so that a later mount can use the socket's name.
        let listener = match inherited {
            Some(listener) => listener,
            None => {
                let listener = listen(&self.directory).await;
                if let Some(link) = &self.link {
                    link.listens(listener.as_fd());
                }
                listener
            }
        };
        loop {
            let peer = match listener.accept().await {
                Ok((peer, _)) => peer,
                Err(error) => {
                    tracing::warn!(
                        "can't accept the connection of a process that may want the mount: {error}; trying again"
                    );
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            match exchange::offer(peer, &self.terms, LIMITS, || self.pause(&listener)).await {
                Ok(()) => return,
                Err(why) => tracing::warn!("another process asked for the mount, but can't have it: {why}"),
            }
            if let Some(link) = &self.link {
                link.keeps();
            }
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
    }

    /// Stops reading requests, answers all requests that were read, and closes all writers.
    async fn pause<'a>(&'a self, listener: &'a UnixListener) -> Result<Offer<'a, gate::Closed>, String> {
        let guard = self.gate.close(THREADS, || gate::knock(&self.directory)).await;
        let core = self.core.clone();
        // Run it as a separate task: a close that is dropped half-way could lose bytes.
        let closing = tokio::spawn(async move { core.close_writers().await });
        closing.await.map_err(|error| format!("can't close files: {error}"))??;
        let descriptors = [self.device.as_fd(), listener.as_fd()];
        if let Some(link) = &self.link {
            link.hands();
        }
        Ok(Offer { state: self.core.state().await, descriptors, guard })
    }

    /// Ends the process's part of the mount, without unmounting.
    pub fn leave(self) {
        // Dropping the session would unmount, if fusermount3 mounted.
        std::mem::forget(self.session);
    }

    /// The directory, with links resolved.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether umount(8), or an abort of the FUSE connection, ended the mount.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Writes all files to the store, and unmounts. A directory that is in use is detached after some
    /// seconds: then operations on open files fail.
    ///
    /// # Errors
    /// The directory can't be unmounted, and stays mounted.
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
                    "{} is in use ({} open files); it will be detached in {} s",
                    self.directory.display(),
                    self.core.open_handles(),
                    place::IN_USE.as_secs()
                );
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
        // Settle the files that were open until now.
        self.core.settle_all().await;
        Ok(())
    }
}

/// Begins the record of a new mount.
fn kept(link: Option<&mut Link>, directory: &Path) -> io::Result<Kept> {
    let Some([record, bytes]) = link.and_then(|link| link.memory.take()) else { return Ok(Kept::default()) };
    let (ledger, mounted) = (Ledger::begin(record, bytes)?, Mounted::on(directory)?);
    ledger.mount(&mounted);
    Ok(Kept { ledger: Arc::new(ledger), mounted: Some(mounted), ..Kept::default() })
}

/// Hands the mount's descriptor to the keeper, if the kernel can resend requests.
fn survives(link: Option<&Link>, device: &OwnedFd, ledger: &Ledger) {
    let Some(link) = link else { return };
    // No request was read yet, so this resends nothing. It only tests whether the kernel supports it.
    match resume::resend(device) {
        Ok(()) => link.serves(Some(device.as_fd())),
        Err(error) => {
            tracing::warn!("the mount won't survive a kill of its process: this needs Linux 6.9 ({error})");
            ledger.stop();
            link.serves(None);
        }
    }
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config
}

/// Listens for the next process. A mount works without the socket, but can't be handed over.
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
