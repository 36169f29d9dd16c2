//! The state of a connection's other end on this host, from the kernel: no program reports it.

use std::fs;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};

/// The kernel's code of the state in which both ends can send.
const ESTABLISHED: &str = "01";

/// One end of a connection.
struct End {
    is_established: bool,
    /// Number of sent bytes that the other end's host hasn't acknowledged.
    unsent: u64,
    /// Number of received bytes that the program hasn't read.
    unread: u64,
}

/// Whether the program at the other end has read all bytes that this end sent. Both ends must be on this
/// host.
///
/// # Panics
/// If the connection doesn't use IPv4.
pub fn is_all_read(stream: &TcpStream) -> bool {
    let Ok((own, other)) = addresses(stream) else { return true };
    let unsent = end(own, other).map_or(0, |end| end.unsent);
    unsent == 0 && end(other, own).is_none_or(|end| end.unread == 0)
}

/// Bytes that clients have sent to the server at `address`, and that it hasn't read. It omits clients that have
/// ended their connections. All must be on this host.
///
/// # Panics
/// If the address isn't an IPv4 address.
pub fn unread_at(address: SocketAddr) -> u64 {
    let server = v4(address);
    let ends = ends(|own, _| own == shown(server)).into_iter();
    ends.filter(|end| end.is_established).map(|end| end.unread).sum()
}

/// Whether the program at the other end has ended the connection. Both ends must be on this host.
///
/// # Panics
/// If the connection doesn't use IPv4.
pub fn is_ended(stream: &TcpStream) -> bool {
    let Ok((own, other)) = addresses(stream) else { return true };
    end(other, own).is_none_or(|end| !end.is_established)
}

/// The addresses of both ends. Fails for a connection that has ended, since it has no peer.
fn addresses(stream: &TcpStream) -> std::io::Result<(SocketAddrV4, SocketAddrV4)> {
    Ok((v4(stream.local_addr()?), v4(stream.peer_addr()?)))
}

fn v4(address: SocketAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} isn't an IPv4 address"),
    }
}

/// The state of the end at `own`.
fn end(own: SocketAddrV4, other: SocketAddrV4) -> Option<End> {
    let (own, other) = (shown(own), shown(other));
    ends(|this, that| this == own && that == other).pop()
}

/// The ends for whose own and other address `is_it` returns true, from /proc/net/tcp (proc(5)).
fn ends(is_it: impl Fn(&str, &str) -> bool) -> Vec<End> {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").expect("the kernel's table of sockets");
    let ends = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_it = is_it(fields.next()?, fields.next()?);
        let (state, queues) = (fields.next()?, fields.next()?);
        let (unsent, unread) = queues.split_once(':')?;
        let bytes = |queue| u64::from_str_radix(queue, 16).expect("a number of bytes");
        is_it.then(|| End {
            is_established: state == ESTABLISHED,
            unsent: bytes(unsent),
            unread: bytes(unread),
        })
    });
    ends.collect()
}

/// An address as that table shows it.
fn shown(address: SocketAddrV4) -> String {
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{eventually, stays};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn the_other_end_reads_and_leaves() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut own = TcpStream::connect(address).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        own.write_all(b"bytes").unwrap();
        stays("nobody reads", Duration::from_millis(20), || !is_all_read(&own));
        assert_eq!(unread_at(address), 5);
        other.read_exact(&mut [0; 5]).unwrap();
        eventually("they are read", || is_all_read(&own));
        assert_eq!(unread_at(address), 0);
        assert!(!is_ended(&own));
        drop(other);
        eventually("it has left", || is_ended(&own));
        assert!(is_all_read(&own));
    }
}
