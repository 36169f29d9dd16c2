//! One call to one callee, from the caller's side: when to send, send again, reconnect or give up,
//! and which outcome is then certain.

use crate::proto::Micros;
use crate::proto::ids::CallId;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};

/// The transport of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Any size; connections are pooled.
    Tcp,
    /// One datagram each way; retransmitted until answered.
    Udp,
}

/// When to send a call again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// UDP: how long the first transmission waits for an answer before the next one. The wait
    /// doubles each time.
    pub first_us: Micros,
    /// Longest wait between transmissions.
    pub longest_us: Micros,
    /// Number of retries after TCP's connection broke, or after the host reported that no socket
    /// receives at the port (ICMP).
    pub reconnects: u32,
    /// Number of retransmissions of a damaged payload.
    pub damaged: u32,
}

impl Default for RetryPolicy {
    /// 50 ms is far more than a loaded server in the same rack takes to answer, and less than a
    /// person notices.
    fn default() -> Self {
        Self { first_us: 50_000, longest_us: 2_000_000, reconnects: 3, damaged: 8 }
    }
}

/// The meaning of an answer's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Executed; the payload is a value, an error, or a chain's outcomes.
    Executed,
    /// Not executed.
    Refused(Refusal),
    /// The callee doesn't know whether it executed the call, or no longer has the answer.
    Doubtful(Doubt),
    /// The payload arrived damaged.
    SendAgain,
    /// Still executing. The callee answers only if it is asked again.
    Pending,
}

/// The next step of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for an answer, at most until this time.
    Wait(Option<Micros>),
    /// Send the call, then report it by [`Call::sent`].
    Send,
    /// Reconnect, not before this time, then send.
    Reconnect(Micros),
    /// Over: the latest answer is the call's outcome.
    Answered,
    /// Over: certainly not executed.
    NotExecuted(Refusal),
    /// Over, with an unknown outcome.
    Unknown(Doubt),
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Call {
    id: CallId,
    transport: Transport,
    policy: RetryPolicy,
    deadline: Option<Micros>,
    /// Transmissions whose last byte left. The callee may have executed any of them.
    whole: u32,
    wait_us: Micros,
    send_at: Option<Micros>,
    reconnects: u32,
    damaged: u32,
    /// Transmissions in a row for which the host reported a closed port.
    refused: u32,
    /// `whole` at the host's latest report. Of several reports for a transmission, one counts.
    refused_at: u32,
}

impl Call {
    /// A call that hasn't been sent.
    #[inline]
    pub fn new(id: CallId, transport: Transport, policy: RetryPolicy, deadline: Option<Micros>) -> Self {
        Self {
            id,
            transport,
            policy,
            deadline,
            whole: 0,
            wait_us: policy.first_us,
            send_at: None,
            reconnects: 0,
            damaged: 0,
            refused: 0,
            refused_at: 0,
        }
    }

    /// The call's identifier, the same for every transmission.
    pub fn id(&self) -> CallId {
        if planted(Planted::NewTransactionOnRetry) {
            return CallId { transaction: self.id.transaction + u64::from(self.whole), ..self.id };
        }
        self.id
    }

    /// Records that the last byte of a transmission left, or may have.
    #[inline]
    pub fn sent(&mut self, now: impl FnOnce() -> Micros) -> Step {
        self.whole = self.whole.saturating_add(1);
        self.send_at = match self.transport {
            Transport::Udp => Some(now() + self.back_off()),
            Transport::Tcp => None,
        };
        self.wait()
    }

    /// Checks the timers; the call has received nothing up to `now`.
    pub fn on_time(&mut self, now: Micros) -> Step {
        if self.is_late(now) {
            return self.give_up(Refusal::DeadlinePassed, Doubt::TimedOut);
        }
        match self.send_at {
            Some(at) if now >= at => {
                self.send_at = None;
                Step::Send
            }
            _ => self.wait(),
        }
    }

    /// Handles an answer that has this call's identifier, and whose checksum and tag are right.
    #[inline]
    pub fn on_answer(&mut self, answer: Answer, now: Micros) -> Step {
        match answer {
            Answer::Executed => Step::Answered,
            Answer::Refused(refusal) => self.on_refusal(refusal),
            Answer::Doubtful(doubt) => Step::Unknown(doubt),
            Answer::SendAgain => self.on_damage(),
            Answer::Pending => self.on_pending(now),
        }
    }

    #[cold]
    fn on_damage(&mut self) -> Step {
        self.damaged += 1;
        if self.damaged > self.policy.damaged {
            return self.give_up(Refusal::NotSent, Doubt::TimedOut);
        }
        Step::Send
    }

    #[cold]
    fn on_pending(&mut self, now: Micros) -> Step {
        // A flood of such answers mustn't extend the call.
        if self.is_late(now) {
            return self.give_up(Refusal::DeadlinePassed, Doubt::TimedOut);
        }
        self.refused = 0;
        self.send_at = Some(now + self.back_off());
        self.wait()
    }

    #[cold]
    fn on_refusal(&self, refusal: Refusal) -> Step {
        let certain = is_certain(refusal, self.whole, self.transport);
        if certain { Step::NotExecuted(refusal) } else { Step::Unknown(Doubt::SessionLost) }
    }

    /// Records that the connection broke, or couldn't be made again.
    #[cold]
    pub fn on_broken(&mut self, now: Micros) -> Step {
        if planted(Planted::LostConnectionIsNotExecuted) {
            return Step::NotExecuted(Refusal::NotSent);
        }
        if self.is_late(now) {
            return self.give_up(Refusal::DeadlinePassed, Doubt::TimedOut);
        }
        if self.reconnects >= self.policy.reconnects {
            return self.give_up(Refusal::NotSent, Doubt::ConnectionLost);
        }
        self.reconnects += 1;
        // The first retry is immediate: most often the callee is healthy and closed an idle
        // connection.
        let wait = if self.reconnects == 1 { 0 } else { self.back_off() };
        if self.is_late(now.saturating_add(wait)) {
            return self.give_up(Refusal::NotSent, Doubt::ConnectionLost);
        }
        Step::Reconnect(now.saturating_add(wait))
    }

    /// Records the host's report that no socket receives at the callee's port. The call is sent
    /// again as if lost, since the callee may come back, but not until the deadline. The report
    /// never proves that the call wasn't executed: anybody can forge it, and the callee may have
    /// received an earlier transmission.
    #[cold]
    pub fn on_port_refused(&mut self, now: Micros) -> Step {
        if self.refused_at != self.whole {
            self.refused_at = self.whole;
            self.refused += 1;
        }
        if self.refused > self.policy.reconnects {
            return self.give_up(Refusal::NotSent, Doubt::ConnectionLost);
        }
        self.on_time(now)
    }

    /// Ends the call early, because its caller stops waiting.
    pub fn abandon(&self) -> Step {
        self.give_up(Refusal::NotSent, Doubt::Abandoned)
    }

    /// Whether a whole transmission has left.
    pub fn may_have_executed(&self) -> bool {
        self.whole > 0
    }

    /// Microseconds left, for the head; 0 without a deadline. A deadline that is too far off for
    /// the field counts as none.
    #[inline]
    pub fn time_left_us(&self, now: impl FnOnce() -> Micros) -> u32 {
        match self.deadline {
            None => 0,
            Some(deadline) => u32::try_from(deadline.saturating_sub(now()).max(1)).unwrap_or(0),
        }
    }

    fn is_late(&self, now: Micros) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    #[cold]
    fn give_up(&self, refusal: Refusal, doubt: Doubt) -> Step {
        let lie = doubt == Doubt::TimedOut && planted(Planted::TimeoutIsNotExecuted);
        if self.whole == 0 || lie { Step::NotExecuted(refusal) } else { Step::Unknown(doubt) }
    }

    fn back_off(&mut self) -> Micros {
        let wait = self.wait_us;
        self.wait_us = (wait * 2).min(self.policy.longest_us.max(self.policy.first_us));
        wait
    }

    #[inline]
    fn wait(&self) -> Step {
        Step::Wait(match (self.send_at, self.deadline) {
            (Some(at), Some(deadline)) => Some(at.min(deadline)),
            (at, deadline) => at.or(deadline),
        })
    }
}

/// Whether a refusal proves that the callee executed none of the call's `transmissions`. Most do:
/// the callee either keeps the refusal as the call's answer, or would give it to every copy. The
/// exceptions follow.
pub(crate) fn is_certain(refusal: Refusal, transmissions: u32, transport: Transport) -> bool {
    match refusal {
        // The callee may have executed another copy before it restarted or forgot the session. Over
        // UDP the network makes copies, too.
        Refusal::UnknownSession => {
            (transmissions <= 1 && transport == Transport::Tcp) || planted(Planted::LostSessionIsNotExecuted)
        }
        // The callee sends these without checking whether it executed the call. An earlier
        // incarnation, with another key or other limits, may have executed another copy.
        Refusal::Overloaded | Refusal::TooLarge | Refusal::Unauthenticated | Refusal::TlsRequired => {
            transmissions <= 1 || planted(Planted::UnaskedRefusalIsNotExecuted)
        }
        Refusal::Superseded => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RetryPolicy = RetryPolicy { first_us: 10, longest_us: 40, reconnects: 2, damaged: 2 };

    fn udp() -> Call {
        Call::new(CallId::default(), Transport::Udp, POLICY, Some(200))
    }

    fn tcp() -> Call {
        Call::new(CallId::default(), Transport::Tcp, POLICY, Some(200))
    }

    #[test]
    fn over_udp_a_call_is_sent_again_at_doubling_intervals_until_its_deadline() {
        let mut call = udp();
        let (mut now, mut sent_at) = (0, Vec::new());
        let end = loop {
            let mut step = call.on_time(now);
            if step == Step::Send || sent_at.is_empty() {
                sent_at.push(now);
                step = call.sent(|| now);
            }
            match step {
                Step::Wait(Some(until)) => now = until,
                end => break end,
            }
        };
        assert_eq!(sent_at, [0, 10, 30, 70, 110, 150, 190]);
        assert_eq!((end, now), (Step::Unknown(Doubt::TimedOut), 200));
    }

    #[test]
    fn what_was_never_sent_whole_is_not_executed() {
        assert_eq!(tcp().on_time(200), Step::NotExecuted(Refusal::DeadlinePassed));
        assert_eq!(tcp().abandon(), Step::NotExecuted(Refusal::NotSent));
        let mut call = tcp();
        assert_eq!(call.on_broken(0), Step::Reconnect(0));
        assert_eq!(call.on_broken(0), Step::Reconnect(10));
        assert_eq!(call.on_broken(10), Step::NotExecuted(Refusal::NotSent));
    }

    #[test]
    fn nothing_is_waited_for_beyond_the_deadline() {
        let mut call = Call::new(CallId::default(), Transport::Tcp, POLICY, Some(15));
        call.sent(|| 0);
        assert_eq!(call.on_broken(1), Step::Reconnect(1));
        assert_eq!(call.on_broken(10), Step::Unknown(Doubt::ConnectionLost), "at 20 it is too late");
        let mut call = Call::new(CallId::default(), Transport::Tcp, POLICY, Some(15));
        call.sent(|| 0);
        assert_eq!(call.on_answer(Answer::Pending, 14), Step::Wait(Some(15)));
        assert_eq!(call.on_answer(Answer::Pending, 15), Step::Unknown(Doubt::TimedOut));
    }

    #[test]
    fn what_was_sent_whole_and_not_answered_is_unknown() {
        let mut call = tcp();
        assert_eq!(call.sent(|| 0), Step::Wait(Some(200)));
        call.on_broken(1);
        call.on_broken(1);
        assert_eq!(call.on_broken(1), Step::Unknown(Doubt::ConnectionLost));
        assert_eq!(call.abandon(), Step::Unknown(Doubt::Abandoned));
        assert_eq!(call.on_time(200), Step::Unknown(Doubt::TimedOut));
    }

    #[test]
    fn a_refused_port_ends_the_wait_early_and_leaves_open_what_became_of_the_call() {
        let mut call = udp();
        for now in [0, 10] {
            call.sent(|| now);
            // Reports count once for each transmission.
            for _ in 0..5 {
                assert!(matches!(call.on_port_refused(now), Step::Wait(Some(_))));
            }
        }
        call.sent(|| 30);
        assert_eq!(call.on_port_refused(30), Step::Unknown(Doubt::ConnectionLost));
    }

    #[test]
    fn a_callee_that_answers_in_between_is_there() {
        let mut call = udp();
        for now in 0..10 {
            call.sent(|| now);
            assert!(matches!(call.on_port_refused(now), Step::Wait(Some(_))));
            call.on_answer(Answer::Pending, now);
        }
    }

    #[test]
    fn a_refused_session_is_certain_only_for_a_single_transmission_over_tcp() {
        let refused = Answer::Refused(Refusal::UnknownSession);
        let mut call = tcp();
        call.sent(|| 0);
        assert_eq!(call.on_answer(refused, 1), Step::NotExecuted(Refusal::UnknownSession));
        call.sent(|| 2);
        assert_eq!(call.on_answer(refused, 3), Step::Unknown(Doubt::SessionLost));
        let mut call = udp();
        call.sent(|| 0);
        assert_eq!(call.on_answer(refused, 1), Step::Unknown(Doubt::SessionLost));
    }

    #[test]
    fn a_damaged_payload_is_sent_again_a_bounded_number_of_times() {
        let mut call = tcp();
        call.sent(|| 0);
        assert_eq!(call.on_answer(Answer::SendAgain, 1), Step::Send);
        assert_eq!(call.on_answer(Answer::SendAgain, 1), Step::Send);
        assert_eq!(call.on_answer(Answer::SendAgain, 1), Step::Unknown(Doubt::TimedOut));
    }

    #[test]
    fn a_pending_call_is_asked_for_again() {
        let mut call = tcp();
        call.sent(|| 0);
        assert_eq!(call.on_answer(Answer::Pending, 5), Step::Wait(Some(15)));
        assert_eq!(call.on_time(15), Step::Send);
    }

    #[test]
    fn the_time_left_is_never_taken_for_no_deadline() {
        assert_eq!(tcp().time_left_us(|| 50), 150);
        assert_eq!(tcp().time_left_us(|| 500), 1);
        assert_eq!(Call::new(CallId::default(), Transport::Tcp, POLICY, None).time_left_us(|| 0), 0);
        assert_eq!(
            Call::new(CallId::default(), Transport::Tcp, POLICY, Some(u64::MAX)).time_left_us(|| 0),
            0
        );
    }
}
