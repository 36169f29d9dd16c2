//! The keeper of a mount: a process that starts the one that serves, and starts it again.

use super::{MOUNTED, detach, not_taken, ready};
use crate::cli::Mount as Flags;
use crate::failure::Failure;
use crate::signals::{Hangups, Signals};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use strait_mount::{Ends, Keeper, Link};
use tokio::signal::unix::{self, SignalKind, signal};

/// SIGTERM.
const TERM: u8 = 15;

/// Keeps the mount until its process ends by itself, or can't be kept.
pub async fn keep(flags: &Flags) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| {}));
    let keeper = Keeper::new(&flags.directory, flags.take_over).map_err(|error| not_taken(&error, flags))?;
    // For relative names of keys and passwords. In its own mount, a process would wait for itself.
    let begun_in = std::env::current_dir().ok().filter(|at| !at.starts_with(keeper.directory()));
    let begun_in = begun_in.unwrap_or_else(|| "/".into());
    let serving = || {
        if flags.background {
            let mut out = io::stdout().lock();
            out.write_all(MOUNTED).and_then(|()| out.flush())?;
            detach(flags)?;
        }
        ready();
        Ok(())
    };
    let signalled = async || drop(signals.next().await);
    let kept = keeper.keep(|| server(&begun_in), serving, signalled).await;
    let status = kept.map_err(|error| Failure::other(format!("keeping the mount: {error}")))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        // It has told the reason.
        (Some(code), _) => Err(Failure::Ended(u8::try_from(code).unwrap_or(1))),
        (None, signal) => Err(Failure::signalled(signal.unwrap_or(0) as u8)),
    }
}

/// This program again, as the process that serves. It stays the same if the file is replaced.
fn server(begun_in: &Path) -> Command {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    // At the end it could be taken for an operand.
    let is_flag = |argument: &OsString| argument == "--keep" || argument == "--background";
    let at = arguments.iter().position(is_flag).unwrap_or(arguments.len());
    arguments.insert(at, "--kept".into());
    let mut command = Command::new("/proc/self/exe");
    command.args(&arguments[1..]);
    command.current_dir(if begun_in.is_dir() { begun_in } else { Path::new("/") });
    command
}

/// Signals to end the mount, also by way of a keeper.
pub enum Orders {
    /// Without a keeper.
    Signals(Signals),
    /// With one. A terminal's SIGINT, and a supervisor's SIGTERM, may reach both processes.
    Kept {
        /// From the keeper.
        ends: Ends,
        /// How many came.
        asked: u32,
        /// Of this process.
        terminate: unix::Signal,
        /// Caught, so that it doesn't end this process before the keeper passes it on.
        _interrupt: unix::Signal,
    },
}

impl Orders {
    /// With a keeper.
    pub fn kept(link: &Link) -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self::Kept { ends: link.ends()?, asked: 0, terminate, _interrupt: interrupt })
    }

    /// Waits until the mount is to end.
    pub async fn end(&mut self) {
        match self {
            Self::Signals(signals) => drop(signals.next().await),
            Self::Kept { ends, asked, terminate, .. } => tokio::select! {
                () = ends.next() => *asked += 1,
                _ = terminate.recv() => {}
            },
        }
    }

    /// Waits until the process is to end before the mount has ended.
    pub async fn leave(&mut self) -> Failure {
        match self {
            Self::Signals(signals) => signals.next().await,
            Self::Kept { ends, asked, .. } => {
                while *asked < 2 {
                    ends.next().await;
                    *asked += 1;
                }
                Failure::signalled(TERM)
            }
        }
    }
}

/// The keeper's link, which takes the place of this process's standard input.
pub fn link() -> Result<Link, Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let link = input.and_then(Link::receive);
    link.map_err(|error| Failure::other(format!("mount --kept: {error}")))
}
