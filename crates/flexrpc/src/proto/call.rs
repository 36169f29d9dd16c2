//! One call to one callee, from the caller's side: when to send, send again,
//! reconnect or give up, and what may then be claimed.

use crate::proto::Micros;
use crate::proto::ids::CallId;
use crate::proto::planted::{Planted, planted};
use crate::proto::status::{Doubt, Refusal};

/// Which transport carries the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Any size; connections are pooled.
    Tcp,
    /// One datagram each way; retransmitted until answered.
    Udp,
}

/// When a call is sent again.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// UDP: first wait for an answer before the call is sent again. It doubles
    /// each time.
    pub first_us: Micros,
    /// Longest wait between transmissions.
    pub longest_us: Micros,
    /// How often a call is tried again where TCP's connection broke, or the host said that
    /// nobody takes its datagrams (ICMP).
    pub reconnects: u32,
    /// How often a damaged payload is sent again.
    pub damaged: u32,
}

impl Default for RetryPolicy {
    /// 50 ms is far above a loaded server's answer in a rack, and below what a
    /// person notices.
    fn default() -> Self {
        Self { first_us: 50_000, longest_us: 2_000_000, reconnects: 3, damaged: 8 }
    }
}

/// What an answer's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Executed; the payload is a value, an error, or a chain's outcomes.
    Executed,
    /// Not executed.
    Refused(Refusal),
    /// Not known, or executed with the answer gone.
    Doubtful(Doubt),
    /// The payload came damaged.
    SendAgain,
    /// Still executing; nothing will come unless asked again.
    Pending,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for an answer, at most until then.
    Wait(Option<Micros>),
    /// Send the call, and say so by [`Call::sent`].
    Send,
    /// Not before then, connect anew, then send.
    Reconnect(Micros),
    /// Over: the answer that was just given is the call's.
    Answered,
    /// Over: certainly not executed.
    NotExecuted(Refusal),
    /// Over: not known.
    Unknown(Doubt),
}

/// A call under way.
#[derive(Clone, Debug)]
pub struct Call {
    id: CallId,
    transport: Transport,
    policy: RetryPolicy,
    deadline: Option<Micros>,
    /// Transmissions whose last byte left: each may have been executed.
    whole: u32,
    wait_us: Micros,
    send_at: Option<Micros>,
    reconnects: u32,
    damaged: u32,
    /// Transmissions in a row of which the host said that nobody takes them.
    refused: u32,
    /// How many had left when it last said so: it counts once for each.
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

    /// Its identifier, the same for every transmission.
    pub fn id(&self) -> CallId {
        if planted(Planted::NewTransactionOnRetry) {
            return CallId { transaction: self.id.transaction + u64::from(self.whole), ..self.id };
        }
        self.id
    }

    /// The last byte of a transmission left, or may have.
    #[inline]
    pub fn sent(&mut self, now: impl FnOnce() -> Micros) -> Step {
        self.whole = self.whole.saturating_add(1);
        self.send_at = match self.transport {
            Transport::Udp => Some(now() + self.back_off()),
            Transport::Tcp => None,
        };
        self.wait()
    }

    /// The time is `now`, and nothing came.
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

    /// An answer came whose call identifier is this call's, and whose checksum
    /// and tag hold.
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
        // However many of these come, and however fast.
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

    /// The connection broke, or couldn't be made anew.
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
        // The first attempt at once: most often the callee closed an idle
        // connection and is well.
        let wait = if self.reconnects == 1 { 0 } else { self.back_off() };
        if self.is_late(now.saturating_add(wait)) {
            return self.give_up(Refusal::NotSent, Doubt::ConnectionLost);
        }
        Step::Reconnect(now.saturating_add(wait))
    }

    /// The callee's host says that nobody takes datagrams there. It is sent again as if lost,
    /// since the callee may come back, but not until the deadline. Anybody can forge such a
    /// message, and an earlier transmission may have been taken: it never proves that the call
    /// wasn't executed.
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

    /// The caller doesn't wait any longer.
    pub fn abandon(&self) -> Step {
        self.give_up(Refusal::NotSent, Doubt::Abandoned)
    }

    /// Whether a transmission has left in full.
    pub fn may_have_executed(&self) -> bool {
        self.whole > 0
    }

    /// Microseconds left for the head; 0 for no deadline. A deadline so far off
    /// that the field can't hold it is none.
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

/// Whether a refusal says that none of so many transmissions was executed. Most do: the
/// callee either keeps them as the call's answer, or would give them to every copy. These
/// don't.
pub(crate) fn is_certain(refusal: Refusal, transmissions: u32, transport: Transport) -> bool {
    match refusal {
        // The copy that was executed may have gone to an earlier incarnation,
        // or to a session since forgotten; over UDP the network makes copies.
        Refusal::UnknownSession => {
            (transmissions <= 1 && transport == Transport::Tcp) || planted(Planted::LostSessionIsNotExecuted)
        }
        // Said by who takes no such call now, without asking what became of it: the copy that
        // was executed may have gone to an incarnation with another key or limits.
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
            // However often it is said of one transmission.
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
