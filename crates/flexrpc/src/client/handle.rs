//! A handle: one socket to one callee, checked out by one caller at a time, so
//! that a call is one write and one read.
//!
//! Here and below, what each call passes through is marked `#[inline]`, and what few do
//! `#[cold]`: with a fifth of the taken branches gone, a small call takes a fiftieth less.

use crate::client::handshake::{self, payload_limit, shake_hands};
use crate::client::line::{Line, Received};
use crate::client::message::{Framing, Message, Sum};
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
use crate::proto::status::{CallError, Doubt, Fault, Outcome, Refusal};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use strait_telemetry::RequestId;

/// A pooled connection unused for longer is looked at before it carries a call:
/// looking costs a system call, and servers close idle ones.
const LOOK_AFTER: Micros = 10_000;

/// Sessions tried for one call: a server that forgets a session at once would
/// never let it begin.
const SESSIONS_TRIED: usize = 3;

/// A connection or socket to a callee, with the caller's place in a session.
pub struct Handle {
    shared: Arc<Shared>,
    callee: Callee,
    line: Option<Line>,
    lease: Option<Lease>,
    /// When the handle was last ready for the call under way.
    begun: Micros,
    /// When something last arrived on the line, or it was looked at.
    used: Micros,
    /// The connection terminated abnormally (section IV.B): when the handle
    /// comes back, all of its callee's are closed.
    invalid: bool,
    /// Of the last answer that was a value.
    pub(crate) answered: Kind,
    /// The process that checked it out, if it was for longer than a call.
    holder: Option<u32>,
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
            holder: None,
        }
    }

    /// The same, for a caller who keeps it.
    pub(crate) fn held_by(mut self, process: u32) -> Self {
        self.holder = Some(process);
        self
    }

    /// Whom it calls.
    pub fn callee(&self) -> SocketAddr {
        self.callee.0
    }

    /// By which transport.
    pub fn transport(&self) -> Transport {
        self.callee.1
    }

    /// Calls `procedure` with the argument bytes in `args`, one after another, by
    /// the client's options. Executed at most once. A result above 4 KiB comes in the buffer
    /// that it was received in, of 132 KiB at least: copy what is kept for long.
    ///
    /// # Errors
    /// The procedure's own error, or why it wasn't executed, or that this isn't
    /// known.
    #[inline]
    pub fn call(&mut self, procedure: Procedure, args: &[&[u8]]) -> Result<Bytes, CallError> {
        self.call_with(procedure, args, &CallOptions::default())
    }

    /// [`Handle::call`] with options of its own.
    ///
    /// # Errors
    /// As [`Handle::call`].
    #[inline]
    pub fn call_with(
        &mut self,
        procedure: Procedure,
        args: &[&[u8]],
        options: &CallOptions,
    ) -> Result<Bytes, CallError> {
        let extension = self.shared.extension(options);
        let sum = Sum::of(args);
        let message =
            Message { kind: Kind::Call, procedure, args, extension: &extension, flags: 0, sum, turn: None };
        let now = clock::now();
        let outcome = self.exchange_from(now, &message, self.shared.deadline(options, now));
        self.of_one_callee(outcome).into_result()
    }

    /// What a call has ended with that wasn't a chain's: many callees' outcomes are no value.
    #[inline]
    pub(crate) fn of_one_callee(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Value(_) if self.answered != Kind::Value => Outcome::Unknown(Doubt::BadAnswer),
            outcome => outcome,
        }
    }

    /// Connects and gets a session, where that isn't done.
    pub(crate) fn make_ready(&mut self, deadline: Option<Micros>) -> Result<(), Refusal> {
        self.make_ready_from(clock::now(), deadline)
    }

    /// The same, where the clock has just been looked at: once for all of a call,
    /// since each look is a hundredth of a small one.
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

    /// Gives a connection up that the callee has closed.
    #[cold]
    fn look_at_line(&mut self, now: Micros) {
        let Some(line) = &self.line else { return };
        if line.is_quiet() {
            self.used = now;
        } else {
            self.line = None;
            self.invalid = true;
            // Most likely the server restarted: better a handshake too many than
            // a call refused for its session.
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
            let Some(line) = &mut self.line else { return Err(Refusal::Unreachable) };
            let options = &self.shared.options;
            let session =
                shake_hands(line, (options.key.as_ref(), options.key_id.as_ref()), options.retry, patience);
            // What is left in the line after a failure is nobody's.
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

    /// Makes one call, in a new session if the callee has lost the old one before
    /// the call could have begun.
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

    /// [`Handle::drive`] of a call that hasn't been sent: mostly sent once and answered at
    /// once, which is a straight line here.
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

    /// The identifier of a call that others will bring to the callee.
    pub(crate) fn next_call(&mut self) -> Option<CallId> {
        self.lease.as_mut().map(|lease| lease.next_call(clock::now()))
    }

    /// Asks what became of such a call, and sees to it that it won't begin if it
    /// hasn't.
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
            // That the question wasn't sent says nothing of the call.
            Outcome::NotExecuted(refusal) if refusal != Refusal::Revoked => {
                Outcome::Unknown(Doubt::ConnectionLost)
            }
            outcome => outcome,
        }
    }

    /// A new call on this handle, which must be ready.
    #[inline]
    pub(crate) fn begin(&mut self, message: &Message<'_>, deadline: Option<Micros>) -> Result<Call, Refusal> {
        let (Some(lease), Some(line)) = (&mut self.lease, &self.line) else {
            return Err(Refusal::Unreachable);
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

    /// Takes a call from `step` to its end, sleeping where it has to.
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

    /// What a frame, its absence, or a broken connection means for the call.
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
                    // Not just waiting on: whoever sends many would keep the call for ever.
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
            // It would be as large a second time.
            Received::TooLarge(id) if id == call.id() => Step::Unknown(Doubt::AnswerTooLarge),
            Received::TooLarge(_) => self.on_broken(call),
        })
    }

    /// A server that has restarted doesn't know the session, and so not by which of its callers'
    /// own keys to tag an answer: the next call shakes hands anew.
    #[cold]
    fn on_forged(&mut self, call: &mut Call) -> Step {
        if let Some(lease) = self.lease.as_ref().filter(|_| self.shared.options.key_id.is_some()) {
            lease.session.lose();
        }
        self.on_broken(call)
    }

    /// The outcome of a call that got no answer of value.
    #[cold]
    pub(crate) fn end(&mut self, step: Step, call: &Call) -> Outcome {
        let lost = [
            Step::NotExecuted(Refusal::UnknownSession),
            // Without a key, or by one that doesn't hold any more: this session stays refused.
            Step::NotExecuted(Refusal::Unauthenticated),
            Step::Unknown(Doubt::SessionLost),
        ];
        if lost.contains(&step) {
            self.lose_session();
        }
        match step {
            Step::NotExecuted(refusal) => {
                // Refused, the connection is clean; not sent whole, it isn't.
                if !call.may_have_executed() {
                    self.line = None;
                }
                Outcome::NotExecuted(refusal)
            }
            other => {
                // An answer may still come: nobody else's.
                self.line = None;
                Outcome::Unknown(if let Step::Unknown(doubt) = other { doubt } else { Doubt::BadAnswer })
            }
        }
    }

    /// The callee doesn't know the session any more: the next call is made in another.
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
            // Of a first transmission that waits for nobody this is now.
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

    /// Transmits at the time `now`, if that is known.
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

    /// The time is over, and half of the call has left.
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

    /// Whether a call could be sent at once.
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
            // Over UDP anybody can send anything; on a connection it is over.
            return if self.callee.1 == Transport::Udp { Read::Foreign } else { Read::Forged };
        }
        if frame.head.kind == Kind::SendAgain && !self.may_be_asked_again() {
            return Read::Foreign;
        }
        answer::read(&frame.head, frame.payload(), frame.intact, id).map_or(Read::Foreign, Read::Answer)
    }

    /// With a key, nobody is asked again over UDP: what came damaged may have been a
    /// stranger's, who would be given that request with a tag, to be handed on for ever.
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

/// A handle's inside: what is pooled.
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

/// Where a call is after something was received.
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
        if self.holder.is_some_and(|holder| holder != std::process::id()) {
            // A forked child's copy: its parent goes on with it.
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
    /// Of a call that begins now.
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

    /// Who calls, and for which request this thread does.
    #[inline(never)]
    pub(crate) fn caller(&self, options: &CallOptions) -> Caller {
        Caller { credentials: self.credentials(options).clone(), request: RequestId::current() }
    }

    fn credentials<'a>(&'a self, options: &'a CallOptions) -> &'a Credentials {
        options.credentials.as_ref().unwrap_or(&self.options.credentials)
    }
}
