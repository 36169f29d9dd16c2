//! A handle: one socket to one callee. One caller at a time checks it out, so a call is one write
//! and one read.
//!
//! In this crate, code on every call's path is `#[inline]` and rare code is `#[cold]`. That removes
//! a fifth of the taken branches, and a fiftieth of a small call's time.

use crate::RequestId;
use crate::client::handshake::{self, payload_limit, shake_hands};
use crate::client::line::{Line, Received};
use crate::client::message::{Framing, Message, Sum};
use crate::client::onc::OncLine;
use crate::client::session::Lease;
use crate::client::{CallOptions, Shared};
use crate::net::clock;
use crate::net::pool::Callee;
use crate::net::reader::Frame;
use crate::net::socket::Sent;
use crate::proto::Micros;
use crate::proto::answer;
use crate::proto::auth::Credentials;
use crate::proto::call::{Call, Step, Transport};
use crate::proto::extension::{Caller, Extension};
use crate::proto::frame::Kind;
use crate::proto::ids::{CallId, Procedure};
use crate::proto::status::{CallError, Doubt, Fault, Obstacle, Outcome, Refusal};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The handle checks a pooled connection that was unused for longer than this before it carries a
/// call: servers close idle connections. The check costs a system call.
const LOOK_AFTER: Micros = 10_000;

/// Sessions tried for one call. A server that forgot each session at once would otherwise never let
/// the call begin.
const SESSIONS_TRIED: usize = 3;

/// A connection or socket to a callee, with the caller's place in a session.
pub struct Handle {
    shared: Arc<Shared>,
    callee: Callee,
    line: Option<Line>,
    lease: Option<Lease>,
    /// The time at which the handle became ready for the call under way.
    begun: Micros,
    /// The latest time at which the line received something, or was found quiet.
    used: Micros,
    /// The connection terminated abnormally (section IV.B). When the handle is returned, the pool
    /// closes all handles to its callee.
    invalid: bool,
    /// The kind of the latest answer that was a value.
    pub(crate) answered: Kind,
    /// The socket to a callee that speaks plain ONC RPC. Then `line` and `lease` are unused.
    onc: Option<Box<OncLine>>,
}

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>, callee: Callee, idle: Option<Idle>) -> Self {
        let (line, lease, used) = match idle {
            Some(idle) => (Some(idle.line), Some(idle.lease), idle.since),
            None => (None, None, clock::now()),
        };
        Self {
            shared,
            callee,
            line,
            lease,
            begun: used,
            used,
            invalid: false,
            answered: Kind::Value,
            onc: None,
        }
    }

    /// A handle to a callee that speaks plain ONC RPC.
    pub(crate) fn onc(shared: Arc<Shared>, callee: Callee) -> Self {
        let mut handle = Self::new(shared, callee, None);
        handle.onc = Some(Box::new(OncLine::new(callee)));
        handle
    }

    /// The callee's address.
    pub fn callee(&self) -> SocketAddr {
        self.callee.0
    }

    /// The transport of its calls.
    pub fn transport(&self) -> Transport {
        self.callee.1
    }

    /// Calls `procedure` with the client's options. The arguments are the slices of `args`, one
    /// after another. The callee executes the call at most once. A result above 4 KiB is a part of
    /// its receive buffer, which has at least 132 KiB: copy results that you keep for long.
    ///
    /// # Errors
    /// [`CallError`]: the procedure's own error, the reason why the call wasn't executed, or the
    /// reason why its outcome is unknown.
    #[inline]
    pub fn call(&mut self, procedure: Procedure, args: &[&[u8]]) -> Result<Bytes, CallError> {
        self.call_with(procedure, args, &CallOptions::default())
    }

    /// [`Handle::call`] with the call's own options.
    ///
    /// # Errors
    /// The errors of [`Handle::call`].
    #[inline]
    pub fn call_with(
        &mut self,
        procedure: Procedure,
        args: &[&[u8]],
        options: &CallOptions,
    ) -> Result<Bytes, CallError> {
        if let Some(onc) = &mut self.onc {
            return onc.call(&self.shared, procedure, args, options).into_result();
        }
        let extension = self.shared.extension(options);
        let sum = Sum::of(args);
        let message =
            Message { kind: Kind::Call, procedure, args, extension: &extension, flags: 0, sum, turn: None };
        let now = clock::now();
        let outcome = self.exchange_from(now, &message, self.shared.deadline(options, now));
        self.of_one_callee(outcome).into_result()
    }

    /// Outcome of a call to a single callee. An answer with a chain's outcomes is no value for it.
    #[inline]
    pub(crate) fn of_one_callee(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Value(_) if self.answered != Kind::Value => Outcome::Unknown(Doubt::BadAnswer),
            outcome => outcome,
        }
    }

    /// Connects and gets a session, unless the handle has both.
    pub(crate) fn make_ready(&mut self, deadline: Option<Micros>) -> Result<(), Refusal> {
        self.make_ready_from(clock::now(), deadline)
    }

    /// The same at a known time. A call reads the clock once, since each reading takes a hundredth
    /// of a small call's time.
    #[inline]
    fn make_ready_from(&mut self, now: Micros, deadline: Option<Micros>) -> Result<(), Refusal> {
        self.begun = now;
        if now.saturating_sub(self.used) > LOOK_AFTER {
            self.look_at_line(now);
        }
        let usable = self.lease.as_ref().is_some_and(|lease| lease.session.is_usable(now));
        if usable && self.line.is_some() {
            return Ok(());
        }
        self.become_ready(usable, deadline)
    }

    /// Drops the connection if the callee has closed it.
    #[cold]
    fn look_at_line(&mut self, now: Micros) {
        let Some(line) = &self.line else { return };
        if line.is_quiet() {
            self.used = now;
        } else {
            self.line = None;
            self.invalid = true;
            // Most likely the server restarted. A needless handshake costs less than a call that is
            // refused for its session.
            self.lose_session();
        }
    }

    #[cold]
    fn become_ready(&mut self, usable: bool, deadline: Option<Micros>) -> Result<(), Refusal> {
        let patience = handshake::deadline(deadline, self.shared.options.connect_timeout);
        if self.line.is_none() {
            self.connect(patience)?;
        }
        if usable {
            self.begun = clock::now();
            return Ok(());
        }
        let place = self.shared.sessions.place(self.callee);
        let session = place.session(patience, || {
            let Some(line) = &mut self.line else {
                return Err(Refusal::Unreachable(Obstacle::Unknown));
            };
            let options = &self.shared.options;
            let session =
                shake_hands(line, (options.key.as_ref(), options.key_id.as_ref()), options.retry, patience);
            // After a failure the line may hold bytes that belong to no call.
            session.inspect_err(|_| self.line = None)
        })?;
        self.lease = Some(session.lease());
        self.begun = clock::now();
        Ok(())
    }

    fn connect(&mut self, deadline: Option<Micros>) -> Result<(), Refusal> {
        let (callee, transport) = self.callee;
        self.line = Some(Line::connect(callee, transport, deadline, &self.shared.options)?);
        Ok(())
    }

    /// Makes one call. If the callee lost the session before the call could begin, the handle
    /// repeats the call in a new one.
    pub(crate) fn exchange(&mut self, message: &Message<'_>, deadline: Option<Micros>) -> Outcome {
        self.exchange_from(clock::now(), message, deadline)
    }

    #[inline]
    fn exchange_from(&mut self, mut now: Micros, message: &Message<'_>, deadline: Option<Micros>) -> Outcome {
        let mut tried = 0;
        loop {
            let outcome = match self.make_ready_from(now, deadline) {
                Ok(()) => self.attempt(message, deadline),
                Err(refusal) => Outcome::NotExecuted(refusal),
            };
            tried += 1;
            if tried == SESSIONS_TRIED || !matches!(outcome, Outcome::NotExecuted(Refusal::UnknownSession)) {
                return outcome;
            }
            now = clock::now();
        }
    }

    #[inline]
    fn attempt(&mut self, message: &Message<'_>, deadline: Option<Micros>) -> Outcome {
        match self.begin(message, deadline) {
            Ok(call) => self.drive_from_start(call, message, deadline),
            Err(refusal) => Outcome::NotExecuted(refusal),
        }
    }

    /// [`Handle::drive`] of a call that hasn't been sent. Most calls are sent once and answered at
    /// once, so this path has no loop.
    #[inline]
    fn drive_from_start(
        &mut self,
        mut call: Call,
        message: &Message<'_>,
        deadline: Option<Micros>,
    ) -> Outcome {
        let mut step = self.transmit(&mut call, message, deadline);
        if let Step::Wait(until) = step {
            let received = self.receive(until);
            step = match self.on_received(received, &mut call) {
                Next::Over(outcome) => return outcome,
                Next::Step(step) => step,
            };
        }
        self.drive(call, step, message, deadline)
    }

    /// The identifier of a call that will reach the callee by a chain.
    pub(crate) fn next_call(&mut self) -> Option<CallId> {
        self.lease.as_mut().map(|lease| lease.next_call(clock::now()))
    }

    /// Asks the callee for the outcome of such a call. A call that hasn't begun never will.
    pub(crate) fn revoke(&mut self, id: CallId, deadline: Option<Micros>) -> Outcome {
        let sum = Sum::of(&[]);
        let procedure = Procedure::default();
        let message =
            Message { kind: Kind::Revoke, procedure, args: &[], extension: &[], flags: 0, sum, turn: None };
        if self.lease.is_none() || (self.line.is_none() && self.connect(deadline).is_err()) {
            return Outcome::Unknown(Doubt::ConnectionLost);
        }
        self.begun = clock::now();
        let call = Call::new(id, self.callee.1, self.shared.options.retry, deadline);
        match self.drive(call, Step::Send, &message, deadline) {
            // Other refusals concern the question: it wasn't sent, or not accepted. That proves
            // nothing about the call.
            Outcome::NotExecuted(refusal) if refusal != Refusal::Revoked => {
                Outcome::Unknown(Doubt::ConnectionLost)
            }
            outcome => outcome,
        }
    }

    /// Begins a call on this handle, which must be ready.
    #[inline]
    pub(crate) fn begin(&mut self, message: &Message<'_>, deadline: Option<Micros>) -> Result<Call, Refusal> {
        let (Some(lease), Some(line)) = (&mut self.lease, &self.line) else {
            return Err(Refusal::Unreachable(Obstacle::Unknown));
        };
        if message.sum.len > payload_limit(line, &lease.session, message.extension.len()) {
            return Err(Refusal::TooLarge);
        }
        if deadline.is_some_and(|deadline| deadline <= self.begun) {
            return Err(Refusal::DeadlinePassed);
        }
        let id = lease.next_call(self.begun);
        Ok(Call::new(id, self.callee.1, self.shared.options.retry, deadline))
    }

    /// Takes a call from `step` to its end, and sleeps as needed.
    #[inline(never)]
    pub(crate) fn drive(
        &mut self,
        mut call: Call,
        mut step: Step,
        message: &Message<'_>,
        deadline: Option<Micros>,
    ) -> Outcome {
        loop {
            step = match step {
                Step::Send => self.transmit(&mut call, message, deadline),
                Step::Wait(until) => {
                    let received = self.receive(until);
                    match self.on_received(received, &mut call) {
                        Next::Step(step) => step,
                        Next::Over(outcome) => return outcome,
                    }
                }
                Step::Reconnect(at) => self.reconnect(&mut call, at, deadline),
                over => return self.end(over, &call),
            }
        }
    }

    /// Takes a call one step further after a frame, a timeout or a broken connection.
    #[inline]
    pub(crate) fn on_received(&mut self, received: Received, call: &mut Call) -> Next {
        Next::Step(match received {
            Received::Frame(frame) => {
                self.used = frame.arrived;
                match self.read(&frame, call.id()) {
                    Read::Answer(answer) => match call.on_answer(answer, frame.arrived) {
                        Step::Answered => return Next::Over(self.outcome(frame)),
                        step => self.spare(frame, step),
                    },
                    // The timer must be checked: a stream of foreign frames would otherwise keep
                    // the call for ever.
                    Read::Foreign => {
                        let step = call.on_time(frame.arrived);
                        self.spare(frame, step)
                    }
                    Read::Forged => self.on_forged(call),
                }
            }
            Received::TimedOut => call.on_time(clock::now()),
            Received::Broken => self.on_broken(call),
            Received::PortRefused => call.on_port_refused(clock::now()),
            // Don't ask again: the answer would be as large.
            Received::TooLarge(id) if id == call.id() => Step::Unknown(Doubt::AnswerTooLarge),
            Received::TooLarge(_) => self.on_broken(call),
        })
    }

    /// Handles an answer with a wrong tag. A restarted server doesn't know the session, so it can't
    /// find the caller's own key to tag its answer. The next call makes a new handshake.
    #[cold]
    fn on_forged(&mut self, call: &mut Call) -> Step {
        if let Some(lease) = self.lease.as_ref().filter(|_| self.shared.options.key_id.is_some()) {
            lease.session.lose();
        }
        self.on_broken(call)
    }

    /// The outcome of a call that got no value.
    #[cold]
    pub(crate) fn end(&mut self, step: Step, call: &Call) -> Outcome {
        let lost = [
            Step::NotExecuted(Refusal::UnknownSession),
            // The session's key is missing or has expired. The server would refuse the next call of this
            // session, too.
            Step::NotExecuted(Refusal::Unauthenticated),
            Step::Unknown(Doubt::SessionLost),
        ];
        if lost.contains(&step) {
            self.lose_session();
        }
        match step {
            Step::NotExecuted(refusal) => {
                // After a refusal, the connection is clean. After a part of a frame, it isn't.
                if !call.may_have_executed() {
                    self.line = None;
                }
                Outcome::NotExecuted(refusal)
            }
            other => {
                // An answer may still come, and no other call must take it for its own.
                self.line = None;
                Outcome::Unknown(if let Step::Unknown(doubt) = other { doubt } else { Doubt::BadAnswer })
            }
        }
    }

    /// The callee doesn't know the session any more: the next call uses another.
    #[cold]
    pub(crate) fn lose_session(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.session.lose();
        }
    }

    /// The callee has executed a call of this session.
    #[inline]
    pub(crate) fn note_executed(&self) {
        if let Some(lease) = &self.lease {
            lease.session.executed();
        }
    }

    #[inline]
    fn transmit(&mut self, call: &mut Call, message: &Message<'_>, deadline: Option<Micros>) -> Step {
        let Some(turn) = message.turn else {
            // A first transmission without a turn uses the time that the handle has already read.
            let prompt = (!call.may_have_executed()).then_some(self.begun);
            return self.transmit_now(call, message, deadline, prompt);
        };
        match turn.take(deadline) {
            Some(_taken) => self.transmit_in_turn(call, message, deadline),
            None => call.on_time(clock::now()),
        }
    }

    #[inline(never)]
    fn transmit_in_turn(&mut self, call: &mut Call, message: &Message<'_>, deadline: Option<Micros>) -> Step {
        self.transmit_now(call, message, deadline, None)
    }

    /// Transmits at `now`, or reads the clock if that is `None`.
    #[inline]
    fn transmit_now(
        &mut self,
        call: &mut Call,
        message: &Message<'_>,
        deadline: Option<Micros>,
        now: Option<Micros>,
    ) -> Step {
        let framing = self.framing(call, message, || now.unwrap_or_else(clock::now));
        let (Some(line), Some(framing)) = (&mut self.line, framing) else {
            return call.on_broken(clock::now());
        };
        match line.send_call(&framing, message.args, deadline) {
            Sent::Whole => call.sent(clock::now),
            Sent::TimedOut => self.on_time_over(call),
            Sent::Broken => self.on_broken(call),
        }
    }

    /// The call timed out after a part of it was sent.
    #[cold]
    fn on_time_over(&mut self, call: &mut Call) -> Step {
        self.line = None;
        call.on_time(clock::now())
    }

    /// Head and tag of the next transmission.
    #[inline]
    pub(crate) fn framing<'a>(
        &self,
        call: &Call,
        message: &Message<'a>,
        now: impl FnOnce() -> Micros,
    ) -> Option<Framing<'a>> {
        let lease = self.lease.as_ref()?;
        Some(message.frame(call.id(), call.time_left_us(now), lease.session.key.as_ref()))
    }

    pub(crate) fn line(&mut self) -> Option<&mut Line> {
        self.line.as_mut()
    }

    /// Whether a call could be sent at once. This first checks a connection that was unused for
    /// long.
    pub(crate) fn is_ready(&mut self) -> bool {
        self.begun = clock::now();
        let fresh = self.begun.saturating_sub(self.used) <= LOOK_AFTER;
        let quiet = self.line.as_ref().is_some_and(|line| fresh || line.is_quiet());
        quiet && self.lease.as_ref().is_some_and(|lease| lease.session.is_usable(self.begun))
    }

    #[inline]
    fn receive(&mut self, until: Option<Micros>) -> Received {
        self.line.as_mut().map_or(Received::Broken, |line| line.receive(until))
    }

    #[inline]
    fn read(&self, frame: &Frame, id: CallId) -> Read {
        if let Some(key) = self.lease.as_ref().and_then(|lease| lease.session.key.as_ref())
            && !frame.is_authentic(key)
        {
            // Over UDP any host can forge frames, so ignore this one. Over TCP, a forged frame ends
            // the connection.
            return if self.callee.1 == Transport::Udp { Read::Foreign } else { Read::Forged };
        }
        if frame.head.kind == Kind::SendAgain && !self.may_be_asked_again() {
            return Read::Foreign;
        }
        answer::read(&frame.head, frame.payload(), frame.intact, id).map_or(Read::Foreign, Read::Answer)
    }

    /// With a key, the handle ignores requests to send again over UDP. Such a request may be the
    /// answer to a stranger's damaged datagram. The stranger would then have it, with its tag, and
    /// could replay it for ever.
    #[cold]
    fn may_be_asked_again(&self) -> bool {
        let keyed = self.lease.as_ref().is_some_and(|lease| lease.session.key.is_some());
        !keyed || self.callee.1 == Transport::Tcp
    }

    #[cold]
    fn spare(&mut self, frame: Frame, step: Step) -> Step {
        if let Some(line) = &mut self.line {
            line.give_back(Some(frame.into_buffer()));
        }
        step
    }

    #[inline]
    fn outcome(&mut self, frame: Frame) -> Outcome {
        self.answered = frame.head.kind;
        self.note_executed();
        if frame.head.kind == Kind::Fault {
            return Self::fault(&frame);
        }
        let (payload, spare) = frame.into_payload();
        if let Some(line) = &mut self.line {
            line.give_back(spare);
        }
        Outcome::Value(payload)
    }

    #[cold]
    fn fault(frame: &Frame) -> Outcome {
        Outcome::Error(Fault::decode(frame.payload()))
    }

    #[cold]
    pub(crate) fn on_broken(&mut self, call: &mut Call) -> Step {
        self.line = None;
        self.invalid = true;
        call.on_broken(clock::now())
    }

    #[cold]
    fn reconnect(&mut self, call: &mut Call, at: Micros, deadline: Option<Micros>) -> Step {
        std::thread::sleep(Duration::from_micros(at.saturating_sub(clock::now())));
        match self.connect(handshake::deadline(deadline, self.shared.options.connect_timeout)) {
            Ok(()) => {
                self.begun = clock::now();
                Step::Send
            }
            Err(_) => call.on_broken(clock::now()),
        }
    }
}

/// The pooled part of a handle.
pub(crate) struct Idle {
    line: Line,
    lease: Lease,
    since: Micros,
}

impl Idle {
    /// Closes a forked child's copy of its parent's connection.
    pub(crate) fn leave_to_parent(self) {
        self.lease.leave_to_parent();
    }
}

/// A call's next step after an event on its line.
pub(crate) enum Next {
    Step(Step),
    Over(Outcome),
}

enum Read {
    Answer(crate::proto::call::Answer),
    Foreign,
    Forged,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.onc.is_some() {
            return; // such handles aren't pooled
        }
        if !self.shared.process.is_this() {
            // This is a forked child's copy. The parent continues to use its own.
            return self.lease.take().into_iter().for_each(Lease::leave_to_parent);
        }
        let idle = self.line.take().zip(self.lease.take()).map(|(mut line, lease)| {
            line.rest();
            Idle { line, lease, since: self.used }
        });
        self.shared.handles.give_back(self.callee, idle, self.invalid);
    }
}

impl Shared {
    /// The deadline of a call that begins now.
    #[inline]
    pub(crate) fn deadline(&self, options: &CallOptions, now: Micros) -> Option<Micros> {
        let timeout = options.timeout.or(self.options.timeout)?;
        Some(clock::after(now, timeout))
    }

    #[inline]
    pub(crate) fn extension(&self, options: &CallOptions) -> Vec<u8> {
        match (self.credentials(options), RequestId::current()) {
            (Credentials::None, None) => Vec::new(),
            _ => self.encoded_caller(options),
        }
    }

    #[inline(never)]
    fn encoded_caller(&self, options: &CallOptions) -> Vec<u8> {
        Extension::from(self.caller(options)).encode()
    }

    /// The caller's credentials, and the request that this thread works for.
    #[inline(never)]
    pub(crate) fn caller(&self, options: &CallOptions) -> Caller {
        Caller { credentials: self.credentials(options).clone(), request: RequestId::current() }
    }

    pub(crate) fn credentials<'a>(&'a self, options: &'a CallOptions) -> &'a Credentials {
        options.credentials.as_ref().unwrap_or(&self.options.credentials)
    }
}
