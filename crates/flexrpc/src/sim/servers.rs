//! A server: the real admission, inside a model of its shell.

use crate::proto::admission::Verdict;
use crate::proto::call::Transport;
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::CallId;
use crate::proto::reception::{self, Arrival, Reception};
use crate::proto::status::{Outcome, Refusal};
use crate::sim::frames::Parsed;
use crate::sim::network::Path;
use crate::sim::parts::{Event, Job, tag_of};
use crate::sim::world::World;
use bytes::Bytes;

impl World {
    pub(super) fn serve(&mut self, server: usize, bytes: Vec<u8>, path: Path) {
        let frames = self.frames.clone();
        let Some(Parsed { head, payload, intact, authentic }) = frames.parse(&bytes) else { return };
        self.tell(|| {
            format!(
                "server {server} gets by {path:?}: {:?} {:?} intact {intact} authentic {authentic}",
                head.kind, head.id
            )
        });
        self.reached.forged += u64::from(!authentic);
        let (id, transport) = (head.id, Self::transport(path));
        let is_chain = head.has(flags::CHAIN);
        if let (true, Kind::Call, Path::Stream(stream)) = (self.servers[server].narrow, head.kind, path) {
            self.reached.unasked += 1;
            // This refusal has no tag. In worlds with a key, callers don't believe it.
            if self.frames.are_keyed() {
                return self.cut(stream);
            }
            let refusal = self.frames.refusal(id, Refusal::TooLarge);
            return self.answer(path, &refusal);
        }
        match (head.kind, path) {
            (Kind::Revoke, _) if authentic => {
                let verdict = self.servers[server].admission.revoke(id, self.now);
                self.without_execution(id, verdict, path);
            }
            (Kind::Revoke, _) => self.respond(id, reception::of_stranger(transport, intact), path),
            (Kind::Call, Path::Stream(stream)) if is_chain => self.chain_arrives(server, stream, &bytes),
            (Kind::Call, _) => {
                let objection = is_chain.then_some(Refusal::BadChain);
                let arrival = Arrival { id, transport, authentic, intact, objection };
                match self.servers[server].admission.receive(arrival, self.now) {
                    Reception::Execute => self.execute(server, &head, tag_of(payload), path, None),
                    reception => self.respond(id, reception, path),
                }
            }
            _ => {}
        }
    }

    /// Answers a request that isn't executed.
    pub(super) fn respond(&mut self, id: CallId, reception: Reception, path: Path) {
        match (reception, path) {
            (Reception::Answer(verdict), _) => self.without_execution(id, verdict, path),
            (Reception::SendAgain, _) => {
                self.reached.resent += 1;
                let again = self.frames.frame(Head::new(Kind::SendAgain, id), &[], &[]);
                self.answer(path, &again);
            }
            // Callers don't believe this frame, since it has no tag. So only the cut matters.
            (Reception::TurnAway, Path::Stream(stream)) => self.cut(stream),
            _ => {}
        }
    }

    /// Executes an admitted call, unless its deadline has passed.
    pub(super) fn execute(&mut self, server: usize, head: &Head, tag: u64, path: Path, relay: Option<u64>) {
        // In this model the call's head arrives now, too. A head with one microsecond left was late
        // when it was sent.
        if head.time_left_us == 1 {
            return self.ended(server, head.id, path, relay, Outcome::NotExecuted(Refusal::DeadlinePassed));
        }
        self.tell(|| format!("server {server} EXECUTES call {tag} {:?}", head.id));
        *self.executed.entry((tag, server)).or_default() += 1;
        let stalls = self.random.percent(self.weather.stalls);
        let most = if stalls { 600_000 } else { 2_000 };
        let incarnation = self.servers[server].incarnation;
        self.after(most, Event::Ran { server, incarnation, job: Job { id: head.id, tag, path, relay } });
    }

    pub(super) fn ran(&mut self, server: usize, job: Job) {
        let Job { id, tag, path, relay } = job;
        let value = Outcome::Value(Bytes::copy_from_slice(&tag.to_be_bytes()));
        self.ended(server, id, path, relay, value);
    }

    fn ended(&mut self, server: usize, id: CallId, path: Path, relay: Option<u64>, outcome: Outcome) {
        if let Some(relay) = relay {
            return self.relay_ran(server, relay, outcome);
        }
        let answer = match outcome {
            Outcome::Value(value) => self.frames.frame(Head::new(Kind::Value, id), &[], &value),
            _ => self.frames.refusal(id, Refusal::DeadlinePassed),
        };
        self.servers[server].admission.complete(id, answer.clone().into(), self.now);
        self.answer(path, &answer);
    }

    pub(super) fn without_execution(&mut self, id: CallId, verdict: Verdict, path: Path) {
        let tcp = Self::transport(path) == Transport::Tcp;
        match verdict {
            Verdict::Answered(kept) => {
                self.reached.duplicates += 1;
                self.answer(path, &kept);
            }
            Verdict::Refused(reason) => {
                self.reached.sessions_lost += u64::from(reason == Refusal::UnknownSession);
                self.reached.denied += u64::from(reason == Refusal::ForwardingDenied);
                let refusal = self.frames.refusal(id, reason);
                self.answer(path, &refusal);
            }
            Verdict::Doubtful(doubt) => {
                self.reached.evicted += 1;
                let head = Head { status: doubt.code(), ..Head::new(Kind::Doubtful, id) };
                let doubt = self.frames.frame(head, &[], &[]);
                self.answer(path, &doubt);
            }
            Verdict::Running if tcp => {
                let pending = self.frames.frame(Head::new(Kind::Pending, id), &[], &[]);
                self.answer(path, &pending);
            }
            Verdict::NoRoom if tcp => {
                let refusal = self.frames.refusal(id, Refusal::Overloaded);
                self.answer(path, &refusal);
            }
            Verdict::Running | Verdict::NoRoom | Verdict::Execute => {}
        }
    }

    pub(super) fn chain_of(bytes: &[u8], head: &Head) -> Option<crate::proto::chain::Chain> {
        Extension::decode(&bytes[crate::proto::frame::HEAD_BYTES..head.head_len()]).ok()?.chain
    }
}
