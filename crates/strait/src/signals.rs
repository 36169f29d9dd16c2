//! SIGINT and SIGTERM, which end a command; SIGHUP, which makes servers read their files again.

use crate::failure::Failure;
use rustix::process::Signal;
use std::future::Future;
use tokio::signal::unix::{self, SignalKind, signal};

/// Catches SIGHUP from its creation on. Before, and in commands that aren't servers, SIGHUP
/// ends the process.
pub struct Hangups(unix::Signal);

impl Hangups {
    /// Begins to catch it.
    pub fn catch() -> Result<Self, Failure> {
        let caught = signal(SignalKind::hangup());
        caught.map(Self).map_err(|error| Failure::other(format!("catching signals: {error}")))
    }

    /// Calls `reload` on each SIGHUP.
    pub async fn each(mut self, mut reload: impl FnMut()) {
        while self.0.recv().await.is_some() {
            reload();
        }
    }
}

/// The two signals, caught from its creation on.
pub struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
}

impl Signals {
    /// Begins to catch them: until then they end the process.
    pub fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|error| Failure::other(format!("catching signals: {error}")));
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    /// Waits for the next one, and returns the command's failure for it.
    pub async fn next(&mut self) -> Failure {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
        };
        Failure::signalled(signal.as_raw() as u8)
    }

    /// Does `work` until a signal comes.
    pub async fn unless<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            failure = self.next() => Err(failure),
        }
    }
}
