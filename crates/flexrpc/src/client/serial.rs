//! Serial multicasting (section III.B): the caller sends once, to the first
//! callee of a delivery chain, and each callee passes the call on.

use crate::client::handle::Handle;
use crate::client::message::Message;
use crate::client::workers::Multicast;
use crate::proto::Micros;
use crate::proto::chain::{self, Chain, Hop};
use crate::proto::extension::{Caller, Extension};
use crate::proto::frame::{Kind, flags};
use crate::proto::limits;
use crate::proto::status::{Doubt, Obstacle, Outcome, Refusal};
use std::net::SocketAddr;

/// Makes the call; `handles` lead to the callees in the chain's order.
pub(crate) fn call(
    multicast: &Multicast,
    mut handles: Vec<Handle>,
    caller: Caller,
    store_and_forward: bool,
) -> Vec<Outcome> {
    let deadline = multicast.deadline;
    // The caller opens a session with each callee, so the call has a separate id at each. The caller
    // can then ask each callee for the outcome.
    for index in 0..handles.len() {
        if let Err(refusal) = handles[index].make_ready(deadline) {
            return none_but(handles.len(), index, refusal);
        }
    }
    let Some((first, others)) = handles.split_first_mut() else { return Vec::new() };
    let hops: Option<Vec<Hop>> = others
        .iter_mut()
        .map(|handle| Some(Hop { callee: handle.callee(), id: handle.next_call()? }))
        .collect();
    let Some(hops) = hops else {
        return none_but(others.len() + 1, 0, Refusal::Unreachable(Obstacle::Unknown));
    };
    let extension = Extension { chain: Some(Chain { hops: hops.clone() }), ..caller.into() }.encode();
    let mode = if store_and_forward { flags::STORE_AND_FORWARD } else { 0 };
    let outcome = multicast.with_message(|message| {
        let (flags, extension) = if hops.is_empty() {
            (message.flags, message.extension)
        } else {
            (flags::CHAIN | mode, &extension[..])
        };
        first.exchange(&Message { flags, extension, ..*message }, deadline)
    });
    let mut outcomes = outcomes_of_all(outcome, first.answered, others.len() + 1);
    for (index, hop) in hops.iter().enumerate() {
        resolve(&mut outcomes[index + 1..], &mut others[index], hop, deadline);
    }
    // The first handle has updated its own session.
    for (handle, outcome) in others.iter_mut().zip(&outcomes[1..]) {
        match outcome {
            Outcome::Value(_) | Outcome::Error(_) => handle.note_executed(),
            Outcome::NotExecuted(Refusal::UnknownSession) | Outcome::Unknown(Doubt::SessionLost) => {
                handle.lose_session();
            }
            Outcome::NotExecuted(_) | Outcome::Unknown(_) => {}
        }
    }
    outcomes
}

/// Outcomes of all callees, from the first callee's answer.
fn outcomes_of_all(first: Outcome, kind: Kind, degree: usize) -> Vec<Outcome> {
    match first {
        Outcome::Value(payload) if kind == Kind::Outcomes => chain::decode_outcomes(&payload, degree)
            .unwrap_or_else(|_| vec![Outcome::Unknown(Doubt::BadAnswer); degree]),
        // A refusal also holds for all callees: the chain never began.
        Outcome::NotExecuted(refusal) => none_but(degree, 0, refusal),
        first if degree == 1 => vec![first],
        Outcome::Unknown(doubt) => vec![Outcome::Unknown(doubt); degree],
        Outcome::Value(_) | Outcome::Error(_) => vec![Outcome::Unknown(Doubt::BadAnswer); degree],
    }
}

/// The outcomes if the callee at `index` refused: no callee executed the call.
pub(crate) fn none_but(degree: usize, index: usize, refusal: Refusal) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NotExecuted(Refusal::NotForwarded); degree];
    if let Some(outcome) = outcomes.get_mut(index) {
        *outcome = Outcome::NotExecuted(refusal);
    }
    outcomes
}

/// Asks a callee directly if the chain left its outcome unknown. The callee also knows the outcomes
/// of those behind it.
fn resolve(outcomes: &mut [Outcome], handle: &mut Handle, hop: &Hop, deadline: Option<Micros>) {
    if !matches!(outcomes.first(), Some(Outcome::Unknown(_))) {
        return;
    }
    let known = match handle.revoke(hop.id, deadline) {
        Outcome::Unknown(_) => return,
        Outcome::Value(payload) if handle.answered == Kind::Outcomes => {
            match chain::decode_outcomes(&payload, outcomes.len()) {
                Ok(known) => known,
                Err(_) => return,
            }
        }
        Outcome::NotExecuted(refusal) => {
            // A callee that won't execute the call won't pass it on either.
            none_but(outcomes.len(), 0, refusal)
        }
        single => vec![single],
    };
    for (outcome, known) in outcomes.iter_mut().zip(known) {
        if matches!(outcome, Outcome::Unknown(_)) {
            *outcome = known;
        }
    }
}

/// Checks that the callees can form a chain: not too many, and none twice.
pub(crate) fn check(callees: &[SocketAddr], longest: usize) -> Result<(), Refusal> {
    let repeats = callees.iter().enumerate().any(|(index, callee)| callees[..index].contains(callee));
    // A frame can't hold more hops.
    let longest = longest.min(limits::CHAIN_CALLEES_MAX + 1);
    if callees.len() > longest || repeats { Err(Refusal::BadChain) } else { Ok(()) }
}
