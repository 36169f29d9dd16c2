//! The parts of a world as data: callers, servers, the calls that they pass on, and events.

use crate::proto::Micros;
use crate::proto::admission::{Admission, AdmissionLimits};
use crate::proto::call::{Call, Transport};
use crate::proto::chain::{Chain, Hop};
use crate::proto::frame::Head;
use crate::proto::ids::{CallId, SessionId};
use crate::proto::relay::Relay;
use crate::proto::status::{Outcome, Refusal};
use crate::sim::network::{Path, Random, Victim, Weather};
use std::collections::BTreeMap;

/// Worlds are small and many, since a fault needs few parts to show.
pub(super) const SERVERS: usize = 3;

/// Every two callers belong to one client and share its sessions.
pub(super) const CALLERS_OF_A_CLIENT: usize = 2;

/// Percentage of restarts with narrow limits.
const NARROW: u64 = 20;

pub(super) struct Server {
    pub(super) incarnation: u64,
    pub(super) admission: Admission,
    /// The operator's forwarding rule.
    pub(super) forwards: bool,
    /// Whether it refuses every call as too large.
    pub(super) narrow: bool,
    pub(super) relays: BTreeMap<u64, ChainCall>,
    /// Its connections to other servers that no relay uses now.
    pub(super) idle: BTreeMap<usize, usize>,
    pub(super) next_relay: u64,
}

/// An execution under way.
pub(super) struct Job {
    pub(super) id: CallId,
    pub(super) tag: u64,
    pub(super) path: Path,
    /// The relay that waits for the execution.
    pub(super) relay: Option<u64>,
}

impl Server {
    pub(super) fn new(weather: &Weather, random: &mut Random) -> Self {
        let limits = if weather.forgetful {
            // Room for two or three results, which expire soon.
            AdmissionLimits {
                result_bytes: 100 + random.below(200) as usize,
                result_us: 20_000 + random.below(100_000),
                session_idle_us: 100_000 + random.below(400_000),
                ..AdmissionLimits::default()
            }
        } else {
            AdmissionLimits::default()
        };
        let (admission, relays, idle) = (Admission::new(limits), BTreeMap::new(), BTreeMap::new());
        Self {
            incarnation: random.next(),
            admission,
            forwards: true,
            narrow: false,
            relays,
            idle,
            next_relay: 0,
        }
    }

    pub(super) fn restart(&mut self, weather: &Weather, random: &mut Random) {
        *self = Self::new(weather, random);
        self.narrow = random.percent(NARROW);
    }

    pub(super) fn open_session(&mut self, random: &mut Random, now: Micros) -> Option<SessionId> {
        let mut id = SessionId::NONE;
        id.0[..8].copy_from_slice(&random.next().to_be_bytes());
        id.0[8..].copy_from_slice(&random.next().to_be_bytes());
        self.admission.open_session(id, now).ok().map(|()| id)
    }
}

/// A call's tag is its payload; a damaged payload holds another tag.
pub(super) fn tag_of(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(u64::MAX, |tag| u64::from_be_bytes(*tag))
}

/// A chain call that a server passes on.
pub(super) struct ChainCall {
    pub(super) upstream: usize,
    pub(super) head: Head,
    /// Reason to pass nothing on.
    pub(super) objection: Option<Refusal>,
    pub(super) relay: Relay,
    pub(super) next: Hop,
    pub(super) rest: Chain,
    pub(super) payload: Vec<u8>,
    pub(super) downstream: Option<usize>,
    /// Whether the connection may be an earlier relay's.
    pub(super) pooled: bool,
    /// Whether another relay may use the connection afterwards.
    pub(super) answered: bool,
    pub(super) left: bool,
    pub(super) whole: bool,
}

pub(super) struct Caller {
    pub(super) index: usize,
    pub(super) calls_left: u32,
    pub(super) sessions: Vec<Option<SessionId>>,
    pub(super) next_transaction: u64,
    pub(super) active: Option<Active>,
    pub(super) streams: Vec<Option<usize>>,
    pub(super) stamps: u64,
}

pub(super) struct Active {
    pub(super) tag: u64,
    pub(super) call: Call,
    /// The server that gets the frames.
    pub(super) server: usize,
    pub(super) transport: Transport,
    pub(super) work: Work,
    pub(super) stamp: u64,
    pub(super) deadline: Micros,
}

pub(super) enum Work {
    Single,
    /// The callees in order, and the call's identifier at each.
    Chain {
        callees: Vec<usize>,
        ids: Vec<CallId>,
        store_and_forward: bool,
    },
    /// A question to callee `at` of a chain about the call's outcome.
    Resolve {
        callees: Vec<usize>,
        ids: Vec<CallId>,
        outcomes: Vec<Outcome>,
        at: usize,
    },
}

impl Caller {
    pub(super) fn new(index: usize, calls: u32) -> Self {
        Self {
            index,
            calls_left: calls,
            sessions: vec![None; SERVERS],
            // Callers of a client share a session and its counter. Here each takes every second
            // number, which is equivalent.
            next_transaction: (index % CALLERS_OF_A_CLIENT) as u64 + 1,
            active: None,
            streams: vec![None; SERVERS],
            stamps: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.calls_left == 0 && self.active.is_none()
    }

    pub(super) fn next_id(&mut self, session: SessionId) -> CallId {
        let transaction = self.next_transaction;
        self.next_transaction += CALLERS_OF_A_CLIENT as u64;
        // Each of the client's two callers has its own handle.
        CallId { session, handle: (self.index % CALLERS_OF_A_CLIENT) as u32, transaction }
    }
}

pub(super) enum Event {
    Datagram {
        to_server: Option<usize>,
        caller: usize,
        bytes: Vec<u8>,
    },
    /// A copy from a stranger without the key.
    Forged {
        server: usize,
        victim: Victim,
        bytes: Vec<u8>,
    },
    ToServer {
        stream: usize,
        bytes: Vec<u8>,
    },
    /// A chain call's head and payload, without the proof that it is whole.
    HeadToServer {
        stream: usize,
        bytes: Vec<u8>,
    },
    ToOwner {
        stream: usize,
        bytes: Vec<u8>,
    },
    /// A transmission's last byte leaves.
    LastByte {
        caller: usize,
        stamp: u64,
        stream: usize,
        bytes: Vec<u8>,
    },
    Timer {
        caller: usize,
        stamp: u64,
    },
    Cut {
        stream: usize,
    },
    CutSeen {
        stream: usize,
    },
    Ran {
        server: usize,
        incarnation: u64,
        job: Job,
    },
    RelayLate {
        server: usize,
        incarnation: u64,
        relay: u64,
    },
    /// The last byte leaves for the next callee.
    RelaySends {
        server: usize,
        incarnation: u64,
        relay: u64,
        stream: usize,
    },
    Restart {
        server: usize,
    },
    Sweep {
        server: usize,
    },
    /// Changes a server's forwarding rule.
    Flip {
        server: usize,
    },
    NextCall {
        caller: usize,
    },
}

/// A caller's claim about a call at one callee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Value(Vec<u8>),
    NotExecuted,
    Unknown,
}
