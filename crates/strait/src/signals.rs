//! SIGINT and SIGTERM, which end a command; SIGHUP, which makes servers reread their files, and ends other
//! commands.

use crate::failure::Failure;
use rustix::process::Signal;
use std::future::Future;
use tokio::signal::unix::{self, SignalKind, signal};

/// Catches SIGHUP in a server from its creation on. Before that, SIGHUP ends the process.
pub struct Hangups(unix::Signal);

impl Hangups {
    /// Begins to catch SIGHUP.
    pub fn catch() -> Result<Self, Failure> {
        let caught = signal(SignalKind::hangup());
        caught.map(Self).map_err(|error| Failure::other(format!("catch signals: {error}")))
    }

    /// Calls `reload` on each SIGHUP.
    pub async fn each(mut self, mut reload: impl FnMut()) {
        while self.0.recv().await.is_some() {
            reload();
        }
    }
}

/// The signals that end a command, caught from its creation on.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    /// `None` in servers, and if nohup(1) or a shell started this process with SIGHUP ignored.
    hang_up: Option<unix::Signal>,
}

impl Signals {
    /// Begins to catch SIGINT and SIGTERM. Before that, they end the process at once.
    pub fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|error| Failure::other(format!("catch signals: {error}")));
        let (interrupt, terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, hang_up: None })
    }

    /// Begins to catch the signals that end other commands than servers: SIGINT, SIGTERM and SIGHUP.
    pub fn catch_all() -> Result<Self, Failure> {
        let all = Self::catch()?;
        if is_ignored(Signal::HUP) {
            return Ok(all);
        }
        let hang_up = signal(SignalKind::hangup());
        let hang_up = hang_up.map_err(|error| Failure::other(format!("catch signals: {error}")))?;
        Ok(Self { hang_up: Some(hang_up), ..all })
    }

    /// Waits for the next signal, and returns the failure that ends the command.
    pub async fn next(&mut self) -> Failure {
        let hung_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        let signal = tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = hung_up => Signal::HUP,
        };
        Failure::signalled(signal.as_raw() as u8)
    }

    /// Runs `work`. If a signal comes first, drops `work` and returns the signal's failure.
    pub async fn unless<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            failure = self.next() => Err(failure),
        }
    }
}

/// Whether this process ignores the signal (proc(5), SigIgn).
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}
