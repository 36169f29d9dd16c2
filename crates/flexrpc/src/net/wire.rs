//! A socket that transports frames, plain or under TLS. One thread at a time transfers bytes;
//! others only inspect the state.

use crate::net::socket::{self, Sent};
use crate::net::tls::Stream;
use crate::proto::Micros;
use crate::proto::status::{Obstacle, Refusal};
use crate::tls::ClientTls;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Protection of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// No protection.
    Plain,
    /// TLS.
    Encrypted,
    /// TLS, and the peer has shown a trusted certificate.
    Certified,
}

pub(crate) struct Wire {
    fd: OwnedFd,
    tls: OnceLock<Box<Tls>>,
}

struct Tls {
    security: Security,
    stream: Mutex<Stream>,
}

/// These functions aren't inlined, so that they cost plain connections nothing.
impl Tls {
    #[inline(never)]
    fn try_recv(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.stream().try_recv(fd, into)
    }

    #[inline(never)]
    fn recv(&self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.stream().recv(fd, into)
    }

    #[inline(never)]
    fn try_send(&self, fd: BorrowedFd<'_>, slices: &[&[u8]]) -> io::Result<Option<usize>> {
        self.stream().try_send(fd, slices)
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wire {
    /// A plain wire, which TLS can follow.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, tls: OnceLock::new() }
    }

    /// Switches to TLS.
    pub(crate) fn begin_tls(&self, stream: Stream, security: Security) {
        let tls = Box::new(Tls { security, stream: Mutex::new(stream) });
        let begun = self.tls.set(tls);
        debug_assert!(begun.is_ok(), "TLS begins once");
    }

    /// Switches to TLS, as the caller of `callee`.
    pub(crate) fn call_by_tls(&self, tls: &ClientTls, callee: IpAddr) -> Result<(), Refusal> {
        let stream = Stream::client(tls, tls.name_of(callee)).ok_or(Refusal::TlsUnavailable)?;
        self.begin_tls(stream, Security::Encrypted);
        Ok(())
    }

    /// Completes the handshake, and waits as needed.
    pub(crate) fn shake_hands(&self, deadline: Option<Micros>) -> Result<(), Refusal> {
        let Some(tls) = self.tls.get() else { return Ok(()) };
        loop {
            let progress = tls.stream().shake_hands(self.fd.as_fd());
            let flags = match progress {
                Err(_) => return Err(self.failure().unwrap_or(Refusal::TlsUnavailable)),
                Ok(true) => PollFlags::OUT,
                Ok(false) if !self.is_handshaking() => return Ok(()),
                Ok(false) => PollFlags::IN,
            };
            if !socket::wait(&self.fd, flags, deadline).unwrap_or(false) {
                return Err(Refusal::Unreachable(Obstacle::TimedOut));
            }
        }
    }

    /// The connection's protection.
    #[inline]
    pub(crate) fn security(&self) -> Security {
        self.tls.get().map_or(Security::Plain, |tls| tls.security)
    }

    /// As [`socket::try_recv`].
    #[inline]
    pub(crate) fn try_recv(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tls.get() {
            None => socket::try_recv(&self.fd, into),
            Some(tls) => tls.try_recv(self.fd.as_fd(), into),
        }
    }

    /// As [`socket::recv`].
    #[inline]
    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self.tls.get() {
            None => socket::recv(&self.fd, into),
            Some(tls) => tls.recv(self.fd.as_fd(), into),
        }
    }

    /// As [`socket::try_send`]. After `None` the caller must next offer the same bytes.
    #[inline]
    pub(crate) fn try_send(&self, slices: &[&[u8]]) -> io::Result<Option<usize>> {
        match self.tls.get() {
            None => socket::try_send(&self.fd, slices),
            Some(tls) => tls.try_send(self.fd.as_fd(), slices),
        }
    }

    /// Sends all slices, waiting for room until `deadline`.
    #[inline]
    pub(crate) fn send_all(&self, slices: &[&[u8]], deadline: Option<Micros>) -> Sent {
        socket::send_all(&self.fd, |slices| self.try_send(slices), slices, deadline)
    }

    /// Whether no byte waits to be read, and the peer hasn't closed the connection.
    pub(crate) fn is_quiet(&self) -> bool {
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        match self.tls.get() {
            None => matches!(rustix::net::recv(&self.fd, &mut [0], flags), Err(rustix::io::Errno::AGAIN)),
            Some(tls) => tls.stream().is_quiet(self.fd.as_fd()),
        }
    }

    /// Whether there is work that the socket's readiness doesn't show.
    pub(crate) fn has_more(&self) -> bool {
        self.tls.get().is_some_and(|tls| tls.stream().has_more())
    }

    /// Whether a handshake is under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.get().is_some_and(|tls| tls.stream().is_handshaking())
    }

    /// The failure of TLS, if any.
    pub(crate) fn failure(&self) -> Option<Refusal> {
        self.tls.get().and_then(|tls| tls.stream().failure())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
