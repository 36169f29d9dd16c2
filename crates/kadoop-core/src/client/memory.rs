//! Memory for bytes read ahead, and for written bytes that aren't acknowledged yet. The program
//! sets how much of it each user has. Without memory a reader fetches only the requested bytes, and
//! a writer waits until the datanodes have acknowledged its bytes.

use std::{
    fmt::Debug,
    sync::{Arc, Weak},
    time::Duration,
};

/// Memory that several files share, for example all files of one user.
pub trait Budget: Debug + Send + Sync {
    /// Takes `bytes` of memory, and returns true, if they are free. Never waits.
    fn take(&self, bytes: u64) -> bool;

    /// Frees `bytes` that were taken.
    fn give_back(&self, bytes: u64);

    /// Registers a file. If other files lack memory, the budget can call [`Holder::give_up`].
    fn register(&self, holder: Weak<dyn Holder>);
}

/// An open file that may hold memory of a budget.
pub trait Holder: Send + Sync {
    /// Drops the bytes read ahead if the last read is at least `idle` ago. Never waits.
    fn give_up(&self, idle: Duration);
}

/// The budgets of the users for whom a client acts.
pub trait Budgets: Debug + Send + Sync {
    /// The budget of a user's files.
    fn of(&self, user: &str) -> Arc<dyn Budget>;
}

/// A budget without a limit, so only each file's own limits apply. For programs that open few files.
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

/// Memory taken from a budget, and freed on drop.
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

    /// Takes more memory, so that the total is `bytes`. False, without a change, if there isn't enough.
    pub fn grow_to(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let taken = more == 0 || self.budget.take(more);
        if taken {
            self.bytes += more;
        }
        taken
    }

    /// Frees the memory beyond `bytes`.
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
