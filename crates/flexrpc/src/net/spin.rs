//! Short spinning before sleeping: on an answer that comes within microseconds,
//! half of a call's time is falling asleep and being woken (0.45 of a bare
//! ping-pong on two CPUs). Never without yielding: on one CPU the peer must run
//! (2.3–2.5 without). Spinning that doesn't pay stops by itself.

use crate::sync::Instant;
use std::time::Duration;

/// How long to spin by default: measured optimum; beyond it little is won.
pub const SPIN: Duration = Duration::from_micros(20);

/// A wait below this many spins' length would have been worth spinning for.
const WORTH: u32 = 2;

/// Failures in a row after which spinning stops until waits get short again.
const PATIENCE: u8 = 4;

/// A yield that takes this many spins' length went to somebody who computes: the
/// machine is busy, and who sleeps is woken sooner than who yields gets its turn.
/// With a quarter of a spin, passing work of others stopped spinning on two CPUs:
/// 0.73 in place of 0.40 of a bare ping-pong of 16 KB over UDP.
const ROBBED: u32 = 3;

/// If what was waited for is there after the yield, the peer itself may have
/// computed: robbed is then only who waited for a time slice (a millisecond).
const ROBBED_YET_SERVED: u32 = 50;

/// After being robbed so many waits are slept; twice as many after each further
/// time, up to the second number, and half as many after so many spins that paid:
/// never forgiven, one busy moment cost calls of 16 KB half their speed for good.
const PENANCE: (u32, u32) = (16, 4096);

/// Spins while it pays.
#[derive(Debug, Clone)]
pub(crate) struct Spinner {
    longest: Duration,
    credit: u8,
    /// Waits that are slept yet, and how many the next robbery costs.
    penance: u32,
    next_penance: u32,
    /// Spins that paid since one of the two last changed.
    paid: u32,
}

impl Spinner {
    /// Spins up to `longest`; zero never spins.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { longest, credit: PATIENCE, penance: 0, next_penance: PENANCE.0, paid: 0 }
    }

    /// Tries until there is something or the time is over; `None` then.
    pub(crate) fn spin<T>(&mut self, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        if self.pays() { self.spin_from(Instant::now(), attempt) } else { None }
    }

    /// The same, where the clock has just been looked at.
    pub(crate) fn spin_from<T>(
        &mut self,
        start: Instant,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if !self.pays() {
            return None;
        }
        let mut waited = Duration::ZERO;
        loop {
            // First: what is spun for can't be there before the peer has run.
            rustix::thread::sched_yield();
            let before = std::mem::replace(&mut waited, start.elapsed());
            let done = attempt();
            let patience = if done.is_some() { ROBBED_YET_SERVED } else { ROBBED };
            let robbed = waited - before > self.longest * patience;
            if robbed {
                self.penance = self.next_penance;
                self.next_penance = (self.next_penance * 2).min(PENANCE.1);
                self.paid = 0;
            }
            if done.is_some() {
                self.credit = PATIENCE;
                self.pay();
                return done;
            }
            if robbed || waited >= self.longest {
                self.credit -= 1;
                return None;
            }
        }
    }

    fn pay(&mut self) {
        self.paid += 1;
        if self.paid >= self.next_penance {
            self.next_penance = (self.next_penance / 2).max(PENANCE.0);
            self.paid = 0;
        }
    }

    /// A sleep ended after `waited`: short ones make spinning worth it again.
    pub(crate) fn slept(&mut self, waited: Duration) {
        self.penance = self.penance.saturating_sub(1);
        if waited < self.longest * WORTH {
            self.credit = (self.credit + 1).min(PATIENCE);
        }
    }

    /// Whether the next wait would spin.
    pub(crate) fn pays(&self) -> bool {
        self.credit > 0 && self.penance == 0 && !self.longest.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_stops_when_it_doesnt_pay_and_begins_again_when_it_would() {
        let mut spinner = Spinner::new(Duration::from_micros(1));
        assert_eq!(spinner.spin(|| None::<()>), None);
        assert_eq!(spinner.credit, PATIENCE - 1);
        spinner = Spinner { credit: 0, ..Spinner::new(Duration::from_micros(1)) };
        assert_eq!(spinner.spin(|| Some(1)), None, "not even tried");
        spinner.slept(Duration::from_millis(1));
        assert!(!spinner.pays());
        spinner.slept(Duration::from_nanos(1));
        assert_eq!(spinner.spin(|| Some(7)), Some(7));
    }

    #[test]
    fn a_robbed_yield_is_followed_by_sleeps() {
        let mut spinner = Spinner::new(Duration::from_millis(1));
        spinner.longest = Duration::from_nanos(1);
        assert_eq!(spinner.spin(|| None::<()>), None);
        assert!(!spinner.pays());
        spinner.longest = Duration::from_millis(1);
        for wait in 1..=PENANCE.0 {
            assert!(!spinner.pays(), "wait {wait}");
            spinner.slept(Duration::ZERO);
        }
        assert!(spinner.pays());
        assert_eq!(spinner.next_penance, PENANCE.0 * 2);
    }

    #[test]
    fn robberies_are_forgiven_after_as_many_spins_that_paid() {
        let mut spinner = Spinner::new(Duration::from_secs(1));
        spinner.next_penance = PENANCE.0 * 4;
        for spin in 0..PENANCE.0 * 6 {
            assert_eq!(spinner.spin(|| Some(spin)), Some(spin));
        }
        assert_eq!(spinner.next_penance, PENANCE.0, "four times as many, then two");
        assert_eq!(spinner.spin(|| Some(1)), Some(1));
        assert_eq!(spinner.next_penance, PENANCE.0, "never less");
    }
}
