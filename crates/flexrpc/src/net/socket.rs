//! System calls on sockets. A flag of each transfer says whether it blocks, so one descriptor
//! serves spinning, blocking and epoll alike.

use crate::net::clock;
use crate::proto::Micros;
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::sync;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, sockopt,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

/// Requested size of UDP socket buffers; the kernel may grant less. With the kernel's default of
/// 212,992 bytes, the throughput of four callers that send 60 KB each collapses.
pub(crate) const UDP_BUFFER_BYTES: usize = 4 << 20;

/// Most connections that wait to be accepted: all callers of a cluster may connect at once.
const BACKLOG: i32 = 4096;

/// Congestion control of a connection within a host. Such a connection loses no packets that
/// slowing down would save. BBR, the default of many systems, paces it nevertheless, by timers and
/// at a rate that it measured once. With BBR, a call of 1 MiB took up to 1.8 times as long, for as
/// long as the connection lived. Reno is in every kernel, and any process may use it.
const CONGESTION_WITHIN_A_HOST: &str = "reno";

/// Most slices that are gathered without an allocation: a frame with an argument in a few pieces.
const FEW_SLICES: usize = 8;

/// Most slices that the kernel gathers at once (`IOV_MAX`, Linux' uio(7)).
const MOST_SLICES: usize = 1024;

/// Receives available bytes; `None` if there are none. Zero bytes mean the end.
#[inline]
pub(crate) fn try_recv(fd: impl AsFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::retry_on_intr(|| rustix::net::recv(&fd, &mut *into, RecvFlags::DONTWAIT)) {
        Ok((len, _)) => Ok(Some(len)),
        Err(error) => nothing_or(error),
    }
}

#[cold]
fn nothing_or(error: Errno) -> io::Result<Option<usize>> {
    if error == Errno::AGAIN { Ok(None) } else { Err(error.into()) }
}

/// Receives, sleeping up to the socket's receive timeout; `None` if it passes.
#[inline]
pub(crate) fn recv(fd: impl AsFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    match sync::recv(fd, into, RecvFlags::empty()) {
        Ok((len, _)) => Ok(Some(len)),
        // A signal counts as a timeout: callers check the clock and retry.
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends as much as fits; `None` if nothing does.
#[inline]
pub(crate) fn try_send(fd: impl AsFd, slices: &[&[u8]]) -> io::Result<Option<usize>> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let sent = match slices {
        [one] => rustix::io::retry_on_intr(|| rustix::net::send(&fd, one, flags)),
        many => gather(fd.as_fd(), many, flags),
    };
    match sent {
        Ok(len) => Ok(Some(len)),
        Err(Errno::NOBUFS) => Ok(None),
        Err(error) => nothing_or(error),
    }
}

#[inline(never)]
fn gather(fd: BorrowedFd<'_>, slices: &[&[u8]], flags: SendFlags) -> rustix::io::Result<usize> {
    let (mut few, many): ([IoSlice<'_>; FEW_SLICES], Vec<IoSlice<'_>>);
    let slices = if slices.len() <= FEW_SLICES {
        few = [IoSlice::new(&[]); FEW_SLICES];
        few.iter_mut().zip(slices).for_each(|(place, slice)| *place = IoSlice::new(slice));
        &few[..slices.len()]
    } else {
        let filled: Vec<&[u8]> = slices.iter().copied().filter(|slice| !slice.is_empty()).collect();
        if filled.len() > MOST_SLICES
            && filled.iter().map(|slice| slice.len()).sum::<usize>() <= UDP_DATAGRAM_BYTES
        {
            // It may be a datagram, which must leave in one piece.
            return rustix::io::retry_on_intr(|| rustix::net::send(fd, &filled.concat(), flags));
        }
        many = filled.iter().take(MOST_SLICES).map(|slice| IoSlice::new(slice)).collect();
        &many
    };
    let mut nothing_beside = SendAncillaryBuffer::default();
    rustix::io::retry_on_intr(|| rustix::net::sendmsg(fd, slices, &mut nothing_beside, flags))
}

/// The end of a transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The kernel has the last byte.
    Whole,
    /// The transmission timed out before the last byte.
    TimedOut,
    /// The connection broke before the last byte.
    Broken,
}

/// Sends all slices by `try_send`, waiting for room until `deadline`.
#[inline]
pub(crate) fn send_all(
    fd: impl AsFd,
    try_send: impl Fn(&[&[u8]]) -> io::Result<Option<usize>>,
    slices: &[&[u8]],
    deadline: Option<Micros>,
) -> Sent {
    match try_send(slices) {
        Ok(Some(sent)) if sent == slices.iter().map(|slice| slice.len()).sum() => Sent::Whole,
        begun => send_rest(fd, try_send, begun, slices, deadline),
    }
}

/// Continues after a first attempt.
#[inline(never)]
fn send_rest(
    fd: impl AsFd,
    try_send: impl Fn(&[&[u8]]) -> io::Result<Option<usize>>,
    mut progress: io::Result<Option<usize>>,
    slices: &[&[u8]],
    deadline: Option<Micros>,
) -> Sent {
    let mut rest = slices.to_vec();
    loop {
        match progress {
            Ok(Some(sent)) => {
                rest = without_first(&rest, sent);
                if rest.is_empty() {
                    return Sent::Whole;
                }
            }
            Ok(None) => match wait(&fd, PollFlags::OUT, deadline) {
                Ok(true) => {}
                Ok(false) => return Sent::TimedOut,
                Err(_) => return Sent::Broken,
            },
            Err(_) => return Sent::Broken,
        }
        progress = try_send(&rest);
    }
}

/// The slices after the first `sent` bytes, without empty ones.
pub(crate) fn without_first<'a>(slices: &[&'a [u8]], mut sent: usize) -> Vec<&'a [u8]> {
    let left = slices.iter().filter_map(|slice| {
        let skip = sent.min(slice.len());
        sent -= skip;
        Some(&slice[skip..]).filter(|slice| !slice.is_empty())
    });
    left.collect()
}

/// Sleeps until the socket is ready; `false` after a timeout.
pub(crate) fn wait(fd: impl AsFd, flags: PollFlags, deadline: Option<Micros>) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, flags)];
    poll(&mut fds, deadline)
}

/// Sleeps until one socket is ready; `false` after a timeout.
pub(crate) fn poll(fds: &mut [PollFd<'_>], deadline: Option<Micros>) -> io::Result<bool> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_sub(clock::now()));
        let timeout = left.map(|left| timespec(Duration::from_micros(left)));
        match sync::poll(fds, timeout.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Connects. Times out at `deadline`.
pub(crate) fn connect_tcp(callee: SocketAddr, deadline: Option<Micros>) -> io::Result<OwnedFd> {
    let fd = begin_connect_tcp(callee)?;
    if !wait(&fd, PollFlags::OUT, deadline)? {
        return Err(Errno::TIMEDOUT.into());
    }
    finish_connect_tcp(&fd)?;
    Ok(fd)
}

/// Begins to connect. The socket becomes writable at the end of the attempt.
pub(crate) fn begin_connect_tcp(callee: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family(callee), SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&fd, &callee) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}

/// Prepares the socket if connecting succeeded, else returns its error.
pub(crate) fn finish_connect_tcp(fd: impl AsFd) -> io::Result<()> {
    sockopt::socket_error(&fd)??;
    prepare_tcp(fd)
}

/// Longest pause between probes that the kernel takes, in seconds (`MAX_TCP_KEEPIDLE`).
const LONGEST_PROBE_S: u64 = 32_767;

/// Makes the kernel probe the peer's host, and end the connection after `silence` (at least 2 s)
/// without an acknowledgement. The kernel also ends it if the peer has made no room for waiting
/// bytes for this time.
pub(crate) fn notice_silence(fd: impl AsFd, silence: Duration) -> io::Result<()> {
    let half = Duration::from_secs((silence.as_secs() / 2).clamp(1, LONGEST_PROBE_S));
    sockopt::set_socket_keepalive(&fd, true)?;
    sockopt::set_tcp_keepidle(&fd, half)?;
    sockopt::set_tcp_keepintvl(&fd, half)?;
    // This timeout also ends unanswered probes. The kernel then ignores their maximum number.
    let silence = (2 * half).max(silence).as_millis();
    Ok(sockopt::set_tcp_user_timeout(&fd, i32::try_from(silence).unwrap_or(i32::MAX).unsigned_abs())?)
}

/// Makes small messages leave at once, and makes receives block.
pub(crate) fn prepare_tcp(fd: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&fd, false)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    unpace_within_a_host(fd);
    Ok(())
}

/// Keeps the kernel from pacing a connection if both its ends are on this host, which has no network to
/// congest. Leaves other connections as they are.
pub fn unpace_within_a_host(fd: impl AsFd) {
    if is_within_a_host(&fd) {
        // On failure the connection is slower, but works.
        let _ = sockopt::set_tcp_congestion(&fd, CONGESTION_WITHIN_A_HOST);
    }
}

/// Whether both ends of a connection have the same address.
fn is_within_a_host(fd: impl AsFd) -> bool {
    let own = rustix::net::getsockname(&fd).ok().and_then(|own| SocketAddr::try_from(own).ok());
    let peer = rustix::net::getpeername(&fd).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
    own.zip(peer).is_some_and(|(own, peer)| own.ip() == peer.ip())
}

/// A UDP socket that exchanges datagrams only with `callee`.
pub(crate) fn connect_udp(callee: SocketAddr) -> io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(family(callee), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    widen(&fd);
    rustix::net::connect(&fd, &callee)?;
    Ok(fd)
}

/// Listens for connections.
pub(crate) fn listen_tcp(address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = rustix::net::socket_with(family(address), SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

/// Opens a socket that receives datagrams.
pub(crate) fn bind_udp(address: SocketAddr) -> io::Result<OwnedFd> {
    let fd = rustix::net::socket_with(family(address), SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    widen(&fd);
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// Enlarges the buffers: up to the system's limit, or beyond it with privilege.
fn widen(fd: &OwnedFd) {
    if sockopt::set_socket_recv_buffer_size_force(fd, UDP_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(fd, UDP_BUFFER_BYTES);
    }
    if sockopt::set_socket_send_buffer_size_force(fd, UDP_BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(fd, UDP_BUFFER_BYTES);
    }
}

/// The address that a socket is bound to.
pub(crate) fn local_address(fd: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(rustix::net::getsockname(fd)?.try_into()?)
}

/// Sets how long [`recv`] sleeps at most. Zero would mean for ever, so the least is a microsecond.
pub(crate) fn set_recv_timeout(fd: impl AsFd, timeout: Duration) -> io::Result<()> {
    let timeout = timeout.max(Duration::from_micros(1));
    Ok(sockopt::set_socket_timeout(fd, sockopt::Timeout::Recv, Some(timeout))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_is_sent_whole_to_a_slow_reader() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = connect_tcp(listener.local_addr().unwrap(), None).unwrap();
        let mut peer = listener.accept().unwrap().0;
        let body: Vec<u8> = (0..20_000_000u32).map(|i| i as u8).collect();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut peer, &mut all).unwrap();
            all
        });
        let send = |slices: &[&[u8]]| try_send(&fd, slices);
        assert_eq!(send_all(&fd, send, &[b"head", b"", &body], None), Sent::Whole);
        drop(fd);
        assert!(reader.join().unwrap() == [b"head", &body[..]].concat());
    }

    #[test]
    fn nothing_paces_a_connection_within_a_host() {
        let listener = listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let caller = connect_tcp(local_address(&listener).unwrap(), None).unwrap();
        let callee = rustix::net::accept(&listener).unwrap();
        prepare_tcp(&callee).unwrap();
        for end in [caller, callee] {
            assert!(is_within_a_host(&end));
            assert_eq!(sockopt::tcp_congestion(&end).unwrap(), CONGESTION_WITHIN_A_HOST);
        }
    }

    #[test]
    fn a_reader_that_doesnt_read_ends_the_sending_at_the_deadline() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = connect_tcp(listener.local_addr().unwrap(), None).unwrap();
        let deadline = Some(clock::now() + 20_000);
        let send = |slices: &[&[u8]]| try_send(&fd, slices);
        assert_eq!(send_all(&fd, send, &[&vec![0; 50 << 20]], deadline), Sent::TimedOut);
    }
}
