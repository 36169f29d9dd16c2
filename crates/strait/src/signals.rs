//! SIGINT and SIGTERM.

use crate::failure::Failure;
use std::future::Future;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The two signals, caught from its making on.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to catch them: until then they end the process.
    pub fn catch() -> Result<Self, Failure> {
        let catch = |kind| signal(kind).map_err(|error| Failure::other(format!("catching signals: {error}")));
        Ok(Self { interrupt: catch(SignalKind::interrupt())?, terminate: catch(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Does `work` until a signal comes.
    pub async fn unless<T>(&mut self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            result = work => result,
            () = self.next() => Err(Failure::interrupted()),
        }
    }
}
