//! Connections to datanodes that wait for the next operation, and datanodes
//! that failed not long ago.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// A datanode closes a connection after 4 s without an operation
/// (`dfs.datanode.socket.reuse.keepalive`); earlier saves a broken one.
const MAX_IDLE: Duration = Duration::from_secs(3);
/// Kept over all datanodes: each holds one of a datanode's threads, for as
/// long as [`MAX_IDLE`].
const MAX_IDLE_CONNECTIONS: usize = 64;
/// How long a datanode that failed is asked after the others. Whoever is the
/// only one is asked all the same.
const SUSPICION: Duration = Duration::from_secs(60);
/// Failed datanodes remembered; more at a time is a cluster that is down.
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
    /// The connection to `address` that was used last.
    pub fn take(&self, address: &str) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        let found = idle.iter().rposition(|kept| &*kept.address == address)?;
        Some(idle.remove(found).stream)
    }

    /// Keeps a connection that is at the end of an operation.
    pub fn keep(&self, address: Arc<str>, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|kept| kept.since.elapsed() < MAX_IDLE);
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(Idle { address, since: Instant::now(), stream });
        }
    }

    /// Remembers that `address` failed.
    pub fn suspect(&self, address: &Arc<str>) {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.retain(|_, since| since.elapsed() < SUSPICION);
        if suspects.len() < MAX_SUSPECTS {
            suspects.insert(Arc::clone(address), Instant::now());
        }
    }

    /// Those of `addresses` that haven't failed of late, in their order, and
    /// then the others.
    pub fn trusted_first(&self, addresses: &[Arc<str>]) -> Vec<Arc<str>> {
        let suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let is_suspect =
            |address: &&Arc<str>| suspects.get(*address).is_some_and(|at| at.elapsed() < SUSPICION);
        let (last, mut first): (Vec<_>, Vec<_>) = addresses.iter().partition(is_suspect);
        first.extend(last);
        first.into_iter().cloned().collect()
    }
}
