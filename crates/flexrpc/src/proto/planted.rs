//! Faults that the simulator plants to prove that it would notice them. In a
//! program that isn't a test there are none, and [`planted`] is the constant
//! `false`.

/// A fault of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A call of an earlier incarnation's session is executed.
    NoIncarnationCheck,
    /// Clients share the cache's entries.
    CacheWithoutSession,
    /// The cache isn't asked.
    NoDuplicateCheck,
    /// A late duplicate of an earlier call of the handle is executed.
    OlderTransactionExecutes,
    /// A call whose answer was evicted is executed again.
    EvictedExecutesAgain,
    /// The sweep forgets the transaction with the result.
    SweepForgetsHandles,
    /// A revoked call isn't remembered.
    RevokeForgets,
    /// A new transaction id for each retransmission.
    NewTransactionOnRetry,
    /// A client takes any answer for its call's.
    AnyAnswerIsMine,
    /// A timeout is reported as not executed.
    TimeoutIsNotExecuted,
    /// A lost connection is reported as not executed.
    LostConnectionIsNotExecuted,
    /// A refused session is reported as not executed, though a copy was sent before.
    LostSessionIsNotExecuted,
    /// A refusal by who didn't ask what became of the call is taken for the call's, though a
    /// copy was sent before.
    UnaskedRefusalIsNotExecuted,
    /// A payload is executed without looking at its checksum.
    NoChecksum,
    /// A forged copy is refused under the session's tag.
    SignsForStrangers,
    /// A call is refused before the cache is asked whether it was executed.
    RefusesUnasked,
    /// A chain's callee passes on the last byte before the payload is verified.
    ForwardsUnverified,
    /// A chain's callee takes forwarded for executed.
    ForwardedIsExecuted,
    /// A chain's callee claims that the next one didn't execute, when it lost it.
    LostForwardIsNotExecuted,
    /// The same, where it couldn't send to it again what it asked for once more.
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
