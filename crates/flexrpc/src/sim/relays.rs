//! Callees in the middle of a chain: the real relay, inside a model of the forwarder.

use crate::proto::answer;
use crate::proto::call::{Answer, Transport};
use crate::proto::chain;
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::reception::{Arrival, Reception};
use crate::proto::relay::Relay;
use crate::proto::status::{Doubt, Obstacle, Outcome, Refusal};
use crate::sim::frames::Parsed;
use crate::sim::network::{Owner, Path};
use crate::sim::parts::{ChainCall, Event, tag_of};
use crate::sim::world::World;
use bytes::Bytes;

impl World {
    /// The whole payload has arrived, but not yet the proof that it is whole.
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
        let call = ChainCall {
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
        self.servers[server].relays.insert(number, call);
        self.pass_on(server, number);
    }

    /// The last byte has arrived.
    pub(super) fn chain_arrives(&mut self, server: usize, stream: usize, bytes: &[u8]) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(bytes) else { return };
        let waiting = |(_, call): &(&u64, &ChainCall)| call.upstream == stream && !call.whole;
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
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        call.whole = true;
        let (id, transport, objection) = (head.id, Transport::Tcp, call.objection);
        let arrival = Arrival { id, transport, authentic, intact, objection };
        let reception = self.servers[server].admission.receive(arrival, self.now);
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        if reception == Reception::Execute {
            call.relay.release();
            let late = self.now + u64::from(head.time_left_us) / 16 * 15;
            self.reached.relayed += 1;
            let incarnation = self.servers[server].incarnation;
            self.at(late, Event::RelayLate { server, incarnation, relay: number });
            self.execute(server, &head, tag_of(payload), Path::Stream(stream), Some(number));
            return self.pass_on(server, number);
        }
        call.relay.withhold();
        if let Some(downstream) = call.downstream {
            self.streams[downstream].alive = false;
        }
        self.servers[server].relays.remove(&number);
        self.respond(id, reception, Path::Stream(stream));
    }

    /// Sends to the next callee after all bytes may leave. The model omits the bytes before that,
    /// which have no effect alone.
    fn pass_on(&mut self, server: usize, number: u64) {
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        let whole = call.relay.head_may_leave() && call.relay.may_leave() == call.payload.len();
        if call.left || !whole || call.objection.is_some() || call.relay.rest_is_settled() {
            return;
        }
        call.left = true;
        let next = usize::from(call.next.callee.port());
        // A relay doesn't always notice in time that a connection was closed.
        let idle = self.servers[server].idle.remove(&next);
        let pooled = idle.filter(|stream| self.streams[*stream].alive || self.random.percent(50));
        self.send_by(server, number, pooled);
    }

    /// Sends the call over a pooled connection, or a new one.
    fn send_by(&mut self, server: usize, number: u64, pooled: Option<usize>) {
        let Some(call) = self.servers[server].relays.get(&number) else { return };
        let (next, owner) = (usize::from(call.next.callee.port()), Owner::Relay(server, number));
        let stream = match pooled {
            Some(stream) => {
                self.streams[stream].owner = owner;
                stream
            }
            None => self.connect(owner, next),
        };
        if let Some(call) = self.servers[server].relays.get_mut(&number) {
            (call.downstream, call.pooled) = (Some(stream), pooled.is_some());
        }
        let incarnation = self.servers[server].incarnation;
        self.after(1_000, Event::RelaySends { server, incarnation, relay: number, stream });
    }

    pub(super) fn relay_sends(&mut self, server: usize, number: u64, stream: usize) {
        let alive = self.streams[stream].alive;
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        if call.downstream != Some(stream) || call.relay.rest_is_settled() {
            return;
        }
        if !alive {
            return self.relay_sees_cut(server, number, stream);
        }
        call.relay.sent_whole();
        self.send_on(server, number);
    }

    /// Sends the whole call to the next callee, or sends it again if that callee asks.
    fn send_on(&mut self, server: usize, number: u64) {
        let Some(call) = self.servers[server].relays.get(&number) else { return };
        let Some(downstream) = call.downstream else { return };
        let rest = (!call.rest.hops.is_empty()).then(|| call.rest.clone());
        let head = Head {
            flags: if rest.is_some() { flags::CHAIN } else { 0 }
                | (call.head.flags & flags::STORE_AND_FORWARD),
            payload_len: call.payload.len() as u32,
            payload_crc: call.head.payload_crc,
            procedure: call.head.procedure,
            time_left_us: call.head.time_left_us / 16 * 15,
            ..Head::new(Kind::Call, call.next.id)
        };
        let is_chain = rest.is_some();
        let extension = Extension { chain: rest, ..Extension::default() }.encode();
        let bytes = self.frames.seal(head, &extension, &call.payload);
        self.stream_to_server(downstream, bytes, is_chain);
    }

    pub(super) fn relay_answered(&mut self, server: usize, number: u64, bytes: &[u8]) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(bytes) else { return };
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        match answer::read(&head, payload, intact, call.next.id).filter(|_| authentic) {
            None => {
                call.relay.lost(call.pooled, None);
                call.downstream = None;
            }
            Some(Answer::Executed) => {
                let payload = Bytes::copy_from_slice(payload);
                let outcomes = match head.kind {
                    Kind::Outcomes => {
                        chain::decode_outcomes(&payload, call.relay.behind()).unwrap_or_default()
                    }
                    _ => vec![Outcome::Value(payload)],
                };
                call.relay.answered(outcomes);
            }
            Some(Answer::Refused(refusal)) => call.relay.refused(refusal),
            Some(Answer::Doubtful(doubt)) => call.relay.doubtful(doubt),
            Some(Answer::SendAgain) if call.relay.may_send_again() => {
                return self.send_on(server, number);
            }
            Some(Answer::SendAgain) => {}
            Some(Answer::Pending) => call.relay.doubtful(Doubt::ConnectionLost),
        }
        call.answered = authentic && call.relay.is_sent_whole();
        self.conclude(server, number);
    }

    pub(super) fn relay_sees_cut(&mut self, server: usize, number: u64, stream: usize) {
        let Some(call) = self.servers[server].relays.get_mut(&number) else { return };
        if call.downstream == Some(stream) {
            // The relay may have been about to send, or to send again.
            let unsent = self.random.percent(50).then_some(Refusal::Unreachable(Obstacle::Unknown));
            if call.relay.lost(call.pooled, unsent) {
                return self.send_by(server, number, None);
            }
            self.conclude(server, number);
        }
    }

    pub(super) fn relay_ran(&mut self, server: usize, number: u64, outcome: Outcome) {
        if let Some(call) = self.servers[server].relays.get_mut(&number) {
            call.relay.executed(outcome);
            self.conclude(server, number);
        }
    }

    pub(super) fn relay_late(&mut self, server: usize, number: u64) {
        if let Some(call) = self.servers[server].relays.get_mut(&number) {
            call.relay.timed_out();
            self.conclude(server, number);
        }
    }

    fn conclude(&mut self, server: usize, number: u64) {
        let Some(call) = self.servers[server].relays.get(&number) else { return };
        let Some(outcomes) = call.relay.outcomes() else { return };
        let (id, upstream) = (call.head.id, call.upstream);
        let used = call.downstream.filter(|_| call.answered);
        let next = usize::from(call.next.callee.port());
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
