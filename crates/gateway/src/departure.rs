//! Whether a client has closed its sending side, even if its last requests aren't read yet.
//!
//! A gateway that stood still may find a change in its socket that its client has repeated at
//! another gateway meanwhile, and perhaps built upon. Executed now, it would destroy that.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

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

/// The receiving side of a TLS connection, with the socket below it.
pub struct Encrypted<R> {
    /// The decrypted bytes.
    pub from: R,
    /// The socket.
    pub socket: Arc<OwnedFd>,
}

impl<R> Departure for Encrypted<R> {
    fn has_left(&self) -> bool {
        has_ended(&self.socket)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Encrypted<R> {
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
    // HUP and ERR are reported unasked.
    let found = poll(&mut asked, Some(&at_once));
    found.is_ok_and(|_| asked[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR))
}
