//! Detects whether a client has closed its sending side, before its last requests are read.
//!
//! After a gateway was stopped for a while, its socket may hold a change that the client has since
//! repeated at another gateway. If the gateway executed it now, it could undo the client's later
//! changes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio_rustls::server::TlsStream;

/// The receiving side of a client's connection.
pub trait Departure {
    /// Whether the client has closed its sending side, or the connection is broken. One system call.
    fn has_left(&self) -> bool;
}

impl Departure for OwnedReadHalf {
    fn has_left(&self) -> bool {
        has_ended(self.as_ref())
    }
}

/// The receiving side of a TLS connection.
pub struct Encrypted {
    from: ReadHalf<TlsStream<TcpStream>>,
    /// The stream's socket, which `from` keeps open. A `ReadHalf` gives no access to it, and a second
    /// descriptor for each connection would halve the number of connections.
    socket: RawFd,
}

impl Encrypted {
    /// Both sides of a connection.
    pub fn split(stream: TlsStream<TcpStream>) -> (Self, WriteHalf<TlsStream<TcpStream>>) {
        let socket = stream.get_ref().0.as_raw_fd();
        let (from, to) = tokio::io::split(stream);
        (Self { from, socket }, to)
    }
}

impl Departure for Encrypted {
    fn has_left(&self) -> bool {
        // SAFETY: `from` shares the stream, and so its socket stays open at least as long as `self`.
        has_ended(unsafe { BorrowedFd::borrow_raw(self.socket) })
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.from).poll_read(cx, buffer)
    }
}

fn has_ended(socket: impl AsFd) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut asked = [PollFd::new(&socket, PollFlags::RDHUP)];
    // poll also reports HUP and ERR, which needn't be requested.
    let found = poll(&mut asked, Some(&at_once));
    found.is_ok_and(|_| asked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}
