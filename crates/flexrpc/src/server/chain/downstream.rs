//! A connection to the next callee of a chain.

use crate::net::reader::{Frame, Piece, Read, ReadError, Reader};
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::net::wire::Wire;
use crate::proto::status::{Obstacle, Refusal};
use crate::server::core::Core;
use rustix::event::PollFlags;
use std::io;
use std::net::SocketAddr;

pub(crate) struct Downstream {
    pub(crate) fd: Wire,
    pub(crate) reader: Reader,
    /// Spinner for the answer.
    pub(crate) spinner: Spinner,
    connected: bool,
    /// Why connecting failed.
    pub(crate) obstacle: Obstacle,
    /// [`Core::tls_renewals`] at the time of connecting.
    renewals: u64,
    /// Whether it comes from the pool. The callee may have closed such a connection.
    pub(crate) pooled: bool,
    /// Whether the forwarder's epoll watches it.
    pub(crate) watched: bool,
    /// How many bytes of the frame have left.
    pub(crate) sent: usize,
    /// Whether the whole call was sent and answered, so that another call may follow.
    pub(crate) answered: bool,
}

/// The progress of a transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// All bytes that may leave have left.
    Done,
    /// The socket has no room, or isn't connected yet.
    Blocked,
}

impl Downstream {
    pub(crate) fn connect(callee: SocketAddr, core: &Core) -> Result<Self, Refusal> {
        let renewals = core.tls_renewals();
        let fd =
            socket::begin_connect_tcp(callee).map_err(|error| Refusal::Unreachable(Obstacle::of(&error)))?;
        if let Some(silence) = core.options.peer_silence {
            socket::notice_silence(&fd, silence)
                .map_err(|error| Refusal::Unreachable(Obstacle::of(&error)))?;
        }
        let fd = Wire::new(fd);
        if let Some(tls) = core.forwarding_tls() {
            fd.call_by_tls(&tls, callee.ip())?;
        }
        Ok(Self {
            fd,
            reader: core.reader(),
            spinner: Spinner::new(core.options.spin),
            connected: false,
            obstacle: Obstacle::default(),
            renewals,
            pooled: false,
            watched: false,
            sent: 0,
            answered: false,
        })
    }

    /// Prepares an answered connection for the pool: an idle one keeps no memory.
    pub(crate) fn rest(mut self) -> Self {
        // All bytes were read, so nothing is lost with the buffer.
        let _ = self.reader.release();
        Self { pooled: true, watched: false, sent: 0, answered: false, ..self }
    }

    /// Whether the connection is as good as a new one: the TLS configuration is the same, and the
    /// callee has neither closed it nor sent unexpected bytes.
    pub(crate) fn is_fit(&self, core: &Core) -> bool {
        self.renewals == core.tls_renewals() && self.fd.is_quiet()
    }

    /// Continues sending; `slices` are the frame's bytes that may leave by now.
    pub(crate) fn push(&mut self, slices: &[&[u8]]) -> io::Result<Push> {
        if !self.connected {
            if !socket::wait(&self.fd, PollFlags::OUT, Some(0))? {
                return Ok(Push::Blocked);
            }
            socket::finish_connect_tcp(&self.fd).inspect_err(|error| self.obstacle = Obstacle::of(error))?;
            self.connected = true;
        }
        loop {
            let mut skip = self.sent;
            let left: Vec<&[u8]> = slices
                .iter()
                .filter_map(|slice| {
                    let skipped = skip.min(slice.len());
                    skip -= skipped;
                    Some(&slice[skipped..]).filter(|slice| !slice.is_empty())
                })
                .collect();
            if left.is_empty() {
                return Ok(Push::Done);
            }
            match self.fd.try_send(&left)? {
                Some(sent) => self.sent += sent,
                None => return Ok(Push::Blocked),
            }
        }
    }

    /// The event that a blocked socket waits for: room to send, or during TLS's handshake, bytes
    /// from the callee.
    pub(crate) fn awaits(&self) -> PollFlags {
        let in_handshake = self.connected && self.fd.is_handshaking();
        if in_handshake { PollFlags::IN } else { PollFlags::OUT }
    }

    /// Receives an answer if one has arrived.
    pub(crate) fn answer(&mut self) -> Result<Option<Frame>, ReadError> {
        if !self.connected {
            return Ok(None);
        }
        let Self { fd, reader, .. } = self;
        loop {
            match reader.read(|room| Ok(fd.try_recv(room)?.map(Piece::now)))? {
                Read::Frame(frame) => return Ok(Some(frame)),
                Read::More => {}
                Read::Nothing => return Ok(None),
            }
        }
    }
}
