//! The other end of a connection: its address, and on loopback its user.
//!
//! Every account of a host can connect to 127.0.0.1, so that address doesn't
//! identify a user. The gateway asks the kernel for the user of the peer's socket,
//! once for each loopback connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
pub use strait_flexrpc::Origin;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// Its address and port.
    pub address: SocketAddr,
    /// Whether it uses TLS.
    pub encrypted: bool,
    /// The number of the local user who owns its socket. None if the peer isn't on loopback, or if
    /// the kernel names no user for it.
    pub user: Option<u32>,
    /// Whether its requests come over HTTP. A page of any site, or any user of a proxy, may have sent
    /// them, so address and socket give no identity.
    pub http: bool,
}

impl Peer {
    /// Describes the peer of a connection that was just accepted from `address`. If the address is on
    /// loopback, asks the kernel for the user who owns the peer's socket.
    pub fn of(connection: impl AsFd, address: SocketAddr) -> Self {
        let user = user_of_peer(connection, address);
        Self { address, encrypted: false, user, http: false }
    }

    /// Its address without the port.
    pub fn ip(&self) -> IpAddr {
        self.address.ip()
    }

    /// Whether it is on this host. A socket for both families shows IPv4
    /// addresses mapped into IPv6.
    pub fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// The origin that it counts for.
    pub fn origin(&self) -> Origin {
        Origin::of(self.user, self.ip())
    }
}

/// As [`strait_flexrpc::local_user`]. If the kernel can't be asked, the gateway knows no users on
/// loopback; logins work as usual.
fn user_of_peer(connection: impl AsFd, address: SocketAddr) -> Option<u32> {
    strait_flexrpc::local_user(connection, address).unwrap_or_else(|error| {
        tracing::debug!(%error, "can't ask the kernel for a socket's user");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    fn own_user() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// A connection to a listener on `address`: the client's end, and the server's.
    fn connection(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn peer_of(server: &TcpStream) -> Peer {
        Peer::of(server, server.peer_addr().unwrap())
    }

    #[test]
    fn a_loopback_peer_is_its_user() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (_client, server) = connection(address);
            assert_eq!(peer_of(&server).user, Some(own_user()), "{address}");
            assert_eq!(peer_of(&server).origin(), Origin::LocalUser(own_user()));
        }
    }
}
