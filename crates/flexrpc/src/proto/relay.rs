//! A callee in the middle of a delivery chain: which bytes of the payload may leave for the next
//! callee, and when; and which outcomes of the callees behind this one are certain.
//!
//! Pipelining passes bytes on as they arrive (section IV.C). The last byte leaves only after the
//! whole payload has arrived and is verified, and the call is admitted for execution here. A callee
//! behind this one can't execute the call without the last byte.

use crate::proto::call::{self, Transport};
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Outcome, Refusal};

/// How often a callee sends the payload again if it reaches the next one damaged.
const RESENDS: u32 = 8;

/// State of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payload {
    Arriving,
    /// Whole, verified, and admitted.
    Released,
    /// Damaged or not admitted; its rest never leaves.
    Withheld,
}

/// The progress of one transmission of a chain call at one callee.
#[derive(Clone, Debug)]
pub struct Relay {
    payload_len: usize,
    received: usize,
    payload: Payload,
    store_and_forward: bool,
    /// Whether the frame's last byte has left.
    sent_whole: bool,
    resends: u32,
    /// Callees behind this one.
    behind: usize,
    own: Option<Outcome>,
    rest: Option<Vec<Outcome>>,
}

impl Relay {
    /// A payload of `payload_len` for this callee and `behind` more.
    pub fn new(payload_len: usize, behind: usize, store_and_forward: bool) -> Self {
        Self {
            payload_len,
            received: 0,
            payload: Payload::Arriving,
            store_and_forward,
            sent_whole: false,
            resends: 0,
            behind,
            own: None,
            rest: None,
        }
    }

    /// Callees behind this one.
    pub fn behind(&self) -> usize {
        self.behind
    }

    /// Records that `bytes` of the payload have arrived in all.
    pub fn received(&mut self, bytes: usize) {
        self.received = bytes.min(self.payload_len);
    }

    /// Records that the payload is whole, its checksum holds, and the call may begin here.
    pub fn release(&mut self) {
        self.received = self.payload_len;
        self.payload = Payload::Released;
    }

    /// Records that this transmission doesn't begin the call here. So no callee behind this one may
    /// get the whole payload.
    pub fn withhold(&mut self) {
        self.payload = Payload::Withheld;
        if !self.sent_whole {
            self.lose(Refusal::NotForwarded);
        }
    }

    /// Whether the frame's head may leave. With an empty payload, the head holds the last byte.
    pub fn head_may_leave(&self) -> bool {
        match self.payload {
            Payload::Released => true,
            Payload::Withheld => false,
            Payload::Arriving if planted(Planted::ForwardsUnverified) => true,
            Payload::Arriving => !self.store_and_forward && self.payload_len > 0,
        }
    }

    /// How many bytes of the payload may have left by now.
    pub fn may_leave(&self) -> usize {
        match self.payload {
            Payload::Released => self.payload_len,
            Payload::Withheld => 0,
            Payload::Arriving if planted(Planted::ForwardsUnverified) => self.received,
            Payload::Arriving if self.store_and_forward => 0,
            Payload::Arriving => self.received.min(self.payload_len.saturating_sub(1)),
        }
    }

    /// Whether the bytes after the payload may leave.
    pub fn tag_may_leave(&self) -> bool {
        self.payload == Payload::Released
    }

    /// Records that the frame's last byte has left.
    pub fn sent_whole(&mut self) {
        self.sent_whole = true;
    }

    /// Whether the callees behind may have executed the call.
    pub fn is_sent_whole(&self) -> bool {
        self.sent_whole
    }

    /// Whether to send the payload again, after it reached the next callee damaged. If not, the
    /// outcomes of the callees behind become unknown.
    pub fn may_send_again(&mut self) -> bool {
        self.resends += 1;
        let may = self.sent_whole && self.rest.is_none() && self.resends <= RESENDS;
        if !may {
            self.doubtful(Doubt::ConnectionLost);
        }
        may
    }

    /// Records that the next callee couldn't be reached, or that its connection broke. `unsent`
    /// gives the reason if no byte of this transmission left; an earlier transmission may have left
    /// whole nevertheless. Returns whether to try another connection: a pooled one may be stale,
    /// and without the last byte no callee executed the call.
    pub fn lost(&mut self, pooled: bool, unsent: Option<Refusal>) -> bool {
        let forgets_it = planted(Planted::LostForwardIsNotExecuted)
            || (planted(Planted::LostResendIsNotExecuted) && unsent.is_some());
        match self.sent_whole && !forgets_it {
            true => self.doubtful(Doubt::ConnectionLost),
            false if pooled => return true,
            false => self.lose(unsent.unwrap_or(Refusal::NotSent)),
        }
        false
    }

    /// Records that the call timed out.
    pub fn timed_out(&mut self) {
        if self.sent_whole {
            self.settle(vec![Outcome::Unknown(Doubt::TimedOut); self.behind]);
        } else {
            self.lose(Refusal::DeadlinePassed);
        }
        self.own.get_or_insert(Outcome::Unknown(Doubt::TimedOut));
    }

    /// Records the next callee's refusal. That callee refuses only before it passes the last byte
    /// on.
    pub fn refused(&mut self, refusal: Refusal) {
        if call::is_certain(refusal, self.resends + 1, Transport::Tcp) {
            self.lose(refusal);
        } else {
            self.doubtful(Doubt::SessionLost);
        }
    }

    /// Records that the next callee doesn't know the outcome.
    pub fn doubtful(&mut self, doubt: Doubt) {
        self.settle(vec![Outcome::Unknown(doubt); self.behind]);
    }

    /// Records the next callee's answer: its own outcome, and those of the callees behind it.
    pub fn answered(&mut self, outcomes: Vec<Outcome>) {
        if outcomes.len() == self.behind {
            self.settle(outcomes);
        } else {
            self.doubtful(Doubt::BadAnswer);
        }
    }

    /// Records the call's outcome here.
    pub fn executed(&mut self, outcome: Outcome) {
        self.own = Some(outcome);
    }

    /// Whether the call was admitted here and isn't over yet.
    pub fn waits_for_execution(&self) -> bool {
        self.payload == Payload::Released && self.own.is_none()
    }

    /// Whether the outcomes of the callees behind are final.
    pub fn rest_is_settled(&self) -> bool {
        self.rest.is_some()
    }

    /// All outcomes, this callee's first, if all are known. `None` if this transmission wasn't
    /// admitted: the call may have been passed on by an earlier one, with other outcomes.
    pub fn outcomes(&self) -> Option<Vec<Outcome>> {
        if self.payload != Payload::Released {
            return None;
        }
        if planted(Planted::ForwardedIsExecuted) && self.sent_whole {
            let value = self.own.clone()?;
            return Some(vec![value; self.behind + 1]);
        }
        let (own, rest) = (self.own.clone()?, self.rest.as_ref()?);
        Some([own].into_iter().chain(rest.iter().cloned()).collect())
    }

    fn lose(&mut self, next: Refusal) {
        let mut rest = vec![Outcome::NotExecuted(Refusal::NotForwarded); self.behind];
        if let Some(first) = rest.first_mut() {
            *first = Outcome::NotExecuted(next);
        }
        self.settle(rest);
    }

    /// Keeps the first outcomes: the connection may break after the answer.
    fn settle(&mut self, rest: Vec<Outcome>) {
        self.rest.get_or_insert(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::status::Obstacle;
    use bytes::Bytes;

    fn value() -> Outcome {
        Outcome::Value(Bytes::from_static(b"v"))
    }

    #[test]
    fn pipelining_passes_on_what_has_arrived_but_the_last_byte() {
        let mut relay = Relay::new(100, 1, false);
        assert!(relay.head_may_leave());
        relay.received(40);
        assert_eq!(relay.may_leave(), 40);
        relay.received(100);
        assert_eq!(relay.may_leave(), 99);
        assert!(!relay.tag_may_leave());
        relay.release();
        assert_eq!((relay.may_leave(), relay.tag_may_leave()), (100, true));
    }

    #[test]
    fn store_and_forward_waits_for_the_whole_payload() {
        let mut relay = Relay::new(100, 1, true);
        relay.received(100);
        assert_eq!((relay.head_may_leave(), relay.may_leave()), (false, 0));
        relay.release();
        assert_eq!((relay.head_may_leave(), relay.may_leave()), (true, 100));
    }

    #[test]
    fn of_an_empty_payload_the_head_is_the_last_byte() {
        let mut relay = Relay::new(0, 1, false);
        assert!(!relay.head_may_leave());
        relay.release();
        assert!(relay.head_may_leave());
    }

    #[test]
    fn a_damaged_payload_is_executed_by_nobody() {
        let mut relay = Relay::new(100, 2, false);
        relay.received(100);
        relay.withhold();
        assert_eq!((relay.may_leave(), relay.head_may_leave()), (0, false));
        relay.executed(Outcome::NotExecuted(Refusal::NotSent));
        assert_eq!(relay.outcomes(), None, "another transmission may have been passed on");
    }

    #[test]
    fn a_broken_connection_is_certain_only_before_the_last_byte() {
        let mut relay = Relay::new(100, 2, false);
        relay.lost(false, None);
        relay.release();
        relay.executed(value());
        let not = Outcome::NotExecuted;
        assert_eq!(relay.outcomes().unwrap(), [value(), not(Refusal::NotSent), not(Refusal::NotForwarded)]);
        let mut relay = Relay::new(100, 2, false);
        relay.release();
        relay.sent_whole();
        relay.lost(false, None);
        relay.executed(value());
        let unknown = Outcome::Unknown(Doubt::ConnectionLost);
        assert_eq!(relay.outcomes().unwrap(), [value(), unknown.clone(), unknown]);
    }

    #[test]
    fn an_old_connection_is_replaced_until_the_last_byte_has_left() {
        let mut relay = Relay::new(100, 1, false);
        assert!(relay.lost(true, None) && !relay.rest_is_settled());
        relay.release();
        relay.sent_whole();
        assert!(!relay.lost(true, None) && relay.rest_is_settled());
    }

    #[test]
    fn once_it_was_sent_whole_not_sending_it_again_says_nothing() {
        let sent = || {
            let mut relay = Relay::new(100, 1, false);
            relay.release();
            relay.executed(value());
            relay.sent_whole();
            assert!(relay.may_send_again());
            relay
        };
        let mut relay = sent();
        relay.lost(false, Some(Refusal::Unreachable(Obstacle::Unknown)));
        assert_eq!(relay.outcomes().unwrap()[1], Outcome::Unknown(Doubt::ConnectionLost));
        let mut relay = sent();
        relay.refused(Refusal::UnknownSession);
        assert_eq!(relay.outcomes().unwrap()[1], Outcome::Unknown(Doubt::SessionLost));
        let mut relay = sent();
        (1..RESENDS).for_each(|_| assert!(relay.may_send_again()));
        assert!(!relay.may_send_again(), "not for ever");
        assert_eq!(relay.outcomes().unwrap()[1], Outcome::Unknown(Doubt::ConnectionLost));
    }

    #[test]
    fn outcomes_are_there_when_all_are_known_and_what_is_settled_stays() {
        let mut relay = Relay::new(100, 1, false);
        relay.release();
        relay.sent_whole();
        relay.answered(vec![value()]);
        assert_eq!(relay.outcomes(), None);
        relay.lost(false, None);
        relay.executed(value());
        assert_eq!(relay.outcomes().unwrap(), [value(), value()]);
        let mut relay = Relay::new(100, 2, false);
        relay.release();
        relay.answered(vec![value()]);
        relay.executed(value());
        let bad = Outcome::Unknown(Doubt::BadAnswer);
        assert_eq!(relay.outcomes().unwrap(), [value(), bad.clone(), bad]);
    }
}
