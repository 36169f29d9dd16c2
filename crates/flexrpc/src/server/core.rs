//! A server's handling of frames, from any socket.

use crate::RequestId;
use crate::net::buffer::{Budget, Buffer};
use crate::net::clock;
use crate::net::reader::{Frame, Reader};
use crate::net::wire::Security;
use crate::proto::Micros;
use crate::proto::admission::{Admission, Verdict};
use crate::proto::auth::SessionKey;
use crate::proto::call::Transport;
use crate::proto::extension::{Caller, Extension};
use crate::proto::frame::{HEAD_BYTES, Head, Kind, flags};
use crate::proto::ids::CallId;
use crate::proto::limits::{self, STALL_BYTES};
use crate::proto::onc::duplicates::Duplicates;
use crate::proto::reception::{self, Arrival, Reception};
use crate::proto::status::{Doubt, Refusal};
use crate::server::ServerOptions;
use crate::server::forwarding::Forwarding;
use crate::server::registry::Registry;
use crate::server::repeats::Repeats;
use crate::server::running::Running;
use crate::server::service::{Ended, Reply, Request, Service, ServiceError};
use crate::tls::{ClientTls, ServerTls};
use bytes::Bytes;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use strait_crc::crc32c;

/// Sessions, results, programs and settings of one incarnation of a server.
pub(crate) struct Core {
    pub(crate) options: ServerOptions,
    pub(crate) admission: Admission,
    pub(crate) registry: Registry,
    /// Whether the server is shutting down. New calls then don't begin.
    pub(crate) draining: AtomicBool,
    pub(crate) running: Running,
    pub(crate) receiving: Arc<Budget>,
    /// Budget for answers that callers are slow to receive.
    pub(crate) sending: Arc<Budget>,
    /// Duplicates of plain ONC RPC over UDP.
    pub(crate) duplicates: Duplicates,
    /// Calls of plain ONC RPC that clients repeat over another connection.
    pub(crate) repeats: Repeats,
    forwarding: RwLock<Forwarding>,
    /// TLS for callers, and for the next callees of chains.
    tls: RwLock<(Option<ServerTls>, Option<ClientTls>)>,
    /// How often these were replaced.
    tls_renewals: AtomicU64,
}

/// The server's response to a frame.
pub(crate) enum Response {
    /// Sends this frame.
    Send(Bytes),
    /// Sends this frame; the connection is then unusable.
    LastWord(Bytes),
    /// Sends nothing.
    Silence,
    /// Sends nothing; the connection is unusable.
    Hangup,
}

/// The origin of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) peer: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) security: Security,
    /// The user at the other end of a TCP connection from loopback, if
    /// [`OncOptions::local_users`](crate::OncOptions) asks for it and the kernel knows it.
    pub(crate) user: Option<u32>,
    /// The number of the frame's connection; 0 without one.
    pub(crate) connection: u64,
}

impl Core {
    pub(crate) fn new(options: ServerOptions) -> Self {
        Self {
            receiving: Budget::new(options.receive_bytes),
            sending: Budget::new(options.send_bytes),
            admission: Admission::new(options.admission),
            forwarding: RwLock::new(options.forwarding.clone()),
            tls: RwLock::new((options.tls.clone(), options.forwarding_tls.clone())),
            tls_renewals: AtomicU64::new(0),
            duplicates: Duplicates::new(options.onc.duplicates),
            repeats: Repeats::new(options.workers.most),
            options,
            registry: Registry::default(),
            draining: AtomicBool::new(false),
            running: Running::new(),
        }
    }

    pub(crate) fn set_forwarding(&self, forwarding: Forwarding) {
        *self.forwarding.write().unwrap_or_else(PoisonError::into_inner) = forwarding;
    }

    /// Replaces the TLS configurations. Returns `false`, and replaces nothing, if the old one
    /// requires certificates of callers and the new one doesn't.
    pub(crate) fn set_tls(&self, callers: ServerTls, forwarding: Option<ClientTls>) -> bool {
        let mut tls = self.tls.write().unwrap_or_else(PoisonError::into_inner);
        if !callers.certified && tls.0.as_ref().is_some_and(|tls| tls.certified) {
            return false;
        }
        *tls = (Some(callers), forwarding);
        drop(tls);
        // Count last. A thread reads the number before it connects, so it never takes a connection
        // with the old configuration for a new one.
        self.tls_renewals.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// How often TLS was replaced. Chain calls no longer use connections made under another number.
    pub(crate) fn tls_renewals(&self) -> u64 {
        self.tls_renewals.load(Ordering::Acquire)
    }

    /// TLS for callers that ask for it.
    pub(crate) fn tls(&self) -> Option<ServerTls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// TLS for a chain's next callee.
    pub(crate) fn forwarding_tls(&self) -> Option<ClientTls> {
        self.tls.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Whether the server may pass a chain call on to this callee.
    pub(crate) fn may_forward_to(&self, next: SocketAddr) -> bool {
        // Decide outside the lock, since the rule could call `set_forwarding`.
        let forwarding = self.forwarding.read().unwrap_or_else(PoisonError::into_inner).clone();
        forwarding.allows(next, self.options.listen, self.options.knows_callers())
    }

    /// A reader for a caller's connection.
    pub(crate) fn reader(&self) -> Reader {
        Reader::with_budget(self.options.payload_bytes, Arc::clone(&self.receiving))
    }

    /// Longest time for a message of this many bytes to arrive, or to leave.
    pub(crate) fn time_for(&self, bytes: usize) -> Duration {
        let times = u32::try_from(1 + bytes / STALL_BYTES).unwrap_or(u32::MAX);
        self.options.message_stall.saturating_mul(times)
    }

    /// Whether this is a call, with the proof that its session demands.
    pub(crate) fn is_authentic_call(&self, frame: &Frame, origin: Origin) -> bool {
        frame.head.kind == Kind::Call && self.is_authentic(frame, origin)
    }

    /// Handles a frame, on this thread.
    pub(crate) fn handle(
        &self,
        frame: Frame,
        origin: Origin,
        reuse: impl FnOnce(Option<Buffer>),
    ) -> Response {
        if frame.head.kind == Kind::Call {
            self.call(frame, origin, reuse)
        } else {
            self.handle_other(&frame, origin)
        }
    }

    /// Handles a frame that isn't a call.
    #[inline(never)]
    fn handle_other(&self, frame: &Frame, origin: Origin) -> Response {
        let head = frame.head;
        match head.kind {
            kind if !kind.is_request() => Response::Hangup,
            Kind::Hello => self.greet(frame, origin),
            _ if !self.is_authentic(frame, origin) => self.turn_away(frame, origin),
            _ if !self.is_secure(origin.security) => {
                Response::Send(self.refusal(head.id, Refusal::TlsRequired))
            }
            _ if Extension::decode(frame.extension()).is_err() => {
                Response::Send(self.refusal(head.id, Refusal::Malformed))
            }
            _ => self.revoke(head.id, origin.transport),
        }
    }

    pub(crate) fn turn_away(&self, frame: &Frame, origin: Origin) -> Response {
        self.respond(frame.head.id, reception::of_stranger(origin.transport, frame.intact), origin)
    }

    fn call(&self, frame: Frame, origin: Origin, reuse: impl FnOnce(Option<Buffer>)) -> Response {
        let head = frame.head;
        let caller = match frame.extension() {
            [] => Ok(Caller::default()),
            extension => Extension::decode(extension).map(Extension::into_caller),
        };
        let objection = match &caller {
            _ if !self.is_secure(origin.security) => Some(Refusal::TlsRequired),
            // Chain calls need streams (section IV.C), where another path handles them (`chain`).
            // This one came by UDP.
            Ok(_) if head.has(flags::CHAIN) => Some(Refusal::BadChain),
            Ok(_) => None,
            Err(_) => Some(Refusal::Malformed),
        };
        let arrived = frame.arrived;
        match (self.receive(&frame, objection, origin, arrived), caller) {
            (Reception::Execute, Ok(caller)) => {
                let (args, spare) = frame.into_payload();
                reuse(spare);
                Response::Send(self.execute(&head, args, caller, origin, arrived))
            }
            (reception, _) => self.respond(head.id, reception, origin),
        }
    }

    /// Decides the reaction to a whole call.
    pub(crate) fn receive(
        &self,
        frame: &Frame,
        objection: Option<Refusal>,
        origin: Origin,
        now: Micros,
    ) -> Reception {
        let (authentic, intact) = (self.is_authentic(frame, origin), frame.intact);
        let (id, transport) = (frame.head.id, origin.transport);
        let objection = objection.or_else(|| self.objection_to_bound(&frame.head));
        self.admission.receive(Arrival { id, transport, authentic, intact, objection }, now)
    }

    /// The response to a request that isn't executed.
    #[inline(never)]
    pub(crate) fn respond(&self, id: CallId, reception: Reception, origin: Origin) -> Response {
        match reception {
            Reception::Answer(verdict) => self.answer_without_execution(id, verdict, origin.transport),
            Reception::SendAgain => Response::Send(self.send_again(id)),
            Reception::TurnAway => Response::LastWord(self.last_word(id, origin)),
            Reception::Silence | Reception::Execute => Response::Silence,
        }
    }

    /// Answers a call without executing it.
    fn answer_without_execution(&self, id: CallId, verdict: Verdict, transport: Transport) -> Response {
        match (verdict, transport) {
            (Verdict::Answered(frame), _) => Response::Send(frame),
            (Verdict::Refused(refusal), _) => Response::Send(self.refusal(id, refusal)),
            (Verdict::Doubtful(doubt), _) => Response::Send(self.doubt(id, doubt)),
            (Verdict::Running, Transport::Tcp) => {
                Response::Send(self.frame(Head::new(Kind::Pending, id), Reply::new()))
            }
            (Verdict::NoRoom, Transport::Tcp) => Response::Send(self.refusal(id, Refusal::Overloaded)),
            (Verdict::Running | Verdict::NoRoom | Verdict::Execute, _) => Response::Silence,
        }
    }

    /// Executes an admitted call, and keeps its answer.
    fn execute(&self, head: &Head, args: Bytes, caller: Caller, origin: Origin, arrived: Micros) -> Bytes {
        let answer = match self.run(head, args, caller, origin, arrived) {
            Ok(reply) => self.frame(Head::new(Kind::Value, head.id), reply),
            Err(ended) => self.answer_without_value(head.id, ended),
        };
        self.admission.complete(head.id, answer.clone(), clock::now());
        answer
    }

    #[inline(never)]
    fn answer_without_value(&self, id: CallId, ended: Ended) -> Bytes {
        let fault = match ended {
            Ended::Refused(refusal) => return self.refusal(id, refusal),
            Ended::Fault(fault) => fault,
            Ended::Unanswered => Ended::unanswered(),
        };
        let mut reply = Reply::new();
        fault.encode(reply.buffer());
        self.frame(Head::new(Kind::Fault, id), reply)
    }

    /// Runs the service, unless the deadline has passed. `arrived` is the arrival time of the
    /// call's head.
    pub(crate) fn run(
        &self,
        head: &Head,
        args: Bytes,
        caller: Caller,
        origin: Origin,
        arrived: Micros,
    ) -> Result<Reply, Ended> {
        let deadline = (head.time_left_us != 0).then(|| arrived + Micros::from(head.time_left_us));
        if deadline.is_some_and(|deadline| clock::now() >= deadline) {
            return Err(Ended::Refused(Refusal::DeadlinePassed));
        }
        let request = Request {
            procedure: head.procedure,
            args,
            credentials: caller.credentials,
            local_user: None,
            authenticated: self.is_of_member(head.id.session) || origin.security == Security::Certified,
            holder: self.holder(head.id.session),
            encrypted: origin.security != Security::Plain,
            peer: origin.peer,
            transport: origin.transport,
            deadline: deadline.and_then(clock::instant),
            id: head.id,
        };
        let limit = match origin.transport {
            Transport::Tcp => self.options.payload_bytes,
            Transport::Udp => limits::udp_payload_bytes(self.is_tagged(head.id.session)),
        };
        let _working = RequestId::enter(caller.request);
        self.invoke(&request, limit)
    }

    /// Runs the service, unless the server is shutting down. The result may have up to `limit`
    /// bytes.
    pub(crate) fn invoke(&self, request: &Request, limit: usize) -> Result<Reply, Ended> {
        if self.draining.load(Ordering::Acquire) {
            return Err(Ended::Refused(Refusal::ShuttingDown));
        }
        let _running = self.running.begin();
        let mut reply = Reply::new();
        let call =
            |service: &dyn Service| catch_unwind(AssertUnwindSafe(|| service.call(request, &mut reply)));
        match self.registry.with(request.procedure, call).map_err(Ended::Refused)? {
            Ok(Ok(())) if reply.len() <= limit => Ok(reply),
            Ok(Ok(())) => Err(Ended::too_large(reply.len(), limit)),
            Ok(Err(ServiceError::NoSuchProcedure)) => Err(Ended::Refused(Refusal::ProcedureUnavailable)),
            Ok(Err(ServiceError::Overloaded)) => Err(Ended::Refused(Refusal::Overloaded)),
            Ok(Err(ServiceError::DeadlinePassed)) => Err(Ended::Refused(Refusal::DeadlinePassed)),
            Ok(Err(ServiceError::Fault(fault))) => Err(Ended::Fault(fault)),
            Ok(Err(ServiceError::Unanswered)) => Err(Ended::Unanswered),
            Err(_) => Err(Ended::panicked()),
        }
    }

    fn revoke(&self, id: CallId, transport: Transport) -> Response {
        let verdict = self.admission.revoke(id, clock::now());
        self.answer_without_execution(id, verdict, transport)
    }

    /// Whether the server accepts calls with this protection.
    pub(crate) fn is_secure(&self, security: Security) -> bool {
        security != Security::Plain || !self.options.tls_required
    }

    /// The refusal for a sender without proof of the key.
    pub(crate) fn last_word(&self, id: CallId, origin: Origin) -> Bytes {
        let secure = self.is_secure(origin.security);
        untagged_refusal(id, if secure { Refusal::Unauthenticated } else { Refusal::TlsRequired })
    }

    /// The frame that refuses call `id`.
    pub(crate) fn refusal(&self, id: CallId, refusal: Refusal) -> Bytes {
        let mut reply = Reply::new();
        let status = refusal.encode(reply.buffer());
        self.frame(Head { status, ..Head::new(Kind::Refused, id) }, reply)
    }

    /// The frame that tells the caller that the outcome of call `id` is unknown.
    pub(crate) fn doubt(&self, id: CallId, doubt: Doubt) -> Bytes {
        self.frame(Head { status: doubt.code(), ..Head::new(Kind::Doubtful, id) }, Reply::new())
    }

    /// The frame that asks the caller to send call `id` again.
    fn send_again(&self, id: CallId) -> Bytes {
        self.frame(Head::new(Kind::SendAgain, id), Reply::new())
    }

    /// A frame around a reply, with checksum and tag.
    pub(crate) fn frame(&self, head: Head, reply: Reply) -> Bytes {
        let key = self.session_key(head.id.session);
        tagged(head, reply, key.as_ref())
    }

    /// Flags of a frame that the server passes on. It carries the cluster's tag, if there is a key.
    pub(crate) fn flags(&self) -> u16 {
        if self.options.key.is_some() { flags::AUTHENTIC } else { 0 }
    }
}

pub(crate) fn flags_with(key: Option<&SessionKey>) -> u16 {
    if key.is_some() { flags::AUTHENTIC } else { 0 }
}

pub(crate) fn append_tag(frame: &mut Vec<u8>, key: Option<&SessionKey>) {
    if let Some(key) = key {
        let tag = key.tag(&[frame]);
        frame.extend_from_slice(&tag);
    }
}

/// A frame around a reply, with checksum, and tag if there is a key.
pub(crate) fn tagged(head: Head, reply: Reply, key: Option<&SessionKey>) -> Bytes {
    let mut frame = fill(Head { flags: flags_with(key), ..head }, reply);
    append_tag(&mut frame, key);
    frame.into()
}

/// The frame that refuses call `id` without a tag.
pub(crate) fn untagged_refusal(id: CallId, refusal: Refusal) -> Bytes {
    let mut reply = Reply::new();
    let status = refusal.encode(reply.buffer());
    fill(Head { status, ..Head::new(Kind::Refused, id) }, reply).into()
}

/// A frame around a reply, with its checksum.
fn fill(head: Head, reply: Reply) -> Vec<u8> {
    let mut frame = reply.into_frame();
    let (room, payload) = frame.split_at_mut(HEAD_BYTES);
    let head = Head { payload_len: payload.len() as u32, payload_crc: crc32c(payload), ..head };
    room.copy_from_slice(&head.fixed(&[]));
    frame
}
