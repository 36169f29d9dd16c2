//! Decides how the server reacts to a request that has arrived whole. Servers and the simulator use
//! the same order of checks.
//!
//! Callers trust every frame with a valid tag. So a sender without proof of the key never gets a
//! tagged answer, which it could pass to the call's true caller. And the server never refuses one
//! copy of a call if another copy may be executing or executed.

use crate::proto::Micros;
use crate::proto::admission::{Admission, Verdict};
use crate::proto::call::Transport;
use crate::proto::ids::CallId;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};

/// Facts about a call that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The call's identifier.
    pub id: CallId,
    /// Its transport.
    pub transport: Transport,
    /// Whether it carries the tag that the key demands; without a key, whether it carries none.
    pub authentic: bool,
    /// Whether the payload's checksum holds.
    pub intact: bool,
    /// Reason why the server can't execute this copy. Another copy of the call may be executable.
    pub objection: Option<Refusal>,
}

/// The server's reaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Execution, then [`Admission::complete`].
    Execute,
    /// An answer without execution.
    Answer(Verdict),
    /// A request to send the call again.
    SendAgain,
    /// A refusal without a tag. The server then closes the connection.
    TurnAway,
    /// No reaction.
    Silence,
}

/// The reaction to a sender without proof of the key. A damaged payload most likely comes from a
/// fault of the network, and a request to send the call again reveals nothing about the call.
pub fn of_stranger(transport: Transport, intact: bool) -> Reception {
    match (transport, intact) {
        (Transport::Udp, _) => Reception::Silence,
        (Transport::Tcp, false) => Reception::SendAgain,
        (Transport::Tcp, true) => Reception::TurnAway,
    }
}

impl Admission {
    /// Decides the reaction to a call.
    pub fn receive(&self, arrival: Arrival, now: Micros) -> Reception {
        let Arrival { id, transport, authentic, intact, objection } = arrival;
        if !authentic {
            if planted(Planted::SignsForStrangers) {
                return Reception::Answer(Verdict::Refused(Refusal::Unauthenticated));
            }
            return of_stranger(transport, intact);
        }
        if let Some(refusal) = objection.filter(|_| intact) {
            return Reception::Answer(self.refuse(id, refusal, now));
        }
        match self.judge(id, intact, now) {
            None => Reception::SendAgain,
            Some(Verdict::Execute) => Reception::Execute,
            Some(verdict) => Reception::Answer(verdict),
        }
    }

    /// Refuses a call for good: none of its copies will begin. If one has begun, the answer is that
    /// copy's outcome.
    fn refuse(&self, id: CallId, refusal: Refusal, now: Micros) -> Verdict {
        if planted(Planted::RefusesUnasked) {
            return Verdict::Refused(refusal);
        }
        match self.revoke(id, now) {
            Verdict::Refused(Refusal::Revoked) => Verdict::Refused(refusal),
            // The server would give the same answer without the objection, and the caller knows its
            // meaning.
            Verdict::Doubtful(Doubt::SessionLost) => Verdict::Refused(Refusal::UnknownSession),
            verdict => verdict,
        }
    }
}
