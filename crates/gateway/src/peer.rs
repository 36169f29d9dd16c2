//! The other end of a connection: its address, and on loopback its user.
//!
//! Every account of a host can connect to 127.0.0.1, so that address doesn't
//! identify a user. The gateway asks the kernel for the user of the peer's socket,
//! once for each loopback connection.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

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
    /// The peer of a connection that was just accepted from `address`. For a peer on loopback, it
    /// asks the kernel's socket table.
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

    /// The origin whose shares it takes.
    pub fn origin(&self) -> Origin {
        match self.user {
            Some(user) => Origin::LocalUser(user),
            None => Origin::of_address(self.ip()),
        }
    }
}

/// The source of a connection. The connection takes its place from its origin's share, and until a
/// user logs in on it, also its memory and turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A user of this host, by number.
    LocalUser(u32),
    /// An address. In IPv6 a host owns its whole /64 (RFC 4291, section 2.5.4),
    /// so the lower half is zero.
    Address(IpAddr),
}

impl Origin {
    /// The origin of an address without a known local user. All loopback addresses are one: a local
    /// program may pick any of 127.0.0.0/8.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            loopback if loopback.is_loopback() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
            v4 => v4,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LocalUser(user) => write!(f, "local user {user}"),
            Self::Address(address) => write!(f, "{address}"),
        }
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

    #[test]
    fn an_ipv6_network_is_one_origin_and_a_mapped_address_is_ipv4() {
        let origin = |address: &str| Origin::of_address(address.parse().unwrap());
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("127.0.0.1"), origin("127.3.2.1"));
        assert_eq!(origin("127.0.0.1"), origin("::1"));
    }
}
