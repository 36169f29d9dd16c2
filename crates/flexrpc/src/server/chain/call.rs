//! A chain call on its way through this callee. Bytes arrive from the caller or the previous
//! callee, and leave for the next one; outcomes come back. The code here never sleeps. The call's
//! owner, a worker or the forwarder, calls [`ChainCall::advance`] when a socket is ready or a timer
//! is due.

use super::downstream::{Downstream, Push};
use super::job::Job;
use crate::net::buffer::{Buffer, Share};
use crate::net::clock;
use crate::net::pool::Pool;
use crate::net::reader::{Frame, Piece, Read, ReadError, Reader};
use crate::net::socket;
use crate::net::wire::{Security, Wire};
use crate::proto::Micros;
use crate::proto::answer;
use crate::proto::call::{Answer, Transport};
use crate::proto::chain::{self, Hop};
use crate::proto::extension::{Caller, Extension};
use crate::proto::frame::{Head, Kind, TAG_BYTES, flags};
use crate::proto::reception::Reception;
use crate::proto::relay::Relay;
use crate::proto::status::{Doubt, Fault, Obstacle, Outcome, Refusal};
use crate::server::connection::Connection;
use crate::server::core::{Core, Response, untagged_refusal};
use crate::server::service::{Ended, Reply};
use crate::sync::{Mutex, MutexGuard};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags};
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How many receives a call makes in a row before other calls get their turn.
const READS_IN_A_ROW: usize = 32;

/// One part in this many of the remaining time is kept for the answer's way back: a callee must time out
/// before its own caller does.
const KEPT_TIME: Micros = 16;

/// Idle connections to next callees.
pub(crate) type Idle = Mutex<Pool<Downstream>>;

pub(crate) struct ChainCall {
    pub(crate) id: u64,
    pub(crate) upstream: Arc<Connection>,
    reader: Reader,
    head: Head,
    arrived: Micros,
    /// The time at which the callees behind time out.
    answer_by: Option<Micros>,
    /// The time at which a shutdown stops waiting for the call.
    end_by: Option<Micros>,
    /// The time at which the call began to arrive, or its answer to leave.
    begun: Micros,
    /// The latest time at which bytes of it arrived or left.
    moved: Micros,
    relay: Relay,
    /// The next callee, and the frame's head for it; absent if the call is refused.
    next: Option<(Hop, Vec<u8>)>,
    refusal: Option<Refusal>,
    pub(crate) downstream: Option<Downstream>,
    /// Whether the next callee's socket has no room for bytes that may leave.
    blocked: bool,
    tag: Option<[u8; TAG_BYTES]>,
    /// The caller's identity, until a worker gets the call to execute.
    caller: Option<Caller>,
    /// The payload, after all of it has arrived.
    payload: Option<Bytes>,
    answer: Option<(Bytes, usize)>,
    /// The answer's share of the memory for callers that are slow to receive.
    untaken: Option<Share>,
}

/// The outcome of an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advanced {
    /// The call waits for a socket, its execution, or a timer.
    Waits,
    /// More work is possible at once, but other calls come first.
    More,
    /// The answer has left: the connection can carry the next call.
    Over,
    /// The connection is unusable.
    Closed,
}

impl ChainCall {
    /// Takes over a connection on which a chain call's head has arrived.
    pub(crate) fn begin(
        id: u64,
        upstream: Arc<Connection>,
        frame: Option<Frame>,
        core: &Core,
    ) -> Option<Self> {
        let reader = {
            let mut line = upstream.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            line.lent = true;
            std::mem::replace(&mut line.reader, core.reader())
        };
        let (head, arrived, extension) = match &frame {
            Some(frame) => (frame.head, frame.arrived, Extension::decode(frame.extension())),
            None => (*reader.head()?, reader.arrived(), Extension::decode(reader.extension())),
        };
        let now = clock::now();
        let mut call = Self {
            id,
            upstream,
            reader,
            head,
            arrived,
            answer_by: Some(answer_by(&head, arrived, core.options.chain_wait)),
            end_by: None,
            begun: now,
            moved: now,
            relay: Relay::new(head.payload_len as usize, 0, true),
            next: None,
            refusal: None,
            downstream: None,
            blocked: false,
            tag: None,
            caller: None,
            payload: None,
            answer: None,
            untaken: None,
        };
        match extension.map_err(|_| Refusal::Malformed).and_then(|extension| call.plan(extension, core)) {
            Ok(()) => {}
            Err(refusal) => call.refusal = Some(refusal),
        }
        match frame {
            Some(frame) => call.payload_is_whole(frame, core).then_some(call),
            None => {
                call.relay.received(call.reader.payload_so_far().len());
                Some(call)
            }
        }
    }

    /// Plans the transmission to the next callee.
    fn plan(&mut self, mut extension: Extension, core: &Core) -> Result<(), Refusal> {
        let chain = extension.chain.take().ok_or(Refusal::Malformed)?;
        chain.check(core.options.chain_callees, |session| core.admission.knows(session))?;
        if chain.hops.first().is_some_and(|next| !core.may_forward_to(next.callee)) {
            return Err(Refusal::ForwardingDenied);
        }
        // A call that is passed on carries the cluster's tag. Callers without the cluster's key
        // mustn't obtain such tags.
        if core.is_bound(self.head.id.session) {
            return Err(Refusal::ForwardingDenied);
        }
        if !core.is_secure(self.upstream.fd.security()) {
            return Err(Refusal::TlsRequired);
        }
        if self.is_encrypted() && core.forwarding_tls().is_none() {
            return Err(Refusal::ForwardingDenied);
        }
        if core.draining.load(std::sync::atomic::Ordering::Acquire) && core.admission.is_new(self.head.id) {
            return Err(Refusal::ShuttingDown);
        }
        let behind = chain.hops.len();
        let (next, rest) = chain.split().ok_or(Refusal::BadChain)?;
        let store_and_forward = self.head.has(flags::STORE_AND_FORWARD);
        // A duplicate gets its answer from the cache, so nothing is passed on.
        let eager = core.admission.is_new(self.head.id) && !store_and_forward;
        self.relay = Relay::new(self.head.payload_len as usize, behind, !eager);
        let chain_flag = if rest.hops.is_empty() { 0 } else { flags::CHAIN };
        let mode = self.head.flags & flags::STORE_AND_FORWARD;
        let head = Head {
            flags: core.flags() | chain_flag | mode,
            payload_len: self.head.payload_len,
            payload_crc: self.head.payload_crc,
            procedure: self.head.procedure,
            time_left_us: time_left(self.answer_by),
            ..Head::new(Kind::Call, next.id)
        };
        let caller = extension.into_caller();
        let chain = (!rest.hops.is_empty()).then_some(rest);
        let extension = Extension { chain, ..caller.clone().into() };
        self.caller = Some(caller);
        self.next = Some((next, head.encode(&extension.encode())));
        Ok(())
    }

    /// Advances the call as far as possible without waiting. A worker may sleep in a receive
    /// instead of polling first, for at most [`STICK`](crate::server::connection::STICK).
    pub(crate) fn advance(&mut self, core: &Core, idle: &Idle, may_sleep: bool) -> Advanced {
        // First pass on the bytes that came with the head, since a receive may sleep until more
        // bytes come.
        self.pass_on(core, idle);
        let mut more = self.payload.is_none() && self.answer.is_none();
        for _ in 0..READS_IN_A_ROW {
            if !more {
                break;
            }
            match self.receive(core, may_sleep && !self.blocked) {
                Some(received) => more = received,
                None => return Advanced::Closed,
            }
            self.pass_on(core, idle);
            // Compute the checksum while the bytes travel.
            self.reader.check();
        }
        // Before this callee executes the call, the next one has hardly answered: don't look for
        // its answer yet.
        if !(may_sleep && self.has_left() && self.caller.is_some()) {
            self.listen(core, idle);
        }
        let now = clock::now();
        let ends = self.end_by.is_some_and(|by| now >= by);
        if ends || self.answer_by.is_some_and(|by| now >= by) {
            self.answer_by = None;
            if self.payload.is_none() && self.answer.is_none() {
                // The caller also times out, so it needs no answer.
                return Advanced::Closed;
            }
            self.relay.timed_out();
        }
        self.conclude(core);
        match self.flush(core) {
            Advanced::Waits if ends || self.stalls_at(core).is_some_and(|at| now >= at) => Advanced::Closed,
            Advanced::Waits if more => Advanced::More,
            advanced => advanced,
        }
    }

    /// The time of the next advance if no socket becomes ready.
    pub(crate) fn due(&self, core: &Core) -> Option<Micros> {
        [self.answer_by, self.end_by, self.stalls_at(core)].into_iter().flatten().min()
    }

    /// The time at which the caller counts as stalled, while it sends its call or receives its
    /// answer: no bytes have moved for too long, or the whole takes too long.
    fn stalls_at(&self, core: &Core) -> Option<Micros> {
        let bytes = match (&self.payload, &self.answer) {
            (_, Some((answer, _))) => answer.len(),
            (None, None) => self.head.payload_len as usize,
            (Some(_), None) => return None,
        };
        let still = clock::after(self.moved, core.options.message_stall);
        Some(still.min(clock::after(self.begun, core.time_for(bytes))))
    }

    /// For a shutdown: sets the time to stop waiting, which is `at_last` while the service runs
    /// here, and otherwise `soon`.
    pub(crate) fn end_by(&mut self, soon: Micros, at_last: Micros) {
        let by = if self.relay.waits_for_execution() { at_last } else { soon };
        self.end_by = Some(self.end_by.map_or(by, |end_by| end_by.min(by)));
    }

    /// Receives once. `false` if no bytes are waiting or none are needed; `None` if the caller, and
    /// with it the call, is lost.
    fn receive(&mut self, core: &Core, may_sleep: bool) -> Option<bool> {
        let Self { reader, upstream, relay, .. } = self;
        let recv = if may_sleep { Wire::recv } else { Wire::try_recv };
        match reader.read(|room| Ok(recv(&upstream.fd, room)?.map(Piece::now))) {
            Ok(Read::Frame(frame)) => self.payload_is_whole(frame, core).then_some(false),
            Ok(Read::More) => {
                self.moved = clock::now();
                relay.received(reader.payload_so_far().len());
                Some(true)
            }
            Ok(Read::Nothing) => Some(false),
            // No callee behind this one gets the last byte, so none executes the call.
            Err(error) => {
                if let ReadError::NoRoom(head) = error {
                    let _ = upstream.fd.try_send(&[&untagged_refusal(head.id, Refusal::Overloaded)]);
                }
                None
            }
        }
    }

    /// Handles the whole payload; `false` if the connection is unusable.
    fn payload_is_whole(&mut self, frame: Frame, core: &Core) -> bool {
        let origin = self.upstream.origin();
        let reception = core.receive(&frame, self.refusal, origin, clock::now());
        if reception == Reception::Execute {
            self.admit(frame, core);
            return true;
        }
        let response = core.respond(self.head.id, reception, origin);
        match response {
            Response::Send(answer) => self.answer_instead(answer),
            Response::LastWord(answer) => {
                let _ = self.upstream.fd.try_send(&[&answer]);
                return false;
            }
            Response::Silence | Response::Hangup => return false,
        }
        true
    }

    /// Admits the call for execution here, so all of it may leave.
    fn admit(&mut self, frame: Frame, core: &Core) {
        self.relay.release();
        let (payload, spare) = frame.into_payload();
        self.reader.give_back(spare);
        self.tag = self.next.as_ref().and_then(|(next, head)| {
            let key = core.options.key.as_ref()?.of_session(next.id.session);
            Some(key.tag(&[head, &payload]))
        });
        self.payload = Some(payload);
    }

    /// Answers without execution: this transmission doesn't begin the call here.
    fn answer_instead(&mut self, answer: Bytes) {
        self.relay.withhold();
        // This closes the connection before the last byte, so the next callee drops the bytes that
        // it has.
        self.downstream = None;
        self.begin_answer(answer, clock::now());
    }

    fn begin_answer(&mut self, answer: Bytes, now: Micros) {
        (self.begun, self.moved) = (now, now);
        self.answer = Some((answer, 0));
    }

    /// Takes the call for its execution, after all of its payload has arrived. Returns it only
    /// once.
    pub(crate) fn take_job(&mut self) -> Option<Job> {
        let args = self.payload.clone()?;
        Some(Job {
            call: self.id,
            head: self.head,
            args,
            caller: self.caller.take()?,
            origin: self.upstream.origin(),
            arrived: self.arrived,
        })
    }

    /// Whether nothing is left to pass on. Then no callee waits for bytes while this one executes
    /// the call.
    pub(crate) fn has_left(&self) -> bool {
        self.relay.is_sent_whole() || self.relay.rest_is_settled()
    }

    /// Waits until an advance has work. While it waits for the next callee's answer, it first
    /// spins. `false` if nothing happens until `until`.
    pub(crate) fn wait(&mut self, until: Micros) -> bool {
        let all_left = self.has_left();
        let upstream = match (&self.answer, &self.payload) {
            (Some(_), _) => PollFlags::OUT,
            (None, None) => PollFlags::IN,
            (None, Some(_)) => PollFlags::empty(),
        };
        // Don't watch a socket that has no work: if its peer hung up, it would wake this again and
        // again.
        let mut fds = Vec::with_capacity(2);
        if !upstream.is_empty() {
            fds.push(PollFd::new(&self.upstream.fd, upstream));
        }
        let mut spinner = None;
        if let Some(next) = self.downstream.as_mut().filter(|_| !self.relay.rest_is_settled()) {
            let blocked = if self.blocked { next.awaits() } else { PollFlags::empty() };
            fds.push(PollFd::new(&next.fd, PollFlags::IN | blocked));
            spinner = Some(&mut next.spinner).filter(|_| all_left);
        }
        if let Some(spinner) = &mut spinner
            && spinner.spin(|| socket::poll(&mut fds, Some(0)).ok().filter(|ready| *ready)).is_some()
        {
            return true;
        }
        let start = clock::now();
        let until = self.answer_by.map_or(until, |by| by.min(until));
        // An error of poll concerns its arguments. The system calls of the advance report all other
        // errors.
        let ready = socket::poll(&mut fds, Some(until)).unwrap_or(true);
        if let Some(spinner) = spinner {
            spinner.slept_since(start);
        }
        ready
    }

    /// Records the service's result.
    pub(crate) fn ran(&mut self, ended: Result<Reply, Ended>) {
        self.relay.executed(match ended {
            Ok(reply) => Outcome::Value(reply.into_result()),
            Err(Ended::Fault(fault)) => Outcome::Error(fault),
            Err(Ended::Refused(refusal)) => Outcome::NotExecuted(refusal),
            Err(Ended::Unanswered) => Outcome::Error(Ended::unanswered()),
        });
    }

    /// Sends the bytes that may leave to the next callee.
    fn pass_on(&mut self, core: &Core, idle: &Idle) {
        if self.relay.rest_is_settled() || self.answer.is_some() || !self.relay.head_may_leave() {
            return;
        }
        // Repeats only if a pooled connection turns out to be stale.
        while !self.relay.rest_is_settled() {
            if self.downstream.is_none()
                && let Err(refusal) = self.connect(core, idle)
            {
                self.relay.lost(false, Some(refusal));
                return;
            }
            let pushed = self.push();
            self.blocked = matches!(pushed, Ok(Push::Blocked));
            match pushed {
                Ok(Push::Done) if self.relay.tag_may_leave() => return self.relay.sent_whole(),
                Ok(_) => return,
                Err(_) => self.next_is_lost(),
            }
        }
    }

    fn connect(&mut self, core: &Core, idle: &Idle) -> Result<(), Refusal> {
        let Some((next, _)) = &self.next else {
            return Err(Refusal::Unreachable(Obstacle::Unknown));
        };
        let check_out = || lock(idle).check_out((next.callee, Transport::Tcp));
        let pooled = std::iter::from_fn(check_out).find(|downstream| downstream.is_fit(core));
        let downstream = pooled.map_or_else(|| Downstream::connect(next.callee, core), Ok)?;
        // Check again, since the settings may have changed since the call was planned.
        if self.is_encrypted() && downstream.fd.security() == Security::Plain {
            return Err(Refusal::ForwardingDenied);
        }
        self.downstream = Some(downstream);
        Ok(())
    }

    fn push(&mut self) -> std::io::Result<Push> {
        let (Some((_, head)), Some(downstream)) = (&self.next, &mut self.downstream) else {
            return Ok(Push::Blocked);
        };
        let payload = self.payload.as_deref().unwrap_or_else(|| self.reader.payload_so_far());
        let payload = &payload[..self.relay.may_leave().min(payload.len())];
        let tag = self.tag.as_ref().filter(|_| self.relay.tag_may_leave()).map_or(&[][..], |tag| tag);
        downstream.push(&[head, payload, tag])
    }

    /// Handles a broken connection to the next callee, or a failed attempt to connect.
    fn next_is_lost(&mut self) {
        let Some(downstream) = self.downstream.take() else { return };
        let unreachable = Refusal::Unreachable(downstream.obstacle);
        let unsent = (downstream.sent == 0).then(|| downstream.fd.failure().unwrap_or(unreachable));
        // If the relay wants another connection, the next advance makes it.
        self.relay.lost(downstream.pooled, unsent);
    }

    /// Receives the next callee's answer. Continues after a request to send the call again, since
    /// the forwarder's epoll announces each change only once.
    fn listen(&mut self, core: &Core, idle: &Idle) {
        while !self.relay.rest_is_settled() && self.listen_once(core, idle) {}
        if self.downstream.is_none() {
            // If there is another connection to try, begin it, so that its events can be watched.
            self.pass_on(core, idle);
        }
    }

    /// Receives once; `false` if no more has arrived.
    fn listen_once(&mut self, core: &Core, idle: &Idle) -> bool {
        let (Some(downstream), Some((next, _))) = (&mut self.downstream, &self.next) else { return false };
        let id = next.id;
        match downstream.answer() {
            Ok(None) => return false,
            Ok(Some(frame)) => {
                let key = core.options.key.as_ref().map(|key| key.of_session(id.session));
                let authentic = key.is_none_or(|key| frame.is_authentic(&key));
                let answer = answer::read(&frame.head, frame.payload(), frame.intact, id);
                match answer.filter(|_| authentic) {
                    Some(answer) => self.on_answer(answer, frame),
                    None => self.next_is_lost(),
                }
                if self.relay.rest_is_settled() {
                    // If the callee answered before it got the whole call, it still waits for the
                    // rest. So the connection can't carry another call.
                    self.downstream = self.downstream.take().filter(|_| self.relay.is_sent_whole());
                    self.downstream.iter_mut().for_each(|downstream| downstream.answered = true);
                }
            }
            Err(_) => {
                self.next_is_lost();
                self.pass_on(core, idle);
            }
        }
        true
    }

    fn on_answer(&mut self, answer: Answer, frame: Frame) {
        match answer {
            Answer::Executed => {
                let kind = frame.head.kind;
                let behind = self.relay.behind();
                let fault = (kind == Kind::Fault).then(|| Fault::decode(frame.payload()));
                let (payload, spare) = frame.into_payload();
                self.give_back(spare);
                self.relay.answered(match (kind, fault) {
                    (_, Some(fault)) => vec![Outcome::Error(fault)],
                    (Kind::Outcomes, None) => chain::decode_outcomes(&payload, behind).unwrap_or_default(),
                    _ => vec![Outcome::Value(payload)],
                });
            }
            Answer::Refused(refusal) => self.relay.refused(refusal),
            Answer::Doubtful(doubt) => self.relay.doubtful(doubt),
            Answer::SendAgain if self.relay.may_send_again() => {
                self.give_back(Some(frame.into_buffer()));
                if let Some(downstream) = &mut self.downstream {
                    downstream.sent = 0;
                }
                // The next advance sends the rest, if the socket has no room now.
                match self.push() {
                    Ok(pushed) => self.blocked = pushed == Push::Blocked,
                    Err(_) => self.next_is_lost(),
                }
            }
            Answer::SendAgain => {}
            Answer::Pending => self.relay.doubtful(Doubt::ConnectionLost),
        }
    }

    /// Builds the answer after all outcomes are known.
    fn conclude(&mut self, core: &Core) {
        if self.answer.is_some() {
            return;
        }
        let Some(mut outcomes) = self.relay.outcomes() else { return };
        let values = outcomes.iter().map(|outcome| match outcome {
            Outcome::Value(value) => value.len(),
            _ => 0,
        });
        if values.sum::<usize>() > core.options.payload_bytes / 2 {
            let fault = Fault::system("executed, but the results of the chain are too large together");
            outcomes.iter_mut().filter(|outcome| outcome.is_value()).for_each(|outcome| {
                *outcome = Outcome::Error(fault.clone());
            });
        }
        let mut reply = Reply::new();
        reply.put(&chain::encode_outcomes(&outcomes));
        let answer = core.frame(Head::new(Kind::Outcomes, self.head.id), reply);
        let now = clock::now();
        core.admission.complete(self.head.id, answer.clone(), now);
        self.begin_answer(answer, now);
    }

    fn flush(&mut self, core: &Core) -> Advanced {
        let Some((answer, sent)) = &mut self.answer else { return Advanced::Waits };
        while *sent < answer.len() {
            match self.upstream.fd.try_send(&[&answer[*sent..]]) {
                Ok(Some(more)) => {
                    *sent += more;
                    self.moved = clock::now();
                }
                Ok(None) if self.untaken.is_none() => {
                    // An answer that its caller is slow to receive costs memory, which is bounded.
                    self.untaken = core.sending.take(answer.len() - *sent);
                    return if self.untaken.is_some() { Advanced::Waits } else { Advanced::Closed };
                }
                Ok(None) => return Advanced::Waits,
                // The response cache keeps the answer, so the caller can ask for it.
                Err(_) => return Advanced::Closed,
            }
        }
        Advanced::Over
    }

    /// Returns the connections for the next call.
    pub(crate) fn release(mut self, idle: &Idle) -> Arc<Connection> {
        let next = self.next_callee().zip(self.downstream.take());
        if let Some((callee, downstream)) = next.filter(|(_, downstream)| downstream.answered) {
            let evicted = lock(idle).check_in((callee, Transport::Tcp), downstream.rest());
            // Dropping outside the lock closes it.
            drop(evicted);
        }
        let mut line = self.upstream.line.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        line.reader = self.reader;
        line.arrives_since = None;
        line.active = clock::now();
        line.answered = true;
        line.lent = false;
        drop(line);
        self.upstream
    }

    /// Whether the call arrived under TLS. Such a call never leaves unencrypted.
    fn is_encrypted(&self) -> bool {
        self.upstream.fd.security() != Security::Plain
    }

    fn next_callee(&self) -> Option<SocketAddr> {
        self.next.as_ref().map(|(next, _)| next.callee)
    }

    fn give_back(&mut self, spare: Option<Buffer>) {
        if let Some(downstream) = &mut self.downstream {
            downstream.reader.give_back(spare);
        }
    }
}

fn lock(idle: &Idle) -> MutexGuard<'_, Pool<Downstream>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time by which to answer a call.
fn answer_by(head: &Head, arrived: Micros, without_deadline: Duration) -> Micros {
    match Micros::from(head.time_left_us) {
        0 => clock::after(arrived, without_deadline),
        left => arrived + left - left / KEPT_TIME,
    }
}

fn time_left(answer_by: Option<Micros>) -> u32 {
    answer_by.map_or(0, |by| u32::try_from(by.saturating_sub(clock::now()).max(1)).unwrap_or(0))
}
