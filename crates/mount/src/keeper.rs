//! A keeper process starts the server process of a mount, and starts a new one if the server is killed.
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
//! The kernel keeps the requests that a killed server had read, and resends them when the next server asks
//! for that (FUSE_NOTIFY_RESEND, Linux 6.9). The next server reads the nodes, lookup counts and handles that
//! the kernel knows from the record ([`crate::ledger`]). If the record has the answer to a resent change,
//! that answer is sent again. If the change was only begun, the store's state decides. Written bytes that the
//! store lacks are appended, once the store gives the file back to the mount's session. If they can't be
//! appended, the next write, sync or close of the file fails.
//!
//! The keeper does as little as possible, so that it isn't killed. If servers are killed one after the other,
//! it pauses longer each time, and finally unmounts. If its server ends by itself, or hands the mount over,
//! the keeper ends, too. If the keeper is killed, the server continues without one.
//!
//! A server must not use its own mount: before it serves, no process would answer.

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

/// Largest number of failures in a row. A failure is a kill, or an end with an error before the server served. The
/// limit is for a request that kills every server, since the kernel resends it to each.
const MOST_TRIES: u32 = 10;
/// If a server served for this long before it was killed, the count of failures in a row starts again at 1: the
/// cause is probably another one.
const STEADY: Duration = Duration::from_millis(500);
/// Pauses between starts: the first one, doubled each time up to the longest. The first restart has no pause,
/// since programs wait. All pauses together take 15 s.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Holds a mount, and starts the processes that serve it.
pub struct Keeper {
    directory: PathBuf,
    record: OwnedFd,
    bytes: OwnedFd,
    device: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    /// Another process may have taken the mount over.
    handing: bool,
    /// Servers in a row that didn't serve for long.
    tries: u32,
}

/// The end of one server.
struct Ended {
    status: ExitStatus,
    /// How long it served; `None` if it never did.
    served: Option<Duration>,
    /// The keeper got a signal, and asked the server to end.
    by_us: bool,
}

impl Keeper {
    /// A keeper for a mount on this directory: a new mount, or one that is `taken` over from another process.
    ///
    /// # Errors
    /// There is no mount to take over, or this process uses it.
    pub fn new(directory: &Path, taken: bool) -> io::Result<Self> {
        let directory = if taken {
            let (directory, number) = place::served(directory)?;
            place::leave(&number)?;
            directory
        } else {
            // A dead mount, which the server removes, can't be resolved. Then use the path without resolving
            // links.
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

    /// The mount's directory. Don't access it between two servers: the access would block.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts server processes with `command`, one after the other, until the mount ends. Their standard
    /// input is for [`Link::receive`]. Calls `serving` once the first server serves. When `ends` completes,
    /// asks the server to end.
    ///
    /// # Errors
    /// A process can't be started. Then the mount was unmounted.
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
        // Send this first: the process may be killed before it reads it.
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
                    // Don't use a signal: a supervisor may have sent the same signal to both. The send fails
                    // if the server has ended.
                    let _ = end.ask_to_end();
                }
            }
        };
        // Handle the messages that the server sent before its end.
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

    /// The pause before the next server; `None` if none is to be started.
    fn again(&mut self, ended: &Ended) -> Option<Duration> {
        let signal = ended.status.signal();
        // A server that failed before it served may have found the store unreachable: that counts as a
        // failure, too.
        let failed = signal.is_some() || (ended.served.is_none() && !ended.status.success());
        let why = signal.map_or_else(|| ended.status.to_string(), |signal| format!("signal {signal}"));
        if self.device.is_none() && signal.is_some() {
            tracing::error!(
                "{}: the mount's process ended ({why}) before the keeper held the mount: can't restart it",
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

    /// Unmounts: programs with open files get an error.
    fn unmount(&mut self) {
        // Close the device first, so that no program waits for an answer.
        if self.device.take().is_none() {
            return;
        }
        if let Err(error) = place::unmount(&self.directory, true) {
            tracing::error!("can't unmount {}: {error}", self.directory.display());
        }
    }
}
