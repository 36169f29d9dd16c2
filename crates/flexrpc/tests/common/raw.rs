//! A peer that makes its frames by hand, such as a proper client or server wouldn't send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use strait_crc::crc32c;
use strait_flexrpc::proto::extension::{Extension, Terms};
use strait_flexrpc::proto::frame::{HEAD_BYTES, Head, Kind, flags};
use strait_flexrpc::{CallId, ClusterKey, Procedure, SessionId};
use strait_testkit::sockets::is_all_read;
use strait_testkit::wait::eventually;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same for a large call on a busy machine.
const LONG_PATIENCE: Duration = Duration::from_secs(30);

/// A frame: head, extension, payload.
pub type Frame = (Head, Vec<u8>, Vec<u8>);

/// The bytes of a frame.
pub fn frame(head: Head, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = Head { payload_len: payload.len() as u32, payload_crc: crc32c(payload), ..head };
    [head.encode(extension), payload.to_vec()].concat()
}

/// The bytes of a frame with its tag, as a key holder sends it.
pub fn tagged(head: Head, extension: &[u8], payload: &[u8], key: &ClusterKey) -> Vec<u8> {
    let mut bytes = frame(Head { flags: head.flags | flags::AUTHENTIC, ..head }, extension, payload);
    let tag = key.of_session(head.id.session).tag(&[&bytes]);
    bytes.extend_from_slice(&tag);
    bytes
}

/// The bytes of a call.
pub fn call(id: CallId, procedure: Procedure, args: &[u8]) -> Vec<u8> {
    frame(Head { procedure, ..Head::new(Kind::Call, id) }, &[], args)
}

/// The bytes of a request for a session.
pub fn hello() -> Vec<u8> {
    frame(Head::new(Kind::Hello, CallId::default()), &greeting(), &[])
}

/// The same, as a key holder sends it.
pub fn tagged_hello(key: &ClusterKey) -> Vec<u8> {
    tagged(Head::new(Kind::Hello, CallId::default()), &greeting(), &[], key)
}

fn greeting() -> Vec<u8> {
    Extension { nonce: Some([3; 16]), ..Extension::default() }.encode()
}

fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
    let head = Head::decode(bytes).ok()??;
    let whole = bytes.get(..head.frame_len())?;
    let (head_bytes, rest) = whole.split_at(head.head_len());
    let payload = &rest[..head.payload_len as usize];
    assert_eq!(crc32c(payload), head.payload_crc, "the answer's checksum holds");
    Some(((head, head_bytes[HEAD_BYTES..].to_vec(), payload.to_vec()), head.frame_len()))
}

/// A peer by either transport.
pub enum Raw {
    /// A connection.
    Tcp(TcpStream, Vec<u8>),
    /// A connected socket.
    Udp(UdpSocket),
}

impl Raw {
    /// A connection to `server`.
    pub fn tcp(server: SocketAddr) -> Self {
        Self::of(TcpStream::connect(server).unwrap())
    }

    /// A peer on an existing connection.
    pub fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Tcp(stream, Vec::new())
    }

    /// Waits until the server has read all that was sent to it.
    pub fn await_read(&self) {
        let Self::Tcp(stream, _) = self else { panic!("a datagram is read at once or lost") };
        eventually("the server has read it", || is_all_read(stream));
    }

    /// Waits longer for an answer that must come.
    pub fn patient(self) -> Self {
        if let Self::Tcp(stream, _) = &self {
            stream.set_read_timeout(Some(LONG_PATIENCE)).unwrap();
        }
        self
    }

    /// A UDP socket to `server`.
    pub fn udp(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self::Udp(socket)
    }

    /// Sends bytes unchanged; the other end may have closed.
    pub fn send(&mut self, bytes: &[u8]) {
        match self {
            Self::Tcp(stream, _) => drop(stream.write_all(bytes)),
            Self::Udp(socket) => drop(socket.send(bytes)),
        }
    }

    /// Sends bytes; `false` if the other end is gone.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::Tcp(stream, _) => stream.write_all(bytes).is_ok(),
            Self::Udp(socket) => socket.send(bytes).is_ok(),
        }
    }

    /// The next frame; `None` if none comes or the connection ends.
    pub fn receive(&mut self) -> Option<Frame> {
        match self {
            Self::Udp(socket) => {
                let mut buffer = vec![0; 65_536];
                let len = socket.recv(&mut buffer).ok()?;
                Some(parse(&buffer[..len])?.0)
            }
            Self::Tcp(stream, buffer) => loop {
                if let Some((frame, len)) = parse(buffer) {
                    buffer.drain(..len);
                    return Some(frame);
                }
                let mut room = [0; 65_536];
                match stream.read(&mut room) {
                    Ok(len) if len > 0 => buffer.extend_from_slice(&room[..len]),
                    _ => return None,
                }
            },
        }
    }

    /// Whether the other end has closed.
    pub fn is_closed(&mut self) -> bool {
        match self {
            Self::Udp(_) => false,
            Self::Tcp(stream, _) => match stream.read(&mut [0; 64]) {
                Ok(len) => len == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            },
        }
    }

    /// Sends bytes, and receives the answer.
    pub fn ask(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.send(bytes);
        self.receive()
    }

    /// Gets a session.
    pub fn session(&mut self) -> SessionId {
        let (head, _, _) = self.ask(&hello()).expect("a welcome");
        assert_eq!(head.kind, Kind::Welcome);
        head.id.session
    }
}

/// A callee that answers each frame, except the handshake, by `answer`. It also passes the
/// connection's number to `answer`.
pub fn callee(mut answer: impl FnMut(usize, Frame) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Ends with the test's process, since it waits for connections for ever.
    std::thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let Ok(stream) = stream else { return };
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut raw = Raw::Tcp(stream, Vec::new());
            while let Some(frame) = raw.receive() {
                let bytes = match frame.0.kind {
                    Kind::Hello => Some(welcome(&frame)),
                    _ => answer(connection, frame),
                };
                match bytes {
                    Some(bytes) => raw.send(&bytes),
                    None => break,
                }
            }
        }
    });
    address
}

/// The answer to a request for a session.
pub fn welcome((hello, extension, _): &Frame) -> Vec<u8> {
    let nonce = Extension::decode(extension).unwrap().nonce;
    let terms = Some(Terms { payload_bytes: 1 << 26, session_idle_ms: 1 << 30 });
    let extension = Extension { nonce, terms, ..Extension::default() };
    let id = CallId { session: SessionId([7; 16]), ..hello.id };
    frame(Head::new(Kind::Welcome, id), &extension.encode(), &[])
}
