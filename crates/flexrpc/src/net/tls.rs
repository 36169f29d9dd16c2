//! TLS on a socket, for blocking and non-blocking transfers.
//!
//! [`Stream::try_send`] reports bytes as sent only after the kernel has all of their ciphertext;
//! encrypting them isn't enough. So a call's last byte is withheld, or sent, as certainly as
//! without TLS: the peer can't decrypt it before the end of its record.

use crate::net::buffer::{Buffer, FIRST_READ_BYTES};
use crate::net::socket;
use crate::proto::status::Refusal;
use crate::tls::{ClientTls, ServerTls};
use rustix::fd::{AsFd, BorrowedFd};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConnection, Connection, ServerConnection};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::ops::Range;

/// Bytes that are encrypted at once: few enough for the cache, and for one write.
const CHUNK_BYTES: usize = 128 << 10;

/// TLS's content type of a handshake, the first byte of a connection. As the first byte of an ONC
/// RPC record mark it would announce 369 MB.
pub(crate) const FIRST_BYTE: u8 = 0x16;

/// One end of a connection.
pub(crate) struct Stream {
    connection: Connection,
    /// Ciphertext that has arrived but isn't decrypted, and its place in the buffer. Rustls itself
    /// would receive 4 KiB at a time.
    arrived: Option<(Buffer, Range<usize>)>,
    /// Bytes that were encrypted but not yet reported as sent: a part of their ciphertext waits for
    /// room.
    owed: usize,
    failure: Option<Refusal>,
}

impl Stream {
    /// The caller's end.
    pub(crate) fn client(tls: &ClientTls, name: ServerName<'static>) -> Option<Self> {
        let connection = ClientConnection::new(tls.config.clone(), name).ok()?;
        Some(Self::new(connection.into()))
    }

    /// The callee's end. The first `len` bytes have already arrived in `begun`.
    pub(crate) fn server(tls: &ServerTls, begun: Buffer, len: usize) -> Option<Self> {
        let connection = ServerConnection::new(tls.config.clone()).ok()?;
        Some(Self { arrived: (len > 0).then_some((begun, 0..len)), ..Self::new(connection.into()) })
    }

    fn new(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(CHUNK_BYTES));
        Self { connection, arrived: None, owed: 0, failure: None }
    }

    /// Receives available bytes; `None` if there are none. Zero bytes mean the end.
    pub(crate) fn try_recv(&mut self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(fd, into, |into| socket::try_recv(fd, into))
    }

    /// Receives, sleeping up to the socket's receive timeout; `None` if it passes.
    pub(crate) fn recv(&mut self, fd: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(fd, into, |into| socket::recv(fd, into))
    }

    fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        into: &mut [u8],
        mut source: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        loop {
            match self.connection.reader().read(into) {
                Ok(len) => return Ok(Some(len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The peer closed the connection without TLS's alert. The reader notices if a frame
                // was cut off.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(0)),
                Err(error) => return Err(error),
            }
            if !self.fill(fd, &mut source)? {
                return Ok(None);
            }
        }
    }

    /// Sends as much as fits; `None` if nothing does. After `None` the caller must offer the same
    /// bytes again: a part of their ciphertext may have left.
    pub(crate) fn try_send(&mut self, fd: BorrowedFd<'_>, slices: &[&[u8]]) -> io::Result<Option<usize>> {
        if self.connection.is_handshaking() {
            while self.connection.is_handshaking() && self.fill(fd, &mut |into| socket::try_recv(fd, into))? {
            }
            if self.connection.is_handshaking() {
                return Ok(None);
            }
        }
        if !self.flush(fd)? {
            return Ok(None);
        }
        if self.owed == 0 {
            let slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
            self.owed = self.connection.writer().write_vectored(&slices)?;
            if !self.flush(fd)? {
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(&mut self.owed)))
    }

    /// Whether the handshake is still under way.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Continues the handshake as far as it gets without waiting. Returns whether it then waits for
    /// room and not for the peer.
    pub(crate) fn shake_hands(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        if self.flush(fd)? {
            while self.is_handshaking() && self.fill(fd, &mut |into| socket::try_recv(fd, into))? {}
        }
        Ok(self.connection.wants_write())
    }

    /// Whether there is work that the socket's readiness doesn't show: bytes to read that have
    /// arrived or were decrypted, or ciphertext to send.
    pub(crate) fn has_more(&mut self) -> bool {
        self.arrived.is_some() || self.connection.wants_write() || matches!(self.plaintext(), Ok(1..))
    }

    /// Whether the peer has neither closed the connection nor sent unexpected bytes.
    pub(crate) fn is_quiet(&mut self, fd: BorrowedFd<'_>) -> bool {
        loop {
            match self.fill(fd, &mut |into| socket::try_recv(fd, into)) {
                Ok(true) => {}
                Ok(false) => return matches!(self.plaintext(), Ok(0)),
                Err(_) => return false,
            }
        }
    }

    /// The failure, as the refusal that a client's call gets.
    pub(crate) fn failure(&self) -> Option<Refusal> {
        self.failure
    }

    fn plaintext(&mut self) -> Result<usize, rustls::Error> {
        Ok(self.connection.process_new_packets()?.plaintext_bytes_to_read())
    }

    /// Decrypts more ciphertext; `false` if none has arrived.
    fn fill(
        &mut self,
        fd: BorrowedFd<'_>,
        source: &mut impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<bool> {
        // First send what is waiting, since the peer may need it before it sends.
        self.flush(fd)?;
        let (buffer, mut left) = match self.arrived.take() {
            Some(arrived) => arrived,
            None => {
                let mut buffer = Buffer::take(FIRST_READ_BYTES);
                match source(buffer.as_mut()) {
                    Ok(Some(0)) | Err(_) => return Err(self.ended()),
                    Ok(Some(len)) => (buffer, 0..len),
                    Ok(None) => return Ok(false),
                }
            }
        };
        match self.connection.read_tls(&mut &buffer.as_ref()[left.clone()]) {
            Ok(0) | Err(_) => return Err(self.ended()),
            Ok(taken) => left.start += taken,
        }
        self.arrived = Some((buffer, left)).filter(|(_, left)| !left.is_empty());
        if let Err(error) = self.connection.process_new_packets() {
            self.failure = Some(refusal_of(&error));
            // The alert tells the peer the reason.
            let _ = self.connection.write_tls(&mut Sink(fd));
            return Err(io::Error::new(ErrorKind::InvalidData, error));
        }
        self.flush(fd)?;
        Ok(true)
    }

    /// Sends waiting ciphertext; `false` if a part doesn't fit.
    fn flush(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Sink(fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn ended(&mut self) -> io::Error {
        if self.connection.is_handshaking() && self.failure.is_none() {
            self.failure = Some(Refusal::TlsUnavailable);
        }
        ErrorKind::UnexpectedEof.into()
    }
}

/// The refusal for a failed handshake of a client.
fn refusal_of(error: &rustls::Error) -> Refusal {
    use AlertDescription as Alert;
    match error {
        rustls::Error::InvalidCertificate(_) => Refusal::Untrusted,
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => Refusal::CertificateWanted,
        _ => Refusal::TlsUnavailable,
    }
}

/// Destination of ciphertext.
struct Sink<'a>(BorrowedFd<'a>);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        socket::try_send(self.0.as_fd(), &[bytes])?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let slices: Vec<&[u8]> = slices.iter().map(|slice| &**slice).collect();
        socket::try_send(self.0.as_fd(), &slices)?.ok_or_else(|| ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Identity, Trust};
    use rustix::net::sockopt;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;
    use strait_testkit::Authority;

    /// Longest wait for bytes that must arrive.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Both ends of a connection whose socket buffers are small, after the handshake.
    fn pair() -> ((Stream, TcpStream), (Stream, TcpStream)) {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::new().unwrap();
        let issued = authority.issue(dir.path()).unwrap();
        let identity = Identity { certificate: issued.certificate, key: issued.key };
        let trust = Trust::Authorities(authority.write(dir.path()).unwrap());
        let (callee, caller) =
            (ServerTls::load(&identity, None).unwrap(), ClientTls::load(&trust, None).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        far.set_read_timeout(Some(PATIENCE)).unwrap();
        sockopt::set_socket_send_buffer_size(&near, 16 << 10).unwrap();
        sockopt::set_socket_recv_buffer_size(&far, 16 << 10).unwrap();
        let name = "localhost".try_into().unwrap();
        let mut client = Stream::client(&caller, name).unwrap();
        let mut server = Stream::server(&callee, Buffer::take(0), 0).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            client.shake_hands(near.as_fd()).unwrap();
            server.shake_hands(far.as_fd()).unwrap();
        }
        ((client, near), (server, far))
    }

    /// Receives at least `least` bytes, then all that have arrived.
    fn drain(end: &mut (Stream, TcpStream), into: &mut Vec<u8>, least: usize) {
        let mut room = vec![0; 1 << 20];
        loop {
            let receive = if into.len() < least { Stream::recv } else { Stream::try_recv };
            match receive(&mut end.0, end.1.as_fd(), &mut room).unwrap() {
                Some(len) => into.extend_from_slice(&room[..len]),
                None => return,
            }
        }
    }

    #[test]
    fn what_is_reported_as_sent_reaches_the_peer_and_the_last_byte_only_then() {
        let (mut near, mut far) = pair();
        let data: Vec<u8> = (0..3_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
        let (mut sent, mut arrived, mut refused) = (0, Vec::new(), 0);
        while sent < data.len() {
            match near.0.try_send(near.1.as_fd(), &[&data[sent..sent], &data[sent..]]).unwrap() {
                Some(more) => sent += more,
                None => {
                    refused += 1;
                    // The sender does nothing during this.
                    drain(&mut far, &mut arrived, sent);
                    assert!(arrived.len() >= sent, "{sent} reported, {} arrived", arrived.len());
                    assert!(arrived.len() < data.len(), "the last byte isn't reported yet");
                }
            }
        }
        drain(&mut far, &mut arrived, data.len());
        assert!(arrived == data);
        assert!(refused > 3, "the socket had room for nearly all: nothing was proved");
    }

    #[test]
    fn what_lies_in_a_stream_is_told_where_the_socket_is_silent() {
        let (mut near, mut far) = pair();
        assert!(!far.0.has_more() && far.0.is_quiet(far.1.as_fd()));
        assert_eq!(near.0.try_send(near.1.as_fd(), &[b"two ", b"words"]).unwrap(), Some(9));
        let mut word = [0; 4];
        assert_eq!(far.0.recv(far.1.as_fd(), &mut word).unwrap(), Some(4));
        assert!(far.0.has_more() && !far.0.is_quiet(far.1.as_fd()));
        assert_eq!(far.0.try_recv(far.1.as_fd(), &mut [0; 9]).unwrap(), Some(5));
        assert!(!far.0.has_more() && far.0.is_quiet(far.1.as_fd()));
        drop(near);
        while far.0.is_quiet(far.1.as_fd()) {
            std::thread::yield_now();
        }
        assert_eq!(far.0.failure(), None, "to close is no failure of TLS");
    }
}
