//! Plain ONC RPC on the server's port: unmodified SunRPC clients call the same services, over TCP
//! and UDP.
//!
//! They get less than FlexRPC's callers. They have no sessions: execution is at most once only as far
//! as [`duplicates`](crate::proto::onc::duplicates) reaches over UDP, and over TCP the memory for
//! procedures of [`OncOptions::repeated`]. They have no deadlines, no cluster key, and no text with an error.

pub(crate) mod records;
pub(crate) mod registration;

use crate::net::buffer::Buffer;
use crate::net::clock;
use crate::net::origin;
use crate::net::tls;
use crate::net::wire::Security;
use crate::proto::admission::Verdict;
use crate::proto::auth::Credentials;
use crate::proto::call::Transport;
use crate::proto::checksum;
use crate::proto::ids::{CallId, Procedure, SessionId};
use crate::proto::limits::UDP_DATAGRAM_BYTES;
use crate::proto::onc::duplicates::{DuplicateLimits, Key};
use crate::proto::onc::message::{
    Answer, AuthStatus, Call, Denial, REPLY_HEAD_BYTES, Unfit, asks_for_tls, tls_offer,
};
use crate::proto::onc::record::{self, FRAGMENT_BYTES, MARK_BYTES};
use crate::proto::status::{FaultKind, Refusal};
use crate::server::core::{Core, Origin, Response};
use crate::server::onc::records::{Message, Records};
use crate::server::repeats::{Key as RepeatKey, Known};
use crate::server::service::{Ended, Reply, Request};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;

/// The socket on which Linux's rpcbind accepts registrations from its own host.
pub const RPCBIND_SOCKET: &str = "/run/rpcbind.sock";

/// Callers that a server answers in plain ONC RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OncAccess {
    /// Nobody.
    Nobody,
    /// Anybody, for all programs. If there is a cluster key, nobody, since these callers have none.
    UnlessKeyed,
    /// Anybody, for the programs of these numbers. A cluster key then doesn't protect them.
    Programs(Vec<u32>),
}

/// A server's options for plain ONC RPC.
#[derive(Clone, Debug)]
pub struct OncOptions {
    /// Access to programs.
    pub access: OncAccess,
    /// Bounds of the calls over UDP that are remembered to recognise retransmissions.
    pub duplicates: DuplicateLimits,
    /// Registers the programs with the rpcbind on this socket (usually [`RPCBIND_SOCKET`]) at the
    /// start, and unregisters them at shutdown.
    pub rpcbind: Option<PathBuf>,
    /// Procedures whose calls over TCP are remembered: a call that its client repeats over another
    /// connection, since it lost the answer, isn't executed again. Name those that change something.
    /// A client is a user of this host (`local_users`), or a host beyond loopback. Other clients on
    /// loopback can't be told apart, so the server remembers nothing of them.
    pub repeated: Vec<Procedure>,
    /// Asks the kernel for the user of each connection from loopback ([`Request::local_user`]). Users
    /// then share the connections as hosts do.
    pub local_users: bool,
}

impl Default for OncOptions {
    fn default() -> Self {
        let (access, duplicates) = (OncAccess::UnlessKeyed, DuplicateLimits::default());
        Self { access, duplicates, rpcbind: None, repeated: Vec::new(), local_users: false }
    }
}

impl Core {
    /// Reads a connection that doesn't begin with a frame; `None` if the server doesn't serve plain
    /// ONC RPC.
    pub(crate) fn records(&self, begun: Option<(Buffer, usize)>) -> Option<Box<Records>> {
        let (buffer, end) = begun.filter(|(buffer, _)| {
            let tls = buffer.as_ref().first() == Some(&tls::FIRST_BYTE);
            self.options.onc.access != OncAccess::Nobody && !tls
        })?;
        let (payload, budget) = (self.options.payload_bytes, Arc::clone(&self.receiving));
        Some(Box::new(Records::new(payload, budget, buffer, end)))
    }

    /// Handles a datagram that isn't a frame. Returns the buffer through `reuse`, unless the
    /// arguments stay in it.
    pub(crate) fn answer_datagram(
        &self,
        buffer: Buffer,
        len: usize,
        origin: Origin,
        reuse: impl FnOnce(Option<Buffer>),
    ) -> Response {
        if self.options.onc.access == OncAccess::Nobody || buffer.as_ref().len() < len {
            reuse(Some(buffer));
            return Response::Silence;
        }
        self.answer_onc(Message::new(buffer, len), origin, reuse)
    }

    /// The consent to a call that asks for TLS, over TCP.
    pub(crate) fn tls_offer(&self, message: &Message) -> Bytes {
        let offer = tls_offer(asks_for_tls(message.bytes()).unwrap_or_default());
        [&record::mark(offer.len()), &offer[..]].concat().into()
    }

    /// Handles a message, on this thread.
    pub(crate) fn answer_onc(
        &self,
        message: Message,
        origin: Origin,
        reuse: impl FnOnce(Option<Buffer>),
    ) -> Response {
        let (call, args_len) = match Call::decode(message.bytes()) {
            Ok((call, args)) => (call, args.len()),
            Err(unfit) => {
                reuse(Some(message.into_buffer()));
                return match unfit {
                    Unfit::NotACall => Response::Hangup,
                    Unfit::Denied { xid, why } => {
                        Response::Send(reply(Answer::Denied(why), xid, origin.transport))
                    }
                };
            }
        };
        let answer = |answer: Answer| Response::Send(reply(answer, call.xid, origin.transport));
        if !self.serves_onc(call.procedure.program) || !self.is_secure(origin.security) {
            reuse(Some(message.into_buffer()));
            return answer(Answer::Denied(Denial::Auth(AuthStatus::TOO_WEAK)));
        }
        let key = (origin.transport == Transport::Udp).then(|| Key {
            caller: origin.peer,
            xid: call.xid,
            procedure: call.procedure,
            checksum: checksum::crc32c(message.bytes()),
        });
        match key.map_or(Verdict::Execute, |key| self.duplicates.begin(key)) {
            Verdict::Execute => {}
            duplicate => {
                reuse(Some(message.into_buffer()));
                return match duplicate {
                    Verdict::Answered(reply) => answered(reply),
                    Verdict::Doubtful(_) => answer(Answer::SystemError),
                    // The server will answer the first transmission.
                    _ => Response::Silence,
                };
            }
        }
        let claim = match self.repeat_key(&call, &message, origin) {
            None => None,
            Some(key) => match self.repeats.ask(key, origin.connection) {
                Known::New(claim) => Some(claim),
                Known::Answered(reply) => {
                    reuse(Some(message.into_buffer()));
                    return answered(reply);
                }
                // The client connects once more, and asks again.
                Known::Runs => return Response::Hangup,
            },
        };
        let (args, spare) = message.into_last(args_len);
        reuse(spare);
        let (xid, transport) = (call.xid, origin.transport);
        let reply = match self.execute_onc(call, args, origin) {
            Ok(result) => success(result, xid, transport),
            // Another incarnation, or another server at this address, may execute it.
            Err(Ended::Refused(Refusal::ShuttingDown)) => return Response::Hangup,
            Err(Ended::Unanswered) => Bytes::new(),
            Err(ended) => reply(answer_of(ended), xid, transport),
        };
        if let Some(key) = key {
            self.duplicates.complete(key, reply.clone(), clock::now());
        }
        if let Some(claim) = claim {
            claim.answer(reply.clone(), clock::now());
        }
        answered(reply)
    }

    /// The marks by which a repetition of this call over another connection is recognised. `None` if the
    /// call may be executed again, or if its client is unknown.
    fn repeat_key(&self, call: &Call, message: &Message, origin: Origin) -> Option<RepeatKey> {
        let is_loopback = origin.peer.ip().to_canonical().is_loopback();
        let unknown = is_loopback && origin.user.is_none();
        let over_tcp = origin.transport == Transport::Tcp;
        if unknown || !over_tcp || !self.options.onc.repeated.contains(&call.procedure) {
            return None;
        }
        let uid = match &call.credentials {
            Credentials::Sys(sys) => Some(sys.uid),
            Credentials::None => None,
        };
        Some(RepeatKey {
            from: origin::Origin::of(origin.user, origin.peer.ip()),
            address: (!is_loopback).then(|| origin.peer.ip()),
            uid,
            xid: call.xid,
            procedure: call.procedure,
            message: (message.bytes().len(), checksum::crc32c(message.bytes())),
        })
    }

    fn serves_onc(&self, program: u32) -> bool {
        match &self.options.onc.access {
            OncAccess::Nobody => false,
            OncAccess::UnlessKeyed => self.options.key.is_none(),
            OncAccess::Programs(programs) => programs.contains(&program),
        }
    }

    fn execute_onc(&self, call: Call, args: Bytes, origin: Origin) -> Result<Reply, Ended> {
        let Call { xid, procedure, credentials } = call;
        let request = Request {
            procedure,
            args,
            credentials,
            authenticated: origin.security == Security::Certified,
            local_user: origin.user,
            holder: None,
            encrypted: origin.security != Security::Plain,
            peer: origin.peer,
            transport: origin.transport,
            deadline: None,
            id: CallId { session: SessionId::NONE, handle: 0, transaction: xid.into() },
        };
        let limit = match origin.transport {
            Transport::Tcp => self.options.payload_bytes.min(FRAGMENT_BYTES - REPLY_HEAD_BYTES),
            Transport::Udp => UDP_DATAGRAM_BYTES - REPLY_HEAD_BYTES,
        };
        match self.invoke(&request, limit) {
            // By convention each program has procedure 0, which does nothing (RFC 5531, section 12.1).
            Err(Ended::Refused(Refusal::ProcedureUnavailable)) if procedure.number == 0 => Ok(Reply::new()),
            ended => ended,
        }
    }
}

/// A call whose reply is empty gets none.
fn answered(reply: Bytes) -> Response {
    if reply.is_empty() { Response::Silence } else { Response::Send(reply) }
}

/// SunRPC's answer for a call without a result.
fn answer_of(ended: Ended) -> Answer {
    match ended {
        Ended::Refused(Refusal::ProgramUnavailable) => Answer::ProgramUnavailable,
        Ended::Refused(Refusal::VersionMismatch { lowest, highest }) => {
            Answer::ProgramMismatch { low: lowest, high: highest }
        }
        Ended::Refused(Refusal::ProcedureUnavailable) => Answer::ProcedureUnavailable,
        Ended::Fault(fault) if fault.kind == FaultKind::GarbageArguments => Answer::GarbageArguments,
        Ended::Refused(_) | Ended::Fault(_) | Ended::Unanswered => Answer::SystemError,
    }
}

/// A result in its final form. The bytes before it fill the room in front of it.
fn success(result: Reply, xid: u32, transport: Transport) -> Bytes {
    let mut frame = result.into_frame();
    let result_at = Reply::ROOM_BYTES;
    let head_at = result_at - REPLY_HEAD_BYTES;
    frame[head_at..result_at].copy_from_slice(&Answer::Success.encode(xid));
    let start = match transport {
        Transport::Udp => head_at,
        Transport::Tcp => {
            let mark = record::mark(frame.len() - head_at);
            frame[head_at - MARK_BYTES..head_at].copy_from_slice(&mark);
            head_at - MARK_BYTES
        }
    };
    Bytes::from(frame).slice(start..)
}

/// A reply without a result, in its final form.
fn reply(answer: Answer, xid: u32, transport: Transport) -> Bytes {
    let message = answer.encode(xid);
    match transport {
        Transport::Udp => message.into(),
        Transport::Tcp => [&record::mark(message.len()), &message[..]].concat().into(),
    }
}
