//! A server: the real admission, around it what its shell does.

use crate::proto::Micros;
use crate::proto::admission::{Admission, AdmissionLimits, Verdict};
use crate::proto::call::Transport;
use crate::proto::checksum::crc32c;
use crate::proto::extension::Extension;
use crate::proto::frame::{Head, Kind, flags};
use crate::proto::ids::{CallId, SessionId};
use crate::proto::status::{Outcome, Refusal};
use crate::sim::network::{Path, Random, Weather};
use crate::sim::relays::Passing;
use crate::sim::world::{Event, World};
use bytes::Bytes;
use std::collections::BTreeMap;

pub(super) struct Server {
    pub(super) incarnation: u64,
    pub(super) admission: Admission,
    pub(super) relays: BTreeMap<u64, Passing>,
    pub(super) next_relay: u64,
}

/// An execution under way.
pub(super) struct Job {
    pub(super) id: CallId,
    pub(super) tag: u64,
    pub(super) path: Path,
    /// The relay that waits for it.
    pub(super) relay: Option<u64>,
}

impl Server {
    pub(super) fn new(weather: &Weather, random: &mut Random) -> Self {
        let limits = if weather.forgetful {
            // Room for two or three results, and little patience.
            AdmissionLimits {
                result_bytes: 100 + random.below(200) as usize,
                result_us: 20_000 + random.below(100_000),
                session_idle_us: 100_000 + random.below(400_000),
                ..AdmissionLimits::default()
            }
        } else {
            AdmissionLimits::default()
        };
        let (admission, relays) = (Admission::new(limits), BTreeMap::new());
        Self { incarnation: random.next(), admission, relays, next_relay: 0 }
    }

    pub(super) fn restart(&mut self, weather: &Weather, random: &mut Random) {
        *self = Self::new(weather, random);
    }

    pub(super) fn open_session(&mut self, random: &mut Random, now: Micros) -> Option<SessionId> {
        let mut id = SessionId::NONE;
        id.0[..8].copy_from_slice(&random.next().to_be_bytes());
        id.0[8..].copy_from_slice(&random.next().to_be_bytes());
        self.admission.open_session(id, now).ok().map(|()| id)
    }
}

/// A frame of a head, an extension and a payload.
pub(super) fn frame(head: Head, extension: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = Head { payload_len: payload.len() as u32, payload_crc: crc32c(payload), ..head };
    [head.encode(extension), payload.to_vec()].concat()
}

pub(super) fn refusal(id: CallId, refusal: Refusal) -> Vec<u8> {
    let mut detail = Vec::new();
    let status = refusal.encode(&mut detail);
    frame(Head { status, ..Head::new(Kind::Refused, id) }, &[], &detail)
}

/// Head and payload of a frame, and whether the payload is undamaged.
pub(super) fn parse(bytes: &[u8]) -> Option<(Head, &[u8], bool)> {
    let head = Head::decode(bytes).ok()??;
    let payload = bytes.get(head.head_len()..)?;
    (payload.len() == head.payload_len as usize).then(|| (head, payload, crc32c(payload) == head.payload_crc))
}

/// The tag of a call is its payload; a damaged one is another's.
pub(super) fn tag_of(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(u64::MAX, |tag| u64::from_be_bytes(*tag))
}

impl World {
    pub(super) fn serve(&mut self, server: usize, bytes: Vec<u8>, path: Path) {
        let Some((head, payload, intact)) = parse(&bytes) else { return };
        self.tell(|| {
            format!("server {server} gets by {path:?}: {:?} {:?} intact {intact}", head.kind, head.id)
        });
        match head.kind {
            Kind::Revoke => {
                let verdict = self.servers[server].admission.revoke(head.id, self.now);
                self.without_execution(head.id, verdict, path);
            }
            Kind::Call if head.has(flags::CHAIN) => {
                if let Path::Stream(stream) = path {
                    self.chain_arrives(server, stream, &bytes);
                }
            }
            Kind::Call => match self.servers[server].admission.judge(head.id, intact, self.now) {
                None => {
                    let again = frame(Head::new(Kind::SendAgain, head.id), &[], &[]);
                    self.reached.resent += 1;
                    self.answer(path, &again);
                }
                Some(Verdict::Execute) => self.execute(server, &head, tag_of(payload), path, None),
                Some(other) => self.without_execution(head.id, other, path),
            },
            _ => {}
        }
    }

    /// Executes an admitted call, unless it is too late for it.
    pub(super) fn execute(&mut self, server: usize, head: &Head, tag: u64, path: Path, relay: Option<u64>) {
        // The arrival is this very moment; a head that says one microsecond was
        // late when it was sent.
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
            Outcome::Value(value) => frame(Head::new(Kind::Value, id), &[], &value),
            _ => refusal(id, Refusal::DeadlinePassed),
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
                self.answer(path, &refusal(id, reason));
            }
            Verdict::Doubtful(doubt) => {
                self.reached.evicted += 1;
                let head = Head { status: doubt.code(), ..Head::new(Kind::Doubtful, id) };
                self.answer(path, &frame(head, &[], &[]));
            }
            Verdict::Running if tcp => self.answer(path, &frame(Head::new(Kind::Pending, id), &[], &[])),
            Verdict::NoRoom if tcp => self.answer(path, &refusal(id, Refusal::Overloaded)),
            Verdict::Running | Verdict::NoRoom | Verdict::Execute => {}
        }
    }

    pub(super) fn chain_of(bytes: &[u8], head: &Head) -> Option<crate::proto::chain::Chain> {
        Extension::decode(&bytes[crate::proto::frame::HEAD_BYTES..head.head_len()]).ok()?.chain
    }
}
