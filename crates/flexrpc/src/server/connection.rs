//! A caller's connection: served by one worker at a time.

use crate::net::buffer::{Buffer, Share};
use crate::net::clock;
use crate::net::reader::{Frame, Piece, Read, ReadError, Reader};
use crate::net::socket;
use crate::net::spin::Spinner;
use crate::net::tls::{self, Stream};
use crate::net::wire::{Security, Wire};
use crate::proto::Micros;
use crate::proto::call::Transport;
use crate::proto::frame::{Head, Kind, flags};
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

/// How long a worker sleeps on its connection before it goes back to watching
/// all: calls that come more often than this spare an epoll round each.
pub(crate) const STICK: Duration = Duration::from_millis(4);

/// Calls of one connection that are answered in a row while others want the worker:
/// a round of epoll for each would cost a caller that sends ahead half its speed.
pub(crate) const IN_A_ROW: usize = 32;

pub(crate) struct Connection {
    pub(crate) fd: Wire,
    pub(crate) token: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) line: Mutex<Line>,
}

/// What the worker that serves a connection works with.
pub(crate) struct Line {
    pub(crate) reader: Reader,
    /// In place of the reader, once the caller has turned out to speak plain ONC RPC.
    records: Option<Box<Records>>,
    /// An answer that the caller hasn't taken yet, and how much of it it has.
    outgoing: Option<Outgoing>,
    /// Since when the call that is arriving does.
    pub(crate) arrives_since: Option<Micros>,
    spinner: Spinner,
    /// Whether nothing has been looked for since the last answer left.
    pub(crate) answered: bool,
    /// When something last arrived or left.
    pub(crate) active: Micros,
    /// The forwarder has it, and looks after its idleness.
    pub(crate) lent: bool,
}

/// An answer on its way.
struct Outgoing {
    frame: Bytes,
    sent: usize,
    /// Since when the caller leaves it untaken, and its memory's part of what all
    /// callers together may.
    untaken: Option<(Micros, Share)>,
}

impl Line {
    /// Whether the message under way takes longer than one that is meant.
    pub(crate) fn is_overdue(&self, core: &Core) -> bool {
        let arriving = self.reader.head().map_or(0, |head| head.payload_len as usize);
        // A record tells its length last.
        let arriving = if self.records.is_some() { core.options.payload_bytes } else { arriving };
        self.arrives_since.is_some_and(|since| clock::since(since) > core.time_for(arriving))
            || self.outgoing.as_ref().is_some_and(|Outgoing { frame, untaken, .. }| {
                untaken.as_ref().is_some_and(|(since, _)| clock::since(*since) > core.time_for(frame.len()))
            })
    }

    /// Whether a call has begun to arrive, or an answer to leave.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.reader.is_mid_frame()
            || self.outgoing.is_some()
            || self.records.as_ref().is_some_and(|records| records.is_mid_record())
    }
}

/// What the connection waits for.
pub(crate) enum Parked {
    /// Something to read.
    Readable,
    /// Room to write.
    Writable,
    /// A chain call: from its head on, or whole if it came at once.
    Chain(Option<Frame>),
    /// Its end.
    Closed,
}

/// Whether another worker watches the rest, so that this one may stay.
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
        };
        Self { fd: Wire::new(fd), token, peer, line: Mutex::new(line) }
    }

    /// Serves calls until there are none or others need the worker.
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
                Next::Frame(frame) => core.handle(frame, self.origin(), |spare| line.reader.give_back(spare)),
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
                Response::Silence => {}
                Response::Hangup => return Parked::Closed,
            }
        }
        line.answered = false;
        // What it has sent ahead is here already, of which epoll can't tell: so it gets
        // its next turn when it can be written to, behind those who wait now.
        Parked::Writable
    }

    /// What to answer to something that isn't a frame, or what to wait for.
    #[inline(never)]
    fn on_other(&self, next: Next, line: &mut Line, core: &Core) -> Result<Response, Parked> {
        let Line { reader, records, .. } = line;
        match next {
            Next::Frame(frame) => Ok(core.handle(frame, self.origin(), |spare| reader.give_back(spare))),
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
            // What follows can't be told apart any more. Nor was its tag looked at.
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

    /// Where its calls come from.
    pub(crate) fn origin(&self) -> Origin {
        Origin { peer: self.peer, transport: Transport::Tcp, security: self.fd.security() }
    }

    /// Whether the first bytes are TLS's; once, since there is none within it.
    fn begins_tls(&self, begun: &Buffer) -> bool {
        self.fd.security() == Security::Plain && begun.as_ref().first() == Some(&tls::FIRST_BYTE)
    }

    /// Goes on under TLS.
    fn begin_tls(&self, tls: &ServerTls, begun: Buffer, len: usize) -> bool {
        let security = if tls.certified { Security::Certified } else { Security::Encrypted };
        let stream = Stream::server(tls, begun, len);
        stream.map(|stream| self.fd.begin_tls(stream, security)).is_some()
    }

    /// Sends what is to be sent. A caller that doesn't take its answer holds the
    /// worker only while it isn't needed.
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

    /// Until some is there, or whoever isn't patient has something better to do.
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
                    // Who sends drop by drop, the worker never leaves to the sweeper.
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

    /// Spins, then sleeps for a while if others are watched for.
    fn recv(
        &self,
        room: &mut [u8],
        spinner: &mut Spinner,
        answered: &mut bool,
        active: Micros,
        others: &impl MayStay,
    ) -> std::io::Result<Option<Piece>> {
        // Once: what TLS has taken in but not given out is only found by trying.
        let (may_stay, answered) = (others.may_stay(), std::mem::take(answered));
        // Straight after an answer, nothing can be there yet: a system call spared.
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
    /// What has come isn't a frame.
    Foreign,
    /// Of plain ONC RPC.
    Record(Message),
    Nothing,
    Closed,
}
