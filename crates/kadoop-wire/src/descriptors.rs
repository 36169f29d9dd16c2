//! The limit of open files, and how a process divides it among its purposes. A process without a free
//! descriptor can't accept connections, write logs or sync, and so fails all its clients.

use rustix::process::{Resource, getrlimit};

/// The connections of one listener take at most a quarter of a server's descriptors. A namenode has two
/// listeners.
const CONNECTIONS_DIVISOR: usize = 4;
/// Replicas that are being read take at most a sixteenth. As many replicas that are being written, with two
/// files each, take an eighth.
const REPLICAS_DIVISOR: usize = 16;
/// The assumed limit of a process without a limit.
const MOST: usize = 1 << 20;

/// The descriptors that one server may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors(usize);

impl Descriptors {
    /// All of this process's descriptors, by its current limit. Raise the limit before this call.
    pub fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.and_then(|count| usize::try_from(count).ok());
        Self(limit.unwrap_or(MOST).min(MOST))
    }

    /// One server's share, if `servers` servers run in this process.
    pub fn shared_by(self, servers: usize) -> Self {
        Self(self.0 / servers.max(1))
    }

    /// Most connections of a listener.
    pub fn connections(self) -> usize {
        strait_flexrpc::ServerOptions::default().connections.min(self.0 / CONNECTIONS_DIVISOR).max(1)
    }

    /// Most replicas with open files for one purpose (writing, reading or borrowing): `wanted`, or fewer if
    /// descriptors are scarce.
    pub fn replicas(self, wanted: usize) -> usize {
        wanted.min(self.0 / REPLICAS_DIVISOR).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_descriptors_leave_some_to_everything() {
        let parts = |of: Descriptors| (of.connections(), of.replicas(256));
        assert_eq!(parts(Descriptors(256)), (64, 16));
        assert_eq!(parts(Descriptors(1_024).shared_by(5)), (51, 12));
        assert_eq!(parts(Descriptors(3)), (1, 1));
        let plenty = Descriptors(MOST);
        assert_eq!(plenty.connections(), strait_flexrpc::ServerOptions::default().connections);
        assert_eq!(plenty.replicas(256), 256);
    }
}
