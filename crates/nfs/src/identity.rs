//! The identity that a server shares with the one that it replaces.

use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use strait_store::SessionSecret;

/// The session of a server's writers. A server that replaces a killed one has the same session, so that
/// stores let it take over the files that the killed server was writing. Two servers never have it at the
/// same time, since only one server can listen at an address, and it closes its files before it stops
/// listening. `None` if the port isn't fixed, or without /proc.
pub fn session(store: &str, listen: SocketAddr) -> Option<SessionSecret> {
    // After a reboot, the session differs. Then the store's own timeout releases the files of earlier
    // servers.
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    // Containers of one host have separate networks, so several can listen at the same address.
    let network = std::fs::read_link("/proc/self/ns/net").ok()?;
    (listen.port() != 0).then(|| {
        let text = format!("strait nfs\n{listen}\n{}\n{store}\n", network.display());
        SessionSecret(Sha256::new().chain_update(text).chain_update(boot).finalize().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_has_the_same_session_and_no_other_server() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let own = session("memory:", address(2_049)).unwrap();
        assert_eq!(session("memory:", address(2_049)), Some(own));
        for (store, port) in [("memory:", 2_050), ("memory:/other", 2_049)] {
            assert_ne!(session(store, address(port)), Some(own));
        }
        assert_eq!(session("memory:", address(0)), None);
    }
}
