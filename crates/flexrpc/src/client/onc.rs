//! Calls to servers that speak plain ONC RPC (RFC 5531): records over TCP, datagrams over UDP; TLS by
//! negotiation (RFC 9289).

use crate::client::{CallOptions, Client, ClientOptions, Shared};
use crate::net::clock;
use crate::net::pool::Callee;
use crate::net::socket::{self, Sent};
use crate::net::wire::Wire;
use crate::proto::Micros;
use crate::proto::auth::Credentials;
use crate::proto::call::Transport;
use crate::proto::ids::Procedure;
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::proto::onc::message::{Answer, Call, Denial, is_tls_offer, tls_request};
use crate::proto::onc::record::{self, Assembly, FRAGMENT_BYTES};
use crate::proto::onc::rpcbind;
use crate::proto::status::{CallError, Doubt, Fault, Obstacle, Outcome, Refusal};
use bytes::Bytes;
use rustix::event::PollFlags;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A reply's bytes before its result, at most: three words, a verifier, three words.
const HEAD_BYTES: usize = 32 + 400;

/// Least free room in the buffer before a receive, in bytes.
const STEP_BYTES: usize = 64 << 10;

/// A connection that was unused for longer than this is checked before it carries a call: servers
/// close idle ones.
const LOOK_AFTER: Micros = 10_000;

/// The port of rpcbind, by convention.
pub const RPCBIND_PORT: u16 = 111;

/// A socket to a server, and the id of its latest call.
pub(crate) struct OncLine {
    callee: Callee,
    wire: Option<Wire>,
    xid: u32,
    used: Micros,
    /// Receive buffer. Its first `end` bytes have arrived.
    buffer: Vec<u8>,
    end: usize,
}

/// Why no reply came.
enum Silence {
    TimedOut,
    Broken,
    TooLarge,
}

impl OncLine {
    pub(crate) fn new(callee: Callee) -> Self {
        // Servers recognise retransmissions by the id, so a restarted client must begin with
        // another one.
        let xid = RandomState::new().build_hasher().finish() as u32;
        Self { callee, wire: None, xid, used: 0, buffer: Vec::new(), end: 0 }
    }

    pub(crate) fn call(
        &mut self,
        shared: &Shared,
        procedure: Procedure,
        args: &[&[u8]],
        options: &CallOptions,
    ) -> Outcome {
        let now = clock::now();
        let deadline = shared.deadline(options, now);
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Outcome::NotExecuted(Refusal::DeadlinePassed);
        }
        if let Err(refusal) = self.make_ready(&shared.options, procedure, deadline) {
            self.wire = None;
            return Outcome::NotExecuted(refusal);
        }
        let outcome = self.exchange(procedure, shared.credentials(options), args, &shared.options, deadline);
        if matches!(outcome, Outcome::Unknown(_) | Outcome::NotExecuted(Refusal::NotSent)) {
            self.wire = None; // a late reply mustn't be taken for another call's
        }
        self.used = clock::now();
        outcome
    }

    /// Connects, unless there is a connection that works.
    fn make_ready(
        &mut self,
        options: &ClientOptions,
        procedure: Procedure,
        deadline: Option<Micros>,
    ) -> Result<(), Refusal> {
        let now = clock::now();
        let stale = |wire: &mut Wire| !wire.is_quiet();
        if self.callee.1 == Transport::Tcp && now.saturating_sub(self.used) > LOOK_AFTER {
            self.wire.take_if(stale);
        }
        if self.wire.is_some() {
            return Ok(());
        }
        let patience = clock::after(now, options.connect_timeout);
        let patience = Some(deadline.map_or(patience, |deadline| deadline.min(patience)));
        let (callee, transport) = self.callee;
        let fd = match (transport, options.peer_silence) {
            (Transport::Tcp, None) => socket::connect_tcp(callee, patience),
            (Transport::Tcp, Some(silence)) => socket::connect_tcp(callee, patience)
                .and_then(|fd| socket::notice_silence(&fd, silence).map(|()| fd)),
            // Over UDP, a call that must be encrypted would leave unencrypted.
            (Transport::Udp, _) if options.tls.is_some() => return Err(Refusal::TlsRequired),
            (Transport::Udp, _) => socket::connect_udp(callee),
        };
        self.wire = Some(Wire::new(fd.map_err(|error| Refusal::Unreachable(Obstacle::of(&error)))?));
        (self.buffer, self.end) = (Vec::new(), 0);
        match &options.tls {
            None => Ok(()),
            Some(_) => self.begin_tls(options, procedure, patience),
        }
    }

    /// Asks the server to begin TLS by the null procedure of the program (RFC 9289, section 4.1).
    fn begin_tls(
        &mut self,
        options: &ClientOptions,
        procedure: Procedure,
        deadline: Option<Micros>,
    ) -> Result<(), Refusal> {
        self.xid = self.xid.wrapping_add(1);
        let request = tls_request(self.xid, procedure);
        let reply = self.by_record(&request, &[], HEAD_BYTES, deadline);
        let reply = reply.map_err(|_| Refusal::TlsUnavailable)?;
        // Bytes that follow the offer came unencrypted, so an attacker may have sent them.
        let (true, 0, Some(wire), Some(tls)) =
            (is_tls_offer(self.xid, &reply), self.end, &self.wire, &options.tls)
        else {
            return Err(Refusal::TlsUnavailable);
        };
        wire.call_by_tls(&tls.for_onc(), self.callee.0.ip())?;
        wire.shake_hands(deadline)
    }

    fn exchange(
        &mut self,
        procedure: Procedure,
        credentials: &Credentials,
        args: &[&[u8]],
        options: &ClientOptions,
        deadline: Option<Micros>,
    ) -> Outcome {
        self.xid = self.xid.wrapping_add(1);
        let head = Call { xid: self.xid, procedure, credentials: credentials.clone() }.encode();
        let bytes = head.len() + args.iter().map(|slice| slice.len()).sum::<usize>();
        let (most, limit) = (options.payload_bytes.saturating_add(HEAD_BYTES), self.callee.1);
        let fits = match limit {
            Transport::Tcp => bytes <= FRAGMENT_BYTES,
            Transport::Udp => bytes <= UDP_DATAGRAM_BYTES,
        };
        if !fits {
            return Outcome::NotExecuted(Refusal::TooLarge);
        }
        let reply = match limit {
            Transport::Tcp => self.by_record(&head, args, most, deadline),
            Transport::Udp => self.by_datagram(&head, args, options, deadline),
        };
        match reply.map(|reply| outcome(&reply)) {
            Ok(outcome) => outcome,
            Err(outcome) => outcome,
        }
    }

    fn by_record(
        &mut self,
        head: &[u8],
        args: &[&[u8]],
        most: usize,
        deadline: Option<Micros>,
    ) -> Result<Bytes, Outcome> {
        let lost = Outcome::NotExecuted(Refusal::NotSent);
        let Some(wire) = &self.wire else { return Err(lost) };
        let mark = record::mark(head.len() + args.iter().map(|slice| slice.len()).sum::<usize>());
        let slices: Vec<&[u8]> = [&mark, head].into_iter().chain(args.iter().copied()).collect();
        if wire.send_all(&slices, deadline) != Sent::Whole {
            return Err(lost);
        }
        loop {
            let reply = self.record(most, deadline).map_err(|silence| {
                Outcome::Unknown(match silence {
                    Silence::TimedOut => Doubt::TimedOut,
                    Silence::Broken => Doubt::ConnectionLost,
                    Silence::TooLarge => Doubt::AnswerTooLarge,
                })
            })?;
            // A server may still answer an earlier request to begin TLS.
            if is_reply_to(self.xid, &reply) {
                return Ok(reply);
            }
        }
    }

    /// Receives a record.
    fn record(&mut self, most: usize, deadline: Option<Micros>) -> Result<Bytes, Silence> {
        let mut assembly = Assembly::new(most);
        loop {
            let (end, whole) =
                assembly.take_in(&mut self.buffer[..self.end]).map_err(|_| Silence::TooLarge)?;
            self.end = end;
            if whole {
                let record = Bytes::copy_from_slice(&self.buffer[..assembly.len()]);
                self.buffer.copy_within(assembly.len()..end, 0);
                self.end = end - assembly.len();
                return Ok(record);
            }
            // The buffer grows with the bytes that arrived, not with the length that a mark
            // announces.
            if self.buffer.len() < self.end + STEP_BYTES {
                self.buffer.resize((2 * self.end).max(STEP_BYTES) + STEP_BYTES, 0);
            }
            let Some(wire) = &self.wire else { return Err(Silence::Broken) };
            match wire.try_recv(&mut self.buffer[self.end..]) {
                Ok(Some(0)) | Err(_) => return Err(Silence::Broken),
                Ok(Some(received)) => self.end += received,
                Ok(None) => match socket::wait(wire, PollFlags::IN, deadline) {
                    Ok(true) => {}
                    Ok(false) => return Err(Silence::TimedOut),
                    Err(_) => return Err(Silence::Broken),
                },
            }
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return Err(Silence::TimedOut);
            }
        }
    }

    /// Sends the call's datagram, again and again, until a reply comes.
    fn by_datagram(
        &mut self,
        head: &[u8],
        args: &[&[u8]],
        options: &ClientOptions,
        deadline: Option<Micros>,
    ) -> Result<Bytes, Outcome> {
        let slices: Vec<&[u8]> = [head].into_iter().chain(args.iter().copied()).collect();
        let (mut pause, mut sent, mut refused) = (options.retry.first_us, 0_u32, 0_u32);
        self.buffer.resize(UDP_DATAGRAM_BYTES, 0);
        loop {
            let Some(wire) = &self.wire else {
                return Err(Outcome::NotExecuted(Refusal::Unreachable(Obstacle::Unknown)));
            };
            // A datagram that the host can't send counts as lost.
            let _ = wire.try_send(&slices);
            sent += 1;
            let again = clock::after(clock::now(), Duration::from_micros(pause));
            let until = deadline.map_or(again, |deadline| deadline.min(again));
            match datagram(wire, &mut self.buffer, self.xid, until) {
                Ok(Some(len)) => return Ok(Bytes::copy_from_slice(&self.buffer[..len])),
                Ok(None) => {}
                Err(()) => {
                    refused += 1;
                    // If the host refused every datagram, no socket listened at the port when one
                    // arrived.
                    if refused > options.retry.reconnects {
                        let all = refused == sent;
                        return Err(if all {
                            Outcome::NotExecuted(Refusal::Unreachable(Obstacle::ConnectionRefused))
                        } else {
                            Outcome::Unknown(Doubt::ConnectionLost)
                        });
                    }
                    std::thread::sleep(Duration::from_micros(until.saturating_sub(clock::now())));
                }
            }
            if deadline.is_some_and(|deadline| clock::now() >= deadline) {
                return Err(Outcome::Unknown(Doubt::TimedOut));
            }
            pause = pause.saturating_mul(2).min(options.retry.longest_us.max(options.retry.first_us));
        }
    }
}

/// Receives the reply to a call; `None` if there is none in time, an error if the host reports that
/// no socket listens at the port.
fn datagram(wire: &Wire, buffer: &mut [u8], xid: u32, until: Micros) -> Result<Option<usize>, ()> {
    loop {
        match wire.try_recv(buffer) {
            Ok(Some(len)) if is_reply_to(xid, &buffer[..len]) => return Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Err(()),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => {
                if !socket::wait(wire, PollFlags::IN, Some(until)).unwrap_or(false) {
                    return Ok(None);
                }
            }
        }
        // A flood of other datagrams mustn't extend the wait.
        if clock::now() >= until {
            return Ok(None);
        }
    }
}

fn is_reply_to(xid: u32, message: &[u8]) -> bool {
    message.first_chunk() == Some(&xid.to_be_bytes())
}

/// The outcome according to a reply.
fn outcome(reply: &Bytes) -> Outcome {
    let Some((_, answer, rest)) = Answer::decode(reply) else { return Outcome::Unknown(Doubt::BadAnswer) };
    match answer {
        Answer::Success => Outcome::Value(reply.slice_ref(rest)),
        Answer::ProgramUnavailable => Outcome::NotExecuted(Refusal::ProgramUnavailable),
        Answer::ProgramMismatch { low, high } => {
            Outcome::NotExecuted(Refusal::VersionMismatch { lowest: low, highest: high })
        }
        Answer::ProcedureUnavailable => Outcome::NotExecuted(Refusal::ProcedureUnavailable),
        Answer::GarbageArguments => Outcome::Error(Fault::garbage_arguments("GARBAGE_ARGS")),
        Answer::SystemError => {
            Outcome::Error(Fault::system("the server reports a system error (SYSTEM_ERR)"))
        }
        Answer::Denied(Denial::RpcMismatch) => Outcome::NotExecuted(Refusal::Malformed),
        Answer::Denied(Denial::Auth(status)) => Outcome::NotExecuted(Refusal::RejectedCredentials(status.0)),
    }
}

/// Asks the rpcbind of a host for the address of a program's version; `None` if it has none. It takes
/// at most `patience`.
///
/// # Errors
/// The errors of [`Handle::call`](crate::Handle::call): rpcbind can't be reached, or doesn't answer in time.
pub fn rpcbind_lookup(
    host: IpAddr,
    program: (u32, u32),
    transport: Transport,
    patience: Duration,
) -> Result<Option<SocketAddr>, CallError> {
    rpcbind_lookup_at(SocketAddr::new(host, RPCBIND_PORT), program, transport, patience)
}

/// [`rpcbind_lookup`] for an rpcbind at any address.
///
/// # Errors
/// The errors of [`rpcbind_lookup`].
pub fn rpcbind_lookup_at(
    rpcbind: SocketAddr,
    program: (u32, u32),
    transport: Transport,
    patience: Duration,
) -> Result<Option<SocketAddr>, CallError> {
    let options = ClientOptions {
        timeout: Some(patience),
        connect_timeout: patience,
        payload_bytes: rpcbind::REPLY_BYTES,
        ..ClientOptions::default()
    };
    let mut handle = Client::new(options).onc_handle(rpcbind, Transport::Tcp);
    let is_tcp = transport == Transport::Tcp;
    let (procedure, question) = rpcbind::question(rpcbind.ip(), program, is_tcp);
    let reply = handle.call(procedure, &[&question])?;
    let port = rpcbind::port(rpcbind.ip(), &reply).ok_or(Doubt::BadAnswer)?;
    Ok((port != 0).then(|| SocketAddr::new(rpcbind.ip(), port)))
}
