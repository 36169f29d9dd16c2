//! Memory for bytes that nobody waits for: read ahead, or written and not yet acknowledged. The
//! program says how much of it there is, and for whom; without it a reader reads what is asked for,
//! and a writer waits until what it was given is acknowledged.

use std::{
    fmt::Debug,
    sync::{Arc, Weak},
    time::Duration,
};

/// Memory that several files share, those of one user for instance.
pub trait Budget: Debug + Send + Sync {
    /// Takes `bytes`, if they are free. Never waits.
    fn take(&self, bytes: u64) -> bool;

    /// Gives back what was taken.
    fn give_back(&self, bytes: u64);

    /// Has a file asked for what it doesn't use, once somebody lacks it.
    fn register(&self, holder: Weak<dyn Holder>);
}

/// An open file that may hold such memory.
pub trait Holder: Send + Sync {
    /// Drops what was read ahead, if nothing was read for so long. Never waits.
    fn give_up(&self, idle: Duration);
}

/// The budgets of those for whom a client acts.
pub trait Budgets: Debug + Send + Sync {
    /// That of a user's files.
    fn of(&self, user: &str) -> Arc<dyn Budget>;
}

/// No more than each file's own limits: for programs that open few.
#[derive(Debug, Clone, Copy)]
pub struct Unbounded;

impl Budget for Unbounded {
    fn take(&self, _: u64) -> bool {
        true
    }

    fn give_back(&self, _: u64) {}

    fn register(&self, _: Weak<dyn Holder>) {}
}

impl Budgets for Unbounded {
    fn of(&self, _: &str) -> Arc<dyn Budget> {
        Arc::new(Self)
    }
}

/// What was taken of a budget; given back when dropped.
#[derive(Debug)]
pub(super) struct Taken {
    budget: Arc<dyn Budget>,
    bytes: u64,
}

impl Taken {
    pub fn nothing(budget: Arc<dyn Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes what is missing to `bytes`; whether there was enough.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = more == 0 || self.budget.take(more);
        if taken {
            self.bytes += more;
        }
        taken
    }

    /// Gives back what is beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.bytes -= less;
            self.budget.give_back(less);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
