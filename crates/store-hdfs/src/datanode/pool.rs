//! Idle connections to datanodes, and datanodes that failed recently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A datanode closes a connection after 4 s without an operation
/// (`dfs.datanode.socket.reuse.keepalive`). We close it earlier, so that
/// no operation breaks.
const MAX_IDLE: Duration = Duration::from_secs(3);
/// Idle connections to all datanodes together. Each occupies a thread of a datanode for up to
/// [`MAX_IDLE`].
const MAX_IDLE_CONNECTIONS: usize = 64;
/// Time for which a failed datanode is tried only after the others. If it is the only one, it is
/// tried nevertheless.
const SUSPICION: Duration = Duration::from_secs(60);
/// Number of failed datanodes that are remembered. More at a time mean that the cluster is down.
const MAX_SUSPECTS: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<Idle>>,
    suspects: Mutex<HashMap<Arc<str>, Instant>>,
}

#[derive(Debug)]
struct Idle {
    address: Arc<str>,
    since: Instant,
    stream: TcpStream,
}

impl Pool {
    /// The most recently used connection to `address`.
    pub fn take(&self, address: &str) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        let found = idle.iter().rposition(|kept| &*kept.address == address)?;
        Some(idle.remove(found).stream)
    }

    /// Keeps a connection whose operation has ended.
    pub fn keep(&self, address: Arc<str>, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(Idle { address, since: Instant::now(), stream });
        }
    }

    /// Records that `address` failed.
    pub fn suspect(&self, address: &Arc<str>) {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.retain(|_, since| since.elapsed() < SUSPICION);
        if suspects.len() < MAX_SUSPECTS {
            suspects.insert(Arc::clone(address), Instant::now());
        }
    }

    /// The `addresses` without a recent failure, in their order, followed by the others.
    pub fn trusted_first(&self, addresses: &[Arc<str>]) -> Vec<Arc<str>> {
        let suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect =
            |address: &&Arc<str>| suspects.get(*address).is_some_and(|at| at.elapsed() < SUSPICION);
        let (last, mut first): (Vec<_>, Vec<_>) = addresses.iter().partition(is_suspect);
        first.extend(last);
        first.into_iter().cloned().collect()
    }
}
