//! A Thrift client for tests and benchmarks.

use bytes::Bytes;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use strait_wire::*;

/// A blocking client of a gateway that sends arbitrary calls and checks nothing: for tests and
/// benchmarks, not for users.
pub struct Client {
    /// The connection. Tests can also send bytes that aren't calls.
    pub stream: TcpStream,
    /// The protocol and framing of its messages.
    pub wire: Wire,
    /// The session's token, if one was opened.
    pub token: Option<Secret>,
    sequence: i32,
}

impl Client {
    /// Connects. Each read times out after 20 s.
    pub fn connect(address: SocketAddr, wire: Wire) -> Self {
        Self::try_connect(address, wire).unwrap()
    }

    /// As [`Client::connect`].
    ///
    /// # Errors
    /// The server doesn't accept the connection.
    pub fn try_connect(address: SocketAddr, wire: Wire) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, wire, token: None, sequence: 0 })
    }

    /// Sends a call without waiting for its answer.
    pub fn send<M: Method>(&mut self, args: &M::Args) {
        self.sequence += 1;
        self.stream.write_all(&M::call(self.wire, self.sequence, args).to_bytes()).unwrap();
    }

    /// Waits for the next answer.
    pub fn receive<M: Method>(&mut self) -> Reply<M> {
        let message = self.message().expect("an answer");
        M::decode_reply(self.wire.protocol, message).unwrap().1
    }

    /// Calls any method.
    pub fn call<M: Method>(&mut self, args: M::Args) -> Reply<M> {
        self.send::<M>(&args);
        self.receive::<M>()
    }

    /// Opens an anonymous session of DfsV2, and attaches the connection to it.
    pub fn open_session(&mut self) {
        self.token = self.v2::<methods::OpenSession>(OpenSessionRequest::default()).expect("a session").token;
    }

    /// Calls a method of DfsV2.
    pub fn v2<M>(&mut self, request: impl Into<M::Args>) -> Result<M::Success, DfsError>
    where
        M: Method<Exception = DfsError> + std::fmt::Debug,
        M::Success: std::fmt::Debug,
    {
        match self.call::<M>(request.into()) {
            Reply::Success(success) => Ok(success),
            Reply::Exception(error) => Err(error),
            Reply::Application(error) => panic!("{error:?}"),
        }
    }

    /// Calls a method of the 2009 service.
    pub fn old<M>(&mut self, args: M::Args) -> Result<M::Success, String>
    where
        M: Method<Exception = DfsServiceIOException> + std::fmt::Debug,
    {
        match self.call::<M>(args) {
            Reply::Success(success) => Ok(success),
            Reply::Exception(error) => Err(error.message.unwrap()),
            Reply::Application(error) => panic!("{error:?}"),
        }
    }

    /// The next message's bytes; None if the server has ended the connection.
    pub fn message(&mut self) -> Option<Bytes> {
        let mut buffer = Vec::new();
        let mut scanner = Scanner::new(self.wire, 64 << 20);
        loop {
            if !buffer.is_empty()
                && let Scan::Complete { start, end } = scanner.scan(&buffer).unwrap()
            {
                assert_eq!(end, buffer.len());
                return Some(Bytes::from(buffer).slice(start..));
            }
            // Read only the missing bytes, so that none of the next answer's are consumed.
            let missing = match scanner.scan(&buffer) {
                Ok(Scan::NeedMore(needed)) if !buffer.is_empty() => needed - buffer.len(),
                _ => 1,
            };
            let mut piece = vec![0; missing];
            match self.stream.read_exact(&mut piece) {
                Ok(()) => buffer.extend(piece),
                Err(_) => return None,
            }
        }
    }

    /// Waits until the server ends the connection, or the read times out. Returns whether the connection has
    /// ended.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        matches!(self.stream.read(&mut byte), Ok(0))
            || matches!(self.stream.read(&mut byte), Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset)
    }
}
