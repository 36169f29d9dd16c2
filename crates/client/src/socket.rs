//! A connected socket, with TLS or without, whose calls wait in their thread up to a deadline.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

/// Allowed difference between the system's limit of a wait and the time left: setting it costs two system calls.
const SLACK: Duration = Duration::from_millis(50);

/// A socket that blocks.
pub(super) struct Socket {
    stream: Stream,
    deadline: Instant,
    /// The system's limit of a wait, as it was set last.
    limit: Option<Duration>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Socket {
    /// Takes over a socket of tokio, and the state of TLS on it. It has no time before [`Self::wait_until`].
    pub(super) fn new(socket: tokio::net::TcpStream, tls: Option<ClientConnection>) -> io::Result<Self> {
        let socket = socket.into_std()?;
        socket.set_nonblocking(false)?;
        let stream = match tls {
            None => Stream::Plain(socket),
            Some(tls) => Stream::Tls(Box::new(StreamOwned::new(tls, socket))),
        };
        Ok(Self { stream, deadline: Instant::now(), limit: None })
    }

    /// Makes all further calls fail with `TimedOut` after `deadline`.
    pub(super) fn wait_until(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Runs one call of the socket within the time left.
    fn in_time(&mut self, mut call: impl FnMut(&mut Stream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if self.limit.is_none_or(|limit| limit.abs_diff(left) > SLACK) {
                let socket = match &self.stream {
                    Stream::Plain(socket) => socket,
                    Stream::Tls(stream) => &stream.sock,
                };
                socket.set_read_timeout(Some(left))?;
                socket.set_write_timeout(Some(left))?;
                self.limit = Some(left);
            }
            match call(&mut self.stream) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                done => return done,
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.in_time(|stream| match stream {
            Stream::Plain(socket) => socket.read(into),
            Stream::Tls(stream) => stream.read(into),
        })
    }
}

impl Write for Socket {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.in_time(|stream| match stream {
            Stream::Plain(socket) => socket.write(data),
            Stream::Tls(stream) => stream.write(data),
        })
    }

    /// TLS holds some bytes back until a flush; for a plain socket a flush does nothing.
    fn flush(&mut self) -> io::Result<()> {
        self.in_time(|stream| match stream {
            Stream::Plain(socket) => socket.flush().map(|()| 0),
            Stream::Tls(stream) => stream.flush().map(|()| 0),
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[tokio::test]
    async fn a_short_limit_ends_a_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut socket = Socket::new(connected, None).unwrap();
        socket.wait_until(Instant::now() + SLACK / 2);
        let read = tokio::task::spawn_blocking(move || socket.read(&mut [0]));
        assert_eq!(read.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
