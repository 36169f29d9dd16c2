//! Plain ONC RPC on the server's port: unmodified SunRPC clients call the same services, over TCP
//! and UDP.
//!
//! These clients get fewer guarantees than FlexRPC's. They have no sessions. So a call is executed
//! at most once only as long as the server remembers it: over UDP in
//! [`duplicates`](crate::proto::onc::duplicates), and over TCP for the procedures of
//! [`OncOptions::repeated`]. They have no deadlines, no cluster key, and no error texts.

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
use strait_crc::crc32c;

/// The socket on which Linux's rpcbind accepts registrations from its own host.
pub const RPCBIND_SOCKET: &str = "/run/rpcbind.sock";

/// The callers that a server admits in plain ONC RPC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OncAccess {
    /// Nobody.
    Nobody,
    /// Anybody, for all programs. But if there is a cluster key, nobody, since these callers have
    /// none.
    UnlessKeyed,
    /// Anybody, for the programs with these numbers. A cluster key doesn't protect these programs.
    Programs(Vec<u32>),
}

/// A server's options for plain ONC RPC.
#[derive(Clone, Debug)]
pub struct OncOptions {
    /// The callers, and the programs that they may call.
    pub access: OncAccess,
    /// Limits of the memory for calls over UDP, by which the server recognises retransmissions.
    pub duplicates: DuplicateLimits,
    /// Registers the programs with the rpcbind on this socket (usually [`RPCBIND_SOCKET`]) at the
    /// start, and unregisters them at shutdown.
    pub rpcbind: Option<PathBuf>,
    /// Procedures whose calls over TCP the server remembers. If a client lost the answer, and
    /// repeats the call over another connection, the server doesn't execute it again. Name the
    /// procedures that change something. The server knows a client by its host, or on loopback by
    /// its user (`local_users`). Without `local_users`, it can't tell clients on loopback apart,
    /// and remembers none of their calls.
    pub repeated: Vec<Procedure>,
    /// Asks the kernel for the user of each connection from loopback ([`Request::local_user`]). The
    /// limit of connections then applies to each user as it does to each host.
    pub local_users: bool,
}

impl Default for OncOptions {
    fn default() -> Self {
        let (access, duplicates) = (OncAccess::UnlessKeyed, DuplicateLimits::default());
        Self { access, duplicates, rpcbind: None, repeated: Vec::new(), local_users: false }
    }
}

impl Core {
    /// A reader for a connection that doesn't begin with a frame; `None` if the server doesn't
    /// serve plain ONC RPC.
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

    /// The reply to a call that asks for TLS over TCP: TLS begins after it.
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
            checksum: crc32c(message.bytes()),
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
                // The client reconnects, and repeats the call.
                Known::Runs => return Response::Hangup,
            },
        };
        let (args, spare) = message.into_last(args_len);
        reuse(spare);
        let (xid, transport) = (call.xid, origin.transport);
        let reply = match self.execute_onc(call, args, origin) {
            Ok(result) => success(result, xid, transport),
            // The client can repeat the call at a later incarnation, or at another server at this
            // address.
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

    /// The key by which the server recognises a repetition of this call over another connection.
    /// `None` if the call may be executed again, or if its client is unknown.
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
            message: (message.bytes().len(), crc32c(message.bytes())),
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
            // By convention, procedure 0 of each program does nothing (RFC 5531, section 12.1).
            Err(Ended::Refused(Refusal::ProcedureUnavailable)) if procedure.number == 0 => Ok(Reply::new()),
            ended => ended,
        }
    }
}

/// The response with a reply. An empty one stands for no reply.
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

/// A reply with a result, as it is sent. Its head fills the room before the result.
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

/// A reply without a result, as it is sent.
fn reply(answer: Answer, xid: u32, transport: Transport) -> Bytes {
    let message = answer.encode(xid);
    match transport {
        Transport::Udp => message.into(),
        Transport::Tcp => [&record::mark(message.len()), &message[..]].concat().into(),
    }
}
