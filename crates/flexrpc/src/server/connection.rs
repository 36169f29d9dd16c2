//! A caller's connection. One worker at a time serves it.

use crate::net::buffer::{Buffer, Share};
use crate::net::clock;
use crate::net::reader::{Frame, Piece, Read, ReadError, Reader};
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::net::tls::{self, Stream};
use crate::net::wire::{Security, Wire};
use crate::net::{origin, owner};
use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::onc::message::asks_for_tls;
use crate::proto::status::Refusal;
use crate::server::core::{Core, Origin, Response, untagged_refusal};
use crate::server::onc::records::{self, Message, Records};
use crate::sync::Mutex;
use crate::tls::ServerTls;
use bytes::Bytes;
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use std::net::SocketAddr;
use std::time::Duration;

/// How long a worker sleeps in a receive on one connection before it watches all connections again.
/// If calls come more often than this, each saves an epoll round.
pub(crate) const STICK: Duration = Duration::from_millis(4);

/// How many calls of one connection a worker answers in a row while other connections wait. An
/// epoll round for each would halve the speed of a caller that doesn't wait for answers.
pub(crate) const IN_A_ROW: usize = 32;

pub(crate) struct Connection {
    pub(crate) fd: Wire,
    pub(crate) token: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) line: Mutex<Line>,
    /// The user who owns the other end, if the server asks the kernel for it.
    user: Option<u32>,
    /// The connection counts in this origin's share of the connections.
    pub(crate) source: origin::Origin,
}

/// The working state of a connection.
pub(crate) struct Line {
    pub(crate) reader: Reader,
    /// Replaces the reader if the caller speaks plain ONC RPC.
    records: Option<Box<Records>>,
    /// The answer that hasn't left completely.
    outgoing: Option<Outgoing>,
    /// The time at which the arriving call began to arrive.
    pub(crate) arrives_since: Option<Micros>,
    spinner: Spinner,
    /// Whether the worker hasn't tried to receive since the latest answer left.
    pub(crate) answered: bool,
    /// The latest time at which bytes arrived or left.
    pub(crate) active: Micros,
    /// Whether a chain call owns the connection, and checks the timeouts.
    pub(crate) lent: bool,
    /// Whether a caller has shown that it isn't only occupying the connection
    /// ([`greeting`](crate::ServerOptions::greeting)).
    pub(crate) known: bool,
}

/// An answer that is being sent.
struct Outgoing {
    frame: Bytes,
    sent: usize,
    /// The time since which the caller hasn't received all of the answer; and the answer's share of
    /// the memory for slow callers.
    untaken: Option<(Micros, Share)>,
}

impl Line {
    /// Whether the message under way takes longer than an honest peer needs.
    pub(crate) fn is_overdue(&self, core: &Core) -> bool {
        let arriving = self.reader.head().map_or(0, |head| head.payload_len as usize);
        // A record's length is known only after its last fragment, so assume the largest.
        let arriving = if self.records.is_some() { core.options.payload_bytes } else { arriving };
        self.arrives_since.is_some_and(|since| clock::since(since) > core.time_for(arriving))
            || self.outgoing.as_ref().is_some_and(|Outgoing { frame, untaken, .. }| {
                untaken.as_ref().is_some_and(|(since, _)| clock::since(*since) > core.time_for(frame.len()))
            })
    }

    /// Whether a call is arriving or an answer is leaving.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.reader.is_mid_frame()
            || self.outgoing.is_some()
            || self.records.as_ref().is_some_and(|records| records.is_mid_record())
    }
}

/// The event that a connection waits for, or its end.
pub(crate) enum Parked {
    /// Bytes to read.
    Readable,
    /// Room to write.
    Writable,
    /// A chain call has arrived: the whole frame, or with `None` its head.
    Chain(Option<Frame>),
    /// The connection is over.
    Closed,
}

/// The connections of a server.
pub(crate) trait ConnectionTable {
    /// Watches the connection for its next call.
    fn resume(&self, connection: &Connection);

    /// Closes a connection after its last user.
    fn forget(&self, token: u64);
}

/// Whether another worker watches the other connections, so that this one may stay.
pub(crate) trait MayStay {
    fn may_stay(&self) -> bool;
}

impl Connection {
    pub(crate) fn new(fd: OwnedFd, token: u64, peer: SocketAddr, core: &Core) -> Self {
        let line = Line {
            reader: core.reader(),
            records: None,
            outgoing: None,
            arrives_since: None,
            spinner: Spinner::new(core.options.spin),
            answered: false,
            active: clock::now(),
            lent: false,
            known: false,
        };
        // Ask now, while the connection is new: a process can pass its socket on later. If the
        // kernel doesn't answer, the user is unknown.
        let asks = core.options.onc.local_users;
        let user = asks.then(|| owner::local_user(&fd, peer).ok().flatten()).flatten();
        let source = match asks {
            true => origin::Origin::of(user, peer.ip()),
            false => origin::Origin::Address(peer.ip()),
        };
        Self { fd: Wire::new(fd), token, peer, line: Mutex::new(line), user, source }
    }

    /// Serves calls until none is left, or other connections need the worker.
    pub(crate) fn serve(&self, line: &mut Line, core: &Core, others: &impl MayStay) -> Parked {
        for calls in 0usize.. {
            match self.flush(line, core, others) {
                Flushed::All if calls >= IN_A_ROW && !others.may_stay() => break,
                Flushed::All => {}
                Flushed::Waits => return Parked::Writable,
                Flushed::Broken => return Parked::Closed,
            }
            let next = match line.records {
                None => self.next_frame(line, core, others),
                Some(_) => self.next_record(line, core, others),
            };
            let response = match next {
                Next::Frame(frame) => {
                    line.known = line.known || core.is_authentic_call(&frame, self.origin());
                    core.handle(frame, self.origin(), |spare| line.reader.give_back(spare))
                }
                other => match self.on_other(other, line, core) {
                    Ok(response) => response,
                    Err(parked) => return parked,
                },
            };
            match response {
                Response::Send(frame) => line.outgoing = Some(Outgoing { frame, sent: 0, untaken: None }),
                Response::LastWord(frame) => {
                    let _ = self.fd.try_send(&[&frame]);
                    return Parked::Closed;
                }
                // Without an answer, the connection is as active as with one.
                Response::Silence => line.active = clock::now(),
                Response::Hangup => return Parked::Closed,
            }
        }
        line.answered = false;
        // The caller's next calls may already be in the buffer, where epoll can't see them. So the
        // connection waits to be writable. It gets its turn after the connections that wait now.
        Parked::Writable
    }

    /// The answer to a message that isn't a frame, or the event to wait for.
    #[inline(never)]
    fn on_other(&self, next: Next, line: &mut Line, core: &Core) -> Result<Response, Parked> {
        let Line { reader, records, known, .. } = line;
        // A record needs no proof of a key. The rest of a chain call must arrive in time and be
        // authentic. So both count as a caller's.
        *known |= matches!(next, Next::Record(_) | Next::Chain(_));
        match next {
            Next::Frame(frame) => Ok(core.handle(frame, self.origin(), |spare| reader.give_back(spare))),
            Next::Record(message) if self.is_offered_tls(&message, core) => {
                let offer = core.tls_offer(&message);
                // TLS's handshake follows, as at the beginning of a connection. The server discards
                // bytes that came together with the call, since they weren't encrypted.
                *records = None;
                Ok(Response::Send(offer))
            }
            Next::Record(message) => Ok(core.answer_onc(message, self.origin(), |spare| {
                if let Some(records) = records {
                    records.give_back(spare);
                }
            })),
            Next::Foreign => {
                let understood = match (reader.take_foreign(), core.tls()) {
                    (Some((begun, len)), Some(tls)) if self.begins_tls(&begun) => {
                        self.begin_tls(&tls, begun, len)
                    }
                    (begun, _) => {
                        *records = core.records(begun);
                        records.is_some()
                    }
                };
                if understood { Ok(Response::Silence) } else { Err(Parked::Closed) }
            }
            Next::Chain(frame) => Err(Parked::Chain(frame.map(|frame| *frame))),
            // The beginning of the next frame is unknown, and this frame's tag wasn't checked. So
            // the connection ends.
            Next::Refuse(frame) => Ok(Response::LastWord(frame)),
            Next::Nothing => {
                let released = match records {
                    None => reader.release(),
                    Some(records) => records.release(),
                };
                Err(if released { Parked::Readable } else { Parked::Closed })
            }
            Next::Closed => Err(Parked::Closed),
        }
    }

    /// The origin of the connection's calls.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            peer: self.peer,
            transport: Transport::Tcp,
            security: self.fd.security(),
            user: self.user,
            connection: self.token,
        }
    }

    /// Whether the first bytes are TLS's. Only a plain connection can begin TLS.
    fn begins_tls(&self, begun: &Buffer) -> bool {
        self.fd.security() == Security::Plain && begun.as_ref().first() == Some(&tls::FIRST_BYTE)
    }

    /// Whether a call asks for TLS (RFC 9289), and gets it.
    fn is_offered_tls(&self, message: &Message, core: &Core) -> bool {
        let is_plain = self.fd.security() == Security::Plain;
        is_plain && asks_for_tls(message.bytes()).is_some() && core.tls().is_some()
    }

    /// Switches to TLS.
    fn begin_tls(&self, tls: &ServerTls, begun: Buffer, len: usize) -> bool {
        let security = if tls.certified { Security::Certified } else { Security::Encrypted };
        let stream = Stream::server(tls, begun, len);
        stream.map(|stream| self.fd.begin_tls(stream, security)).is_some()
    }

    /// Sends the outgoing answer. If the caller is slow to receive it, the worker waits only while
    /// no other connection needs the worker.
    fn flush(&self, line: &mut Line, core: &Core, others: &impl MayStay) -> Flushed {
        while let Some(outgoing) = &mut line.outgoing {
            match self.fd.try_send(&[&outgoing.frame[outgoing.sent..]]) {
                Ok(Some(more)) => {
                    outgoing.sent += more;
                    line.active = clock::now();
                    if outgoing.sent == outgoing.frame.len() {
                        line.outgoing = None;
                        line.answered = true;
                    }
                }
                Ok(None) => match self.wait_for_room(outgoing, core, others.may_stay()) {
                    Flushed::All => {}
                    other => return other,
                },
                Err(_) => return Flushed::Broken,
            }
        }
        Flushed::All
    }

    /// Waits until the socket accepts more bytes, if the worker may stay.
    #[cold]
    fn wait_for_room(&self, outgoing: &mut Outgoing, core: &Core, patient: bool) -> Flushed {
        let Outgoing { frame, sent, untaken } = outgoing;
        let until = clock::after(clock::now(), STICK);
        match patient.then(|| socket::wait(&self.fd, PollFlags::OUT, Some(until))) {
            Some(Ok(true)) => Flushed::All,
            Some(Err(_)) => Flushed::Broken,
            Some(Ok(false)) | None if untaken.is_some() => Flushed::Waits,
            Some(Ok(false)) | None => {
                let share = core.sending.take(frame.len() - *sent);
                *untaken = share.map(|share| (clock::now(), share));
                if untaken.is_some() { Flushed::Waits } else { Flushed::Broken }
            }
        }
    }

    fn next_frame(&self, line: &mut Line, core: &Core, others: &impl MayStay) -> Next {
        loop {
            let Line { reader, spinner, answered, .. } = line;
            let read = match reader.read(|room| self.recv(room, spinner, answered, line.active, others)) {
                Ok(read) => read,
                Err(error) => return Next::of_error(error),
            };
            match read {
                Read::Frame(frame) => {
                    line.arrives_since = None;
                    let chain = is_chain(&frame.head);
                    return if chain { Next::of_chain(frame) } else { Next::Frame(frame) };
                }
                Read::More if reader.head().is_some_and(is_chain) => return Next::Chain(None),
                Read::More => {
                    line.active = clock::now();
                    line.arrives_since.get_or_insert(line.active);
                    // The sweeper skips a connection that a worker serves. So the worker itself
                    // checks for a sender that is too slow.
                    if line.is_overdue(core) {
                        return Next::Closed;
                    }
                }
                Read::Nothing => return Next::Nothing,
            }
        }
    }

    #[inline(never)]
    fn next_record(&self, line: &mut Line, core: &Core, others: &impl MayStay) -> Next {
        loop {
            let Line { records: Some(records), spinner, answered, active, arrives_since, .. } = &mut *line
            else {
                return Next::Closed;
            };
            let recv = |room: &mut [u8]| {
                let piece = self.recv(room, spinner, answered, *active, others)?;
                Ok(piece.map(|piece| piece.len))
            };
            match records.read(recv) {
                Ok(records::Read::Record(message)) => {
                    *arrives_since = None;
                    return Next::Record(message);
                }
                Ok(records::Read::More) => {
                    *active = clock::now();
                    arrives_since.get_or_insert(*active);
                    if line.is_overdue(core) {
                        return Next::Closed;
                    }
                }
                Ok(records::Read::Nothing) => return Next::Nothing,
                Err(_) => return Next::Closed,
            }
        }
    }

    /// Spins, then sleeps for a while if another worker watches the other connections.
    fn recv(
        &self,
        room: &mut [u8],
        spinner: &mut Spinner,
        answered: &mut bool,
        active: Micros,
        others: &impl MayStay,
    ) -> std::io::Result<Option<Piece>> {
        // `answered` skips at most one attempt: bytes that TLS has buffered are found only by an
        // attempt.
        let (may_stay, answered) = (others.may_stay(), std::mem::take(answered));
        // Right after an answer, the next call can't have arrived yet. Skipping the attempt saves a
        // system call.
        if !(answered && may_stay)
            && let Some(len) = self.fd.try_recv(room)?
        {
            return Ok(Some(Piece::now(len)));
        }
        if !may_stay {
            return Ok(None);
        }
        let start = if answered { active } else { clock::now() };
        if let Some(received) = spinner.spin_from(start, || self.fd.try_recv(room).transpose()) {
            return Ok(Some(Piece { len: received?, at: spinner.looked() }));
        }
        self.sleep_and_receive(room, spinner, start)
    }

    #[inline(never)]
    fn sleep_and_receive(
        &self,
        room: &mut [u8],
        spinner: &mut Spinner,
        start: Micros,
    ) -> std::io::Result<Option<Piece>> {
        let received = self.fd.recv(room)?;
        let at = spinner.slept_since(start.max(spinner.looked()));
        Ok(received.map(|len| Piece { len, at }))
    }
}

impl Next {
    #[cold]
    fn of_error(error: ReadError) -> Self {
        match error {
            ReadError::TooLarge(head) => Self::Refuse(untagged_refusal(head.id, Refusal::TooLarge)),
            ReadError::NoRoom(head) => Self::Refuse(untagged_refusal(head.id, Refusal::Overloaded)),
            ReadError::Frame => Self::Foreign,
            ReadError::Closed => Self::Closed,
        }
    }

    #[inline(never)]
    fn of_chain(frame: Frame) -> Self {
        Self::Chain(Some(Box::new(frame)))
    }
}

fn is_chain(head: &Head) -> bool {
    head.kind == Kind::Call && head.has(flags::CHAIN)
}

enum Flushed {
    All,
    Waits,
    Broken,
}

enum Next {
    Frame(Frame),
    Chain(Option<Box<Frame>>),
    Refuse(Bytes),
    /// Bytes that aren't a frame.
    Foreign,
    /// A record of plain ONC RPC.
    Record(Message),
    Nothing,
    Closed,
}
