//! The other end of a connection: its address, and on loopback its user.
//!
//! Every account of a host can connect to 127.0.0.1, so that address doesn't
//! identify a user. The kernel knows the user of each socket, and any process can
//! ask for it through sock_diag(7). The gateway looks the peer's socket up by its
//! two addresses, once for each loopback connection, in some 10 µs.

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
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

/// The user id that the kernel shows for every user without one in the gateway's user namespace. It
/// identifies no user.
pub fn overflow_user() -> u32 {
    /// The kernel's default (linux/highuid.h).
    const DEFAULT: u32 = 65_534;
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
}

/// The user who owns the other end of this connection, in this network namespace. None if that end
/// isn't on loopback, if the kernel has no such established socket, if no process holds it any
/// more, or if its user has no number here.
fn user_of_peer(connection: impl AsFd, address: SocketAddr) -> Option<u32> {
    if !address.ip().to_canonical().is_loopback() {
        return None;
    }
    let local = SocketAddr::try_from(rustix::net::getsockname(&connection).ok()?).ok()?;
    let found = match established(address, local) {
        Ok(found) => found?,
        Err(error) => {
            // Without sock_diag the gateway knows no users on loopback; logins work as usual.
            tracing::debug!(%error, "can't ask the kernel for a socket's user");
            return None;
        }
    };
    // A connection that was reset before the gateway accepted it still has its bytes, but its
    // addresses are free. The found socket may belong to another user.
    rustix::net::getpeername(&connection).ok()?;
    (found.inode != 0 && found.user != overflow_user()).then_some(found.user)
}

/// The kernel's answer about an established socket.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    user: u32,
    /// 0 once its process has closed it.
    inode: u32,
}

// From linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and linux/tcp.h.
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_ESTABLISHED: u8 = 1;
/// A netlink header and an inet_diag_req_v2.
const REQUEST_BYTES: usize = 16 + 56;
/// Offsets of an answer's fields, counted from its netlink header.
const STATE_AT: usize = 16 + 1;
const USER_AT: usize = 16 + 64;
const INODE_AT: usize = 16 + 68;

/// Asks for the one established TCP socket between these two addresses. The
/// kernel's table of established sockets has no pair of addresses twice.
fn established(own: SocketAddr, remote: SocketAddr) -> rustix::io::Result<Option<Socket>> {
    let netlink = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    rustix::net::sendto(&netlink, &request(own, remote), SendFlags::empty(), &kernel)?;
    let mut answer = [0; 1_024];
    // The kernel answers before `sendto` returns.
    let (length, _) = rustix::net::recv(&netlink, &mut answer[..], RecvFlags::DONTWAIT)?;
    parse(&answer[..length])
}

fn request(own: SocketAddr, remote: SocketAddr) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
    put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(6, &NLM_F_REQUEST.to_ne_bytes());
    put(17, &[IPPROTO_TCP]);
    put(20, &(1_u32 << TCP_ESTABLISHED).to_ne_bytes());
    put(24, &own.port().to_be_bytes());
    put(26, &remote.port().to_be_bytes());
    match (own.ip().to_canonical(), remote.ip().to_canonical()) {
        (IpAddr::V4(own), IpAddr::V4(remote)) => {
            put(16, &[AF_INET]);
            put(28, &own.octets());
            put(44, &remote.octets());
        }
        (own, remote) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            put(16, &[AF_INET6]);
            put(28, &octets(own));
            put(44, &octets(remote));
        }
    }
    // INET_DIAG_NOCOOKIE: any socket with these addresses.
    put(64, &[0xff; 8]);
    bytes
}

fn parse(answer: &[u8]) -> rustix::io::Result<Option<Socket>> {
    let field =
        |at: usize| answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    match kind {
        Some(NLMSG_ERROR) => {
            let code = field(16).map_or(0, |code| (code as i32).wrapping_neg());
            match Errno::from_raw_os_error(code) {
                Errno::NOENT => Ok(None),
                error => Err(error),
            }
        }
        Some(SOCK_DIAG_BY_FAMILY) if answer.get(STATE_AT) == Some(&TCP_ESTABLISHED) => {
            Ok(field(USER_AT).zip(field(INODE_AT)).map(|(user, inode)| Socket { user, inode }))
        }
        // A listening socket, if no established one has these addresses.
        Some(SOCK_DIAG_BY_FAMILY) => Ok(None),
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

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
    fn a_mapped_ipv4_peer_is_its_user() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(peer_of(&server).user, Some(own_user()));
    }

    #[test]
    fn a_socket_that_its_process_has_closed_has_no_user() {
        let (client, server) = connection("127.0.0.1:0");
        drop(client);
        assert_eq!(peer_of(&server).user, None);
    }

    #[test]
    fn a_connection_that_was_reset_is_not_its_successors() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let connect_from = |from: SocketAddr| {
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
            rustix::net::bind(&socket, &from).unwrap();
            rustix::net::connect(&socket, &to).unwrap();
            TcpStream::from(socket)
        };
        // An address of its own, so that nobody takes the port between the two sockets.
        let first = connect_from("127.66.0.1:0".parse().unwrap());
        let from = first.local_addr().unwrap();
        rustix::net::sockopt::set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
        drop(first);
        // Another socket at the same two addresses, which waits behind the first.
        let _second = connect_from(from);
        let (reset, _) = listener.accept().unwrap();
        assert_eq!(Peer::of(&reset, from).user, None);
        let (server, _) = listener.accept().unwrap();
        assert_eq!(Peer::of(&server, from).user, Some(own_user()));
    }

    #[test]
    fn addresses_without_a_socket_have_no_user() {
        let (client, server) = connection("127.0.0.1:0");
        let (peer, local) = (client.local_addr().unwrap(), server.local_addr().unwrap());
        let other_port = |address: SocketAddr| SocketAddr::new(address.ip(), address.port() ^ 1);
        assert_eq!(established(other_port(peer), local), Ok(None));
        // A listener has the address, but no connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(established(listener.local_addr().unwrap(), peer), Ok(None));
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

    #[test]
    fn answers_that_are_cut_short_are_errors_or_no_socket() {
        for length in 0..INODE_AT {
            let mut answer = vec![0; length];
            if length >= 6 {
                answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            if length > STATE_AT {
                answer[STATE_AT] = TCP_ESTABLISHED;
            }
            assert!(!matches!(parse(&answer), Ok(Some(_))), "{length} bytes");
        }
    }
}
