//! The keeper of a mount: a process that starts the serving process, and starts it again when it is killed.

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

/// Keeps the mount until the serving process exits by itself, or can't be restarted.
pub async fn keep(flags: &Flags) -> Result<(), Failure> {
    let mut signals = Signals::catch()?;
    tokio::spawn(Hangups::catch()?.each(|| {}));
    let keeper = Keeper::new(&flags.directory, flags.take_over).map_err(|error| not_taken(&error, flags))?;
    // The serving process needs the directory for relative names of keys and passwords. Within its own mount,
    // it would wait for itself.
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
    let status = kept.map_err(|error| Failure::other(format!("can't keep the mount: {error}")))?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        // The serving process has printed the reason.
        (Some(code), _) => Err(Failure::Ended(u8::try_from(code).unwrap_or(1))),
        (None, signal) => Err(Failure::signalled(signal.unwrap_or(0) as u8)),
    }
}

/// The command that starts this program as the serving process. It runs the same program even if its file was
/// replaced.
fn server(begun_in: &Path) -> Command {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    // At the end, the flag could be taken for an operand.
    let is_flag = |argument: &OsString| argument == "--keep" || argument == "--background";
    let at = arguments.iter().position(is_flag).unwrap_or(arguments.len());
    arguments.insert(at, "--kept".into());
    let mut command = Command::new("/proc/self/exe");
    command.args(&arguments[1..]);
    command.current_dir(if begun_in.is_dir() { begun_in } else { Path::new("/") });
    command
}

/// Signals that end the mount, received directly or from a keeper.
pub enum Orders {
    /// There is no keeper.
    Signals(Signals),
    /// There is a keeper. A terminal's SIGINT, and a supervisor's SIGTERM, may reach both processes.
    Kept {
        /// Signals that the keeper forwards.
        ends: Ends,
        /// Number of signals that the keeper forwarded.
        asked: u32,
        /// SIGTERM to this process.
        terminate: unix::Signal,
        /// SIGINT to this process: caught, so that it doesn't end the process before the keeper forwards it.
        _interrupt: unix::Signal,
    },
}

impl Orders {
    /// Signals of a process with a keeper.
    pub fn kept(link: &Link) -> io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self::Kept { ends: link.ends()?, asked: 0, terminate, _interrupt: interrupt })
    }

    /// Waits for a signal to end the mount.
    pub async fn end(&mut self) {
        match self {
            Self::Signals(signals) => drop(signals.next().await),
            Self::Kept { ends, asked, terminate, .. } => tokio::select! {
                () = ends.next() => *asked += 1,
                _ = terminate.recv() => {}
            },
        }
    }

    /// Waits for a second signal, which ends the process before unmounting is complete.
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

/// The link to the keeper, received at this process's standard input.
pub fn link() -> Result<Link, Failure> {
    let input = io::stdin().as_fd().try_clone_to_owned();
    let link = input.and_then(Link::receive);
    link.map_err(|error| Failure::other(format!("mount --kept: {error}")))
}
