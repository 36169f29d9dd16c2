//! A socket to a callee: sends frames and waits for answers.

use crate::client::ClientOptions;
use crate::client::message::Framing;
use crate::net::buffer::Buffer;
use crate::net::clock;
use crate::net::reader::{Frame, Piece, Read, ReadError, Reader};
use crate::net::socket::{self, Sent};
use crate::net::spin::Spinner;
use crate::net::wire::Wire;
use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::ids::CallId;
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::proto::status::{Obstacle, Refusal};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Largest frame that is copied into one slice, in bytes. Up to here a copy costs less than a
/// gathering write.
const JOINED_BYTES: usize = 8 << 10;

/// The socket keeps a receive timeout that differs from the wanted one by less than this fraction
/// of it (one eighth), since setting it is a system call.
const TIMEOUT_PRECISION: u32 = 8;

/// Longest receive timeout. For later deadlines, the line checks the time and receives again.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Most datagrams that aren't frames, in a row, before other callees get their turn.
const STRANGE_DATAGRAMS: u32 = 64;

pub(crate) struct Line {
    pub(crate) fd: Wire,
    pub(crate) transport: Transport,
    reader: Reader,
    spinner: Spinner,
    timeout: Duration,
    joined: Vec<u8>,
}

/// The outcome of waiting.
pub(crate) enum Received {
    Frame(Frame),
    TimedOut,
    Broken,
    /// The host reports that no socket receives at the port (ICMP).
    PortRefused,
    /// A frame above the size limit arrived, for this call. The connection is then unusable.
    TooLarge(CallId),
}

impl Received {
    #[cold]
    fn of_error(error: ReadError) -> Self {
        match error {
            ReadError::TooLarge(head) => Self::TooLarge(head.id),
            _ => Self::Broken,
        }
    }
}

impl Line {
    pub(crate) fn connect(
        callee: SocketAddr,
        transport: Transport,
        deadline: Option<Micros>,
        options: &ClientOptions,
    ) -> Result<Self, Refusal> {
        let tls = options.tls.as_ref();
        let fd = match (transport, options.peer_silence) {
            (Transport::Tcp, None) => socket::connect_tcp(callee, deadline),
            (Transport::Tcp, Some(silence)) => socket::connect_tcp(callee, deadline)
                .and_then(|fd| socket::notice_silence(&fd, silence).map(|()| fd)),
            // Over UDP, a call that must be encrypted would leave unencrypted.
            (Transport::Udp, _) if tls.is_some() => return Err(Refusal::TlsRequired),
            (Transport::Udp, _) => socket::connect_udp(callee),
        };
        let fd = Wire::new(fd.map_err(|error| Refusal::Unreachable(Obstacle::of(&error)))?);
        if let Some(tls) = tls {
            fd.call_by_tls(tls, callee.ip())?;
            fd.shake_hands(deadline)?;
        }
        Ok(Self {
            fd,
            transport,
            reader: Reader::new(options.payload_bytes),
            spinner: Spinner::new(options.spin),
            // A new socket waits for ever.
            timeout: Duration::MAX,
            joined: Vec::new(),
        })
    }

    /// Sends a call's frame. A datagram always leaves whole.
    #[inline]
    pub(crate) fn send_call(
        &mut self,
        framing: &Framing<'_>,
        args: &[&[u8]],
        deadline: Option<Micros>,
    ) -> Sent {
        if framing.join_short(args, JOINED_BYTES, &mut self.joined) {
            self.send(&[&self.joined], deadline)
        } else {
            self.send(&framing.slices(args), deadline)
        }
    }

    /// Sends any frame.
    #[inline]
    pub(crate) fn send(&self, slices: &[&[u8]], deadline: Option<Micros>) -> Sent {
        match (self.fd.send_all(slices, deadline), self.transport) {
            // The error belongs to an earlier datagram (ICMP), or to the host. Either way this
            // datagram counts as lost, and the timer sends it again.
            (Sent::Broken, Transport::Udp) => Sent::Whole,
            (sent, _) => sent,
        }
    }

    /// Sends as much of a frame as fits at once; `None` if the connection broke.
    pub(crate) fn try_send(&mut self, slices: &[&[u8]]) -> Option<usize> {
        match (self.fd.try_send(slices), self.transport) {
            (Ok(Some(sent)), _) => Some(sent),
            (Ok(None), Transport::Tcp) => Some(0),
            (Err(_), Transport::Tcp) => None,
            // The datagram counts as lost.
            (Ok(None) | Err(_), Transport::Udp) => Some(slices.iter().map(|slice| slice.len()).sum()),
        }
    }

    /// Receives a frame if one has arrived.
    pub(crate) fn try_receive(&mut self) -> Received {
        let Self { fd, reader, transport, .. } = self;
        if *transport == Transport::Udp {
            let mut buffer = reader.take_buffer(UDP_DATAGRAM_BYTES);
            let mut strange = 0;
            let nothing = loop {
                // A flood of such datagrams mustn't delay the other callees.
                if strange == STRANGE_DATAGRAMS {
                    break Received::TimedOut;
                }
                match fd.try_recv(buffer.as_mut()) {
                    Ok(Some(len)) => match Frame::of_datagram(buffer, &Piece::now(len)) {
                        Ok(frame) => return Received::Frame(frame),
                        Err(spared) => {
                            buffer = spared;
                            strange += 1;
                        }
                    },
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        break Received::PortRefused;
                    }
                    Ok(None) | Err(_) => break Received::TimedOut,
                }
            };
            reader.give_back(Some(buffer));
            return nothing;
        }
        loop {
            match reader.read(|room| Ok(fd.try_recv(room)?.map(Piece::now))) {
                Ok(Read::Frame(frame)) => return Received::Frame(frame),
                Ok(Read::More) => {}
                Ok(Read::Nothing) => return Received::TimedOut,
                Err(error) => return Received::of_error(error),
            }
        }
    }

    /// Waits for a frame: spinning, then sleeping.
    #[inline]
    pub(crate) fn receive(&mut self, until: Option<Micros>) -> Received {
        match self.transport {
            Transport::Tcp => self.receive_from_stream(until),
            Transport::Udp => self.receive_datagram(until),
        }
    }

    #[inline]
    fn receive_from_stream(&mut self, until: Option<Micros>) -> Received {
        loop {
            let Self { fd, reader, spinner, timeout, .. } = self;
            let read = reader.read(|room| receive_once(fd, room, spinner, timeout, until));
            match read {
                Ok(Read::Frame(frame)) => return Received::Frame(frame),
                Ok(Read::More) => {}
                Ok(Read::Nothing) if until.is_some_and(|until| clock::now() >= until) => {
                    return Received::TimedOut;
                }
                Ok(Read::Nothing) => {}
                Err(error) => return Received::of_error(error),
            }
        }
    }

    #[inline(never)]
    fn receive_datagram(&mut self, until: Option<Micros>) -> Received {
        let mut buffer = self.reader.take_buffer(UDP_DATAGRAM_BYTES);
        loop {
            let Self { fd, spinner, timeout, .. } = self;
            match receive_once(fd, buffer.as_mut(), spinner, timeout, until) {
                Ok(Some(piece)) => {
                    // Damaged and foreign datagrams count as lost.
                    match Frame::of_datagram(buffer, &piece) {
                        Ok(frame) => return Received::Frame(frame),
                        Err(spared) => buffer = spared,
                    }
                    // A flood of such datagrams mustn't extend the wait.
                    if until.is_some_and(|until| piece.at >= until) {
                        self.reader.give_back(Some(buffer));
                        return Received::TimedOut;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.reader.give_back(Some(buffer));
                    return Received::PortRefused;
                }
                Ok(None) | Err(_) => {
                    if until.is_some_and(|until| clock::now() >= until) {
                        self.reader.give_back(Some(buffer));
                        return Received::TimedOut;
                    }
                }
            }
        }
    }

    /// Gives a frame's buffer back for the next one.
    #[inline]
    pub(crate) fn give_back(&mut self, buffer: Option<Buffer>) {
        self.reader.give_back(buffer);
    }

    /// Whether the connection is still usable: it holds no unread bytes, and the callee hasn't
    /// closed it.
    pub(crate) fn is_quiet(&self) -> bool {
        match self.transport {
            Transport::Udp => true,
            Transport::Tcp => self.fd.is_quiet(),
        }
    }

    /// Frees the line's buffers: an idle line keeps no memory.
    pub(crate) fn rest(&mut self) {
        self.reader.release();
        self.joined = Vec::new();
    }
}

#[inline]
fn receive_once(
    fd: &Wire,
    room: &mut [u8],
    spinner: &mut Spinner,
    timeout: &mut Duration,
    until: Option<Micros>,
) -> io::Result<Option<Piece>> {
    match spinner.spin(|| fd.try_recv(room).transpose()) {
        Some(received) => Ok(Some(Piece { len: received?, at: spinner.looked() })),
        None => sleep_and_receive(fd, room, spinner, timeout, until),
    }
}

#[inline(never)]
fn sleep_and_receive(
    fd: &Wire,
    room: &mut [u8],
    spinner: &mut Spinner,
    timeout: &mut Duration,
    until: Option<Micros>,
) -> io::Result<Option<Piece>> {
    let now = clock::now();
    let left = until
        .map_or(LONGEST_SLEEP, |until| Duration::from_micros(until.saturating_sub(now)).min(LONGEST_SLEEP));
    if left.is_zero() {
        return Ok(fd.try_recv(room)?.map(|len| Piece { len, at: now }));
    }
    if left.abs_diff(*timeout) > left / TIMEOUT_PRECISION {
        socket::set_recv_timeout(fd, left)?;
        *timeout = left;
    }
    let received = fd.recv(room)?;
    let at = spinner.slept_since(now);
    Ok(received.map(|len| Piece { len, at }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_frame_keeps_nobody_beyond_the_time() {
        let callee = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = callee.local_addr().unwrap();
        let mut line = Line::connect(address, Transport::Udp, None, &ClientOptions::default()).unwrap();
        line.fd.send_all(&[b"x"], None);
        let (_, caller) = callee.recv_from(&mut [0; 8]).unwrap();
        let most = 4 * STRANGE_DATAGRAMS;
        for _ in 0..most {
            callee.send_to(b"nonsense", caller).unwrap();
        }
        let left = |line: &Line| std::iter::from_fn(|| line.fd.try_recv(&mut [0; 8]).unwrap()).count() as u32;
        assert!(matches!(line.receive(Some(clock::now() - 1)), Received::TimedOut));
        assert!(matches!(line.try_receive(), Received::TimedOut));
        assert_eq!(left(&line), most - 1 - STRANGE_DATAGRAMS, "one, and what may be looked at");
    }
}
