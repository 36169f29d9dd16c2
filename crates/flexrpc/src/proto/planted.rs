//! Faults that the simulator plants in the protocol, to prove that it notices them. Only test
//! builds contain them: in others, [`planted`] is always `false`.

/// A fault of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// The server executes a call of an earlier incarnation's session.
    NoIncarnationCheck,
    /// Clients share the cache's entries.
    CacheWithoutSession,
    /// The server doesn't look for duplicates in the response cache.
    NoDuplicateCheck,
    /// The server executes a late duplicate of an earlier call of the handle.
    OlderTransactionExecutes,
    /// The server executes a call again after it evicted the call's answer.
    EvictedExecutesAgain,
    /// The sweep removes an evicted result's transaction id, too.
    SweepForgetsHandles,
    /// The server doesn't remember a revoked call.
    RevokeForgets,
    /// The client uses a new transaction id for each retransmission.
    NewTransactionOnRetry,
    /// A client takes an answer to any call for the answer to its own.
    AnyAnswerIsMine,
    /// The client reports a timeout as not executed.
    TimeoutIsNotExecuted,
    /// The client reports a lost connection as not executed.
    LostConnectionIsNotExecuted,
    /// The client reports a refused session as not executed, after sending an earlier copy.
    LostSessionIsNotExecuted,
    /// The client reports a refused call as not executed after it sent an earlier copy, though the
    /// callee refused without checking whether it had executed one.
    UnaskedRefusalIsNotExecuted,
    /// The server executes a payload without checking its checksum.
    NoChecksum,
    /// The server tags its refusal of a forged copy.
    SignsForStrangers,
    /// The server refuses a call without checking whether it executed another copy.
    RefusesUnasked,
    /// A chain's callee passes on the last byte before the payload is verified.
    ForwardsUnverified,
    /// A chain's callee reports a call that it passed on as executed, without waiting for the
    /// answer.
    ForwardedIsExecuted,
    /// A chain's callee loses the connection over which it sent the call to the next callee, and
    /// reports the call there as not executed.
    LostForwardIsNotExecuted,
    /// The same, but only if it failed to send the call to the next callee again.
    LostResendIsNotExecuted,
}

#[cfg(not(test))]
#[inline(always)]
pub(crate) const fn planted(_: Planted) -> bool {
    false
}

#[cfg(test)]
pub(crate) use in_tests::{plant, planted};

#[cfg(test)]
mod in_tests {
    use super::Planted;
    use std::cell::Cell;

    thread_local!(static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) });

    pub(crate) fn planted(fault: Planted) -> bool {
        PLANTED.get() == Some(fault)
    }

    /// Plants a fault, or none, in this thread's protocol.
    pub(crate) fn plant(fault: Option<Planted>) {
        PLANTED.set(fault);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_planted_in_its_own_thread_alone() {
        plant(Some(Planted::NoChecksum));
        assert!(planted(Planted::NoChecksum) && !planted(Planted::NoDuplicateCheck));
        let elsewhere = std::thread::spawn(|| planted(Planted::NoChecksum)).join();
        assert_eq!(elsewhere.ok(), Some(false));
        plant(None);
        assert!(!planted(Planted::NoChecksum));
    }
}
