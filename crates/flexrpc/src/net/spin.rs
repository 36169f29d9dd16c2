//! Short spinning before sleeping. If an answer comes within microseconds, falling asleep and
//! waking up take half of a call's time: with spinning, a call on two CPUs takes 0.45 of the time
//! of a bare blocking ping-pong (`examples/pingpong.rs`). Spinning always yields, since on one CPU
//! the peer must run: without yielding, a call there takes 2.3 to 2.5 of that time. Spinning that
//! doesn't pay stops by itself.

use crate::net::clock;
use crate::proto::Micros;
use std::time::Duration;

/// Default length of a spin: the measured optimum. Longer spins gain little.
pub const SPIN: Duration = Duration::from_micros(20);

/// If a sleep is shorter than this many spins, spinning would have paid.
const WORTH: Micros = 2;

/// Number of unsuccessful spins in a row after which spinning stops, until sleeps get short again.
const PATIENCE: u8 = 4;

/// A wait is robbed if one of its yields takes this many spins' length: another thread was
/// computing, so the machine is busy. A sleeper then wakes up sooner than a yielding thread gets
/// its turn. A limit of a quarter of a spin is too low: other threads' brief work stopped the
/// spinning on two CPUs, and calls of 16 KB over UDP took 0.73 of a bare ping-pong's time, instead
/// of 0.40.
const ROBBED: Micros = 3;

/// The same limit for a yield after which the answer is there: the peer itself may have been
/// computing. With the default spin it is a time slice (a millisecond).
const ROBBED_YET_SERVED: Micros = 50;

/// Least and most number of waits that sleep after a robbed wait. Each further robbed wait doubles
/// the number. As many successful spins halve it. Without the halving, one busy moment halved the
/// speed of 16 KB calls for good.
const PENANCE: (u32, u32) = (16, 4096);

/// Spins while it pays.
#[derive(Debug, Clone)]
pub(crate) struct Spinner {
    longest: Micros,
    credit: u8,
    /// The number of next waits that will sleep, and the number that will sleep after the next
    /// robbed wait.
    penance: u32,
    next_penance: u32,
    /// Successful spins since `next_penance` last changed.
    paid: u32,
    looked: Micros,
}

impl Spinner {
    /// Spins up to `longest`; zero never spins.
    pub(crate) fn new(longest: Duration) -> Self {
        let longest = clock::micros(longest).max(Micros::from(!longest.is_zero()));
        Self { longest, credit: PATIENCE, penance: 0, next_penance: PENANCE.0, paid: 0, looked: 0 }
    }

    /// Repeats `attempt` until it returns a value; `None` if none comes in time.
    #[inline]
    pub(crate) fn spin<T>(&mut self, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        if self.pays() { self.spin_from(clock::now(), attempt) } else { None }
    }

    /// The same, from a time that the caller has just read.
    #[inline]
    pub(crate) fn spin_from<T>(
        &mut self,
        start: Micros,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if !self.pays() {
            return None;
        }
        self.looked = start;
        loop {
            // Yield first: the answer can't arrive before the peer has run.
            rustix::thread::sched_yield();
            let before = std::mem::replace(&mut self.looked, clock::now());
            let done = attempt();
            let patience = if done.is_some() { ROBBED_YET_SERVED } else { ROBBED };
            let robbed = self.looked.saturating_sub(before) > self.longest.saturating_mul(patience);
            if robbed {
                self.do_penance();
            }
            if done.is_some() {
                self.credit = PATIENCE;
                self.pay();
                return done;
            }
            if robbed || self.looked.saturating_sub(start) >= self.longest {
                self.credit -= 1;
                return None;
            }
        }
    }

    #[cold]
    fn do_penance(&mut self) {
        self.penance = self.next_penance;
        self.next_penance = (self.next_penance * 2).min(PENANCE.1);
        self.paid = 0;
    }

    /// The latest time that the spinner read, just before the latest attempt.
    pub(crate) fn looked(&self) -> Micros {
        self.looked
    }

    #[inline]
    fn pay(&mut self) {
        self.paid += 1;
        if self.paid >= self.next_penance {
            self.be_forgiven();
        }
    }

    #[inline(never)]
    fn be_forgiven(&mut self) {
        self.next_penance = (self.next_penance / 2).max(PENANCE.0);
        self.paid = 0;
    }

    /// Records a sleep that began at `start`, and returns its end: now. Short sleeps make spinning
    /// worthwhile again.
    #[inline]
    pub(crate) fn slept_since(&mut self, start: Micros) -> Micros {
        let end = clock::now();
        self.slept(end.saturating_sub(start));
        end
    }

    #[inline]
    fn slept(&mut self, waited: Micros) {
        self.penance = self.penance.saturating_sub(1);
        if waited < self.longest.saturating_mul(WORTH) {
            self.credit = (self.credit + 1).min(PATIENCE);
        }
    }

    /// Whether the next wait would spin.
    #[inline]
    pub(crate) fn pays(&self) -> bool {
        self.credit > 0 && self.penance == 0 && self.longest > 0
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
        spinner.slept(1_000);
        assert!(!spinner.pays());
        spinner.slept(1);
        assert_eq!(spinner.spin(|| Some(7)), Some(7));
    }

    #[test]
    fn a_robbed_yield_is_followed_by_sleeps() {
        let mut spinner = Spinner::new(Duration::from_millis(1));
        // A yield that began long ago.
        let start = clock::now() - spinner.longest * (ROBBED + 1);
        assert_eq!(spinner.spin_from(start, || None::<()>), None);
        assert!(!spinner.pays());
        for wait in 1..=PENANCE.0 {
            assert!(!spinner.pays(), "wait {wait}");
            spinner.slept(0);
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
