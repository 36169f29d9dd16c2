//! Callers: the real call, inside a model of a handle. Each makes one call at a time.

use crate::proto::Micros;
use crate::proto::answer;
use crate::proto::call::{Answer, Call, RetryPolicy, Step, Transport};
use crate::proto::chain::{self, Chain, Hop};
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::{CallId, SessionId};
use crate::proto::limits::SESSION_UNUSED_MS;
use crate::proto::status::{Outcome, Refusal};
use crate::sim::frames::Parsed;
use crate::sim::network::Owner;
use crate::sim::parts::{Active, CALLERS_OF_A_CLIENT, Claim, Event, SERVERS, Work};
use crate::sim::world::World;
use bytes::Bytes;

const POLICY: RetryPolicy = RetryPolicy { first_us: 10_000, longest_us: 80_000, reconnects: 3, damaged: 6 };

/// Longer than a server keeps a session without calls.
const LONG_PAUSE: Micros = 2 * SESSION_UNUSED_MS * 1000;

impl World {
    pub(super) fn next_call(&mut self, caller: usize) {
        if self.callers[caller].calls_left == 0 {
            return;
        }
        self.callers[caller].calls_left -= 1;
        let mut callees: Vec<usize> = (0..SERVERS).collect();
        for index in (1..SERVERS).rev() {
            let other = self.random.below(index as u64 + 1) as usize;
            callees.swap(index, other);
        }
        let kind = self.random.below(3);
        let length = if kind == 2 { 2 + self.random.below(SERVERS as u64 - 1) as usize } else { 1 };
        callees.truncate(length);
        let mut ids = Vec::new();
        for server in &callees {
            let Some(session) = self.session(caller, *server) else { return };
            ids.push(self.callers[caller].next_id(session));
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        let transport = if kind == 0 { Transport::Udp } else { Transport::Tcp };
        let deadline = self.now + 30_000 + self.random.below(400_000);
        let (server, id) = (callees[0], ids[0]);
        let store_and_forward = self.random.percent(30);
        let work = if length == 1 { Work::Single } else { Work::Chain { callees, ids, store_and_forward } };
        let call = Call::new(id, transport, POLICY, Some(deadline));
        self.begin(caller, Active { tag, call, server, transport, work, stamp: 0, deadline });
    }

    /// The client's session with a server; makes a handshake if there is none.
    fn session(&mut self, caller: usize, server: usize) -> Option<SessionId> {
        let client = caller / CALLERS_OF_A_CLIENT;
        let first = client * CALLERS_OF_A_CLIENT;
        if self.callers[first].sessions[server].is_none() {
            let session = self.servers[server].open_session(&mut self.random, self.now);
            self.callers[first].sessions[server] = session;
        }
        self.callers[first].sessions[server]
    }

    fn lose_session(&mut self, caller: usize, server: usize, id: CallId) {
        let first = caller / CALLERS_OF_A_CLIENT * CALLERS_OF_A_CLIENT;
        if self.callers[first].sessions[server] == Some(id.session) {
            self.callers[first].sessions[server] = None;
        }
    }

    fn begin(&mut self, caller: usize, mut active: Active) {
        self.callers[caller].stamps += 1;
        active.stamp = self.callers[caller].stamps;
        self.callers[caller].active = Some(active);
        self.follow(caller, Step::Send);
    }

    /// Executes the call's next step.
    fn follow(&mut self, caller: usize, step: Step) {
        let Some(active) = &self.callers[caller].active else { return };
        self.tell(|| {
            let Active { tag, server, transport, .. } = active;
            format!("caller {caller}, call {tag} to {server} by {transport:?}: {step:?}")
        });
        let stamp = active.stamp;
        match step {
            Step::Send => self.transmit(caller),
            Step::Wait(Some(until)) => self.at(until, Event::Timer { caller, stamp }),
            Step::Wait(None) => {}
            Step::Reconnect(at) => {
                let server = active.server;
                self.callers[caller].streams[server] = None;
                self.at(at + 1, Event::Timer { caller, stamp: stamp | RECONNECT });
            }
            Step::Answered => {}
            Step::NotExecuted(refusal) => self.end(caller, Outcome::NotExecuted(refusal), Kind::Refused),
            Step::Unknown(doubt) => {
                let server = active.server;
                // An answer may still arrive on this connection.
                self.callers[caller].streams[server] = None;
                self.end(caller, Outcome::Unknown(doubt), Kind::Doubtful);
            }
        }
    }

    fn transmit(&mut self, caller: usize) {
        let (now, frames) = (self.now, self.frames.clone());
        let Some(active) = &mut self.callers[caller].active else { return };
        let (server, stamp) = (active.server, active.stamp);
        let head = Head {
            time_left_us: active.call.time_left_us(|| now),
            ..Head::new(Kind::Call, active.call.id())
        };
        let payload = active.tag.to_be_bytes();
        let bytes = match &active.work {
            Work::Single => frames.frame(head, &[], &payload),
            Work::Chain { callees, ids, store_and_forward } => {
                let hops = callees
                    .iter()
                    .zip(ids)
                    .skip(1)
                    .map(|(server, id)| Hop { callee: ([127, 0, 0, 1], *server as u16).into(), id: *id });
                let chain = Chain { hops: hops.collect() };
                let extension = Extension { chain: Some(chain), ..Extension::default() }.encode();
                let mode = if *store_and_forward { flags::STORE_AND_FORWARD } else { 0 };
                frames.frame(Head { flags: flags::CHAIN | mode, ..head }, &extension, &payload)
            }
            Work::Resolve { .. } => frames.frame(Head { kind: Kind::Revoke, ..head }, &[], &[]),
        };
        if active.transport == Transport::Udp {
            let step = active.call.sent(|| now);
            self.datagram(Some(server), caller, &bytes);
            return self.follow(caller, step);
        }
        let stream = match self.callers[caller].streams[server] {
            Some(stream) => stream,
            None => {
                let stream = self.connect(Owner::Caller(caller), server);
                self.callers[caller].streams[server] = Some(stream);
                stream
            }
        };
        self.after(1_000, Event::LastByte { caller, stamp, stream, bytes });
    }

    pub(super) fn last_byte(&mut self, caller: usize, stamp: u64, stream: usize, bytes: Vec<u8>) {
        let now = self.now;
        if !self.streams[stream].alive {
            return self.caller_sees_cut(caller, stream);
        }
        let Some(active) = self.callers[caller].active.as_mut().filter(|active| active.stamp == stamp) else {
            return;
        };
        let is_chain = matches!(active.work, Work::Chain { .. });
        let step = active.call.sent(|| now);
        self.stream_to_server(stream, bytes, is_chain);
        self.follow(caller, step);
    }

    pub(super) fn on_timer(&mut self, caller: usize, stamp: u64) {
        let now = self.now;
        let Some(active) = &mut self.callers[caller].active else { return };
        if active.stamp != stamp & !RECONNECT {
            return;
        }
        let step = if stamp & RECONNECT == 0 {
            match active.call.on_time(now) {
                // The next timer is already set.
                Step::Wait(Some(until)) if until > active.deadline => return,
                step => step,
            }
        } else {
            Step::Send
        };
        // A timer that fires too early does nothing, since a later one is set.
        if !matches!(step, Step::Wait(_)) {
            self.follow(caller, step);
        }
    }

    pub(super) fn caller_sees_cut(&mut self, caller: usize, stream: usize) {
        let now = self.now;
        let server = self.streams[stream].server;
        if self.callers[caller].streams[server] != Some(stream) {
            return;
        }
        self.callers[caller].streams[server] = None;
        let Some(active) = &mut self.callers[caller].active else { return };
        if active.server == server && active.transport == Transport::Tcp {
            let step = active.call.on_broken(now);
            self.follow(caller, step);
        }
    }

    pub(super) fn answer_arrives(&mut self, caller: usize, bytes: &[u8], stream: Option<usize>) {
        let (now, frames) = (self.now, self.frames.clone());
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(bytes) else { return };
        let Some(active) = &self.callers[caller].active else { return };
        let by_its_way = match active.transport {
            Transport::Udp => stream.is_none(),
            Transport::Tcp => stream.is_some() && self.callers[caller].streams[active.server] == stream,
        };
        if !authentic {
            // Over UDP anybody can forge frames, so the caller ignores this one. Over TCP a forged
            // frame ends the connection.
            if let Some(stream) = stream.filter(|_| by_its_way) {
                self.streams[stream].alive = false;
                self.caller_sees_cut(caller, stream);
            }
            return;
        }
        let Some(active) = self.callers[caller].active.as_mut().filter(|_| by_its_way) else { return };
        let Some(answer) = answer::read(&head, payload, intact, active.call.id()) else { return };
        match active.call.on_answer(answer, now) {
            Step::Answered => {
                let outcome = match answer {
                    Answer::Executed => Outcome::Value(Bytes::copy_from_slice(payload)),
                    _ => return,
                };
                self.end(caller, outcome, head.kind);
            }
            step => self.follow(caller, step),
        }
    }

    /// Handles the outcome that the frames gave. For a chain, the caller may have to ask more
    /// callees.
    fn end(&mut self, caller: usize, outcome: Outcome, kind: Kind) {
        let Some(active) = self.callers[caller].active.take() else { return };
        let Active { tag, call, server, deadline, work, .. } = active;
        let lost = matches!(outcome, Outcome::NotExecuted(Refusal::UnknownSession))
            || outcome == Outcome::Unknown(crate::proto::status::Doubt::SessionLost);
        if lost {
            self.lose_session(caller, server, call.id());
        }
        match work {
            Work::Single => self.conclude_call(caller, tag, &[server], &[outcome]),
            Work::Chain { callees, ids, .. } => {
                let outcomes = spread(outcome, kind, callees.len());
                self.resolve(caller, tag, deadline, callees, ids, outcomes, 0);
            }
            Work::Resolve { callees, ids, mut outcomes, at } => {
                let known = match outcome {
                    Outcome::Value(payload) if kind == Kind::Outcomes => {
                        chain::decode_outcomes(&payload, outcomes.len() - at).unwrap_or_default()
                    }
                    Outcome::NotExecuted(Refusal::Revoked) => {
                        let mut known =
                            vec![Outcome::NotExecuted(Refusal::NotForwarded); outcomes.len() - at];
                        known[0] = Outcome::NotExecuted(Refusal::Revoked);
                        known
                    }
                    Outcome::NotExecuted(_) | Outcome::Unknown(_) => Vec::new(),
                    single => vec![single],
                };
                for (outcome, known) in outcomes[at..].iter_mut().zip(known) {
                    if matches!(outcome, Outcome::Unknown(_)) {
                        *outcome = known;
                    }
                }
                self.resolve(caller, tag, deadline, callees, ids, outcomes, at);
            }
        }
    }

    /// Asks the next callee with an unknown outcome, or ends the call.
    #[expect(clippy::too_many_arguments, reason = "a chain's state, taken apart")]
    fn resolve(
        &mut self,
        caller: usize,
        tag: u64,
        deadline: Micros,
        callees: Vec<usize>,
        ids: Vec<CallId>,
        outcomes: Vec<Outcome>,
        after: usize,
    ) {
        let doubtful = |at: &usize| matches!(outcomes[*at], Outcome::Unknown(_));
        let Some(at) = (after + 1..callees.len()).find(doubtful).filter(|_| self.now < deadline) else {
            return self.conclude_call(caller, tag, &callees, &outcomes);
        };
        let (server, transport) = (callees[at], Transport::Tcp);
        let call = Call::new(ids[at], transport, POLICY, Some(deadline));
        let work = Work::Resolve { callees, ids, outcomes, at };
        self.begin(caller, Active { tag, call, server, transport, work, stamp: 0, deadline });
    }

    fn conclude_call(&mut self, caller: usize, tag: u64, callees: &[usize], outcomes: &[Outcome]) {
        self.tell(|| format!("call {tag} at {callees:?} ENDS: {outcomes:?}"));
        for (server, outcome) in callees.iter().zip(outcomes) {
            let claim = match outcome {
                Outcome::Value(value) => Claim::Value(value.to_vec()),
                Outcome::NotExecuted(_) => Claim::NotExecuted,
                Outcome::Error(_) | Outcome::Unknown(_) => Claim::Unknown,
            };
            match claim {
                Claim::Value(_) => self.reached.values += 1,
                Claim::NotExecuted => self.reached.refused += 1,
                Claim::Unknown => self.reached.unknown += 1,
            }
            self.claims.push((tag, *server, claim));
        }
        // One pause in a hundred is long, so that servers forget.
        let pause = match self.random.below(100) {
            0 => LONG_PAUSE,
            1..=10 => 600_000,
            _ => 5_000,
        };
        self.after(pause, Event::NextCall { caller });
    }
}

/// A stamp's flag: reconnect, then send.
const RECONNECT: u64 = 1 << 63;

/// Outcomes of all callees, from the first callee's answer.
fn spread(first: Outcome, kind: Kind, degree: usize) -> Vec<Outcome> {
    match first {
        Outcome::Value(payload) if kind == Kind::Outcomes => chain::decode_outcomes(&payload, degree)
            .unwrap_or_else(|_| vec![Outcome::Unknown(crate::proto::status::Doubt::BadAnswer); degree]),
        other => vec![other; degree],
    }
}
