//! Callees in the middle of a chain: the real relay, inside a model of the forwarder.

use crate::proto::answer;
use crate::proto::call::{Answer, Transport};
use crate::proto::chain::{self, Chain, Hop};
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::reception::{Arrival, Reception};
use crate::proto::relay::Relay;
use crate::proto::status::{Doubt, Outcome, Refusal};
use crate::sim::frames::Parsed;
use crate::sim::network::{Owner, Path};
use crate::sim::servers::tag_of;
use crate::sim::world::{Event, World};
use bytes::Bytes;

pub(super) struct Passing {
    upstream: usize,
    head: Head,
    /// Reason to pass nothing on.
    objection: Option<Refusal>,
    relay: Relay,
    next: Hop,
    rest: Chain,
    payload: Vec<u8>,
    downstream: Option<usize>,
    /// Whether the connection may be an earlier relay's.
    pooled: bool,
    /// Whether another relay may use the connection afterwards.
    answered: bool,
    left: bool,
    whole: bool,
}

impl World {
    /// The whole payload has arrived, without the proof that it is whole.
    pub(super) fn head_arrives(&mut self, server: usize, stream: usize, bytes: &[u8]) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, .. }) = frames.parse(bytes) else { return };
        let Some(chain) = Self::chain_of(bytes, &head) else { return };
        let behind = chain.hops.len();
        let Some((next, rest)) = chain.split() else { return };
        if self.servers[server].narrow {
            return;
        }
        let objection = (!self.servers[server].forwards).then_some(Refusal::ForwardingDenied);
        let eager = self.servers[server].admission.is_new(head.id) && !head.has(flags::STORE_AND_FORWARD);
        let mut relay = Relay::new(payload.len(), behind, !eager);
        relay.received(payload.len());
        let number = self.servers[server].next_relay;
        self.servers[server].next_relay += 1;
        let passing = Passing {
            upstream: stream,
            head,
            objection,
            relay,
            next,
            rest,
            payload: payload.to_vec(),
            downstream: None,
            pooled: false,
            answered: false,
            left: false,
            whole: false,
        };
        self.servers[server].relays.insert(number, passing);
        self.pass_on(server, number);
    }

    /// The last byte has arrived.
    pub(super) fn chain_arrives(&mut self, server: usize, stream: usize, bytes: &[u8]) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(bytes) else { return };
        let waiting = |(_, passing): &(&u64, &Passing)| passing.upstream == stream && !passing.whole;
        let number = match self.servers[server].relays.iter().find(waiting) {
            Some((number, _)) => *number,
            // A cut removed the head's own event, but not the bytes.
            None => {
                self.head_arrives(server, stream, bytes);
                match self.servers[server].relays.iter().find(waiting) {
                    Some((number, _)) => *number,
                    None => return,
                }
            }
        };
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        passing.whole = true;
        let (id, transport, objection) = (head.id, Transport::Tcp, passing.objection);
        let arrival = Arrival { id, transport, authentic, intact, objection };
        let reception = self.servers[server].admission.receive(arrival, self.now);
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        if reception == Reception::Execute {
            passing.relay.release();
            let late = self.now + u64::from(head.time_left_us) / 16 * 15;
            self.reached.relayed += 1;
            let incarnation = self.servers[server].incarnation;
            self.at(late, Event::RelayLate { server, incarnation, relay: number });
            self.execute(server, &head, tag_of(payload), Path::Stream(stream), Some(number));
            return self.pass_on(server, number);
        }
        passing.relay.withhold();
        if let Some(downstream) = passing.downstream {
            self.streams[downstream].alive = false;
        }
        self.servers[server].relays.remove(&number);
        self.respond(id, reception, Path::Stream(stream));
    }

    /// Sends to the next callee after all bytes may leave. The bytes before that mean nothing.
    fn pass_on(&mut self, server: usize, number: u64) {
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        let whole = passing.relay.head_may_leave() && passing.relay.may_leave() == passing.payload.len();
        if passing.left || !whole || passing.objection.is_some() || passing.relay.rest_is_settled() {
            return;
        }
        passing.left = true;
        let next = usize::from(passing.next.callee.port());
        // A relay doesn't always notice in time that a connection was closed.
        let idle = self.servers[server].idle.remove(&next);
        let pooled = idle.filter(|stream| self.streams[*stream].alive || self.random.percent(50));
        self.send_by(server, number, pooled);
    }

    /// Sends the call over a pooled connection, or a new one.
    fn send_by(&mut self, server: usize, number: u64, pooled: Option<usize>) {
        let Some(passing) = self.servers[server].relays.get(&number) else { return };
        let (next, owner) = (usize::from(passing.next.callee.port()), Owner::Relay(server, number));
        let stream = match pooled {
            Some(stream) => {
                self.streams[stream].owner = owner;
                stream
            }
            None => self.connect(owner, next),
        };
        if let Some(passing) = self.servers[server].relays.get_mut(&number) {
            (passing.downstream, passing.pooled) = (Some(stream), pooled.is_some());
        }
        let incarnation = self.servers[server].incarnation;
        self.after(1_000, Event::RelaySends { server, incarnation, relay: number, stream });
    }

    pub(super) fn relay_sends(&mut self, server: usize, number: u64, stream: usize) {
        let alive = self.streams[stream].alive;
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        if passing.downstream != Some(stream) || passing.relay.rest_is_settled() {
            return;
        }
        if !alive {
            return self.relay_sees_cut(server, number, stream);
        }
        passing.relay.sent_whole();
        self.send_on(server, number);
    }

    /// Sends the whole call to the next callee, and repeats it if that callee asks.
    fn send_on(&mut self, server: usize, number: u64) {
        let Some(passing) = self.servers[server].relays.get(&number) else { return };
        let Some(downstream) = passing.downstream else { return };
        let rest = (!passing.rest.hops.is_empty()).then(|| passing.rest.clone());
        let head = Head {
            flags: if rest.is_some() { flags::CHAIN } else { 0 }
                | (passing.head.flags & flags::STORE_AND_FORWARD),
            payload_len: passing.payload.len() as u32,
            payload_crc: passing.head.payload_crc,
            procedure: passing.head.procedure,
            time_left_us: passing.head.time_left_us / 16 * 15,
            ..Head::new(Kind::Call, passing.next.id)
        };
        let is_chain = rest.is_some();
        let extension = Extension { chain: rest, ..Extension::default() }.encode();
        let bytes = self.frames.seal(head, &extension, &passing.payload);
        self.stream_to_server(downstream, bytes, is_chain);
    }

    pub(super) fn relay_answered(&mut self, server: usize, number: u64, bytes: &[u8]) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(bytes) else { return };
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        match answer::read(&head, payload, intact, passing.next.id).filter(|_| authentic) {
            None => {
                passing.relay.lost(passing.pooled, None);
                passing.downstream = None;
            }
            Some(Answer::Executed) => {
                let payload = Bytes::copy_from_slice(payload);
                let outcomes = match head.kind {
                    Kind::Outcomes => {
                        chain::decode_outcomes(&payload, passing.relay.behind()).unwrap_or_default()
                    }
                    _ => vec![Outcome::Value(payload)],
                };
                passing.relay.answered(outcomes);
            }
            Some(Answer::Refused(refusal)) => passing.relay.refused(refusal),
            Some(Answer::Doubtful(doubt)) => passing.relay.doubtful(doubt),
            Some(Answer::SendAgain) if passing.relay.may_send_again() => {
                return self.send_on(server, number);
            }
            Some(Answer::SendAgain) => {}
            Some(Answer::Pending) => passing.relay.doubtful(Doubt::ConnectionLost),
        }
        passing.answered = authentic && passing.relay.is_sent_whole();
        self.conclude(server, number);
    }

    pub(super) fn relay_sees_cut(&mut self, server: usize, number: u64, stream: usize) {
        let Some(passing) = self.servers[server].relays.get_mut(&number) else { return };
        if passing.downstream == Some(stream) {
            // The relay may have been about to send, or to send again.
            let unsent = self.random.percent(50).then_some(Refusal::Unreachable);
            if passing.relay.lost(passing.pooled, unsent) {
                return self.send_by(server, number, None);
            }
            self.conclude(server, number);
        }
    }

    pub(super) fn relay_ran(&mut self, server: usize, number: u64, outcome: Outcome) {
        if let Some(passing) = self.servers[server].relays.get_mut(&number) {
            passing.relay.executed(outcome);
            self.conclude(server, number);
        }
    }

    pub(super) fn relay_late(&mut self, server: usize, number: u64) {
        if let Some(passing) = self.servers[server].relays.get_mut(&number) {
            passing.relay.timed_out();
            self.conclude(server, number);
        }
    }

    fn conclude(&mut self, server: usize, number: u64) {
        let Some(passing) = self.servers[server].relays.get(&number) else { return };
        let Some(outcomes) = passing.relay.outcomes() else { return };
        let (id, upstream) = (passing.head.id, passing.upstream);
        let used = passing.downstream.filter(|_| passing.answered);
        let next = usize::from(passing.next.callee.port());
        if let Some(stream) = used {
            self.reached.pooled += 1;
            self.servers[server].idle.insert(next, stream);
        }
        let answer = Head::new(Kind::Outcomes, id);
        let answer = self.frames.frame(answer, &[], &chain::encode_outcomes(&outcomes));
        self.servers[server].admission.complete(id, answer.clone().into(), self.now);
        self.servers[server].relays.remove(&number);
        self.answer(Path::Stream(upstream), &answer);
    }
}
