//! The user at the other end of a connection within this host.
//!
//! Every account of a host can connect to 127.0.0.1, so that address doesn't
//! identify a user. The kernel knows the user of each socket, and any process can
//! ask for it through sock_diag(7), by the socket's two addresses, in some 10 µs.

use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// The user who owns the other end of a connection that was accepted from `address`, in this
/// network namespace. `None` if that end isn't on loopback, if the kernel has no such established
/// socket, if no process holds it any more, or if its user has no number in this user namespace.
/// Ask while the connection is new, since a process can pass its socket on.
///
/// # Errors
/// A system call fails, or the kernel's answer can't be understood.
pub fn local_user(connection: impl AsFd, address: SocketAddr) -> io::Result<Option<u32>> {
    if !address.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    let Ok(local) = SocketAddr::try_from(rustix::net::getsockname(&connection)?) else { return Ok(None) };
    let Some(found) = established(address, local)? else { return Ok(None) };
    // A connection that was reset before the server accepted it still delivers its bytes, but its
    // addresses are free again. So the socket that was found may belong to another user.
    if rustix::net::getpeername(&connection).is_err() {
        return Ok(None);
    }
    Ok((found.inode != 0 && found.user != overflow_user()).then_some(found.user))
}

/// The user id that the kernel shows for every user without one in this process's user namespace. It
/// identifies no user.
pub fn overflow_user() -> u32 {
    /// The kernel's default (linux/highuid.h).
    const DEFAULT: u32 = 65_534;
    let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(DEFAULT)
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

/// Asks for the one established TCP socket between these two addresses. The kernel's table of
/// established sockets has each pair of addresses at most once.
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

    fn user_of(server: &TcpStream) -> Option<u32> {
        local_user(server, server.peer_addr().unwrap()).unwrap()
    }

    #[test]
    fn a_mapped_ipv4_peer_is_its_user() {
        let listener = TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!(user_of(&server), Some(own_user()));
    }

    #[test]
    fn a_socket_that_its_process_has_closed_has_no_user() {
        let (client, server) = connection("127.0.0.1:0");
        drop(client);
        assert_eq!(user_of(&server), None);
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
        // Use a separate address, so that no other program takes the port between the two sockets.
        let first = connect_from("127.66.0.1:0".parse().unwrap());
        let from = first.local_addr().unwrap();
        rustix::net::sockopt::set_socket_linger(&first, Some(Duration::ZERO)).unwrap();
        drop(first);
        // Another socket at the same two addresses, which waits behind the first.
        let _second = connect_from(from);
        let (reset, _) = listener.accept().unwrap();
        assert_eq!(local_user(&reset, from).unwrap(), None);
        let (server, _) = listener.accept().unwrap();
        assert_eq!(local_user(&server, from).unwrap(), Some(own_user()));
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
