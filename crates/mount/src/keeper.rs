//! A mount survives the kill of its process, by a keeper process that started it.
//!
//! ```text
//!   keeper ─────────── starts, and starts again ──────────→ server
//!     │                                                       │
//!     │ holds for the next server:                            │
//!     │   FUSE's descriptor ←─────────── once it has mounted ─┤
//!     │   the socket for hand-overs ←────── once it listens ──┤
//!     │   record: nodes, files, handles, requests ←── before  │
//!     │   bytes: written, not flushed ←──── each answer ──────┘
//! ```
//!
//! The kernel keeps the requests that a killed server had read, and sends them again when the next one
//! asks for that (FUSE_NOTIFY_RESEND, Linux 6.9). The next server has the nodes, lookup counts and
//! handles that the kernel knows, from the record ([`crate::ledger`]). A change that it finds executed
//! there gets its answer from there; the store's state settles one that was only begun. Written bytes
//! that the store lacks go to it, once it gives the file back to the mount's session. Where that can't
//! be, the next write, sync or close of the file fails.
//!
//! The keeper does as little as possible, so that it lives. If servers are killed one after the other,
//! it pauses longer each time, and at last unmounts. If its server ends by itself, or hands the mount
//! over, it ends, too. If the keeper is killed, the server serves without one.
//!
//! The server must not touch its own mount: no server answers before it has begun.

mod link;

pub use link::{Ends, Link};

use crate::ledger;
use crate::place;
use link::{End, Message};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Servers in a row that may be killed, each within [`STEADY`]. A request that kills every server must
/// not do so for ever: the kernel sends it to each.
const MOST_TRIES: u32 = 10;
/// A server that served this long wasn't killed by what killed the one before.
const STEADY: Duration = Duration::from_millis(500);
/// Pauses between tries, doubled up to the second one. The first try begins at once, since programs
/// wait. All together are 15 s.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Holds a mount, and starts the processes that serve it.
pub struct Keeper {
    directory: PathBuf,
    record: OwnedFd,
    bytes: OwnedFd,
    device: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    /// Another process may have the mount.
    handing: bool,
    /// Servers in a row that didn't serve for long.
    tries: u32,
}

/// The end of one server.
struct Ended {
    status: ExitStatus,
    /// How long it served.
    served: Option<Duration>,
    /// A signal for the keeper came.
    by_us: bool,
}

impl Keeper {
    /// Of a mount on this directory: one that is to be made, or `taken` from another process.
    ///
    /// # Errors
    /// There is no mount to take, or this process uses it.
    pub fn new(directory: &Path, taken: bool) -> io::Result<Self> {
        let directory = if taken {
            let (directory, number) = place::served(directory)?;
            place::leave(&number)?;
            directory
        } else {
            // A dead mount, which the server removes, has no name without links.
            directory.canonicalize().or_else(|_| std::path::absolute(directory))?
        };
        Ok(Self {
            directory,
            record: ledger::memory("strait-mount-record")?,
            bytes: ledger::memory("strait-mount-bytes")?,
            device: None,
            listener: None,
            handing: false,
            tries: 0,
        })
    }

    /// The mount's directory. Nobody may look at it between two servers.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts processes of `command`, one after the other, that serve the mount until it ends. Their standard
    /// input is for [`Link::receive`]. Calls `serving` when the first one serves. After `ends`, the server is asked to end.
    ///
    /// # Errors
    /// No process can be started. The mount is gone then.
    pub async fn keep(
        mut self,
        command: impl Fn() -> std::process::Command,
        mut serving: impl FnMut() -> io::Result<()>,
        mut ends: impl AsyncFnMut(),
    ) -> io::Result<ExitStatus> {
        loop {
            let ended = self.serve(command(), &mut serving, &mut ends).await;
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) => {
                    self.unmount();
                    return Err(error);
                }
            };
            let Some(pause) = self.again(&ended) else { return Ok(ended.status) };
            let stopped = tokio::select! {
                () = tokio::time::sleep(pause) => false,
                () = ends() => true,
            };
            if stopped {
                self.unmount();
                return Ok(ended.status);
            }
        }
    }

    async fn serve(
        &mut self,
        mut command: std::process::Command,
        serving: &mut impl FnMut() -> io::Result<()>,
        ends: &mut impl AsyncFnMut(),
    ) -> io::Result<Ended> {
        let (mut end, theirs) = End::pair()?;
        command.stdin(theirs);
        // First: the process may be killed before it reads.
        end.hand(&self.record, &self.bytes, self.device.as_ref(), self.listener.as_ref())?;
        let mut child: Child = Command::from(command).spawn()?;
        let (mut since, mut by_us) = (None, false);
        let status = loop {
            tokio::select! {
                message = end.next() => match message {
                    Some(message) => self.hear(message, &mut since, serving)?,
                    None => break child.wait().await?,
                },
                status = child.wait() => break status?,
                () = ends() => {
                    by_us = true;
                    // No signal: a supervisor may have sent the same one to both. It may have ended.
                    let _ = end.ask_to_end();
                }
            }
        };
        // Messages that it sent before its end.
        while let Some(message) = end.last() {
            self.hear(message, &mut since, serving)?;
        }
        Ok(Ended { status, served: since.map(|since: Instant| since.elapsed()), by_us })
    }

    fn hear(
        &mut self,
        message: Message,
        since: &mut Option<Instant>,
        serving: &mut impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        match message {
            Message::Serves(device) => {
                if let Some(device) = device {
                    self.device = Some(device);
                }
                let is_first = self.tries == 0 && since.is_none();
                *since = Some(Instant::now());
                if is_first { serving() } else { Ok(()) }
            }
            Message::Listens(listener) => {
                self.listener = Some(listener);
                Ok(())
            }
            Message::Hands => {
                self.handing = true;
                Ok(())
            }
            Message::Keeps => {
                self.handing = false;
                Ok(())
            }
        }
    }

    /// The pause before another server; None if there is to be none.
    fn again(&mut self, ended: &Ended) -> Option<Duration> {
        let signal = ended.status.signal();
        // One that never served may have found the store away.
        let failed = signal.is_some() || (ended.served.is_none() && !ended.status.success());
        let why = signal.map_or_else(|| ended.status.to_string(), |signal| format!("signal {signal}"));
        if self.device.is_none() && signal.is_some() {
            tracing::error!(
                "{}: the mount's process ended ({why}), and left no mount to go on with",
                self.directory.display()
            );
        }
        if !failed || self.device.is_none() {
            return None;
        }
        if self.handing {
            tracing::error!("the mount's process ended ({why}) while it handed the mount over");
            return None;
        }
        let steady = ended.served.is_some_and(|served| served >= STEADY);
        self.tries = if steady { 1 } else { self.tries + 1 };
        if ended.by_us || self.tries > MOST_TRIES {
            let directory = self.directory.display();
            tracing::error!(
                "{directory}: the mount's process ended ({why}), the last of {} in a row; unmounting",
                self.tries
            );
            self.unmount();
            return None;
        }
        tracing::warn!("{}: the mount's process ended ({why}); starting another", self.directory.display());
        Some(match self.tries {
            1 => Duration::ZERO,
            tries => LONGEST_PAUSE.min(FIRST_PAUSE * (1 << (tries - 2).min(16))),
        })
    }

    /// Ends the mount: programs with open files get an error.
    fn unmount(&mut self) {
        // First, so that nothing waits for an answer.
        if self.device.take().is_none() {
            return;
        }
        if let Err(error) = place::unmount(&self.directory, true) {
            tracing::error!("unmounting {}: {error}", self.directory.display());
        }
    }
}
