//! What a request gets that has arrived whole: the one order of questions that servers and
//! the simulator ask.
//!
//! Whatever carries a tag is believed, so a sender who doesn't prove to have the key is
//! told nothing that could be handed to the call's true caller. And no copy of a call is
//! refused while another one's execution may be under way or over.

use crate::proto::Micros;
use crate::proto::admission::{Admission, Verdict};
use crate::proto::call::Transport;
use crate::proto::ids::CallId;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};

/// What is known of a call that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Which call.
    pub id: CallId,
    /// By which way.
    pub transport: Transport,
    /// Whether the tag is there that the key demands; without a key, whether there is none.
    pub authentic: bool,
    /// Whether the payload's checksum holds.
    pub intact: bool,
    /// Why this copy can't be executed here: of which other copies may know nothing.
    pub objection: Option<Refusal>,
}

/// What it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Execution, then [`Admission::complete`].
    Execute,
    /// An answer without.
    Answer(Verdict),
    /// The request to send it again.
    SendAgain,
    /// A last word without a tag: the connection is of no use.
    TurnAway,
    /// Nothing.
    Silence,
}

/// What a request gets whose sender doesn't prove to have the key. Damage is most likely
/// the network's doing, and to ask for the request again says nothing of the call.
pub fn of_stranger(transport: Transport, intact: bool) -> Reception {
    match (transport, intact) {
        (Transport::Udp, _) => Reception::Silence,
        (Transport::Tcp, false) => Reception::SendAgain,
        (Transport::Tcp, true) => Reception::TurnAway,
    }
}

impl Admission {
    /// Decides what becomes of a call.
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

    /// Refuses a call for good: none of its copies begins any more. If one has, the answer
    /// is what became of that.
    fn refuse(&self, id: CallId, refusal: Refusal, now: Micros) -> Verdict {
        if planted(Planted::RefusesUnasked) {
            return Verdict::Refused(refusal);
        }
        match self.revoke(id, now) {
            Verdict::Refused(Refusal::Revoked) => Verdict::Refused(refusal),
            // As it would be without the objection: its caller knows what this means.
            Verdict::Doubtful(Doubt::SessionLost) => Verdict::Refused(Refusal::UnknownSession),
            verdict => verdict,
        }
    }
}
